//! Asks the kernel to write the contents of a blob file while further ones are decoded.
//!
//! The disk is then busy from the start, and the sync at the end finds less to do. A thread of its
//! own asks, because the call waits while the queue of the disk is full. Nobody waits for that
//! thread, and it has at most one range to do: the kernel writes what it leaves out.

use std::{
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        mpsc::{SyncSender, sync_channel},
    },
    thread,
};

use sys::{File, by_path};

/// The kernel is asked for ranges of at least this many bytes. A small base has no such range, and
/// needs no thread.
const RANGE: u64 = 16 << 20;

/// The writeback of a blob file.
pub(super) struct Writeback {
    data: PathBuf,
    state: Mutex<State>,
}

struct State {
    /// The kernel was asked for everything before this offset.
    asked: u64,
    thread: Option<SyncSender<Range<u64>>>,
}

impl Writeback {
    /// Returns the writeback of the file `data`, from its present length on.
    pub(super) fn of(data: &Path, length: u64) -> Writeback {
        Writeback { data: data.to_owned(), state: Mutex::new(State { asked: length, thread: None }) }
    }

    /// Takes note that bytes up to `end` were written. A failure is ignored: a sync reports it.
    pub(super) fn reached(&self, end: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if end < state.asked + RANGE {
            return;
        }
        let range = state.asked..end;
        let thread = state.thread.get_or_insert_with(|| start(self.data.clone()));
        if thread.try_send(range).is_ok() {
            state.asked = end;
        }
    }
}

/// Starts the thread, which ends with the channel. It opens the file anew, because a duplicate
/// descriptor would keep the file locked.
fn start(data: PathBuf) -> SyncSender<Range<u64>> {
    let (sender, ranges) = sync_channel::<Range<u64>>(1);
    let work = move || {
        let Ok(file): Result<File, _> = by_path::open(&data) else { return };
        for range in ranges {
            let _ = sys::start_writeback(&file, range);
        }
    };
    // Without a thread, `try_send` fails.
    let _ = thread::Builder::new().spawn(work);
    sender
}
