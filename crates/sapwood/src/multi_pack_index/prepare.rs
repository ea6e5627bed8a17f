//! A new file in memory.

use bstr::{BStr, BString, ByteSlice as _};
use engine::midx::{Error as FileError, Merged, Notice as ObjectFile, PackDir, Packs, Preference};
use format::midx::{self, Midx};
use repo::keys;
use store::{Lock, midx::Objects as _};
use sys::Map;

use super::{Report, Request, Step};
use crate::{Context, Error, Notice};

/// A new file that is not written yet.
pub struct Prepared<'a> {
    context: Context<'a>,
    merged: Merged,
    pack_dir: PackDir,
    lock: Result<Lock, store::Error>,
    version: u8,
}

/// Merges the objects of the packs in a directory. Returns `None` if the file is up to date.
pub fn prepare<'a>(
    context: Context<'a>,
    pack_dir: &PackDir,
    version: u8,
    request: &Request,
    progress: &mut dyn FnMut(Step),
) -> Result<Option<Prepared<'a>>, Error> {
    let warn = |message| context.events.notice(Notice::ObjectFile(ObjectFile::Warning(message)));
    let include = request.packs.as_deref();
    let lock = lock(context, pack_dir);
    let mut old = if include.is_none() { load_if_used(context, pack_dir)? } else { None };
    if old.as_ref().is_some_and(|old| !old.has_valid_checksum()) {
        warn("ignoring existing multi-pack-index; checksum mismatch".to_owned());
        old = None;
    }
    // With such an old file, the other copies of the objects in the temporary pack would be
    // missing.
    old = old.filter(|old| PackDir::temporary_pack(old).is_none());
    let mut packs = find(context, pack_dir, old, include, progress)?;
    let other = match packs.old() {
        Some(_) => None,
        None => load(context, pack_dir)?.filter(Midx::has_valid_checksum),
    };
    let current = packs.old().or(other.as_ref());
    if current.is_some_and(|current| current.version() == version && packs.are_those_of(current)) {
        return Ok(None);
    }
    if let Some(name) = &request.preferred {
        match packs.prefer(name.as_bstr()) {
            Preference::Preferred => {}
            Preference::Unknown => warn(format!("unknown preferred pack: '{name}'")),
            Preference::Unreadable(name) => {
                return Err(Error::failed(format!("failed to open preferred pack {name}")));
            }
            Preference::Empty(path) => return Err(FileError::EmptyPreferred(path).into()),
        }
    }
    merge(context, pack_dir, packs, lock, version, &[]).map(Some)
}

/// Takes the lock on the file. An error matters only if the file must be written.
pub(super) fn lock(context: Context<'_>, pack_dir: &PackDir) -> Result<Lock, store::Error> {
    Lock::take(&pack_dir.midx(), &context.settings.locks)
}

/// Reads the file, and reports its flaws. Those that are fatal in Git are errors.
pub(super) fn load(context: Context<'_>, pack_dir: &PackDir) -> Result<Option<Midx<Map>>, Error> {
    let report = |message| context.events.notice(Notice::ObjectFile(ObjectFile::Error(message)));
    let error = match pack_dir.load() {
        Err(FileError::Midx(error)) => error,
        found => return Ok(found?),
    };
    if let midx::Error::Chunk { why: Some(why), .. } = &error {
        report(why.to_string());
    }
    if error.is_fatal() {
        return Err(FileError::Midx(error).into());
    }
    report(match error {
        midx::Error::TooSmall => {
            let path = pack_dir.shown.join("multi-pack-index");
            format!("multi-pack-index file {} is too small", path.display())
        }
        error => error.to_string(),
    });
    Ok(None)
}

/// Like [`load`], but `None` if the configuration disables the file.
pub(super) fn load_if_used(context: Context<'_>, pack_dir: &PackDir) -> Result<Option<Midx<Map>>, Error> {
    let is_used = context.repo.config(&keys::core::MULTI_PACK_INDEX)?;
    if is_used { load(context, pack_dir) } else { Ok(None) }
}

/// Finds the packs of a new file.
pub(super) fn find(
    context: Context<'_>,
    pack_dir: &PackDir,
    old: Option<Midx<Map>>,
    include: Option<&[BString]>,
    progress: &mut dyn FnMut(Step),
) -> Result<Packs, Error> {
    let mut count = 0;
    let mut report = |notice| context.events.notice(Notice::ObjectFile(notice));
    let packs = Packs::find(pack_dir, old, include, &mut report, &mut || {
        count += 1;
        progress(Step::Found(count));
    })?;
    progress(Step::FoundAll(count));
    Ok(packs)
}

/// Merges the objects of packs, without the packs in `dropped`.
pub(super) fn merge<'a>(
    context: Context<'a>,
    pack_dir: &PackDir,
    packs: Packs,
    lock: Result<Lock, store::Error>,
    version: u8,
    dropped: &[&BStr],
) -> Result<Prepared<'a>, Error> {
    let merged = Merged::new(packs, dropped, context.interrupt);
    context.check_interrupt()?;
    let merged = merged?;
    if merged.pack_names().is_empty() {
        return Err(FileError::NoPacks.into());
    }
    if let Some(pack) = merged.needed_but_dropped() {
        return Err(Error::failed(format!("pack '{}' is still needed", pack.display())));
    }
    Ok(Prepared { context, merged, pack_dir: pack_dir.clone(), lock, version })
}

impl Prepared<'_> {
    /// Replaces the context: another receiver gets the reports from now on.
    pub(super) fn with_context<'b>(self, context: Context<'b>) -> Prepared<'b> {
        let Prepared { merged, pack_dir, lock, version, .. } = self;
        Prepared { context, merged, pack_dir, lock, version }
    }

    /// Writes the file.
    pub fn write(self) -> Result<Report, Error> {
        let Prepared { context, merged, pack_dir, lock, version } = self;
        let lock = lock?;
        context.check_interrupt()?;
        let (names, objects) = (merged.pack_names(), merged.content());
        store::midx::write(lock, version, pack_dir.hash, &names, &objects, &context.settings.fsync)?;
        Ok(Report { pack_count: names.len(), object_count: objects.count() })
    }
}
