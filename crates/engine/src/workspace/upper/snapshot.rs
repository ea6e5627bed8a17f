//! The stored lists for tokens: `<state>/snapshots/<hash>`.
//!
//! The name of a file is the hash of its content, so a torn file is detected and counts as missing.
//! Files are not synced: after a crash, a missing snapshot costs one full examination.

use std::{
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use sys::by_path;

use super::list::{List, name_of};

/// With more files than this, the oldest are removed.
const MOST: usize = 64;

/// The number of old files to keep when some are removed.
const KEPT: usize = 32;

/// A snapshot that is read gets a new modification time if it is older than this.
const MARK_AGE: Duration = Duration::from_secs(600);

/// Returns the list with this name. Returns `None` if the file is missing, torn or unreadable.
pub(super) fn load(state: &Path, name: &str) -> Option<List> {
    let is_name = name.len() == 64 && name.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !is_name {
        return None;
    }
    let mut file = by_path::open(&directory(state).join(name)).ok()?;
    let stat = sys::stat_of(&file).ok().filter(|stat| stat.file_type == sys::FileType::File)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    if name_of(&bytes) != name {
        return None;
    }
    let used = u64::try_from(stat.mtime.0).map_or(Duration::ZERO, Duration::from_secs);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    if now.saturating_sub(used) > MARK_AGE {
        mark_used(&directory(state).join(name));
    }
    List::parse(&bytes)
}

/// Returns all stored lists that are whole.
pub(super) fn all(state: &Path) -> Vec<List> {
    let names = by_path::list(&directory(state)).unwrap_or_default();
    names.iter().filter_map(|(name, _)| load(state, name.to_str()?)).collect()
}

/// Stores a serialized list under its name. Removes old snapshots, except for this one and
/// `previous`.
#[expect(clippy::disallowed_methods, reason = "Git does not read snapshots")]
pub(super) fn store(state: &Path, name: &str, bytes: &[u8], previous: Option<&str>) -> io::Result<()> {
    sys::changes::aside(|| add(state, name, bytes, previous))
}

fn add(state: &Path, name: &str, bytes: &[u8], previous: Option<&str>) -> io::Result<()> {
    let dir = directory(state);
    let path = dir.join(name);
    if load(state, name).is_some() {
        mark_used(&path);
        return Ok(());
    }
    by_path::create_dir_all(&dir)?;
    let temporary = dir.join(format!("{TEMPORARY}{}", std::process::id()));
    let written = write(&temporary, bytes).and_then(|()| by_path::rename(&temporary, &path));
    if written.is_err() {
        let _ = by_path::remove_file(&temporary);
    }
    written?;
    expire(&dir, &[Some(name), previous]);
    Ok(())
}

const TEMPORARY: &str = "new-";

fn directory(state: &Path) -> PathBuf {
    state.join("snapshots")
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = match by_path::create_new(path, 0o666) {
        // A killed process with the same id left this file.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            by_path::remove_file(path)?;
            by_path::create_new(path, 0o666)?
        }
        made => made?,
    };
    file.write_all(bytes)
}

#[expect(clippy::disallowed_methods, reason = "Git does not read snapshots")]
fn mark_used(path: &Path) {
    if let Ok(file) = by_path::open(path) {
        let _ = sys::changes::aside(|| file.set_modified(SystemTime::now()));
    }
}

/// Removes the least recently used files, except for `kept`. A failure only leaves more files.
fn expire(dir: &Path, kept: &[Option<&str>]) {
    let Ok(names) = by_path::list(dir) else { return };
    if names.len() <= MOST {
        return;
    }
    let is_kept = |name: &std::ffi::OsStr| kept.iter().flatten().any(|&other| name == other);
    let mut old: Vec<_> = names
        .into_iter()
        .filter(|(name, _)| !is_kept(name))
        .filter_map(|(name, _)| {
            let path = dir.join(name);
            Some((by_path::stat(&path).ok()??.mtime, path))
        })
        .collect();
    old.sort_unstable();
    let surplus = old.len().saturating_sub(KEPT);
    old[..surplus].iter().for_each(|(_, path)| drop(by_path::remove_file(path)));
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    fn stored(state: &Path, content: &str, previous: Option<&str>) -> String {
        let bytes = List::default().to_bytes();
        let bytes = [&bytes[..], content.as_bytes()].concat();
        let name = name_of(&bytes);
        store(state, &name, &bytes, previous).expect("stored");
        name
    }

    #[test]
    fn a_torn_snapshot_is_missing() {
        let state = tempfile::tempdir().expect("a directory for tests");
        let name = stored(state.path(), "", None);
        assert_eq!(load(state.path(), &name), Some(List::default()));
        let path = directory(state.path()).join(&name);
        std::fs::write(&path, "sapwood upper").expect("written");
        assert_eq!(load(state.path(), &name), None);
        // The next response stores the list again.
        stored(state.path(), "", None);
        assert_eq!(load(state.path(), &name), Some(List::default()));
        assert_eq!(load(state.path(), "../../../etc/passwd"), None);
    }

    #[test]
    fn a_snapshot_that_is_marked_as_used_keeps_its_content() {
        let state = tempfile::tempdir().expect("a directory for tests");
        let name = stored(state.path(), "", None);
        stored(state.path(), "", None);
        assert_eq!(load(state.path(), &name), Some(List::default()));
        let path = directory(state.path()).join(&name);
        let age = SystemTime::now() - 2 * MARK_AGE;
        by_path::open(&path).expect("opened").set_modified(age).expect("set");
        for _ in 0..2 {
            assert_eq!(load(state.path(), &name), Some(List::default()));
        }
        let marked = by_path::stat(&path).expect("examined").expect("there").mtime.0;
        let before = age.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
        assert!(marked > before.cast_signed());
    }

    #[test]
    fn keeps_a_bounded_number_and_those_in_use() {
        let state = tempfile::tempdir().expect("a directory for tests");
        let previous = stored(state.path(), "asked", None);
        let age = SystemTime::now() - Duration::from_secs(100_000);
        let file = by_path::open(&directory(state.path()).join(&previous)).expect("opened");
        file.set_modified(age).expect("set");
        for number in 0..2 * MOST {
            stored(state.path(), &number.to_string(), Some(&previous));
        }
        let names = by_path::list(&directory(state.path())).expect("listed");
        assert!(names.len() <= MOST, "{}", names.len());
        assert!(names.iter().any(|(name, _)| name.to_str() == Some(&previous)));
    }
}
