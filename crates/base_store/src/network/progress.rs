//! Bodies of requests that say how far they are. A large body may take long; it must not stand
//! still for long.

use std::{
    io::{self, Read as _},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use sys::File;
use tokio::time::Instant;

/// The bytes of a body that are handed over at once. They count as sent then.
pub(super) const PIECE: usize = 64 << 10;

/// The bytes that a system may hold back after a body was handed over: buffers of sockets.
const HELD: u64 = 8 << 20;

/// The bytes of these that may take as long as an answer.
const HELD_PIECE: u32 = 1 << 20;

/// The progress of a body.
#[derive(Clone)]
pub(super) struct Progress(Arc<Mutex<State>>);

struct State {
    /// The time at which a piece was handed over last, or of the start.
    last: Instant,
    sent: u64,
}

impl Progress {
    /// Begins now.
    pub(super) fn start() -> Progress {
        Progress(Arc::new(Mutex::new(State { last: Instant::now(), sent: 0 })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time at which the body stands still. Bytes that the system holds back are still
    /// on their way: each MiB of them may take as long as an answer.
    fn end(&self, timeout: Duration) -> Instant {
        let state = self.state();
        let held = u32::try_from(state.sent.min(HELD)).expect("HELD is small").div_ceil(HELD_PIECE);
        state.last + timeout * (1 + held)
    }

    /// Runs a future. Returns `None` if the body stands still, or its answer does not come.
    pub(super) async fn watch<T>(&self, timeout: Duration, work: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                () = tokio::time::sleep_until(self.end(timeout)) => {}
            }
            if self.end(timeout) <= Instant::now() {
                return None;
            }
        }
    }
}

/// A body that marks each piece it hands over.
pub(super) struct Watched<B> {
    body: B,
    progress: Progress,
}

impl<B> Watched<B> {
    pub(super) fn new(body: B, progress: &Progress) -> Watched<B> {
        Watched { body, progress: progress.clone() }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Watched<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            let mut state = self.progress.state();
            state.last = Instant::now();
            state.sent += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The bytes of a file. A thread of the runtime reads them, and waits for the disk.
pub(super) struct FileBody {
    file: File,
    left: u64,
}

impl FileBody {
    /// Sends the next `size` bytes of the file.
    pub(super) fn new(file: File, size: u64) -> FileBody {
        FileBody { file, left: size }
    }

    fn next(&mut self) -> io::Result<Bytes> {
        let mut piece = vec![0; usize::try_from(self.left).unwrap_or(PIECE).min(PIECE)];
        self.file.read_exact(&mut piece)?;
        self.left -= piece.len() as u64;
        Ok(piece.into())
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready((self.left > 0).then(|| self.next().map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
