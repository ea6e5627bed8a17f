//! Entries as temporary files at the top of the worktree: `checkout-index --temp`.
//!
//! The content is read and converted first. Then a file with a random name is created, readable
//! only by its owner, and removed again if it cannot be finished. A link becomes a file that
//! contains the link's target.

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    io::{self, Write as _},
    path::Path,
};

use bstr::{BStr, BString};
use format::index::{Entry, Index};
use repo::{
    Repository,
    convert::{Class, Converter, Worker},
    objects::{Kind, Reader},
};

use super::{Action, StepError};
use crate::files::whole::NewFile;

/// A writer of temporary files for the entries of one index.
pub struct Temporaries<'a> {
    top: &'a Path,
    reader: Reader<'a>,
    convert: Worker,
    converted: Vec<u8>,
}

/// The prefixes of names: for files, and for links.
const PREFIXES: [&str; 2] = [".merge_file_", ".merge_link_"];

/// Limit of names tried.
const MAX_ATTEMPTS: usize = 100;

impl<'a> Temporaries<'a> {
    /// Creates a writer for entries of `index`. `top` is the root of the worktree.
    pub fn new(repo: &'a Repository, index: &Index, top: &'a Path) -> Result<Self, repo::Error> {
        let convert = Converter::for_restore(repo, index, |_| false)?.worker();
        Ok(Temporaries { top, reader: repo.objects().reader(), convert, converted: Vec::new() })
    }

    /// Writes an entry that is not a submodule. Returns the file's name.
    pub fn write(&mut self, path: &BStr, entry: &Entry) -> Result<BString, StepError> {
        let oid = entry.oid;
        let class = self.convert.class(path, entry.mode)?;
        let blob = match self.reader.read(&oid) {
            Ok((Kind::Blob, blob)) => blob,
            Ok((kind, _)) => return Err(StepError::NotABlob { oid, kind }),
            Err(source) => return Err(StepError::Object { oid, source: Box::new(source) }),
        };
        let content = match class {
            Class::None => blob,
            Class::InProcess | Class::External => {
                self.convert.to_worktree(path, oid, blob, &mut self.converted)?
            }
        };
        let failed = |action| move |source| StepError::Io { action, source };
        let prefix = PREFIXES[usize::from(!entry.mode.is_file())];
        let (name, mut new) = create(self.top, prefix).map_err(failed(Action::CreateFile))?;
        if let Err(error) = new.file().write_all(content) {
            new.discard();
            return Err(failed(Action::WriteFile)(error));
        }
        Ok(name.into())
    }

    /// Takes the messages of conversions and filters.
    pub fn take_messages(&mut self) -> Vec<String> {
        self.convert.take_messages()
    }
}

fn create(top: &Path, lead: &str) -> io::Result<(String, NewFile)> {
    let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..MAX_ATTEMPTS {
        let name = format!("{lead}{}", six_letters());
        match NewFile::create(top.join(&name), 0o600) {
            Ok(new) => return Ok((name, new)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
            Err(error) => return Err(error),
        }
    }
    Err(taken)
}

fn six_letters() -> String {
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    // A new state has random keys, which suffices for a name.
    let mut number = RandomState::new().build_hasher().finish();
    let mut letter = || {
        let letter = LETTERS[(number % LETTERS.len() as u64) as usize];
        number /= LETTERS.len() as u64;
        char::from(letter)
    };
    (0..6).map(|_| letter()).collect()
}
