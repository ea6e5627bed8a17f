//! The file mode creation mask.

use std::io;

use rustix::fs::Mode;

/// Returns the process's umask: the permission bits that new files do not get.
///
/// Reads it from `/proc/self/status`. Without `/proc`, the function sets the umask to 0077 and sets
/// it back. A file that another thread creates in between gets the wrong mode, so call this before
/// any thread starts.
pub fn umask() -> u32 {
    from_proc().unwrap_or_else(|_| {
        let mask = rustix::process::umask(Mode::from_raw_mode(0o077));
        rustix::process::umask(mask);
        mask.as_raw_mode()
    })
}

fn from_proc() -> io::Result<u32> {
    let status = crate::by_path::read("/proc/self/status".as_ref())?.unwrap_or_default();
    let status = String::from_utf8(status).map_err(|_| io::ErrorKind::InvalidData)?;
    let digits = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    digits
        .and_then(|digits| u32::from_str_radix(digits.trim(), 8).ok())
        .ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(test)]
mod tests {
    #[test]
    fn matches_the_mode_of_a_new_file() {
        let dir = tempfile::tempdir().expect("a directory for tests");
        let file = crate::by_path::create_new(&dir.path().join("file"), 0o666).expect("creates");
        let mode = crate::stat_of(&file).expect("stats").mode & 0o777;
        assert_eq!(mode, 0o666 & !super::umask());
    }
}
