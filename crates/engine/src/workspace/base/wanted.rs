//! The requested files of a base, and the name derived from them.

use bstr::{BStr, BString, ByteSlice as _};
use format::ObjectId;
use repo::Repository;

use super::{Error, Kind};
use crate::sparse::Patterns;

/// The owner and the permissions of the files of a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user id of all files.
    pub uid: u32,
    /// The group id of all files.
    pub gid: u32,
    /// The permission bits that are cleared in all files (umask).
    pub umask: u32,
}

impl Owner {
    /// Returns the owner of new files of this process.
    pub fn of_process() -> Owner {
        Owner { uid: sys::user::effective_uid(), gid: sys::user::effective_gid(), umask: sys::umask() }
    }
}

/// The description of a base.
pub struct Wanted<'r> {
    repo: &'r Repository,
    tree: ObjectId,
    kind: Kind,
    owner: Owner,
    sparse: Option<&'r Patterns>,
    name: String,
}

/// Settings that affect the bytes of a checkout, in addition to those of filters.
const SETTINGS: [&str; 8] = [
    "core.autocrlf",
    "core.eol",
    "core.symlinks",
    "core.filemode",
    "core.ignorecase",
    "core.protecthfs",
    "core.protectntfs",
    "core.checkroundtripencoding",
];

/// The version of the layout and of the name. Changing either requires another version.
const VERSION: &str = "sapwood base 1";

impl<'r> Wanted<'r> {
    /// Describes a base of `tree` with the settings of `repo`. With `sparse`, it contains only the
    /// included paths.
    pub fn new(
        repo: &'r Repository,
        tree: ObjectId,
        kind: Kind,
        owner: Owner,
        sparse: Option<&'r Patterns>,
    ) -> Result<Wanted<'r>, Error> {
        let mut name = Name(format::hash::Hasher::checksum(format::HashKind::Sha256));
        name.add(VERSION.into());
        name.add(kind.name().into());
        name.add(tree.to_string().as_str().into());
        for number in [owner.uid, owner.gid, owner.umask] {
            name.add(number.to_string().as_str().into());
        }
        for (key, value) in settings(repo)? {
            name.add(key.as_bstr());
            name.add(value.as_bstr());
        }
        name.add("attributes".into());
        for content in repo::convert::outside_attributes(repo)? {
            name.add(content.as_bstr());
        }
        name.add("replaced".into());
        for (one, other) in repo.replacements()? {
            name.add(format!("{one} {other}").as_str().into());
        }
        match sparse {
            Some(patterns) => name.add(patterns.to_file().as_bstr()),
            None => name.add("all".into()),
        }
        let name = name.0.finish().expect("a checksum looks for no collision").to_string();
        Ok(Wanted { repo, tree, kind, owner, sparse, name })
    }

    /// Returns the name of the base.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the repository that provides the objects.
    pub fn repo(&self) -> &'r Repository {
        self.repo
    }

    /// Returns the tree.
    pub fn tree(&self) -> ObjectId {
        self.tree
    }

    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the owner of the files.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// Returns the selection of paths; `None` for all paths.
    pub fn sparse(&self) -> Option<&'r Patterns> {
        self.sparse
    }
}

/// Returns the settings that affect the bytes, sorted, with the last value of each.
fn settings(repo: &Repository) -> Result<Vec<(BString, BString)>, Error> {
    let mut keys: Vec<BString> = repo
        .config_names()
        .filter(|name| name.starts_with(b"filter.") || SETTINGS.iter().any(|key| *name == *key))
        .map(ToOwned::to_owned)
        .collect();
    keys.sort();
    keys.dedup();
    Ok(keys
        .into_iter()
        .map(|key| {
            let value = repo.config_value(&key.to_string()).flatten();
            (key, value.unwrap_or_else(|| "true".into()))
        })
        .collect())
}

/// A hash over the parts of a name. Each part is preceded by its length, so that different lists of
/// parts have different hashes.
struct Name(format::hash::Hasher);

impl Name {
    fn add(&mut self, part: &BStr) {
        self.0.update(&(part.len() as u64).to_le_bytes());
        self.0.update(part);
    }
}
