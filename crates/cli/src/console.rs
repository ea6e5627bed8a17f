//! Everything sapwood prints goes through here, byte for byte: names need not be UTF-8.
//!
//! Results go to standard output, the rest to standard error, each where Git puts it. A write that
//! fails is not an error of the operation: the work is done by then.

use std::{
    io::Write as _,
    sync::atomic::{AtomicBool, Ordering},
};

use bstr::{BString, ByteSlice};

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
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(line.as_ref()).and_then(|()| stdout.write_all(b"\n"));
}

/// A line on standard error.
pub(crate) fn note(line: impl AsRef<[u8]>) {
    raw(&[line.as_ref(), b"\n"].concat());
}

/// Bytes on standard error, in one write.
pub(crate) fn raw(bytes: &[u8]) {
    let _ = std::io::stderr().lock().write_all(bytes);
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

/// What Git says when it first looks for an object: it stops nothing.
pub(crate) fn complaints(repo: &repo::Repository) {
    repo.objects().errors().iter().for_each(error);
    repo.warnings().iter().for_each(warning);
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
