//! Other processes.

use rustix::{io::Errno, process::Pid};

/// Whether a process with this id exists, ours to signal or not. `None` if `pid` is no process id.
pub fn is_running(pid: u64) -> Option<bool> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    Some(rustix::process::test_kill_process(pid) != Err(Errno::SRCH))
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
}
