//! Entries of one reflog, as the stash uses them: each entry is a value of its own, and the ref
//! contains the newest one.

use bstr::{BStr, BString, ByteSlice as _};
use format::{ObjectId, reflog};
use sys::by_path;

use super::{
    Change, Edit, Error, Expected, Failures, NewLog, Old, Options, RefTransaction, apply, log, paths,
    transaction::{self, RefLock},
};
use crate::{Components, Lock, LockOptions, Wait, lock::sync_parent};

/// Sets the ref `name` to `new`, and logs the change even if the policy creates no reflog.
pub fn record(
    options: &Options,
    name: &BStr,
    new: ObjectId,
    expected: Expected,
    message: &BStr,
) -> Result<(), Error> {
    let old = match expected {
        Expected::Any => Old::Any,
        Expected::Missing => Old::Id(ObjectId::null(options.hash)),
        Expected::Is(oid) => Old::Id(oid),
    };
    let mut transaction = RefTransaction::new(options, Failures::EndAll);
    transaction.add(Edit { old, log: NewLog::Always, ..Edit::set(name, new, message) })?;
    transaction.commit().map(drop)
}

/// Removes the entry `index` (0 is the newest) from the reflog of `name`, if its new value is
/// `expected`. The ref gets the value of the newest remaining entry. If none remains, the ref is
/// deleted.
///
/// As in Git, the entry after the removed one gets a new old value: the new value of the entry
/// before the removed one. Malformed lines are kept.
pub fn drop_entry(options: &Options, name: &BStr, index: usize, expected: ObjectId) -> Result<(), Error> {
    let (mut lock, value) = transaction::lock_existing(options, name)?;
    let path = paths::log(options, name);
    let moved = || Error::LogMoved { name: name.to_owned() };
    let content = by_path::read(&path);
    let content = content.map_err(|source| Error::Io { what: "read", path: path.clone(), source })?;
    let left = without(options, &content.unwrap_or_default(), index, expected).ok_or_else(moved)?;
    let Some(top) = left.top else {
        drop(lock);
        let change = Change::Delete { name: name.to_owned(), expected: Expected::Is(value) };
        return apply(options, vec![change]);
    };
    let fsync = &options.fsync;
    let locks = LockOptions { wait: Wait::No, shared: options.locks.shared, record_pid: false };
    let mut new_log = Lock::take_no_follow(&path, &locks)?;
    new_log.write(&left.content)?;
    if log::is_synced(fsync) {
        new_log.sync(fsync, Components::REFERENCE)?;
    }
    let is_changed = top != value;
    if is_changed {
        lock.held().write(format!("{top}\n").as_bytes())?;
        lock.held().sync(fsync, Components::REFERENCE)?;
    }
    lock.held().close()?;
    new_log.commit()?;
    if log::is_synced(fsync) {
        sync_parent(fsync, Components::REFERENCE, &path)?;
    }
    if is_changed { publish(options, lock) } else { Ok(()) }
}

fn publish(options: &Options, mut lock: RefLock<'_>) -> Result<(), Error> {
    let path = lock.held().path().to_owned();
    lock.held().publish()?;
    Ok(sync_parent(&options.fsync, Components::REFERENCE, &path)?)
}

/// A reflog after the removal.
struct Left {
    content: Vec<u8>,
    /// The newest value; `None` without entries.
    top: Option<ObjectId>,
}

/// Returns the reflog without one entry. Returns `None` if the entry does not exist or differs.
fn without(options: &Options, content: &[u8], index: usize, expected: ObjectId) -> Option<Left> {
    let hash = options.hash;
    let position = reflog::entries(hash, content).count().checked_sub(index + 1)?;
    let mut left = Left { content: Vec::with_capacity(content.len()), top: None };
    let mut number = 0;
    for line in content.lines_with_terminator() {
        let Some(entry) = reflog::parse(hash, line) else {
            left.content.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
            left.content.push(b'\n');
            continue;
        };
        if number == position {
            if entry.new != expected {
                return None;
            }
        } else {
            let old = left.top.unwrap_or(ObjectId::null(hash));
            let names = BString::from(format!("{old} {} ", entry.new));
            left.content.extend_from_slice(&names);
            left.content.extend_from_slice(entry.rest);
            left.content.push(b'\n');
            left.top = Some(entry.new);
        }
        number += 1;
    }
    Some(left)
}
