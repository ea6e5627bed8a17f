//! The C library's text for an error, as at the end of Git's messages.

use std::io;

/// Returns the text of `strerror`, without the ` (os error n)` that Rust appends. A program with
/// musl returns glibc's text, which Git's messages have.
pub fn reason(error: &io::Error) -> String {
    if cfg!(target_env = "musl")
        && let Some((_, text)) =
            OTHER_IN_MUSL.iter().find(|(number, _)| error.raw_os_error() == Some(*number))
    {
        return (*text).to_owned();
    }
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(end) if error.raw_os_error().is_some() => text[..end].to_owned(),
        _ => text,
    }
}

/// glibc's texts that musl words differently, for errors of files and connections.
const OTHER_IN_MUSL: &[(i32, &str)] = &[
    (libc::EBUSY, "Device or resource busy"),
    (libc::EDQUOT, "Disk quota exceeded"),
    (libc::EHOSTUNREACH, "No route to host"),
    (libc::EIO, "Input/output error"),
    (libc::ELOOP, "Too many levels of symbolic links"),
    (libc::EMFILE, "Too many open files"),
    (libc::ENAMETOOLONG, "File name too long"),
    (libc::ENFILE, "Too many open files in system"),
    (libc::ENOMEM, "Cannot allocate memory"),
    (libc::ENOTSUP, "Operation not supported"),
    (libc::ETIMEDOUT, "Connection timed out"),
    (libc::EXDEV, "Invalid cross-device link"),
];

/// Returns true for `ENOENT` and `ENOTDIR`, which are not errors for an optional file.
pub fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns the error for a file that does not exist.
pub fn not_found() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_env = "gnu")]
    fn the_texts_for_musl_are_those_of_glibc() {
        for (number, text) in OTHER_IN_MUSL {
            assert_eq!(reason(&io::Error::from_raw_os_error(*number)), *text);
        }
    }

    #[test]
    fn returns_the_text_of_strerror() {
        assert_eq!(reason(&io::Error::from_raw_os_error(libc::ENOENT)), "No such file or directory");
        assert_eq!(reason(&io::Error::other("own words (os error 5)")), "own words (os error 5)");
    }
}
