//! Waits that end when the command is interrupted.

use std::{
    io::{self, Read},
    os::fd::AsFd,
    sync::atomic::Ordering,
    time::Duration,
};

pub(super) use ::http::Interrupt;

use super::Error;

/// The interval at which a wait checks the flag.
const TICK: Duration = Duration::from_millis(200);

fn is_set(interrupt: &Interrupt) -> bool {
    interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// A stream whose reads end when the command is interrupted.
pub(super) struct Watched<R> {
    pub(super) inner: R,
    pub(super) interrupt: Interrupt,
}

impl<R: Read + AsFd> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.interrupt.is_some() {
            if is_set(&self.interrupt) {
                return Err(io::Error::other(Error::Interrupted));
            }
            if sys::wait_to_read_for(&self.inner, TICK)? {
                break;
            }
        }
        self.inner.read(buffer)
    }
}
