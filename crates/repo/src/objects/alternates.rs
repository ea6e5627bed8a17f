//! Alternates: further object directories, named in `info/alternates` of each, or in the environment.
//!
//! Source: gitrepository-layout(5), git(1), and Git's behaviour: one path a line, `#` starts a comment
//! line, a path may be quoted as in C, relative paths start at the object directory that names them;
//! the list is followed five levels deep; what is missing is passed over with a complaint.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// How deep alternates of alternates are followed.
const MAX_DEPTH: usize = 5;

/// The object directory itself and all its alternates, and Git's complaints about them.
pub(super) fn resolve(objects_dir: &Path, environment: &[u8]) -> io::Result<(Vec<PathBuf>, Vec<String>)> {
    let mut found = Found { dirs: vec![objects_dir.to_owned()], canonical: Vec::new(), warnings: Vec::new() };
    // A repository without its object directory is for others to complain about.
    found.canonical.extend(sys::by_path::canonical(objects_dir).ok());
    let mut queue = parse(environment, b':', None);
    queue.extend(named_by(objects_dir)?);
    let mut queue: Vec<(PathBuf, usize)> = queue.into_iter().rev().map(|path| (path, 0)).collect();
    while let Some((path, depth)) = queue.pop() {
        let Some(dir) = found.add(&path) else { continue };
        let next = named_by(&dir)?;
        if !next.is_empty() && depth + 1 > MAX_DEPTH {
            let dir = dir.display();
            found.warnings.push(format!("{dir}: ignoring alternate object stores, nesting too deep"));
        } else {
            queue.extend(next.into_iter().rev().map(|path| (path, depth + 1)));
        }
    }
    Ok((found.dirs, found.warnings))
}

struct Found {
    dirs: Vec<PathBuf>,
    canonical: Vec<PathBuf>,
    warnings: Vec<String>,
}

impl Found {
    /// Takes up a directory that exists and is new.
    fn add(&mut self, path: &Path) -> Option<PathBuf> {
        let dir = sys::by_path::canonical(path).ok().filter(|dir| {
            matches!(sys::by_path::stat(dir), Ok(Some(stat)) if stat.file_type == sys::FileType::Directory)
        });
        let Some(dir) = dir else {
            let path = path.display();
            self.warnings
                .push(format!("object directory {path} does not exist; check .git/objects/info/alternates"));
            return None;
        };
        if self.canonical.contains(&dir) {
            return None;
        }
        self.canonical.push(dir.clone());
        self.dirs.push(dir.clone());
        Some(dir)
    }
}

fn named_by(objects_dir: &Path) -> io::Result<Vec<PathBuf>> {
    let content = sys::by_path::read(&objects_dir.join("info/alternates"))?;
    Ok(content.map(|content| parse(&content, b'\n', Some(objects_dir))).unwrap_or_default())
}

/// The paths in a list, relative ones completed if a base is given.
fn parse(mut list: &[u8], separator: u8, base: Option<&Path>) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    while let Some(&first) = list.first() {
        let line_end = list.iter().position(|&byte| byte == separator).unwrap_or(list.len());
        let (path, end) = match first {
            b'#' => (Vec::new(), line_end),
            // Broken quoting is taken for a path that starts with a quote.
            b'"' => unquote(list).unwrap_or_else(|| (list[..line_end].to_vec(), line_end)),
            _ => (list[..line_end].to_vec(), line_end),
        };
        list = &list[(end + 1).min(list.len())..];
        if !path.is_empty() {
            let path = Path::new(std::ffi::OsStr::from_bytes(&path));
            paths.push(base.map_or_else(|| path.to_owned(), |base| base.join(path)));
        }
    }
    paths
}

/// A C-style quoted string and the position after its closing quote.
fn unquote(quoted: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut out = Vec::new();
    let mut at = 1;
    loop {
        let byte = *quoted.get(at)?;
        at += 1;
        match byte {
            b'"' => return Some((out, at)),
            b'\\' => {
                let escape = *quoted.get(at)?;
                at += 1;
                out.push(match escape {
                    b'a' => 7,
                    b'b' => 8,
                    b'f' => 12,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'v' => 11,
                    b'\\' | b'"' => escape,
                    b'0'..=b'3' => {
                        let digits = quoted.get(at..at + 2)?;
                        at += 2;
                        digits.iter().try_fold(escape - b'0', |value, digit| {
                            matches!(digit, b'0'..=b'7').then(|| value << 3 | (digit - b'0'))
                        })?
                    }
                    _ => return None,
                });
            }
            byte => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(list: &[u8], separator: u8) -> Vec<PathBuf> {
        parse(list, separator, Some(Path::new("/base")))
    }

    #[test]
    fn lists_as_git_reads_them() {
        let list = b"# comment\n/abs\n\n../rel\n\"/quo\\ted \\303\\266\\n\"\n\"/broken\n/last";
        let paths = parsed(list, b'\n');
        let expected: Vec<&[u8]> =
            vec![b"/abs", b"/base/../rel", b"/quo\ted \xc3\xb6\n", b"/base/\"/broken", b"/last"];
        let paths: Vec<&[u8]> = paths.iter().map(|path| path.as_os_str().as_bytes()).collect();
        assert_eq!(paths, expected);
        assert_eq!(parsed(b"/a:\"/b:c\":/d", b':'), ["/a", "/b:c", "/d"].map(PathBuf::from));
        assert!(parsed(b"", b'\n').is_empty());
    }
}
