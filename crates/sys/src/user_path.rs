//! Paths from the user.

use std::{
    ffi::{OsStr, OsString},
    fmt, io,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

/// The kernel refuses a path of this many bytes, because `PATH_MAX` includes the NUL at the end.
const PATH_MAX: usize = libc::PATH_MAX as usize;

/// A path from the user: an argument, an environment variable, a setting, or a line of a file in a
/// Git directory.
///
/// It is not a [`Path`], so that no code can `join` it: `dir.join("")` is `dir` itself, but the
/// kernel and Git refuse the empty string.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UserPath(OsString);

/// Converts bytes to the system's string type. For names from a repository or a directory listing,
/// and for arguments of programs. A path from the user is a [`UserPath`].
pub fn os_str(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

/// The reason why a path is invalid, independent of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The empty string.
    Empty,
    /// A path of `PATH_MAX` or more bytes.
    TooLong,
}

impl UserPath {
    /// Wraps a path as the user wrote it. [`UserPath::resolve`] refuses the empty string.
    pub fn new(text: impl AsRef<[u8]>) -> UserPath {
        UserPath(OsString::from_vec(text.as_ref().to_vec()))
    }

    /// Like [`UserPath::new`], but returns `None` for the empty string, which here means that no
    /// path is given.
    pub fn unless_empty(text: impl AsRef<[u8]>) -> Option<UserPath> {
        Some(UserPath::new(text)).filter(|path| !path.0.is_empty())
    }

    /// Returns the path relative to `base`, or the path itself if it is absolute.
    pub fn resolve(&self, base: &Path) -> Result<PathBuf, Refused> {
        match self.0.len() {
            0 => Err(Refused::Empty),
            PATH_MAX.. => Err(Refused::TooLong),
            _ => Ok(base.join(&self.0)),
        }
    }

    /// Like [`UserPath::resolve`], but the empty string means `base`. For places where Git appends
    /// the text to a directory.
    pub fn resolve_or_base(&self, base: &Path) -> Result<PathBuf, Refused> {
        match self.resolve(base) {
            Err(Refused::Empty) => Ok(base.to_owned()),
            resolved => resolved,
        }
    }

    /// Appends `/` and `below` to the text. With the empty string as directory, the result is below
    /// the root, as in Git.
    pub fn with(&self, below: &str) -> UserPath {
        UserPath::new([self.as_bytes(), b"/", below.as_bytes()].concat())
    }

    /// Returns the bytes as the user wrote them.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Returns the text as the user wrote it, for an argument of a program.
    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }

    /// Returns true if the path begins at the root.
    pub fn is_absolute(&self) -> bool {
        self.0.as_bytes().starts_with(b"/")
    }
}

impl From<PathBuf> for UserPath {
    fn from(path: PathBuf) -> UserPath {
        UserPath(path.into())
    }
}

impl fmt::Display for UserPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Empty => "The empty string is not a valid path",
            Refused::TooLong => "File name too long",
        })
    }
}

impl std::error::Error for Refused {}

/// Converts to the error that the kernel returns for such a path.
impl From<Refused> for io::Error {
    fn from(refused: Refused) -> io::Error {
        io::Error::from_raw_os_error(match refused {
            Refused::Empty => libc::ENOENT,
            Refused::TooLong => libc::ENAMETOOLONG,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolves_or_refuses() {
        let base = Path::new("/base");
        let resolved = |text: &[u8]| UserPath::new(text).resolve(base);
        assert_eq!(resolved(b""), Err(Refused::Empty));
        assert_eq!(resolved(b"."), Ok("/base/.".into()));
        assert_eq!(resolved(b"a"), Ok("/base/a".into()));
        assert_eq!(resolved(b"/a"), Ok("/a".into()));
        assert!(resolved(&[b'x'; PATH_MAX - 1]).is_ok());
        assert_eq!(resolved(&[b'x'; PATH_MAX]), Err(Refused::TooLong));
        assert_eq!(UserPath::new("").resolve_or_base(base), Ok("/base".into()));
        assert_eq!(UserPath::unless_empty(""), None);
    }

    #[test]
    fn refuses_as_the_kernel_does() {
        for text in [vec![], vec![b'x'; PATH_MAX]] {
            let path = PathBuf::from(OsString::from_vec(text.clone()));
            let kernel = std::fs::metadata(path).expect_err("there is no such path");
            let refused = UserPath::new(text).resolve(Path::new("/")).expect_err("refused");
            assert_eq!(io::Error::from(refused).raw_os_error(), kernel.raw_os_error());
        }
    }
}
