//! The file of a pack, written by the caller or by a background thread.

use std::{
    io::{self, Seek, SeekFrom, Write},
    sync::mpsc::{SyncSender, sync_channel},
    thread::{Builder, JoinHandle},
};

use sys::{
    File,
    profile::{self, Phase},
};

use crate::{Truncate, fsync::write_back};

/// The maximum number of queued writes.
const QUEUE_DEPTH: usize = 8;

/// After this many bytes, the kernel starts to write pages to the disk while more data follow. The
/// sync at the end then has little left to do.
const WRITE_BACK: u64 = 8 << 20;

/// The thread that writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
    /// The caller.
    Direct,
    /// A background thread, which starts with the first write. Errors are returned later, at the
    /// latest at the end.
    Background,
    /// Like `Background`, and pages are written to the disk early.
    BackgroundSynced,
}

/// The file of a pack.
pub struct Output {
    file: File,
    writing: Writing,
    thread: Option<Thread>,
}

struct Thread {
    pieces: SyncSender<Vec<u8>>,
    handle: JoinHandle<io::Result<()>>,
}

impl Output {
    pub(super) fn new(file: File, writing: Writing) -> Output {
        Output { file, writing, thread: None }
    }

    /// Waits for the thread and returns its error.
    fn settle(&mut self) -> io::Result<()> {
        let Some(Thread { pieces, handle }) = self.thread.take() else { return Ok(()) };
        drop(pieces);
        match handle.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Waits until everything is written, and returns the file.
    pub(super) fn into_file(mut self) -> io::Result<File> {
        self.settle()?;
        self.file.try_clone()
    }

    /// Starts the background thread, if one is requested and the system allows it.
    fn start(&mut self) -> io::Result<()> {
        if self.thread.is_some() || self.writing == Writing::Direct {
            return Ok(());
        }
        let (pieces, waiting) = sync_channel::<Vec<u8>>(QUEUE_DEPTH);
        let mut file = self.file.try_clone()?;
        let is_synced = self.writing == Writing::BackgroundSynced;
        let run = move || {
            let _profiled = profile::thread(Phase::Write);
            let mut dirty = 0;
            for piece in waiting {
                file.write_all(&piece)?;
                dirty += piece.len() as u64;
                if is_synced && dirty >= WRITE_BACK {
                    write_back(&file)?;
                    dirty = 0;
                }
            }
            Ok(())
        };
        self.thread = Builder::new().spawn(run).ok().map(|handle| Thread { pieces, handle });
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.start()?;
        let Some(thread) = &self.thread else { return self.file.write(bytes) };
        match thread.pieces.send(bytes.to_owned()) {
            Ok(()) => Ok(bytes.len()),
            // The thread ended because a write failed.
            Err(_) => match self.settle() {
                Err(error) => Err(error),
                Ok(()) => Err(io::ErrorKind::BrokenPipe.into()),
            },
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.settle()
    }
}

impl Truncate for Output {
    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.settle()?;
        self.file.set_len(len)?;
        self.file.seek(SeekFrom::Start(len)).map(drop)
    }
}
