//! Other processes.

use std::{fs::File, io};

use rustix::{fs::FlockOperation, io::Errno, process::Pid};

/// Whether a process with this id exists, ours to signal or not. `None` if `pid` is no process id.
pub fn is_running(pid: u64) -> Option<bool> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    Some(rustix::process::test_kill_process(pid) != Err(Errno::SRCH))
}

/// `flock`, exclusive, without waiting: `false` if another open file holds it. It is held until `file`
/// is closed, so the end of the process, however it ends, gives it up.
pub fn try_lock(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_one_is_and_impossible_ones_are_not() {
        assert_eq!(is_running(u64::from(std::process::id())), Some(true));
        assert_eq!(is_running(i32::MAX as u64), Some(false));
        assert_eq!(is_running(0), None);
        assert_eq!(is_running(u64::MAX), None);
    }

    #[test]
    fn a_lock_is_held_until_its_file_is_closed() {
        let file = tempfile::NamedTempFile::new().expect("a file for tests");
        let first = file.reopen().expect("opened");
        let second = file.reopen().expect("opened");
        assert!(try_lock(&first).expect("locked"));
        assert!(!try_lock(&second).expect("tried"));
        drop(first);
        assert!(try_lock(&second).expect("locked"));
    }
}
