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
    /// A repository behind a URL, `file://` included.
    Server,
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

impl Source {
    /// Returns the URL without the user and the password, as messages and reflogs have it.
    pub fn name(&self) -> BString {
        match self.kind {
            Kind::Server => anonymous(self.url.as_bstr()),
            Kind::Repository { .. } | Kind::Bundle { .. } => self.url.clone(),
        }
    }

    /// Locates the source that is meant after `url.<base>.insteadOf` has made `text` of the URL.
    pub(super) fn instead(&self, text: &BStr, cwd: &Path) -> Result<Source, Error> {
        if text == self.url {
            return Ok(self.clone());
        }
        let kind = local(text, cwd)?.unwrap_or(Kind::Server);
        Ok(Source { kind, url: text.to_owned() })
    }
}

/// The reason why the source was not found. Messages are Git's, where Git has them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("repository '{0}' does not exist")]
    Missing(BString),
    #[error(transparent)]
    Refused(Refused),
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
    if name.contains(&b':') {
        Ok(Source { kind: Kind::Server, url: name.into() })
    } else {
        Err(Error::Missing(name.into()))
    }
}

/// Makes a path absolute as Git does, without normalising it.
pub(super) fn absolute(name: &BStr, cwd: &Path) -> BString {
    if name.starts_with(b"/") {
        return name.into();
    }
    let cwd = cwd.as_os_str().as_encoded_bytes();
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
    let file = |path: &PathBuf| is_of(path, FileType::File);
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
    if is_git_directory(&git_dir) { Ok(Some(git_dir)) } else { Err(invalid()) }
}

/// Returns true if a directory looks like a repository: it has a valid HEAD, objects and refs.
pub(super) fn is_git_directory(path: &Path) -> bool {
    let common = match by_path::read(&path.join("commondir")) {
        Ok(Some(content)) => UserPath::new(format::blank::trim_end(&content)).resolve_or_base(path),
        _ => Ok(path.to_owned()),
    };
    let Ok(common) = common else { return false };
    let directory = |path: PathBuf| is_of(&path, FileType::Directory);
    is_head(&path.join("HEAD")) && directory(common.join("objects")) && directory(common.join("refs"))
}

/// Returns true if something of this type is at `path`, or at the end of its links.
pub(super) fn is_of(path: &Path, wanted: FileType) -> bool {
    matches!(by_path::stat_followed(path), Ok(Some(stat)) if stat.file_type == wanted)
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

/// Removes the user and the password from a URL or scp-like address, as Git does before it prints
/// one.
fn anonymous(url: &BStr) -> BString {
    let Some(at) = url.find_byte(b'@') else { return url.into() };
    let rest = &url[at + 1..];
    let Some(scheme) = url.find("://") else {
        let colon = url.find_byte(b':');
        let is_path = colon.is_none_or(|colon| url.find_byte(b'/').is_some_and(|slash| slash < colon));
        return if is_path || !rest.contains(&b':') { url.into() } else { rest.into() };
    };
    let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+.-".contains(byte);
    let begin = scheme + 3;
    let slash = url.get(begin..).and_then(|rest| rest.find_byte(b'/')).map(|slash| slash + begin);
    if !url[..scheme].iter().all(is_scheme) || slash.is_some_and(|slash| slash <= at) || at < begin {
        return url.into();
    }
    [url[..begin].as_bytes(), rest].concat().into()
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
    fn everything_with_a_colon_is_a_url() {
        let cwd = Path::new("/");
        for url in ["file:///srv/a%20b%2", "https://user:secret@host/x", "git://host/x", "host:x"] {
            let found = locate(url.into(), cwd).expect("a URL");
            assert_eq!(found, Source { kind: Kind::Server, url: url.into() });
        }
    }

    #[test]
    fn messages_name_no_password() {
        for (url, printed) in [
            ("https://user:secret@host/x", "https://host/x"),
            ("ssh://user@host:22/x", "ssh://host:22/x"),
            ("git@host:x.git", "host:x.git"),
            ("https://host/a@b", "https://host/a@b"),
            ("https://host/x", "https://host/x"),
            ("./a@b:c", "./a@b:c"),
            ("a:b@c", "a:b@c"),
        ] {
            assert_eq!(anonymous(url.into()), printed, "{url}");
        }
    }
}
