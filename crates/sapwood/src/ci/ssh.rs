//! The key and the known hosts of a checkout by ssh.
//!
//! The program `ssh` reads both from files. A key that the caller has as text is written to a file
//! that only the user may read, and that is removed at the end of the checkout, unless the job
//! keeps its credentials. The file lies beside that of the credentials and has its name, so that
//! [`super::cleanup`] finds it.

use std::{
    fmt,
    io::Write as _,
    path::{Path, PathBuf},
};

use bstr::{BString, ByteSlice as _};
use sys::{FileType, by_path};

use super::{credentials, directory::cannot};
use crate::{Error, text};

/// The ends of the names of the files.
pub(super) const KEY: &str = ".key";
pub(super) const HOSTS: &str = ".hosts";

/// The access by ssh. Without key and hosts, ssh's own settings count.
#[derive(Clone, Debug, Default)]
pub struct Ssh {
    /// The private key.
    pub key: Option<Content>,
    /// Keys of hosts, beside those that the user knows.
    pub known_hosts: Option<Content>,
    /// Refuse hosts whose key is unknown.
    pub is_strict: bool,
    /// The directory for files with contents, which is outside of the worktree or is its `.git`.
    pub dir: PathBuf,
}

/// A content that ssh reads from a file.
#[derive(Clone)]
pub enum Content {
    /// The file exists.
    File(PathBuf),
    /// The file is written for the checkout.
    Text(BString),
}

/// Never shows the text.
impl fmt::Debug for Content {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Content::File(path) => write!(formatter, "{}", path.display()),
            Content::Text(_) => formatter.write_str("(text)"),
        }
    }
}

/// The command that connects, and the files that were written for it. They are removed with this
/// value.
pub(super) struct Connection {
    pub(super) command: BString,
    /// The path of the files without the ends of their names.
    pub(super) stem: Option<PathBuf>,
    files: Vec<PathBuf>,
}

impl Ssh {
    /// Writes the files. Returns `None` if ssh's own settings count.
    pub(super) fn connect(&self) -> Result<Option<Connection>, Error> {
        let given = [(&self.key, KEY), (&self.known_hosts, HOSTS)];
        if given.iter().all(|(content, _)| content.is_none()) {
            return Ok(None);
        }
        let has_text = given.iter().any(|(content, _)| matches!(content, Some(Content::Text(_))));
        let stem = has_text.then(|| credentials::free_stem(&self.dir)).transpose()?;
        let mut connection = Connection { command: BString::default(), stem, files: Vec::new() };
        let key = connection.file(self.key.as_ref(), KEY)?;
        let hosts = connection.file(self.known_hosts.as_ref(), HOSTS)?;
        let mut command = BString::from("ssh");
        if let Some(key) = key {
            command = text!(command, " -i '", key, "' -o IdentitiesOnly=yes");
        }
        if self.is_strict {
            command = text!(command, " -o StrictHostKeyChecking=yes -o CheckHostIP=no");
        }
        if let Some(hosts) = hosts {
            command = text!(command, " -o 'UserKnownHostsFile=", hosts, " ~/.ssh/known_hosts'");
        }
        connection.command = command;
        Ok(Some(connection))
    }
}

impl Connection {
    /// Returns the path of a content, which is written if it is a text.
    fn file(&mut self, content: Option<&Content>, end: &str) -> Result<Option<BString>, Error> {
        let path = match (content, &self.stem) {
            (Some(Content::Text(text)), Some(stem)) => {
                let path = credentials::with_end(stem, end);
                let mut file = by_path::create_new(&path, 0o600).map_err(cannot("create", &path))?;
                self.files.push(path.clone());
                file.write_all(&as_lines(text)).map_err(cannot("write", &path))?;
                path
            }
            (Some(Content::File(path)), _) => path.clone(),
            _ => return Ok(None),
        };
        quoted(&path).map(Some)
    }

    /// Leaves the files to the job.
    pub(super) fn keep(&mut self) {
        self.files.clear();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        for path in &self.files {
            // This process has made the file. The next clean-up removes one that stays.
            let _ = by_path::remove_file(path);
        }
    }
}

/// Returns a text with one line feed at the end of each line: ssh reads no key without it.
fn as_lines(text: &BString) -> BString {
    let lines = text.trim().lines();
    bstr::concat(lines.map(|line| text!(line.trim_end(), "\n"))).into()
}

/// Returns a path for the command, which Git runs in a shell.
fn quoted(path: &Path) -> Result<BString, Error> {
    let path = path.as_os_str().as_encoded_bytes();
    // ssh splits the value of an option at blanks.
    if path.iter().any(|byte| matches!(byte, b'\'' | b'"' | b' ' | b'\t' | b'\n')) {
        return Err(Error::failed(text!("'", path, "': ssh needs a path without blanks and quotes")));
    }
    Ok(path.into())
}

/// Removes the files that belong to the credentials in `file`. Returns their number.
pub(super) fn remove_beside(file: &Path) -> Result<usize, Error> {
    let mut removed = 0;
    for end in [KEY, HOSTS] {
        let path = file.with_extension(&end[1..]);
        // A directory of this name is a job's.
        let stat = by_path::stat(&path).map_err(cannot("examine", &path))?;
        if stat.is_some_and(|stat| stat.file_type == FileType::File) {
            by_path::remove_file(&path).map_err(cannot("remove", &path))?;
            removed += 1;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_lines_that_ssh_reads() {
        let text = |text: &str| as_lines(&text.into()).to_string();
        assert_eq!(text(" -----BEGIN\r\nabc=\r\n-----END\n\n"), "-----BEGIN\nabc=\n-----END\n");
        assert_eq!(text("a"), "a\n");
    }

    #[test]
    fn a_key_is_not_shown() {
        let ssh = Ssh { key: Some(Content::Text("secret".into())), ..Ssh::default() };
        assert!(!format!("{ssh:?}").contains("secret"));
    }

    #[test]
    fn files_are_removed_with_the_connection_unless_they_are_kept() {
        let dir = tempfile::tempdir().expect("a directory for tests");
        let ssh = Ssh {
            key: Some(Content::Text("secret".into())),
            known_hosts: Some(Content::File("/a/hosts".into())),
            is_strict: true,
            dir: dir.path().to_owned(),
        };
        let files = || by_path::list(dir.path()).expect("a directory").len();
        for kept in [false, true] {
            let mut connection = ssh.connect().expect("files").expect("a key");
            let command = connection.command.to_string();
            assert!(command.contains("/sapwood-ci-") && command.contains(".key' -o"), "{command}");
            assert!(command.contains("UserKnownHostsFile=/a/hosts ~/.ssh/known_hosts"), "{command}");
            assert_eq!(files(), 1);
            if kept {
                connection.keep();
            }
            drop(connection);
            assert_eq!(files(), usize::from(kept));
        }
    }
}
