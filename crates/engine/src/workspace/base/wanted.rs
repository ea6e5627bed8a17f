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
    /// All parts of the name after the owner.
    deciding: Vec<BString>,
    name: String,
    contents: String,
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
const VERSION: &str = "sapwood base 2";

/// No file of a base is older, in seconds.
pub(crate) const OLDEST_BASE: i64 = 1_300_000_000;

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
        let mut deciding: Vec<BString> = Vec::new();
        for (key, value) in settings(repo)? {
            deciding.extend([key, value]);
        }
        deciding.push("attributes".into());
        deciding.extend(repo::convert::outside_attributes(repo)?);
        deciding.push("replaced".into());
        deciding.extend(repo.replacements()?.iter().map(|(one, other)| format!("{one} {other}").into()));
        deciding.push(sparse.map_or_else(|| "all".into(), |patterns| patterns.to_file()));
        let (name, contents) = (String::new(), String::new());
        let wanted = Wanted { repo, tree, kind, owner, sparse, deciding, name, contents };
        let (name, contents) = (wanted.name_of(tree), wanted.name_with(tree, &["any owner".into()]));
        Ok(Wanted { name, contents, ..wanted })
    }

    fn name_with(&self, tree: ObjectId, owner: &[BString]) -> String {
        let first = [VERSION.into(), self.kind.name().into(), tree.to_string().into()];
        hash_of(first.iter().chain(owner).chain(&self.deciding).map(|part| part.as_bstr()))
    }

    /// Returns the name of a base of another tree that is otherwise like this one.
    pub(super) fn name_of(&self, tree: ObjectId) -> String {
        let Owner { uid, gid, umask } = self.owner;
        self.name_with(tree, &[uid, gid, umask].map(|number| number.to_string().into()))
    }

    /// Returns the name of a base that holds only the differences from another one.
    pub(super) fn name_of_difference(&self) -> String {
        hash_of([self.name.as_str(), "difference"].map(BStr::new).into_iter())
    }

    /// Returns the name of the base.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the hash of everything that decides the bytes of the files. Bases that differ only
    /// in their owner or permissions share it.
    pub fn contents(&self) -> &str {
        &self.contents
    }

    /// Returns the modification time of all files: seconds and nanoseconds. It lies between 2011
    /// and 2015: no file is newer than a build, and none is older than the fixed times of npm
    /// (1985) and cargo (2006). It follows from [`Wanted::contents`], so two files with one path
    /// and one time have the same bytes, for tools that compare times for equality.
    pub(super) fn time(&self) -> (u64, u32) {
        let digits = u64::from_str_radix(&self.contents[..16], 16).expect("a hash has hexadecimal digits");
        // No fraction at all would look like a file system with coarse times.
        let nanoseconds = 1 + digits as u32 % 999_999_999;
        (OLDEST_BASE as u64 + (digits >> 37), nanoseconds)
    }

    /// Returns the name of a base that shows the contents of another base in the form `form`, with
    /// `owner`.
    pub(super) fn name_of_view(&self, form: &str, owner: (u32, u32)) -> String {
        let owner = [owner.0, owner.1].map(|number| number.to_string());
        hash_of([self.name.as_str(), form, &owner[0], &owner[1]].map(BStr::new).into_iter())
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

/// Returns a hash over the parts of a name. Each part is preceded by its length, so that different
/// lists of parts have different hashes.
fn hash_of<'p>(parts: impl Iterator<Item = &'p BStr>) -> String {
    let mut hasher = format::hash::Hasher::checksum(format::HashKind::Sha256);
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finish().expect("a checksum looks for no collision").to_string()
}
