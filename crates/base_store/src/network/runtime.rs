//! A runtime with one thread.
//!
//! Tokio's runtime with several threads would be simpler. But it computes with `pow`, and each
//! command of sapwood would load libm when it begins.

use std::thread::{self, JoinHandle};

use tokio::{
    runtime::{Builder, EnterGuard, Handle},
    sync::oneshot,
};

use crate::Error;

/// A running runtime. It ends when it is dropped, with all that it runs.
pub(super) struct Runtime {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Runtime {
    pub(super) fn start() -> Result<Runtime, Error> {
        let failed = |source| Error::Setting(format!("cannot start a thread for a remote: {source}"));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            // The sender is dropped or used: both end it.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("remote".into()).spawn(run).map_err(failed)?;
        Ok(Runtime { handle, stop: Some(stop), thread: Some(thread) })
    }

    /// Lets this thread make what needs a runtime.
    pub(super) fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }

    /// Runs a future in this thread, which waits for it.
    pub(super) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.handle.block_on(work)
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
