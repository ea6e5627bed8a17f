//! The C library's text for an error, as at the end of Git's messages.

use std::io;

/// Returns the text of `strerror`, without the ` (os error n)` that Rust appends.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(end) if error.raw_os_error().is_some() => text[..end].to_owned(),
        _ => text,
    }
}

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
    fn returns_the_text_of_strerror() {
        assert_eq!(reason(&io::Error::from_raw_os_error(libc::ENOENT)), "No such file or directory");
        assert_eq!(reason(&io::Error::other("own words (os error 5)")), "own words (os error 5)");
    }
}
