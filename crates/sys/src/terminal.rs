//! The terminal of standard output and standard error, and prompts at the controlling terminal.

use std::{
    io,
    os::fd::OwnedFd,
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Mode, OFlags},
    io::Errno,
    termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr},
};

/// Returns true unless standard error is a terminal with another foreground process group.
pub fn is_foreground() -> bool {
    // SAFETY: both calls take no pointer. A descriptor that is not a terminal gives an error.
    let (foreground, own) = unsafe { (libc::tcgetpgrp(libc::STDERR_FILENO), libc::getpgrp()) };
    foreground < 0 || foreground == own
}

/// Returns the width of the terminal in columns, or `None` if standard output is not a terminal or
/// the terminal does not report its width.
pub fn columns() -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the request only writes the structure behind the pointer, and the structure outlives
    // the call.
    let answer = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    (answer == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// The display of typed characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// Shown, as for a name.
    Shown,
    /// Hidden, as for a password.
    Hidden,
}

static ASKED: AtomicBool = AtomicBool::new(false);

/// Returns true if this process has asked the user a question.
pub fn was_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Notes that the user is asked a question. Call it before a program is started that asks.
pub fn note_question() {
    ASKED.store(true, Ordering::Relaxed);
}

/// Prompts at the controlling terminal and returns the line that the user types. The terminal's
/// settings are restored in any case. `is_interrupted` is called several times a second.
pub fn ask(question: &[u8], echo: Echo, is_interrupted: &dyn Fn() -> bool) -> io::Result<Vec<u8>> {
    crate::interrupt::install();
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY;
    let terminal = rustix::fs::open("/dev/tty", flags, Mode::empty())?;
    let before = tcgetattr(&terminal)?;
    let _restored = Restored { terminal: &terminal, before: before.clone() };
    if echo == Echo::Hidden {
        let mut hidden = before;
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&terminal, OptionalActions::Flush, &hidden)?;
    }
    note_question();
    write_all(&terminal, question)?;
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        let mut polled = [PollFd::new(&terminal, PollFlags::IN)];
        let step = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        let ready = match poll(&mut polled, Some(&step)) {
            Err(Errno::INTR) => 0,
            other => other?,
        };
        if is_interrupted() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if ready == 0 {
            continue;
        }
        let mut bytes = [0; 512];
        let read = rustix::io::retry_on_intr(|| rustix::io::read(&terminal, &mut bytes))?;
        line.extend_from_slice(&bytes[..read]);
        if read == 0 {
            break;
        }
    }
    if echo == Echo::Hidden {
        write_all(&terminal, b"\n")?;
    }
    match line.pop() {
        Some(b'\n') => Ok(line),
        Some(last) => {
            line.push(last);
            Ok(line)
        }
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn write_all(terminal: &OwnedFd, mut text: &[u8]) -> io::Result<()> {
    while !text.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(terminal, text))?;
        text = &text[written..];
    }
    Ok(())
}

/// Restores the settings of a terminal when dropped.
struct Restored<'a> {
    terminal: &'a OwnedFd,
    before: Termios,
}

impl Drop for Restored<'_> {
    fn drop(&mut self) {
        // A failure cannot be reported from here.
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}
