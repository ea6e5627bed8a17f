//! The secrets of a checkout: a token for HTTP, a key for ssh.
//!
//! Git sends a token as a header of requests to one server: `http.<server>.extraHeader`. During the
//! checkout the setting is in the environment of the commands. A token that is kept for the job is
//! in a file of its own, which the configuration of the repository includes; [`super::cleanup`]
//! removes both.

use std::{
    fmt,
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bstr::{BStr, BString, ByteSlice as _};
use format::config::{Change, Edit};
use repo::keys;
use store::{Fsync, LockOptions};
use sys::{FileType, by_path};

use super::{
    directory::cannot,
    inherited, settings,
    ssh::{self, Connection, Ssh},
};
use crate::{Error, text};

/// The names of the files that hold secrets.
const PREFIX: &str = "sapwood-ci-";
const SUFFIX: &str = ".config";

/// The first line of such a file. A file without it is never removed.
const MARK: &str = "# Credentials of one job, written by 'sapwood ci checkout'.\n";

/// A larger file has no credentials.
const LIMIT: u64 = 1 << 20;

/// The largest number of names that are tried for a new file.
const ATTEMPTS: u32 = 1000;

/// A token, and the user name that the server expects with it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The user name.
    pub user: BString,
    /// The secret.
    pub secret: BString,
}

impl Token {
    /// Returns a token without the white space at its end; `None` if nothing is left.
    pub fn new(user: BString, secret: &[u8]) -> Option<Token> {
        let secret = secret.trim_end();
        (!secret.is_empty()).then(|| Token { user, secret: secret.into() })
    }

    /// Reads a token from a file.
    pub fn read(user: BString, file: &Path) -> Result<Option<Token>, Error> {
        let missing = || std::io::Error::from(ErrorKind::NotFound);
        let secret = by_path::read(file).and_then(|content| content.ok_or_else(missing));
        Ok(Token::new(user, &secret.map_err(cannot("read", file))?))
    }
}

/// Never shows the secret.
impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Token of {}", self.user)
    }
}

/// The ways to the server.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The token for a server that speaks HTTP.
    pub token: Option<Token>,
    /// The key and the hosts for a server that speaks ssh.
    pub ssh: Ssh,
}

/// The directory in which the credentials of a job are kept.
#[derive(Clone, Debug)]
pub struct Persist {
    /// The directory; it is outside of the worktree, if the runner has one.
    pub dir: PathBuf,
    /// Another path of the same directory, in containers that the job starts.
    pub also: Option<PathBuf>,
}

impl Access {
    /// Returns the settings for the server of `url`, with the command for ssh. `rewrites` adds one
    /// that lets submodules with an address of ssh use the token.
    pub(super) fn settings(&self, url: &BStr, ssh: Option<&BString>, rewrites: bool) -> Vec<BString> {
        let mut all: Vec<BString> =
            self.pairs(url, ssh).into_iter().map(|(key, value)| text!(key, "=", value)).collect();
        if let (true, Some(_), None, Some((server, host))) = (rewrites, &self.token, ssh, server(url)) {
            all.push(text!("url.", server, ".insteadOf=git@", host, ":"));
        }
        all
    }

    fn pairs(&self, url: &BStr, ssh: Option<&BString>) -> Vec<(BString, BString)> {
        let header = self.token.as_ref().zip(server(url)).map(|(token, (server, _))| {
            let pair = text!(&token.user, ":", &token.secret);
            (text!("http.", server, ".extraheader"), text!("AUTHORIZATION: basic ", STANDARD.encode(pair)))
        });
        let ssh = ssh.cloned().map(|command| (keys::core::SSH_COMMAND.name().into(), command));
        header.into_iter().chain(ssh).collect()
    }

    /// Makes a new file for the credentials that only the user may read. Its name begins with the
    /// one of the files for ssh. Returns `None` if there are no credentials.
    pub(super) fn reserve(
        &self,
        url: &BStr,
        dir: &Path,
        ssh: Option<&Connection>,
    ) -> Result<Option<Reserved>, Error> {
        let pairs = self.pairs(url, ssh.map(|ssh| &ssh.command));
        if pairs.is_empty() {
            return Ok(None);
        }
        let edits: Vec<Edit> = pairs.into_iter().map(|(key, value)| Edit::Set { key, value }).collect();
        let secrets = format::config::edit(b"", &edits);
        let secrets =
            secrets.map_err(|error| Error::failed(format!("cannot write the credentials: {error}")))?;
        let stem = match ssh.and_then(|ssh| ssh.stem.clone()) {
            Some(stem) => stem,
            None => free_stem(dir)?,
        };
        let path = with_end(&stem, SUFFIX);
        let file = by_path::create_new(&path, 0o600).map_err(cannot("create", &path))?;
        Ok(Some(Reserved { path, file, secrets }))
    }
}

/// Returns the path of new files in `dir`, without the ends of their names.
pub(super) fn free_stem(dir: &Path) -> Result<PathBuf, Error> {
    for number in 0..ATTEMPTS {
        let stem = dir.join(format!("{PREFIX}{}-{number}", std::process::id()));
        let mut is_free = true;
        for end in [SUFFIX, ssh::KEY, ssh::HOSTS] {
            let path = with_end(&stem, end);
            is_free &= by_path::stat(&path).map_err(cannot("examine", &path))?.is_none();
        }
        if is_free {
            return Ok(stem);
        }
    }
    Err(Error::failed(format!("'{}' is full of old credentials", dir.display())))
}

/// Returns the path with this end of its name.
pub(super) fn with_end(stem: &Path, end: &str) -> PathBuf {
    let mut path = stem.as_os_str().to_owned();
    path.push(end);
    path.into()
}

/// Returns the files of killed checkouts in a Git directory: those with credentials, and keys that
/// no configuration includes.
pub(super) fn left_in(git_dir: &Path) -> Result<Vec<BString>, Error> {
    let names = files_in(git_dir)?.into_iter().filter(|name| !name.ends_with(SUFFIX));
    let credentials = names.map(|name| git_dir.join(name).with_extension(&SUFFIX[1..]));
    Ok(credentials.map(|path| path.into_os_string().into_encoded_bytes().into()).collect())
}

/// Returns the files of killed checkouts in a directory that other jobs use too: their process has
/// ended, and no credentials that a configuration may include belong to them.
pub(super) fn abandoned_in(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    for name in files_in(dir)? {
        let path = dir.join(&name);
        let credentials = path.with_extension(&SUFFIX[1..]);
        let stat = by_path::stat(&credentials).map_err(cannot("examine", &credentials))?;
        if stat.is_none_or(|stat| stat.file_type == FileType::File && stat.size == 0) && has_ended(&name) {
            found.push(path);
        }
    }
    Ok(found)
}

/// Returns true if the process that made a file has ended. A file with the number of this process
/// is older than it: it has made none yet.
fn has_ended(name: &str) -> bool {
    let number = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
    let runs = |number: u32| !matches!(by_path::stat(&Path::new("/proc").join(number.to_string())), Ok(None));
    // Without `/proc` every process seems to have ended.
    number.is_some_and(|number| number == std::process::id() || runs(std::process::id()) && !runs(number))
}

/// Returns the names of the files of checkouts in a directory.
fn files_in(dir: &Path) -> Result<Vec<String>, Error> {
    let ends = [SUFFIX, ssh::KEY, ssh::HOSTS];
    let files = inherited::entries(dir)?.into_iter().filter(|(_, kind)| *kind == FileType::File);
    let names = files.filter_map(|(name, _)| name.into_string().ok());
    Ok(names.filter(|name| name.starts_with(PREFIX) && ends.iter().any(|end| name.ends_with(end))).collect())
}

/// A file for credentials. It is empty until the configuration includes it: a process that is
/// killed leaves no secret that a clean-up does not find.
pub(super) struct Reserved {
    pub(super) path: PathBuf,
    file: sys::File,
    secrets: Vec<u8>,
}

impl Reserved {
    /// Writes the credentials if `included` is a success; otherwise removes the file. Returns its
    /// path.
    pub(super) fn fill(mut self, included: Result<(), Error>) -> Result<PathBuf, Error> {
        let content = [MARK.as_bytes(), &self.secrets].concat();
        let written =
            included.and_then(|()| self.file.write_all(&content).map_err(cannot("write", &self.path)));
        match written {
            Ok(()) => Ok(self.path),
            Err(error) => {
                // A file of this process that nobody has read.
                let _ = by_path::remove_file(&self.path);
                Err(error)
            }
        }
    }
}

/// Includes `files` in the configuration `config`.
pub(super) fn include(config: &Path, files: &[BString]) -> Result<(), Error> {
    let add = |file: &BString| Edit::Add { key: keys::include::PATH.name().into(), value: file.clone() };
    let edits: Vec<Edit> = files.iter().map(add).collect();
    Ok(store::config::edit(config, &edits, &LockOptions::default(), &Fsync::default())?)
}

/// Returns the files that [`include()`] has added to `config`.
pub(super) fn included(config: &Path) -> Result<Vec<BString>, Error> {
    let key = keys::include::PATH.name();
    let pairs = settings::read(config)?;
    let values = pairs.into_iter().filter(|(name, _)| name.eq_ignore_ascii_case(key.as_bytes()));
    Ok(values.filter_map(|(_, value)| value).filter(|value| is_ours(value.as_bstr())).collect())
}

/// Removes from `config` what [`include()`] has added. Other lines keep their places: a setting
/// after an included file overrides it.
pub(super) fn exclude(config: &Path) -> Result<(), Error> {
    let key = keys::include::PATH.name();
    let change = Change { key: key.into(), value: None, comment: None, all: true };
    let select = |value: Option<&BStr>| value.is_some_and(is_ours);
    let rewrite = |before: Option<Vec<u8>>| {
        let before = before.unwrap_or_default();
        match format::config::change(&before, &change, &select) {
            // Another clean-up was faster.
            Err(format::config::Error::Nothing) => Ok(before),
            Err(format::config::Error::Syntax { line }) => {
                Err(store::config::Error::Syntax { path: config.to_owned(), line })
            }
            changed => changed.map_err(store::config::Error::Key),
        }
    };
    Ok(store::config::rewrite(config, &LockOptions::default(), &Fsync::default(), rewrite)?)
}

/// Removes a file of credentials, if it is one, and the files for ssh beside it. Returns the
/// number of files.
pub(super) fn remove(file: &BStr) -> Result<usize, Error> {
    let path = Path::new(sys::os_str(file));
    let stat = by_path::stat(path).map_err(cannot("examine", path))?;
    if !path.is_absolute() || stat.is_some_and(|stat| stat.file_type != FileType::File || stat.size > LIMIT) {
        return Ok(0);
    }
    let content = by_path::read(path).map_err(cannot("read", path))?;
    // A killed checkout has written nothing.
    let is_ours = |content: &Vec<u8>| content.is_empty() || content.starts_with(MARK.as_bytes());
    if content.as_ref().is_some_and(|content| !is_ours(content)) {
        return Ok(0);
    }
    // A key without its file of credentials is one of a killed checkout.
    let beside = ssh::remove_beside(path)?;
    if content.is_none() {
        return Ok(beside);
    }
    by_path::remove_file(path).map_err(cannot("remove", path))?;
    Ok(beside + 1)
}

fn is_ours(value: &BStr) -> bool {
    let name = value.rsplit_once_str("/").map_or(value.as_bytes(), |(_, name)| name);
    name.starts_with(PREFIX.as_bytes()) && name.ends_with(SUFFIX.as_bytes())
}

/// Returns the server of an HTTP URL, `https://host:port/`, and the host.
fn server(url: &BStr) -> Option<(BString, BString)> {
    let scheme = [&b"https://"[..], b"http://"]
        .into_iter()
        .find(|scheme| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))?;
    let host = url[scheme.len()..].split(|&byte| byte == b'/').next()?;
    let host = host.rsplit_once_str("@").map_or(host, |(_, host)| host);
    let name = host.split(|&byte| byte == b':').next().unwrap_or(host);
    (!name.is_empty()).then(|| (text!(scheme, host, "/"), name.into()))
}

/// Splits user and password from an HTTP URL. They are returned as a token, decoded.
pub(super) fn split(url: &BStr) -> (BString, Option<Token>) {
    let Some((server, _)) = server(url) else { return (url.into(), None) };
    let bare = repo::wire::url::without_credentials(url);
    let scheme = server.find(b"://").map_or(0, |at| at + 3);
    let rest = url.get(scheme..).unwrap_or_default();
    let end = rest.find_byte(b'/').unwrap_or(rest.len());
    let Some((user, secret)) =
        rest[..end].rsplit_once_str("@").and_then(|(login, _)| login.split_once_str(":"))
    else {
        return (bare, None);
    };
    (bare, Some(Token { user: decoded(user), secret: decoded(secret) }))
}

/// Decodes `%41`. Other text is kept.
fn decoded(text: &[u8]) -> BString {
    let (mut out, mut at) = (BString::default(), 0);
    while at < text.len() {
        let code = text.get(at + 1..at + 3).filter(|_| text[at] == b'%');
        let code = code.and_then(|hex| u8::from_str_radix(hex.to_str().ok()?, 16).ok());
        out.push(code.unwrap_or(text[at]));
        at += if code.is_some() { 3 } else { 1 };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_of_a_url() {
        let server = |url: &str| server(url.into()).map(|(server, host)| format!("{server} {host}"));
        assert_eq!(server("https://a.b/c/d.git").as_deref(), Some("https://a.b/ a.b"));
        assert_eq!(server("http://u:p@a:81/c").as_deref(), Some("http://a:81/ a"));
        assert_eq!(server("git@a.b:c/d"), None);
        assert_eq!(server("/a/b"), None);
        assert_eq!(server("https:///a"), None);
    }

    #[test]
    fn a_password_in_a_url_becomes_a_token() {
        let (url, token) = split("https://job:a%2Fb%zz@host/c.git".into());
        assert_eq!(url, "https://host/c.git");
        assert_eq!(token, Some(Token { user: "job".into(), secret: "a/b%zz".into() }));
        assert_eq!(split("https://job@host/c".into()), ("https://host/c".into(), None));
        assert_eq!(split("ssh://git@host/c".into()), ("ssh://git@host/c".into(), None));
    }

    #[test]
    fn a_token_is_not_shown() {
        let token = Token { user: "u".into(), secret: "secret".into() };
        let access = Access { token: Some(token), ssh: Ssh::default() };
        assert!(!format!("{access:?}").contains("secret"));
        let expected = ["http.https://h/.extraheader=AUTHORIZATION: basic dTpzZWNyZXQ="];
        assert_eq!(access.settings("https://h/a".into(), None, false), expected);
        assert_eq!(access.settings("https://h/a".into(), None, true)[1], "url.https://h/.insteadOf=git@h:");
        assert!(access.settings("/a".into(), None, true).is_empty());
    }
}
