//! All output of sapwood, byte for byte: names need not be UTF-8.
//!
//! Results go to standard output, everything else to standard error, each to the stream that Git
//! uses. A failed write is not an error of the operation, which is complete by then.

use std::{
    io::{IsTerminal as _, Write as _},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bstr::{BString, ByteSlice};

use crate::term::failure::Failure;

pub(crate) use sapwood::text;
pub(crate) use sys::terminal::columns as terminal_width;

/// Prints a line on standard output.
pub(crate) fn out(line: impl AsRef<[u8]>) {
    out_raw(&[line.as_ref(), b"\n"].concat());
}

/// Prints bytes on standard output, or keeps them until [`flush`] after [`hold_results`].
pub(crate) fn out_raw(bytes: &[u8]) {
    match &mut *held() {
        Some(held) => held.extend_from_slice(bytes),
        None => write_out(bytes),
    }
}

/// True after this process wrote to standard output. It is static because standard output belongs
/// to the process.
static PRINTED: AtomicBool = AtomicBool::new(false);

/// Returns true if this process has shown a result or a question. Results that are held back do not
/// count, nor do messages: a warning that Git repeats is better than an error.
pub(crate) fn was_printed() -> bool {
    PRINTED.load(Ordering::Relaxed) || sys::terminal::was_asked()
}

/// Notes that bytes are about to be written.
fn note(bytes: &[u8]) {
    if !bytes.is_empty() {
        PRINTED.store(true, Ordering::Relaxed);
    }
}

fn write_out(bytes: &[u8]) {
    note(bytes);
    let _ = std::io::stdout().lock().write_all(bytes);
}

/// The output that [`flush`] will write. It is static because standard output belongs to the
/// process.
static HELD: Mutex<Option<Vec<u8>>> = Mutex::new(None);

fn held() -> MutexGuard<'static, Option<Vec<u8>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Buffers results until [`flush`], as Git does unless standard output is a terminal. If both
/// streams end in one file, messages come first.
pub(crate) fn hold_results() {
    if !std::io::stdout().is_terminal() {
        *held() = Some(Vec::new());
    }
}

/// Writes the buffered results: at the end, and before another program may write.
pub(crate) fn flush() {
    if let Some(held) = &mut *held() {
        write_out(held);
        held.clear();
    }
    let _ = std::io::stdout().lock().flush();
}

/// The results of a listing command, written in large blocks. Here a failed write is an error. If
/// the reader has closed the pipe, the command ends by SIGPIPE, like Git's.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    bytes: Vec<u8>,
}

impl Listing {
    /// The size in bytes from which [`Listing::flush_if_full`] writes the buffer.
    const FULL: usize = 64 << 10;

    /// Returns the buffer for the next record. The caller then calls [`Listing::flush_if_full`].
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Writes the buffer if it holds at least [`Listing::FULL`] bytes.
    pub(crate) fn flush_if_full(&mut self) -> Result<(), Failure> {
        if self.bytes.len() < Listing::FULL { Ok(()) } else { self.write("standard output") }
    }

    /// Writes the whole buffer, unless a page of a mapped index could not be read. `what` names the
    /// output in an error message.
    pub(crate) fn write(&mut self, what: &str) -> Result<(), Failure> {
        sapwood::index::must_have_been_readable()?;
        if self.bytes.is_empty() {
            return Ok(());
        }
        flush();
        note(&self.bytes);
        let mut stdout = std::io::stdout().lock();
        let written = stdout.write_all(&self.bytes).and_then(|()| stdout.flush());
        self.bytes.clear();
        written.map_err(|error| match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::Signal(signal_hook::consts::SIGPIPE),
            _ => Failure::fatal(format!("write failure on {what}: {}", crate::term::text::os_error(&error))),
        })
    }
}

/// Prints a line on standard error.
pub(crate) fn eprint_line(line: impl AsRef<[u8]>) {
    eprint_raw(&[line.as_ref(), b"\n"].concat());
}

/// Prints bytes on standard error, in one write.
pub(crate) fn eprint_raw(bytes: &[u8]) {
    let _ = std::io::stderr().lock().write_all(bytes);
}

/// Prints part of a line on standard error.
pub(crate) fn eprint(text: &str) {
    eprint_raw(text.as_bytes());
}

/// Prints `fatal: ...`, `error: ...` or `warning: ...`. Control characters are replaced, because a
/// name could otherwise send escape sequences to the terminal.
pub(crate) fn report(kind: &str, message: impl AsRef<[u8]>) {
    let mut line = BString::from(format!("{kind}: "));
    line.extend(message.as_ref().iter().map(|&byte| match byte {
        b'\t' | b'\n' => byte,
        0..0x20 | 0x7f => b'?',
        _ => byte,
    }));
    eprint_line(line);
}

/// Prints `error: ...`.
pub(crate) fn error(message: impl AsRef<[u8]>) {
    report("error", message);
}

/// Prints `warning: ...`.
pub(crate) fn warning(message: impl AsRef<[u8]>) {
    report("warning", message);
}

/// True after the errors about alternates were printed: Git prints them once per process.
static STORE_ERRORS_PRINTED: AtomicBool = AtomicBool::new(false);

/// Notes that an error about alternates was printed.
pub(crate) fn note_object_store_errors() {
    STORE_ERRORS_PRINTED.store(true, Ordering::Relaxed);
}

/// Prints the errors about alternates at the end of a command, unless
/// [`note_object_store_errors`] was called or the command looked up no object.
pub(crate) fn print_late_object_store_errors(objects: &repo::objects::Objects) {
    if !STORE_ERRORS_PRINTED.swap(true, Ordering::Relaxed) {
        objects.errors_so_far().iter().for_each(error);
    }
}

/// True if hints are coloured. It is static because the terminal belongs to the process.
static HINTS_ARE_COLOURED: AtomicBool = AtomicBool::new(false);

/// Colours later hints as Git does on a terminal.
pub(crate) fn colour_hints() {
    HINTS_ARE_COLOURED.store(true, Ordering::Relaxed);
}

/// Prints advice; each line begins with `hint:`.
pub(crate) fn hint(message: impl AsRef<[u8]>) {
    let (yellow, reset) =
        if HINTS_ARE_COLOURED.load(Ordering::Relaxed) { ("\x1b[33m", "\x1b[m") } else { ("", "") };
    for line in message.as_ref().lines() {
        let gap = if line.is_empty() { "" } else { " " };
        eprint_line(text!(yellow, "hint:", gap, line, reset));
    }
}
