//! Shortens the names of many refs.
//!
//! A short name is usable if no other expansion of it is an existing ref. Most expansions do not
//! exist. After a few refs, each directory that could contain such a ref is listed once, so that a
//! missing ref costs no system call. Packed refs are searched in one snapshot of the file.

use std::{
    collections::{HashMap, HashSet},
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use bstr::{BStr, BString, ByteSlice as _};
use format::{keys, refname::RefScope};
use sys::by_path;

use crate::{
    error::Error,
    refs::{RULES, Snapshot},
    repository::Repository,
};

/// The number of refs that are shortened with a lookup of each expansion.
const FEW: usize = 6;

/// Shortens ref names.
pub struct Shortener<'a> {
    repo: &'a Repository,
    /// True if no other expansion may be an existing ref (`core.warnAmbiguousRefs`).
    strict: bool,
    /// The number of names shortened so far.
    count: usize,
    /// The entries of directories; `None` for one that cannot be listed.
    listed: HashMap<PathBuf, Option<HashSet<BString>>>,
    packed: Option<Arc<Snapshot>>,
}

impl<'a> Shortener<'a> {
    /// Creates a shortener; see [`Repository::shorten_ref`] and
    /// [`Repository::shorten_ref_strictly`].
    pub fn new(repo: &'a Repository, strict: bool) -> Shortener<'a> {
        Shortener { repo, strict, count: 0, listed: HashMap::new(), packed: None }
    }

    /// Returns the shortest name of a ref.
    pub fn shorten(&mut self, full: &BStr) -> Result<BString, Error> {
        // In a directory that ignores case, more names exist than are listed.
        let ignores_case = || self.repo.config(&keys::core::IGNORE_CASE).unwrap_or(true);
        self.count += 1;
        if self.count <= FEW || ignores_case() {
            return if self.strict {
                self.repo.shorten_ref_strictly(full)
            } else {
                self.repo.shorten_ref(full)
            };
        }
        for at in (1..RULES.len()).rev() {
            let (before, after) = RULES[at];
            let short = full
                .strip_prefix(before.as_bytes())
                .and_then(|rest| rest.strip_suffix(after.as_bytes()))
                .filter(|short| !short.is_empty());
            let Some(short) = short else { continue };
            let mut is_free = true;
            let mut others =
                RULES.iter().enumerate().filter(|(other, _)| *other < at || self.strict && *other != at);
            let others: Vec<_> = others.by_ref().map(|(_, rule)| *rule).collect();
            for (before, after) in others {
                let name = BString::from(bstr::concat([before.as_bytes(), short, after.as_bytes()]));
                if self.may_exist(name.as_bstr())? && self.repo.try_ref(name.as_bstr())?.is_some() {
                    is_free = false;
                    break;
                }
            }
            if is_free {
                return Ok(short.into());
            }
        }
        Ok(full.to_owned())
    }

    /// Returns false if the ref certainly does not exist.
    fn may_exist(&mut self, name: &BStr) -> Result<bool, Error> {
        let store = &self.repo.refs;
        let (scope, rest) = RefScope::of(name);
        let dir = scope.dir(&store.git_dir, &store.packed.common_dir).into_owned();
        if self.is_listed(dir, rest) {
            return Ok(true);
        }
        if !name.starts_with(b"refs/") {
            return Ok(false);
        }
        let snapshot = match &self.packed {
            Some(snapshot) => Arc::clone(snapshot),
            None => Arc::clone(self.packed.insert(store.packed.snapshot()?)),
        };
        Ok(store.packed.find_in(&snapshot, name)?.is_some())
    }

    /// Returns true unless a component of the path `name` below `dir` is missing.
    fn is_listed(&mut self, dir: PathBuf, name: &BStr) -> bool {
        let mut dir = dir;
        for component in name.split_str("/") {
            let entries = self.listed.entry(dir.clone()).or_insert_with(|| list(&dir));
            match entries {
                None => return true,
                Some(entries) if !entries.contains(component.as_bstr()) => return false,
                Some(_) => dir.push(sys::os_str(component)),
            }
        }
        true
    }
}

/// Lists a directory. Returns `None` if it cannot be listed, so that any entry may exist.
fn list(dir: &Path) -> Option<HashSet<BString>> {
    let entries = by_path::list(dir).ok()?;
    Some(entries.into_iter().map(|(name, _)| BString::from(name.into_vec())).collect())
}
