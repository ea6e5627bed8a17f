//! Lines that the engine and the server say while objects arrive, kept until the transfer has
//! ended: any thread says them, and the receiver of notices belongs to one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bstr::BString;

use crate::{Events, Notice};

enum Line {
    /// A line of the server.
    Remote(BString),
    Info(BString),
    Warning(BString),
    Error(BString),
}

#[derive(Default)]
struct Kept {
    lines: Vec<Line>,
    /// The text of the server that has no end of line yet.
    rest: Vec<u8>,
}

/// Lines that wait.
#[derive(Default)]
pub(crate) struct Said(Mutex<Kept>);

impl Said {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a piece of the text that the server sends for the user.
    pub(crate) fn remote(&self, bytes: &[u8]) {
        let mut kept = self.kept();
        kept.rest.extend_from_slice(bytes);
        while let Some(end) = kept.rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let line: Vec<u8> = kept.rest.drain(..=end).take(end).collect();
            kept.lines.push(Line::Remote(line.into()));
        }
    }

    /// Keeps a line of information.
    pub(crate) fn info(&self, text: impl Into<BString>) {
        self.kept().lines.push(Line::Info(text.into()));
    }

    /// Keeps a warning.
    pub(crate) fn warning(&self, text: impl Into<BString>) {
        self.kept().lines.push(Line::Warning(text.into()));
    }

    /// Keeps an error that stops nothing.
    pub(crate) fn error(&self, text: impl Into<BString>) {
        self.kept().lines.push(Line::Error(text.into()));
    }

    /// Reports all lines.
    pub(crate) fn report(self, events: &dyn Events) {
        let Kept { lines, rest } = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let rest = (!rest.is_empty()).then(|| Line::Remote(rest.into()));
        for line in lines.into_iter().chain(rest) {
            events.notice(match line {
                Line::Remote(text) => Notice::Remote(text),
                Line::Info(text) => Notice::Transfer(text),
                Line::Warning(text) => Notice::Fetch(text),
                Line::Error(text) => Notice::FetchError(text),
            });
        }
    }
}
