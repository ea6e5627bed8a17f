//! Everything sapwood prints goes through here, byte for byte: names need not be UTF-8.
//!
//! Results go to standard output, the rest to standard error, each where Git puts it. A write that
//! fails is not an error of the operation: the work is done by then.

use std::{
    io::{IsTerminal as _, Write as _},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bstr::{BString, ByteSlice};

use crate::term::failure::{self, Failure};

/// Joins texts and names into one [`BString`].
macro_rules! text {
    ($($part:expr),* $(,)?) => {{
        let mut joined = Vec::new();
        $(joined.extend_from_slice(AsRef::<[u8]>::as_ref(&$part));)*
        bstr::BString::from(joined)
    }};
}
pub(crate) use text;

/// A line on standard output.
pub(crate) fn out(line: impl AsRef<[u8]>) {
    out_raw(&[line.as_ref(), b"\n"].concat());
}

/// Bytes on standard output.
pub(crate) fn out_raw(bytes: &[u8]) {
    match &mut *held() {
        Some(held) => held.extend_from_slice(bytes),
        None => drop(std::io::stdout().lock().write_all(bytes)),
    }
}

/// The output that waits for [`flush`]: standard output belongs to the process, and so does its
/// buffer.
static HELD: Mutex<Option<Vec<u8>>> = Mutex::new(None);

fn held() -> MutexGuard<'static, Option<Vec<u8>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds results back until [`flush`], as Git does unless they go to a terminal. If both streams
/// end in one file, messages come first.
pub(crate) fn hold_results() {
    if !std::io::stdout().is_terminal() {
        *held() = Some(Vec::new());
    }
}

/// Writes what was held back: at the end, and before another program may write.
pub(crate) fn flush() {
    if let Some(held) = &mut *held() {
        let _ = std::io::stdout().lock().write_all(held);
        held.clear();
    }
    let _ = std::io::stdout().lock().flush();
}

/// The results of a command that only lists, written in large pieces. A failed write is an error
/// here. If the reader is gone, the command ends, as Git's.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    bytes: Vec<u8>,
}

impl Listing {
    /// Written from so many bytes on.
    const FULL: usize = 64 << 10;

    /// Where the next record goes. To be followed by [`Listing::relieve`].
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Writes if there is much.
    pub(crate) fn relieve(&mut self) -> Result<(), Failure> {
        if self.bytes.len() < Listing::FULL { Ok(()) } else { self.write("standard output") }
    }

    /// Writes everything, unless a part may come from an index that could not be read. `what` names
    /// the output in an error.
    pub(crate) fn write(&mut self, what: &str) -> Result<(), Failure> {
        failure::must_have_been_readable()?;
        if self.bytes.is_empty() {
            return Ok(());
        }
        flush();
        let mut stdout = std::io::stdout().lock();
        let written = stdout.write_all(&self.bytes).and_then(|()| stdout.flush());
        self.bytes.clear();
        written.map_err(|error| match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::Signal(signal_hook::consts::SIGPIPE),
            _ => Failure::fatal(format!("write failure on {what}: {}", crate::term::text::os_error(&error))),
        })
    }
}

/// A line on standard error.
pub(crate) fn note(line: impl AsRef<[u8]>) {
    raw(&[line.as_ref(), b"\n"].concat());
}

/// Bytes on standard error, in one write.
pub(crate) fn raw(bytes: &[u8]) {
    let _ = std::io::stderr().lock().write_all(bytes);
}

/// A piece of a line on standard error.
pub(crate) fn piece(text: &str) {
    raw(text.as_bytes());
}

/// `fatal: ...`, `error: ...` or `warning: ...`. Control characters are replaced, as a name could
/// otherwise drive the terminal.
pub(crate) fn report(kind: &str, message: impl AsRef<[u8]>) {
    let mut line = BString::from(format!("{kind}: "));
    line.extend(message.as_ref().iter().map(|&byte| match byte {
        b'\t' | b'\n' => byte,
        0..0x20 | 0x7f => b'?',
        _ => byte,
    }));
    note(line);
}

/// `error: ...`
pub(crate) fn error(message: impl AsRef<[u8]>) {
    report("error", message);
}

/// `warning: ...`
pub(crate) fn warning(message: impl AsRef<[u8]>) {
    report("warning", message);
}

/// The errors about alternates have been said: Git says them once a process.
static COMPLAINED: AtomicBool = AtomicBool::new(false);

/// Prints the warnings and errors that Git prints when it first looks for an object. They stop
/// nothing.
pub(crate) fn complaints(repo: &repo::Repository) {
    COMPLAINED.store(true, Ordering::Relaxed);
    repo.objects().errors().iter().for_each(error);
    if let Some((file, source)) = repo.objects().unreadable_alternates() {
        let below = file.strip_prefix(repo.common_dir()).ok().and_then(std::path::Path::to_str);
        let called = below.map_or_else(|| file.to_owned(), |below| repo.display_common_file(below));
        warning(format!("unable to access '{}': {}", called.display(), sys::reason(source)));
    }
    repo.warnings().iter().for_each(warning);
}

/// Says the errors about alternates at the end of a command, unless [`complaints`] has said them or
/// no object was looked for.
pub(crate) fn late_complaints(objects: &repo::objects::Objects) {
    if !COMPLAINED.swap(true, Ordering::Relaxed) {
        objects.errors_so_far().iter().for_each(error);
    }
}

/// How the terminal shows hints is as much the process's as the terminal is.
static HINTS_ARE_COLOURED: AtomicBool = AtomicBool::new(false);

/// Shows hints from here on as Git does on a terminal.
pub(crate) fn colour_hints() {
    HINTS_ARE_COLOURED.store(true, Ordering::Relaxed);
}

/// Advice, each line led by `hint:`.
pub(crate) fn hint(message: impl AsRef<[u8]>) {
    let (yellow, reset) = match HINTS_ARE_COLOURED.load(Ordering::Relaxed) {
        true => ("\x1b[33m", "\x1b[m"),
        false => ("", ""),
    };
    for line in message.as_ref().lines() {
        let gap = if line.is_empty() { "" } else { " " };
        note(text!(yellow, "hint:", gap, line, reset));
    }
}
