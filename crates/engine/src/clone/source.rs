//! Location of the source of a clone, and how it is reached.
//!
//! Nothing is opened for writing. Rules and order are those of `git clone`: a path that holds a
//! repository, a file that names one (`gitdir: `), a bundle, and only then a URL.

use std::path::{Path, PathBuf};

use bstr::{BStr, BString, ByteSlice};
use sys::{FileType, Refused, UserPath, by_path};

/// The way to reach the objects.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    /// A repository on this machine, named by path.
    Repository { git_dir: PathBuf },
    /// A repository reached through `git-upload-pack`: `file://`.
    File { path: PathBuf },
    /// A bundle file.
    Bundle { path: PathBuf },
}

/// A located source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The way to reach the objects.
    pub kind: Kind,
    /// The value of `remote.<name>.url`, also named in the reflogs: an absolute path, or the URL.
    pub url: BString,
}

/// The reason why the source was not found. Messages are Git's, where Git has them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("repository '{0}' does not exist")]
    Missing(BString),
    #[error(transparent)]
    Refused(Refused),
    #[error("cloning over {transport} is not supported by sapwood yet (see SHORTCOMINGS.md): '{url}'")]
    Transport { transport: BString, url: BString },
    #[error("error reading '{}': {reason}", .path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("invalid gitfile format: {}", .0.display())]
    GitFile(PathBuf),
}

/// Locates `name`, relative to `cwd`, which is absolute.
pub(super) fn locate(name: &BStr, cwd: &Path) -> Result<Source, Error> {
    if UserPath::new(name).resolve(cwd) == Err(Refused::Empty) {
        return Err(Error::Refused(Refused::Empty));
    }
    if let Some(kind) = local(name, cwd)? {
        return Ok(Source { kind, url: absolute(name, cwd) });
    }
    let Some(colon) = name.find_byte(b':') else {
        return Err(Error::Missing(name.into()));
    };
    let Some(rest) = name[colon..].strip_prefix(b"://") else {
        return Err(Error::Transport { transport: "ssh".into(), url: name.into() });
    };
    if !name[..colon].eq_ignore_ascii_case(b"file") {
        return Err(Error::Transport { transport: name[..colon].into(), url: without_password(name) });
    }
    let path = &rest[rest.find_byte(b'/').ok_or_else(|| Error::Missing(name.into()))?..];
    let path = UserPath::new(percent_decoded(path)).resolve(Path::new("/")).map_err(Error::Refused)?;
    Ok(Source { kind: Kind::File { path }, url: name.into() })
}

/// Makes a path absolute as Git does, without normalising it.
pub(super) fn absolute(name: &BStr, cwd: &Path) -> BString {
    if name.starts_with(b"/") {
        return name.into();
    }
    let cwd = std::os::unix::ffi::OsStrExt::as_bytes(cwd.as_os_str());
    let slash: &[u8] = if cwd.ends_with(b"/") { b"" } else { b"/" };
    [cwd, slash, name].concat().into()
}

fn local(name: &BStr, cwd: &Path) -> Result<Option<Kind>, Error> {
    let with = |suffix: &str| UserPath::new([name.as_bytes(), suffix.as_bytes()].concat()).resolve(cwd).ok();
    for path in ["/.git", "", ".git/.git", ".git"].into_iter().filter_map(with) {
        match by_path::stat_followed(&path) {
            Ok(Some(stat)) if stat.file_type == FileType::Directory && is_git_directory(&path) => {
                return Ok(Some(Kind::Repository { git_dir: path }));
            }
            Ok(Some(stat)) if stat.file_type == FileType::File && stat.size > 8 => {
                if let Some(git_dir) = read_git_file(&path)? {
                    return Ok(Some(Kind::Repository { git_dir }));
                }
            }
            _ => {}
        }
    }
    let file = |path: &PathBuf| matches!(by_path::stat_followed(path), Ok(Some(stat)) if stat.file_type == FileType::File);
    Ok([".bundle", ""].into_iter().filter_map(with).find(file).map(|path| Kind::Bundle { path }))
}

/// Returns the repository that a `.git` file names, or `None` if the file names none.
pub(super) fn read_git_file(path: &Path) -> Result<Option<PathBuf>, Error> {
    let invalid = || Error::GitFile(path.to_owned());
    let Ok(mut file) = by_path::open(path) else { return Ok(None) };
    let mut head = Vec::new();
    // A path has at most 4,096 bytes. The limit avoids reading a bundle of gigabytes to see that it
    // is no such file.
    std::io::Read::read_to_end(&mut std::io::Read::take(&mut file, 8192), &mut head)
        .map_err(|error| Error::Unreadable { path: path.to_owned(), reason: sys::reason(&error) })?;
    let Some(target) = head.strip_prefix(b"gitdir: ") else { return Ok(None) };
    let target = target.trim_end_with(|c| c == '\n' || c == '\r');
    let parent = path.parent().unwrap_or(Path::new("/"));
    let git_dir = UserPath::new(target).resolve(parent).map_err(|_| invalid())?;
    match is_git_directory(&git_dir) {
        true => Ok(Some(git_dir)),
        false => Err(invalid()),
    }
}

/// Returns true if a directory looks like a repository: it has a valid HEAD, objects and refs.
pub(super) fn is_git_directory(path: &Path) -> bool {
    let common = match by_path::read(&path.join("commondir")) {
        Ok(Some(content)) => UserPath::new(content.trim_ascii_end()).resolve_or_base(path),
        _ => Ok(path.to_owned()),
    };
    let Ok(common) = common else { return false };
    let directory = |path: PathBuf| matches!(by_path::stat_followed(&path), Ok(Some(stat)) if stat.file_type == FileType::Directory);
    is_head(&path.join("HEAD")) && directory(common.join("objects")) && directory(common.join("refs"))
}

fn is_head(path: &Path) -> bool {
    if let Ok(Some(target)) = by_path::read_link(path) {
        return target.starts_with("refs/");
    }
    let Ok(Some(content)) = by_path::read(path) else { return false };
    match content.strip_prefix(b"ref:") {
        Some(target) => target.trim_ascii_start().starts_with(b"refs/"),
        None => content.iter().take_while(|byte| byte.is_ascii_hexdigit()).count() >= 40,
    }
}

fn percent_decoded(path: &[u8]) -> BString {
    let mut out = BString::default();
    let mut rest = path;
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if first == b'%' && byte != 0 => {
                out.push(byte);
                rest = &after[2..];
            }
            _ => {
                out.push(first);
                rest = after;
            }
        }
    }
    out
}

/// Removes the password from a URL, so that it can be printed.
fn without_password(url: &BStr) -> BString {
    let Some(start) = url.find("://").map(|at| at + 3) else { return url.into() };
    let host_end = url[start..].find_byte(b'/').map_or(url.len(), |at| start + at);
    let credentials_end = url[start..host_end].rfind_byte(b'@').map(|at| start + at);
    let colon = credentials_end.and_then(|end| url[start..end].find_byte(b':').map(|at| start + at));
    match (colon, credentials_end) {
        (Some(colon), Some(end)) => [url[..colon].as_bytes(), url[end..].as_bytes()].concat().into(),
        _ => url.into(),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::fs;

    use super::*;

    fn repository(path: &Path) {
        fs::create_dir_all(path.join("objects")).expect("made");
        fs::create_dir_all(path.join("refs")).expect("made");
        fs::write(path.join("HEAD"), "ref: refs/heads/main\n").expect("written");
    }

    #[test]
    fn locates_repositories_git_files_and_bundles() {
        let root = tempfile::tempdir().expect("a directory for tests");
        let root = root.path();
        repository(&root.join("plain/.git"));
        repository(&root.join("bare.git"));
        fs::create_dir(root.join("linked")).expect("made");
        fs::write(root.join("linked/.git"), "gitdir: ../bare.git\n").expect("written");
        fs::write(root.join("history.bundle"), "# v2 git bundle\n").expect("written");
        fs::write(root.join("broken"), "gitdir: nowhere\n").expect("written");
        let kind = |name: &str| locate(name.into(), root).map(|source| source.kind);

        for name in ["plain", "plain/", "plain/.git", "./plain"] {
            let found = kind(name).expect("found");
            assert!(
                matches!(found, Kind::Repository { git_dir } if git_dir.ends_with("plain/.git")),
                "{name}"
            );
        }
        assert_eq!(kind("bare"), Ok(Kind::Repository { git_dir: root.join("bare.git") }));
        assert_eq!(kind("linked"), Ok(Kind::Repository { git_dir: root.join("linked/../bare.git") }));
        for name in ["history", "history.bundle"] {
            assert_eq!(kind(name), Ok(Kind::Bundle { path: root.join("history.bundle") }));
        }
        assert_eq!(kind("broken"), Err(Error::GitFile(root.join("broken"))));
        assert_eq!(kind("nothing"), Err(Error::Missing("nothing".into())));
        fs::write(root.join("plain/.git/HEAD"), "garbage\n").expect("written");
        assert_eq!(kind("plain"), Err(Error::Missing("plain".into())));
    }

    #[test]
    fn locates_file_urls_and_refuses_others() {
        let cwd = Path::new("/");
        let file = locate("file:///srv/a%20b%2".into(), cwd).expect("a URL");
        assert_eq!(file.kind, Kind::File { path: "/srv/a b%2".into() });
        assert_eq!(file.url, "file:///srv/a%20b%2");
        for (url, transport) in [
            ("https://user:secret@host/x", "https"),
            ("git://host/x", "git"),
            ("host:x", "ssh"),
            ("git@host:x.git", "ssh"),
        ] {
            let refused = locate(url.into(), cwd).expect_err("not supported");
            assert!(matches!(&refused, Error::Transport { transport: t, .. } if t == transport), "{refused}");
            assert!(!refused.to_string().contains("secret"));
        }
    }
}
