//! Lists all refs with a prefix: loose ones hide packed ones.
//!
//! Order: loose refs first, then packed-refs, so a ref that another process packs meanwhile is
//! found at least once. Each directory is listed once, and the type of an entry is taken from the
//! listing if it has one. A directory that cannot be listed is an error; Git takes it for an empty
//! one.

use std::{
    io::ErrorKind,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
};

use bstr::{BStr, BString, ByteSlice};
use format::{
    ObjectId,
    refname::{self, Levels},
};
use sys::{FileType, by_path};

use super::store::{End, Store};
use crate::{Attempt, Error, RefError};

/// Loose refs; `None` for a dangling symbolic ref, which still hides a packed ref.
type Loose = Vec<(BString, Option<ObjectId>)>;

impl Store {
    /// Lists all refs whose names begin with `prefix`, sorted. A symbolic ref has the value of its
    /// target; dangling ones are left out. Broken refs have the null name.
    pub(crate) fn list(&self, prefix: &BStr) -> Result<Vec<(BString, ObjectId)>, Error> {
        let mut loose = Loose::new();
        let dir = prefix.rfind_byte(b'/').map_or("refs/".into(), |slash| prefix[..=slash].as_bstr());
        self.loose_below(dir, prefix, &mut loose)?;
        loose.sort();
        // For `refs/`, read all of packed-refs, so that every malformed line is noticed.
        let mut packed = self.packed.below(if prefix == "refs/" { "".into() } else { prefix })?;
        packed.retain(|(name, _)| loose.binary_search_by(|(loose, _)| loose.cmp(name)).is_err());
        packed.extend(loose.into_iter().filter_map(|(name, id)| Some((name, id?))));
        packed.sort();
        Ok(packed)
    }

    /// Lists the directory `dir`, whose name ends with a slash.
    fn loose_below(&self, dir: &BStr, prefix: &BStr, found: &mut Loose) -> Result<(), Error> {
        let path = refname::file(&self.git_dir, &self.packed.common_dir, dir);
        let entries = match by_path::list(&path) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Vec::new()
            }
            Err(error) => return Err(Attempt::ReadLooseRefs.on(&path)(error)),
        };
        // Refs of this worktree alone are in its own Git directory.
        let has_own = dir == "refs/" && self.git_dir != self.packed.common_dir;
        let own = refname::PER_WORKTREE.iter().filter(|_| has_own);
        for dir in own.map(|dir| BStr::new(*dir)).filter(|dir| may_contain(dir, prefix)) {
            self.loose_below(dir, prefix, found)?;
        }
        for (entry, mut file_type) in entries {
            if entry.as_bytes().starts_with(b".") || entry.as_bytes().ends_with(b".lock") {
                continue;
            }
            if file_type == FileType::Symlink {
                let at = path.join(&entry);
                match by_path::stat_followed(&at) {
                    Ok(Some(stat)) => file_type = stat.file_type,
                    Ok(None) => continue,
                    Err(error) if sys::is_symlink_refused(&error) => continue,
                    Err(error) => return Err(Attempt::ReadLooseRefs.on(&at)(error)),
                }
            }
            let mut name = BString::from([dir.as_bytes(), &entry.into_vec()].concat());
            match file_type {
                FileType::Directory => {
                    name.push(b'/');
                    let is_own = has_own && refname::is_per_worktree(name.as_bstr());
                    if !is_own && may_contain(name.as_bstr(), prefix) {
                        self.loose_below(name.as_bstr(), prefix, found)?;
                    }
                }
                FileType::File if name.starts_with(prefix) => self.loose(name, found)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn loose(&self, name: BString, found: &mut Loose) -> Result<(), Error> {
        let null = ObjectId::null(self.packed.hash);
        if refname::check(name.as_bstr(), Levels::One).is_err() {
            if !refname::is_safe(name.as_bstr()) {
                return Err(RefError::Dangerous(name).into());
            }
            found.push((name, Some(null)));
            return Ok(());
        }
        let resolved = self.resolve(name.as_bstr())?;
        let id = match resolved.end {
            // It was removed after the listing.
            End::Missing => return Ok(()),
            End::Dangling => None,
            End::Broken(_) if resolved.last.is_some() => None,
            End::Broken(_) => Some(null),
            End::Id(id) => Some(id),
        };
        found.push((name, id));
        Ok(())
    }
}

/// Returns true if names with this prefix may be below a directory.
fn may_contain(dir: &BStr, prefix: &BStr) -> bool {
    dir.starts_with(prefix) || prefix.starts_with(dir.as_bytes())
}
