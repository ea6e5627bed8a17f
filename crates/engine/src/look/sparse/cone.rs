//! A cone: directories with everything below them, and the direct files of their parent
//! directories.
//!
//! Both are sets with lookups by name, so the cost of a query depends on the depth of the path, not
//! on the number of directories.

use std::collections::BTreeMap;

use bstr::{BStr, BString, ByteSlice};
use format::wildmatch::is_special;

/// The position of a path relative to the cone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConePosition {
    /// The path is outside.
    Outside,
    /// The path is inside. The position of paths below it is unknown.
    Inside,
    /// The path and all paths below it are inside.
    InsideWithAllBelow,
}

/// Directories in the form `/a/b`, by name. If case is ignored, by lower-case name.
#[derive(Clone, Debug, Default)]
struct Directories(BTreeMap<BString, BString>);

impl Directories {
    fn has(&self, key: &[u8]) -> bool {
        self.0.contains_key(key.as_bstr())
    }

    /// Returns true if the set contains a directory above `path` other than the root. `path` begins
    /// with a slash.
    fn has_above(&self, path: &[u8]) -> bool {
        let mut end = path.len();
        while let Some(slash) = path[..end].rfind_byte(b'/').filter(|&slash| slash > 0) {
            if self.has(&path[..slash]) {
                return true;
            }
            end = slash;
        }
        false
    }
}

/// The directories of a cone.
#[derive(Clone, Debug, Default)]
pub struct Cone {
    /// True if all paths are inside.
    pub(super) full: bool,
    /// Directories whose direct files are inside, but not their other subdirectories.
    parents: Directories,
    /// Directories that are completely inside.
    recursive: Directories,
    icase: bool,
}

/// The reason why a line does not belong to a cone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotConeReason {
    Unrecognized,
    Negative,
    Repeated,
}

impl NotConeReason {
    pub(super) fn message(self, pattern: &[u8]) -> BString {
        let (before, after) = match self {
            NotConeReason::Unrecognized => ("unrecognized pattern: '", "'"),
            NotConeReason::Negative => ("unrecognized negative pattern: '", "'"),
            NotConeReason::Repeated => {
                ("your sparse-checkout file may have issues: pattern '", "' is repeated")
            }
        };
        [before.as_bytes(), pattern, after.as_bytes()].concat().into()
    }
}

impl Cone {
    /// Creates a cone without directories. It contains the files of the root.
    pub fn new(icase: bool) -> Cone {
        Cone { icase, ..Cone::default() }
    }

    pub(super) fn icase(&self) -> bool {
        self.icase
    }

    fn key(&self, name: &[u8]) -> BString {
        if self.icase { name.to_ascii_lowercase().into() } else { name.into() }
    }

    /// Adds `directory` (`/a/b`) with everything below it, and the direct files of its parent
    /// directories.
    pub fn add(&mut self, directory: &BStr) {
        self.recursive.0.insert(self.key(directory), directory.to_owned());
        let mut end = directory.len();
        while let Some(slash) = directory[..end].rfind_byte(b'/').filter(|&slash| slash > 0) {
            let key = self.key(&directory[..slash]);
            self.parents.0.entry(key).or_insert_with(|| directory[..slash].into());
            end = slash;
        }
    }

    /// Adds the directories of `other` that are not below one of this cone.
    pub fn join(&mut self, other: &Cone) {
        for (key, directory) in &other.recursive.0 {
            if !self.recursive.has_above(key) || !self.parents.has_above(key) {
                self.add(directory.as_bstr());
            }
        }
    }

    /// Returns the directories that are completely inside, in the form `a/b`, sorted.
    pub fn directories(&self) -> Vec<&BStr> {
        let mut found: Vec<&BStr> = self
            .recursive
            .0
            .values()
            .map(|directory| directory[directory.len().min(1)..].as_bstr())
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns the content of `info/sparse-checkout` for this cone.
    pub fn to_file(&self) -> BString {
        let mut file = BString::from("/*\n!/*/\n");
        let sorted = |directories: &Directories, keep: &dyn Fn(&[u8]) -> bool| {
            let kept = directories.0.iter().filter(|(key, _)| keep(key)).map(|(_, name)| name.clone());
            let mut kept: Vec<BString> = kept.collect();
            kept.sort_unstable();
            kept
        };
        let alone = |key: &[u8]| !self.recursive.has_above(key);
        for directory in sorted(&self.parents, &|key| !self.recursive.has(key) && alone(key)) {
            let name = escaped(&directory);
            if !name.is_empty() {
                file.extend_from_slice(&[&name[..], b"/\n!", &name[..], b"/*/\n"].concat());
            }
        }
        for directory in sorted(&self.recursive, &alone) {
            file.extend_from_slice(&escaped(&directory));
            file.extend_from_slice(b"/\n");
        }
        file
    }

    /// Returns the position of `path`. A directory path with a slash at the end has the position of
    /// the files directly in it.
    pub(super) fn position(&self, path: &[u8]) -> ConePosition {
        if self.full {
            return ConePosition::Inside;
        }
        let mut name = self.key(&[b"/", path].concat());
        if name.ends_with(b"/") {
            name.push(b'-');
        }
        let parent = name.rfind_byte(b'/').unwrap_or(0);
        if self.recursive.has(&name) {
            ConePosition::InsideWithAllBelow
        } else if parent == 0 || self.parents.has(&name[..parent]) {
            ConePosition::Inside
        } else if self.recursive.has_above(&name) {
            ConePosition::InsideWithAllBelow
        } else {
            ConePosition::Outside
        }
    }

    /// Parses a line of the file. `pattern` is the line without `!` at the beginning and `/` at the
    /// end.
    pub(super) fn take(
        &mut self,
        pattern: &[u8],
        negative: bool,
        directory: bool,
    ) -> Result<(), NotConeReason> {
        if pattern == b"/*" && negative == directory {
            self.full = !negative;
            return Ok(());
        }
        if pattern.len() < 2 || pattern[0] != b'/' || pattern.contains_str("**") {
            return Err(NotConeReason::Unrecognized);
        }
        if (!directory && pattern != b"/*") || !is_plain(pattern) {
            return Err(NotConeReason::Unrecognized);
        }
        if pattern.len() > 2 && pattern.ends_with(b"/*") {
            if !negative {
                return Err(NotConeReason::Unrecognized);
            }
            let name = unescaped(pattern);
            let key = self.key(&name);
            if self.recursive.0.remove(&key).is_none() {
                return Err(NotConeReason::Negative);
            }
            self.parents.0.insert(key, name);
            return Ok(());
        }
        if negative {
            return Err(NotConeReason::Negative);
        }
        let name = unescaped(pattern);
        let key = self.key(&name);
        let repeated = self.parents.has(&key);
        self.recursive.0.insert(key, name);
        if repeated { Err(NotConeReason::Repeated) } else { Ok(()) }
    }
}

/// Returns true if all wildcards are escaped, except for a `*` after the last slash.
fn is_plain(pattern: &[u8]) -> bool {
    (1..pattern.len()).all(|at| {
        let next = pattern.get(at + 1).copied();
        !is_special(pattern[at])
            || pattern[at - 1] == b'\\'
            || pattern[at] == b'\\' && next.is_some_and(is_special)
            || pattern[at - 1] == b'/' && pattern[at] == b'*' && next.is_none()
    })
}

fn escaped(name: &[u8]) -> BString {
    let mut pattern = BString::default();
    for &byte in name {
        if is_special(byte) {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
    pattern
}

/// Removes escapes, and `/*` at the end.
fn unescaped(pattern: &[u8]) -> BString {
    let mut name = BString::default();
    let mut bytes = pattern.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'\\' => name.extend(bytes.next()),
            byte => name.push(byte),
        }
    }
    match name.strip_suffix(b"/*") {
        Some(directory) if !directory.is_empty() => directory.into(),
        _ => name,
    }
}
