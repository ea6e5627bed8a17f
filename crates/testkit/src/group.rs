//! Waits for programs that start other processes, and ends all of these.

use std::{
    io,
    process::Child,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// The intervals between two checks of a running program: the first one, and the longest one.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LOOK: Duration = Duration::from_millis(15);

/// Waits for `child`, the leader of its own process group. Returns true if it ended before `until`.
///
/// When the child has ended, the time is over, or `stop` is set, the whole group is killed. The
/// leader is reaped only afterwards: until then its id cannot be reused for another group.
pub fn wait_for_group(child: &mut Child, until: Instant, stop: &AtomicBool) -> io::Result<bool> {
    let pid = Pid::from_child(child);
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let (mut in_time, mut pause) = (true, FIRST_LOOK);
    while waitid(WaitId::Pid(pid), look)?.is_none() {
        in_time = Instant::now() < until;
        if !in_time || stop.load(Ordering::Relaxed) {
            break;
        }
        thread::sleep(pause.min(until.saturating_duration_since(Instant::now())));
        pause = LOOK.min(pause * 2);
    }
    let _ = kill_process_group(pid, Signal::KILL);
    child.wait()?;
    Ok(in_time)
}
