//! The object directories of other repositories that a clone borrows from: `info/alternates`.

use std::{
    io,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice};
use format::{HashKind, ObjectId};
use repo::objects::Kind;
use store::{Components, Fsync, LockOptions, SharedRepository};
use sys::{FileType, UserPath, by_path};

use super::{Event, Reference, source};

/// The reason why a repository cannot be borrowed from. Messages are Git's.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("path '{0}' does not exist")]
    Missing(BString),
    #[error("reference repository '{0}' is not a local repository.")]
    NotARepository(BString),
    #[error("reference repository '{0}' as a linked checkout is not supported yet.")]
    LinkedCheckout(BString),
    #[error("reference repository '{0}' is shallow")]
    Shallow(BString),
    #[error("reference repository '{0}' is grafted")]
    Grafted(BString),
    #[error("cannot write '{}'", .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// Object directories in order, without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Alternates(Vec<BString>);

impl Alternates {
    /// Adds an absolute path.
    pub(super) fn add(&mut self, path: BString) {
        if !self.0.contains(&path) {
            self.0.push(path);
        }
    }

    /// Adds the lines of another repository's `info/alternates`. Relative lines are relative to
    /// `objects`, the object directory of that repository. Returns Git's warnings.
    pub(super) fn add_lines(&mut self, content: &BStr, objects: &Path) -> Vec<String> {
        let mut warnings = Vec::new();
        for line in content.lines().filter(|line| !line.is_empty() && line[0] != b'#') {
            if line.starts_with(b"/") {
                self.add(line.into());
                continue;
            }
            let path = [objects.as_os_str().as_encoded_bytes(), b"/", line].concat();
            match normalized(&path) {
                Some(path) => self.add(path),
                None => {
                    warnings.push(format!("skipping invalid relative alternate: {}", path.as_bstr()));
                }
            }
        }
        warnings
    }

    /// Returns true if nothing is borrowed.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the commits that refs of the borrowed repositories name. Repositories of another
    /// hash or with unreadable refs give none.
    pub(super) fn tips(&self, open: &repo::OpenOptions, hash: HashKind) -> Vec<ObjectId> {
        let mut tips = Vec::new();
        for objects in &self.0 {
            let git_dir = Path::new(sys::os_str(objects)).parent();
            let source = git_dir.and_then(|path| repo::Repository::open_source(open, path).ok());
            let Some(source) = source.filter(|source| source.hash() == hash) else { continue };
            for (_, oid) in source.refs("refs/").unwrap_or_default() {
                let is_commit = matches!(source.objects().header(&oid), Ok((Kind::Commit, _)));
                if is_commit && !tips.contains(&oid) {
                    tips.push(oid);
                }
            }
        }
        tips
    }

    /// Writes `info/alternates` below `objects`, whose `info` directory exists. Lines from a
    /// template stay. Writes nothing if there are no alternates.
    pub(super) fn write(&self, objects: &Path, shared: SharedRepository) -> Result<(), Error> {
        if self.0.is_empty() {
            return Ok(());
        }
        let path = objects.join("info/alternates");
        let found = match by_path::read(&path) {
            Ok(found) => found.unwrap_or_default(),
            Err(source) => return Err(Error::Write { path, source }),
        };
        let before: Vec<&[u8]> = found.lines().collect();
        let added = self.0.iter().map(|line| line.as_slice()).filter(|line| !before.contains(line));
        let content = before.iter().copied().chain(added).flat_map(|line| [line, b"\n"].concat());
        let locks = LockOptions { shared, ..LockOptions::default() };
        let content: Vec<u8> = content.collect();
        Ok(store::replace(&path, &content, &locks, &Fsync::default(), Components::empty())?)
    }
}

/// Returns the object directories of the reference repositories. An optional one that cannot be
/// used only causes a message.
pub(super) fn resolve(
    references: &[Reference],
    cwd: &Path,
    events: &dyn Fn(Event<'_>),
) -> Result<Alternates, Error> {
    let mut alternates = Alternates::default();
    let ordered = references
        .iter()
        .filter(|reference| reference.required)
        .chain(references.iter().filter(|reference| !reference.required));
    for reference in ordered {
        match find_objects(&reference.repository, cwd) {
            Ok(path) => alternates.add(path.as_os_str().as_encoded_bytes().into()),
            Err(error) if reference.required => return Err(error),
            Err(error) => {
                let name = &reference.repository;
                events(Event::Info(&format!("Could not add alternate for '{name}': {error}")));
            }
        }
    }
    Ok(alternates)
}

/// Returns an error if a clone could not borrow objects from the repository `name`.
pub fn check_reference(name: &BString, cwd: &Path) -> Result<(), Error> {
    find_objects(name, cwd).map(|_| ())
}

fn find_objects(name: &BString, cwd: &Path) -> Result<PathBuf, Error> {
    // A path whose last component is missing still resolves, and is reported as not a repository.
    let missing = || Error::Missing(name.clone());
    let place = UserPath::new(name).resolve(cwd).map_err(|_| missing())?;
    let path = match by_path::canonical(&place) {
        Ok(path) => path,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = place.parent().is_some_and(|parent| source::is_of(parent, FileType::Directory));
            return Err(if parent { Error::NotARepository(name.clone()) } else { missing() });
        }
        Err(_) => return Err(missing()),
    };
    let named = [path.clone(), path.join(".git")]
        .into_iter()
        .filter(|path| source::is_of(path, FileType::File))
        .find_map(|path| source::read_git_file(&path).ok().flatten());
    let git_dir = match named {
        Some(git_dir) => git_dir,
        None if source::is_of(&path.join(".git/objects"), FileType::Directory) => path.join(".git"),
        None => path,
    };
    if !source::is_of(&git_dir.join("objects"), FileType::Directory) {
        return Err(if source::is_of(&git_dir.join("commondir"), FileType::File) {
            Error::LinkedCheckout(name.clone())
        } else {
            Error::NotARepository(name.clone())
        });
    }
    if matches!(by_path::stat_followed(&git_dir.join("shallow")), Ok(Some(_))) {
        return Err(Error::Shallow(name.clone()));
    }
    if matches!(by_path::stat_followed(&git_dir.join("info/grafts")), Ok(Some(_))) {
        return Err(Error::Grafted(name.clone()));
    }
    Ok(git_dir.join("objects"))
}

/// Resolves `.` and `..` in a path without looking at the disk. Returns `None` if a `..` leads
/// above the root.
fn normalized(path: &[u8]) -> Option<BString> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split_str("/") {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    Some(parts.iter().flat_map(|part| [b"/".as_slice(), part]).collect::<Vec<_>>().concat().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_lines_absolute_without_duplicates() {
        let mut alternates = Alternates::default();
        alternates.add("/a/objects".into());
        let content = "# comment\n\n/a/objects\n../../b/objects\n/c\n../../../../../../x\n";
        let warnings = alternates.add_lines(content.into(), Path::new("/srv/x/.git/objects"));
        assert_eq!(alternates.0, ["/a/objects", "/srv/x/b/objects", "/c"]);
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].starts_with("skipping invalid relative alternate: /srv/x/.git/objects/../"));
    }
}
