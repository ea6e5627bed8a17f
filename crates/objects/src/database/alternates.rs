//! Alternates: further object directories, named in `info/alternates` of each directory, or in the
//! environment.
//!
//! Source: gitrepository-layout(5), git(1), and Git's behaviour. Each line is a path; `#` starts a
//! comment line; a path may be quoted as in C. Relative paths start at the object directory that
//! lists them. The list is followed five levels deep. A missing directory is skipped with a
//! message. A list that cannot be read is skipped too. It may name objects that then seem to be
//! missing, so a failed lookup reports it.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bstr::BString;
use sys::UserPath;

use super::loose::LooseDir;

/// The limit for alternates of alternates.
const MAX_DEPTH: usize = 5;

/// The object directory and all its alternates.
#[derive(Debug)]
pub(super) struct Directories {
    /// The local directory first, then the alternates in Git's order.
    pub(super) loose: Vec<LooseDir>,
    /// Git's messages about alternates.
    pub(super) errors: Vec<BString>,
    /// A list that could not be read.
    pub(super) unread: Option<(PathBuf, Arc<io::Error>)>,
}

/// Finds the alternates.
pub(super) fn resolve(objects_dir: &Path, environment: &[u8], environments_base: &Path) -> Directories {
    let mut found = Found { dirs: vec![objects_dir.to_owned()], ..Found::default() };
    // Another function reports a missing object directory.
    found.canonical.extend(sys::by_path::canonical(objects_dir).ok());
    let mut queue = found.real(parse(environment, b':'), environments_base);
    queue.extend(found.named_by(objects_dir));
    let mut queue: Vec<(PathBuf, usize)> = queue.into_iter().rev().map(|path| (path, 0)).collect();
    while let Some((dir, depth)) = queue.pop() {
        if !found.add(&dir) {
            continue;
        }
        let next = found.named_by(&dir);
        if !next.is_empty() && depth + 1 > MAX_DEPTH {
            found.complain("", &dir, ": ignoring alternate object stores, nesting too deep");
        } else {
            queue.extend(next.into_iter().rev().map(|path| (path, depth + 1)));
        }
    }
    let Found { dirs, errors, unread, .. } = found;
    Directories { loose: dirs.into_iter().map(LooseDir::new).collect(), errors, unread }
}

#[derive(Default)]
struct Found {
    dirs: Vec<PathBuf>,
    canonical: Vec<PathBuf>,
    errors: Vec<BString>,
    unread: Option<(PathBuf, Arc<io::Error>)>,
}

impl Found {
    /// Adds a directory if it exists and is new.
    fn add(&mut self, dir: &Path) -> bool {
        if !matches!(sys::by_path::stat(dir), Ok(Some(stat)) if stat.file_type == sys::FileType::Directory) {
            self.complain("object directory ", dir, " does not exist; check .git/objects/info/alternates");
            return false;
        }
        let is_new = !self.canonical.iter().any(|known| known == dir);
        if is_new {
            self.canonical.push(dir.to_owned());
            self.dirs.push(dir.to_owned());
        }
        is_new
    }

    fn named_by(&mut self, objects_dir: &Path) -> Vec<PathBuf> {
        let path = objects_dir.join("info/alternates");
        let content = sys::by_path::read(&path).unwrap_or_else(|error| {
            self.unread.get_or_insert((path, Arc::new(error)));
            None
        });
        self.real(parse(&content.unwrap_or_default(), b'\n'), objects_dir)
    }

    /// Resolves symbolic links. Only the last component of a path may be missing.
    fn real(&mut self, paths: Vec<UserPath>, base: &Path) -> Vec<PathBuf> {
        let mut found = Vec::with_capacity(paths.len());
        for path in paths {
            let before = "unable to normalize alternate object path: ";
            match path.resolve(base) {
                Err(_) => self.complain(before, Path::new(path.as_os_str()), ""),
                Ok(path) => match sys::by_path::realpath(&path) {
                    Ok(real) => found.push(real),
                    Err(_) => self.complain(before, &path, ""),
                },
            }
        }
        found
    }

    fn complain(&mut self, before: &str, path: &Path, after: &str) {
        self.errors.push([before.as_bytes(), path.as_os_str().as_bytes(), after.as_bytes()].concat().into());
    }
}

/// Splits a list into paths.
pub(super) fn parse(mut list: &[u8], separator: u8) -> Vec<UserPath> {
    let mut paths = Vec::new();
    while let Some(&first) = list.first() {
        let line_end = list.iter().position(|&byte| byte == separator).unwrap_or(list.len());
        let (line, after) = list.split_at(line_end);
        let (path, rest) = match first {
            b'#' => (BString::default(), after),
            // A path with broken quoting is taken literally, with its quote.
            _ => format::unquote(list).unwrap_or_else(|| (line.into(), after)),
        };
        list = rest.get(1..).unwrap_or_default();
        paths.extend(UserPath::unless_empty(path));
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(list: &[u8], separator: u8) -> Vec<BString> {
        parse(list, separator).iter().map(|path| path.as_bytes().into()).collect()
    }

    #[test]
    fn parses_lists_as_git_does() {
        let list = b"# comment\n/abs\n\n../rel\n\"/quo\\ted \\303\\266\\n\"\n\"/broken\n/last";
        let paths = parsed(list, b'\n');
        let expected: Vec<&[u8]> = vec![b"/abs", b"../rel", b"/quo\ted \xc3\xb6\n", b"\"/broken", b"/last"];
        assert_eq!(paths, expected);
        assert_eq!(parsed(b"/a:\"/b:c\":/d", b':'), ["/a", "/b:c", "/d"]);
        assert!(parsed(b"", b'\n').is_empty());
    }
}
