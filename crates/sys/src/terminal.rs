//! The terminal behind standard output and standard error.

/// Returns true unless standard error is a terminal whose foreground belongs to other processes.
pub fn is_foreground() -> bool {
    // SAFETY: both calls take no pointer. A descriptor that is no terminal gives an error.
    let (foreground, own) = unsafe { (libc::tcgetpgrp(libc::STDERR_FILENO), libc::getpgrp()) };
    foreground < 0 || foreground == own
}

/// Returns the width of the terminal in columns, or `None` if standard output is no terminal or the
/// terminal does not report its width.
pub fn columns() -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the request only writes the structure behind the pointer, and the structure outlives
    // the call.
    let answer = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    (answer == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}
