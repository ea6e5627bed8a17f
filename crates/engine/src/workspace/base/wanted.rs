//! The requested files of a base, and the name derived from them.

use bstr::{BStr, BString, ByteSlice as _};
use format::ObjectId;
use repo::{Repository, keys};

use super::{Base, Error, Kind};
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

/// The form of a base with a given name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// All files of a tree, with the usual time.
    Ordinary,
    /// A whole base whose files have a time of their own, or are chosen by sparse patterns.
    Special,
    /// The differences from another base.
    Difference,
}

/// The description of a base.
pub struct Wanted<'r> {
    repo: &'r Repository,
    tree: ObjectId,
    kind: Kind,
    owner: Owner,
    sparse: Option<&'r Patterns>,
    /// See [`Wanted::with_time`].
    time: Option<(u64, u32)>,
    /// All parts of the name after the owner.
    deciding: Vec<BString>,
    name: String,
    contents: String,
}

/// Settings that affect the bytes of a checkout, in addition to those of filters.
const SETTINGS: [&str; 8] = [
    keys::core::AUTOCRLF.name(),
    keys::core::EOL.name(),
    keys::core::SYMLINKS.name(),
    keys::core::FILE_MODE.name(),
    keys::core::IGNORE_CASE.name(),
    keys::core::PROTECT_HFS.name(),
    keys::core::PROTECT_NTFS.name(),
    keys::core::CHECK_ROUNDTRIP_ENCODING.name(),
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
        let wanted = Wanted { repo, tree, kind, owner, sparse, time: None, deciding, name, contents };
        Ok(wanted.named())
    }

    /// Gives all files the modification time `time`, in seconds and nanoseconds, or without one the
    /// time that follows from the contents. The name of such a base ends in the time, so whoever
    /// knows the name of a lost base can describe it. No other request has that name.
    pub fn with_time(self, time: Option<(u64, u32)>) -> Wanted<'r> {
        Wanted { time, ..self }.named()
    }

    /// Like [`Wanted::with_time`], with the time of the base called `name`.
    pub fn with_time_of(self, name: &str) -> Wanted<'r> {
        self.with_time(time_in(name))
    }

    fn named(mut self) -> Wanted<'r> {
        self.name = self.name_of(self.tree);
        self.contents = self.name_with(self.tree, &["any owner".into()]);
        self
    }

    fn name_with(&self, tree: ObjectId, owner: &[BString]) -> String {
        let first = [VERSION.into(), self.kind.name().into(), tree.to_string().into()];
        self.name_from(first.iter().chain(owner).chain(&self.deciding).map(|part| part.as_bstr()))
    }

    /// Returns a hash over the parts of a name, and the explicit time.
    fn name_from<'p>(&self, parts: impl Iterator<Item = &'p BStr>) -> String {
        let hash = hash_of(parts);
        match self.time {
            None => hash,
            Some((seconds, nanoseconds)) => format!("{hash}{seconds:010x}{nanoseconds:08x}"),
        }
    }

    /// Returns the name of a base of another tree that is otherwise like this one.
    pub(super) fn name_of(&self, tree: ObjectId) -> String {
        let Owner { uid, gid, umask } = self.owner;
        self.name_with(tree, &[uid, gid, umask].map(|number| number.to_string().into()))
    }

    /// Returns the name of a base that holds only the differences from another one.
    pub(super) fn name_of_difference(&self) -> String {
        self.difference_of(&self.name)
    }

    fn difference_of(&self, whole: &str) -> String {
        self.name_from([whole, "difference"].map(BStr::new).into_iter())
    }

    /// Returns true if a base differs from this one in its tree alone.
    pub(super) fn is_like(&self, base: &Base) -> bool {
        let whole = self.name_of(base.tree);
        base.name == whole || base.name == self.difference_of(&whole)
    }

    /// Returns the form in which this base has the name `name`; `None` if that is another base.
    pub fn form_of(&self, name: &str) -> Option<Named> {
        if name == self.name {
            Some(if self.time.is_none() && self.sparse.is_none() { Named::Ordinary } else { Named::Special })
        } else {
            (name == self.name_of_difference()).then_some(Named::Difference)
        }
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

    /// Returns the modification time of all files: seconds and nanoseconds. Unless another one was
    /// given, it lies between 2011 and 2015: no file is newer than a build, and none is older than
    /// the fixed times of npm (1985) and cargo (2006). It follows from [`Wanted::contents`], so two
    /// files with one path and one time have the same bytes, for tools that compare times for
    /// equality.
    pub(super) fn time(&self) -> (u64, u32) {
        if let Some(time) = self.time {
            return time;
        }
        let digits = u64::from_str_radix(&self.contents[..16], 16).expect("a hash has hexadecimal digits");
        // No fraction at all would look like a file system with coarse times.
        let nanoseconds = 1 + digits as u32 % 999_999_999;
        (OLDEST_BASE as u64 + (digits >> 37), nanoseconds)
    }

    /// Returns the name of a base that shows the contents of another base in the form `form`, with
    /// `owner`.
    pub(super) fn name_of_view(&self, form: &str, owner: (u32, u32)) -> String {
        let owner = [owner.0, owner.1].map(|number| number.to_string());
        self.name_from([self.name.as_str(), form, &owner[0], &owner[1]].map(BStr::new).into_iter())
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

/// The number of hexadecimal digits of a name without its time.
const HASH_DIGITS: usize = 64;

/// Returns the time in which the name of a base ends.
pub(crate) fn time_in(name: &str) -> Option<(u64, u32)> {
    let (seconds, nanoseconds) = name.get(HASH_DIGITS..)?.split_at_checked(10)?;
    let nanoseconds = u32::from_str_radix(nanoseconds, 16).ok().filter(|&part| part < 1_000_000_000);
    u64::from_str_radix(seconds, 16).ok().zip(nanoseconds)
}

/// Returns the settings that affect the bytes, sorted, with the last value of each.
fn settings(repo: &Repository) -> Result<Vec<(BString, BString)>, Error> {
    let mut keys: Vec<BString> = repo
        .config_names()
        .filter(|name| {
            name.starts_with(b"filter.")
                || SETTINGS.iter().any(|key| name.eq_ignore_ascii_case(key.as_bytes()))
        })
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
