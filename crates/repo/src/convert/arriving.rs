//! A converter for files that are written before there is an index: their attribute files arrive
//! one by one.
//!
//! The file at the top comes first, because macros are defined there. A path may be looked up once
//! all attribute files on the way to it have been added.

use std::sync::{Arc, PoisonError, RwLock};

use bstr::{BStr, ByteSlice as _};
use format::index::Index;

use super::{
    Converter,
    attributes::RawFile,
    shared::{Direction, Shared},
};
use crate::{Error, Repository};

/// The settings of conversion, as long as the attribute file at the top is unknown.
pub struct Arriving(Shared);

impl Arriving {
    /// Reads the settings, and the attribute files that belong to no tree.
    pub fn new(repo: &Repository) -> Result<Arriving, Error> {
        let mut shared = Shared::load(repo, &Index::empty(repo.hash()), Direction::Tree)?;
        shared.arrived = Some(RwLock::default());
        Ok(Arriving(shared))
    }

    /// Returns the converter. `top` is the content of the attribute file at the top, if the tree
    /// has one.
    pub fn begin(mut self, top: Option<&[u8]>) -> Converter {
        if let Some(content) = top {
            self.0.indexed.insert("".into(), RawFile::parse(content, true));
        }
        Converter { shared: Arc::new(self.0) }
    }
}

impl Converter {
    /// Adds the attribute file of a directory below the top to a converter made by [`Arriving`].
    pub fn add_attributes(&self, dir: &BStr, content: &[u8]) {
        let Some(arrived) = &self.shared.arrived else { return };
        let file = self.shared.tables().names.compile(&RawFile::parse(content, false));
        arrived
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(dir.as_bstr().to_owned(), Arc::new(file));
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use format::Mode;

    use super::{super::Class, *};
    use crate::OpenOptions;

    #[test]
    fn attributes_come_one_by_one() {
        let root = tempfile::tempdir().expect("a directory");
        for dir in ["objects", "refs"] {
            std::fs::create_dir_all(root.path().join(".git").join(dir)).expect("made");
        }
        std::fs::write(root.path().join(".git/HEAD"), "ref: refs/heads/main\n").expect("written");
        let options = OpenOptions { cwd: root.path().to_owned(), ..OpenOptions::default() };
        let repo = Repository::open(&options).expect("a repository");
        let converter = Arriving::new(&repo).expect("no bad settings").begin(Some(b"[attr]dos eol=crlf\n"));
        let mut worker = converter.worker();
        let mut class = |path: &str| worker.class(path.into(), Mode::FILE).expect("good attributes");
        assert_eq!(class("a/file"), Class::None);
        converter.add_attributes("b".into(), b"*.txt dos\n");
        assert_eq!(class("b/one.txt"), Class::InProcess);
        converter.add_attributes("b/c".into(), b"two.txt -text\n");
        assert_eq!(class("b/c/one.txt"), Class::InProcess);
        assert_eq!(class("b/c/two.txt"), Class::None);
    }
}
