//! The file `unsynced` beside the upper layer. It exists while the layer is mounted without
//! durability, and until its file system was synced after that.
//!
//! It is not synced itself. It lies on the file system of the upper layer and is made before the
//! mount, so the journal keeps it wherever it keeps a later change of the layer. A mark without
//! content is one of a crash.
//!
//! The kernel makes a mark too, `work/work/incompat`, and refuses the next mount while it exists.
//! Workspaces of older versions have only that one.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use sys::by_path;

use super::super::backend::{Error, Site, marker};

const NAME: &str = "unsynced";

/// Seconds and nanoseconds.
pub(super) type Moment = (i64, u32);

#[derive(Debug, Default, PartialEq, Eq)]
struct Mark {
    boot: String,
    /// Everything that changed before this moment is on the disk.
    since: Option<Moment>,
}

fn place(upper: &Path) -> PathBuf {
    upper.with_file_name(NAME)
}

impl Mark {
    fn read(upper: &Path) -> Result<Option<Mark>, Error> {
        let path = place(upper);
        let content = by_path::read(&path).map_err(Error::io("read", &path))?;
        Ok(content.map(|content| Mark::parse(&String::from_utf8_lossy(&content)).unwrap_or_default()))
    }

    fn parse(text: &str) -> Option<Mark> {
        let (boot, rest) = text.strip_prefix("boot ")?.split_once('\n')?;
        let (seconds, fraction) = rest.strip_prefix("since ")?.strip_suffix('\n')?.split_once('.')?;
        let since = (seconds.parse().ok()?, fraction.parse().ok()?);
        Some(Mark { boot: boot.to_owned(), since: Some(since) })
    }

    /// Writes a mark of this boot, after `sync`. Everything that changes before this call is
    /// durable after it.
    fn write(upper: &Path, sync: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        use std::io::Write as _;
        let (path, staged) = (place(upper), upper.with_file_name(format!(".{NAME}-{}", std::process::id())));
        let stage = || {
            let _ = by_path::remove_file(&staged);
            let mut file = by_path::create_new(&staged, 0o666)?;
            // The clock of the file system, with which the changes are compared.
            let now = sys::stat_of(&file)?.ctime;
            file.write_all(format!("boot {}\nsince {}.{}\n", marker::boot(), now.0, now.1).as_bytes())
        };
        let written = stage()
            .map_err(Error::io("write", &staged))
            .and_then(|()| sync())
            .and_then(|()| by_path::rename(&staged, &path).map_err(Error::io("write", &path)));
        if written.is_err() {
            let _ = by_path::remove_file(&staged);
        }
        written
    }
}

/// Returns the directory whose presence makes the kernel refuse a mount.
fn of_kernel(site: &Site) -> PathBuf {
    site.work.join("work").join("incompat")
}

fn has_mark_of_kernel(site: &Site) -> bool {
    let mark = of_kernel(site);
    let found = match by_path::stat(&mark) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            unseal(&site.work);
            by_path::stat(&mark)
        }
        found => found,
    };
    matches!(found, Ok(Some(_)))
}

/// Lets this user empty the work directory of an overlay. The kernel makes directories without
/// permissions there, which other users than root could not empty.
pub(in crate::workspace) fn unseal(work: &Path) {
    let mut path = work.to_owned();
    for name in ["work", "incompat", "volatile"] {
        path.push(name);
        if by_path::set_mode(&path, 0o700).is_err() {
            return;
        }
    }
}

fn remove_mark_of_kernel(site: &Site) -> Result<(), Error> {
    let mark = of_kernel(site);
    if has_mark_of_kernel(site) {
        unseal(&site.work);
        by_path::remove_dir_all(&mark).map_err(Error::io("remove", &mark))
    } else {
        Ok(())
    }
}

/// Returns true if the machine stopped while the upper layer was not durable.
pub(super) fn is_of_crash(site: &Site) -> Result<bool, Error> {
    Ok(match Mark::read(&site.upper)? {
        Some(mark) => mark.boot != marker::boot(),
        None => {
            let is_ours = || marker::Marker::read(&site.state).is_some_and(|marker| marker.is_of_this_boot());
            has_mark_of_kernel(site) && !is_ours()
        }
    })
}

/// Returns the moment before which every change is on the disk, if it is known.
pub(super) fn since(upper: &Path) -> Result<Option<Moment>, Error> {
    Ok(Mark::read(upper)?.and_then(|mark| mark.since))
}

/// Returns true if the upper layer is durable.
pub(super) fn is_absent(upper: &Path) -> Result<bool, Error> {
    Ok(Mark::read(upper)?.is_none())
}

/// Makes the way free for a mount without durability. A mark of this boot stays: no sync has
/// happened since.
pub(in crate::workspace) fn begin(site: &Site) -> Result<(), Error> {
    if is_absent(&site.upper)? {
        Mark::write(&site.upper, || Ok(()))?;
    }
    remove_mark_of_kernel(site)
}

/// Makes the upper layer durable while it is mounted.
pub(super) fn advance(upper: &Path) -> Result<(), Error> {
    Mark::write(upper, || sys::mount::sync_file_system(upper).map_err(Error::io("sync", upper)))
}

/// Makes the upper layer durable if it has a mark, and removes the marks.
pub(in crate::workspace) fn settle(site: &Site) -> Result<(), Error> {
    let upper = &site.upper;
    if is_absent(upper)? && !has_mark_of_kernel(site) {
        return Ok(());
    }
    sys::mount::sync_file_system(upper).map_err(Error::io("sync", upper))?;
    remove_mark_of_kernel(site)?;
    let path = place(upper);
    match by_path::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(Error::io("remove", &path)(error));
        }
        _ => {}
    }
    // With an old mark, a later crash would make this layer suspicious.
    let dir = upper.parent().unwrap_or(upper);
    by_path::sync_dir(dir).map_err(Error::io("sync", dir))
}
