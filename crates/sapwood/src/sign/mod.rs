//! Signatures of a buffer by `gpg`, `gpgsm` or `ssh-keygen`. Source: git-config(1), `gpg.*` and
//! `user.signingKey`, and Git's messages.

mod verify;

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use bstr::{BStr, BString, ByteSlice as _};
use repo::{Repository, keys, keys::Key};
use sys::{UserPath, by_path};

pub use verify::verify_by_ssh;

use crate::{
    Error, Events,
    context::Context,
    hooks,
    notice::Notice,
    settings::refused::{self, Reader},
    text,
};

/// `gpg.format`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    OpenPgp,
    X509,
    Ssh,
}

impl Format {
    fn of(repo: &Repository) -> Format {
        match repo.config_str(&keys::gpg::FORMAT) {
            Some(name) if name == "x509" => Format::X509,
            Some(name) if name == "ssh" => Format::Ssh,
            _ => Format::OpenPgp,
        }
    }

    /// Returns the settings that name the program, and its default.
    fn program(self) -> (&'static [Key<Option<BString>>], &'static str) {
        match self {
            Format::OpenPgp => (&[keys::gpg::PROGRAM, keys::gpg::OPENPGP_PROGRAM], "gpg"),
            Format::X509 => (&[keys::gpg::X509_PROGRAM], "gpgsm"),
            Format::Ssh => (&[keys::gpg::SSH_PROGRAM], "ssh-keygen"),
        }
    }
}

/// The purpose of a signature. `ssh-keygen` rejects it for any other purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Git's objects.
    Git,
    /// The manifest of a base.
    Base,
}

impl Purpose {
    /// Returns the namespace for `ssh-keygen -Y`.
    fn namespace(self) -> &'static str {
        match self {
            Purpose::Git => "git",
            Purpose::Base => "sapwood-base",
        }
    }
}

/// Signs `content` with `key`, or with the configured key if `key` is `None` or empty.
///
/// If the program fails, its error is reported, and [`Error::NotSigned`] is returned.
pub fn sign(context: Context<'_>, content: &[u8], key: Option<&BStr>) -> Result<Vec<u8>, Error> {
    let Context { repo, events, .. } = context;
    refused::check(repo, &[Reader::Signing])?;
    let signer = Signer { repo, events, format: Format::of(repo), purpose: Purpose::Git };
    let key = match key.filter(|key| !key.is_empty()) {
        Some(key) => Some(key.to_owned()),
        None => signer.default_key()?,
    };
    let signature = match signer.format {
        Format::OpenPgp | Format::X509 => signer.by_gpg(content, key.unwrap_or_default().as_bstr())?,
        Format::Ssh => signer.by_ssh(content, key.unwrap_or_default().as_bstr())?,
    };
    Ok(without_returns(signature))
}

/// Signs `content` by `ssh-keygen` with the configured key, regardless of `gpg.format`. Errors
/// are those of [`sign`].
pub fn sign_by_ssh(
    repo: &Repository,
    events: &dyn Events,
    content: &[u8],
    purpose: Purpose,
) -> Result<Vec<u8>, Error> {
    let signer = Signer { repo, events, format: Format::Ssh, purpose };
    let key = signer.default_key()?.unwrap_or_default();
    signer.by_ssh(content, key.as_bstr()).map(without_returns)
}

fn without_returns(signature: Vec<u8>) -> Vec<u8> {
    signature.into_iter().filter(|byte| *byte != b'\r').collect()
}

struct Signer<'a> {
    repo: &'a Repository,
    events: &'a dyn Events,
    format: Format,
    purpose: Purpose,
}

/// Returns the key if `key` is a literal public key and not a file name.
fn literal(key: &BStr) -> Option<&BStr> {
    match key.strip_prefix(b"key::") {
        Some(key) => Some(key.as_bstr()),
        None => key.starts_with(b"ssh-").then_some(key),
    }
}

impl Signer<'_> {
    /// Returns `user.signingKey`, or the format's default key.
    fn default_key(&self) -> Result<Option<BString>, Error> {
        if let Some(key) = self.repo.config_str(&keys::user::SIGNING_KEY) {
            return Ok(Some(key));
        }
        if self.format == Format::Ssh {
            return self.key_of_command();
        }
        let committer = self.repo.committer()?;
        let end = committer.rfind_byte(b'>').map_or(committer.len(), |end| end + 1);
        Ok(Some(committer[..end].into()))
    }

    /// Returns the key that `gpg.ssh.defaultKeyCommand` prints.
    fn key_of_command(&self) -> Result<Option<BString>, Error> {
        let Some(line) = self.repo.config_str(&keys::gpg::SSH_DEFAULT_KEY_COMMAND) else {
            return Err(Error::Failed(
                "either user.signingkey or gpg.ssh.defaultKeyCommand needs to be configured".into(),
            ));
        };
        let words = split(line.as_bstr()).map_err(|wrong| {
            Error::Failed(format!("malformed build-time gpg.ssh.defaultKeyCommand: {wrong}").into())
        })?;
        let mut command = Command::new(sys::os_str(&words[0]));
        command.args(words[1..].iter().map(|word| sys::os_str(word)));
        command.stdout(Stdio::piped());
        let Output { status, stdout, stderr } = match self.finished(command, None, words[0].as_bstr()) {
            Some(output) => output,
            None => {
                self.events.notice(Notice::Signature("gpg.ssh.defaultKeyCommand failed:  ".into()));
                return Ok(None);
            }
        };
        let first = stdout.split(|byte| *byte == b'\n').next().unwrap_or_default().as_bstr();
        let what = match status.success() {
            true if literal(first).is_some() => return Ok(Some(first.to_owned())),
            true => "gpg.ssh.defaultKeyCommand succeeded but returned no keys: ",
            false => "gpg.ssh.defaultKeyCommand failed: ",
        };
        self.events.notice(Notice::Signature(text!(what, &stderr, " ", &stdout)));
        Ok(None)
    }

    /// Returns the program that signs. As in Git, the last of several settings counts.
    fn program(&self) -> UserPath {
        let (settings, default) = self.format.program();
        let configured = self.repo.configured();
        let last = configured.iter().rev().find(|given| settings.iter().any(|key| key.is(given.key)));
        let named = last.and_then(|given| self.repo.expanded(given.value?));
        named.unwrap_or_else(|| UserPath::new(default))
    }

    fn by_gpg(&self, content: &[u8], key: &BStr) -> Result<Vec<u8>, Error> {
        let program = self.program();
        let mut command = Command::new(program.as_os_str());
        command.args(["--status-fd=2", "-bsau"]).arg(sys::os_str(key)).stdout(Stdio::piped());
        let output = self.finished(command, Some(content), program.as_bytes().as_bstr());
        let (is_signed, signature, status) = match output {
            Some(output) => {
                let mut lines = output.stderr.lines();
                let is_signed =
                    output.status.success() && lines.any(|line| line.starts_with(b"[GNUPG:] SIG_CREATED "));
                (is_signed, output.stdout, output.stderr)
            }
            None => (false, Vec::new(), Vec::new()),
        };
        if is_signed {
            return Ok(signature);
        }
        let status = if status.is_empty() { b"(no gpg output)" } else { &status[..] };
        Err(self.failed(text!("gpg failed to sign the data:\n", status)))
    }

    fn by_ssh(&self, content: &[u8], key: &BStr) -> Result<Vec<u8>, Error> {
        if key.is_empty() {
            return Err(self.failed("user.signingKey needs to be set for ssh signing"));
        }
        let cannot =
            |what: String| move |error: io::Error| self.failed(format!("{what}: {}", sys::reason(&error)));
        let place =
            PrivateDir::new(self.repo).map_err(cannot("could not create temporary file".to_owned()))?;
        let write = |name: &str, what: &str, content: &[u8]| {
            let path = place.0.join(name);
            let written = by_path::create_new(&path, 0o600).and_then(|mut file| {
                file.write_all(content)?;
                sys::close(file)
            });
            let message = format!("failed writing ssh signing {what} to '{}'", path.display());
            written.map_err(cannot(message)).map(|()| path)
        };
        let mut command = Command::new(self.program().as_os_str());
        command.args(["-Y", "sign", "-n", self.purpose.namespace(), "-f"]);
        match literal(key) {
            Some(literal) => command.arg(write("key", "key", literal)?).arg("-U"),
            None => {
                let file = self.repo.expanded(key).unwrap_or_else(|| UserPath::new(key));
                command.arg(file.as_os_str())
            }
        };
        let buffer = write("buffer", "key buffer", content)?;
        command.arg(&buffer);
        let output = self.finished(command, None, self.program().as_bytes().as_bstr());
        let stderr = output.as_ref().map_or(&b""[..], |output| &output.stderr);
        if !output.as_ref().is_some_and(|output| output.status.success()) {
            if stderr.contains_str("usage:") {
                let hint =
                    "ssh-keygen -Y sign is needed for ssh signing (available in openssh version 8.2p1+)";
                self.events.notice(Notice::SignatureError(hint.into()));
            }
            return Err(self.failed(stderr));
        }
        let signature = place.0.join("buffer.sig");
        let read = by_path::read(&signature).and_then(|read| read.ok_or(io::ErrorKind::NotFound.into()));
        read.map_err(cannot(format!("failed reading ssh signing data buffer from '{}'", signature.display())))
    }

    /// Reports why there is no signature.
    fn failed(&self, message: impl AsRef<[u8]>) -> Error {
        self.events.notice(Notice::SignatureError(message.as_ref().into()));
        Error::NotSigned
    }

    /// Runs a program with `input` in the directory where Git runs it. Returns `None`, and reports
    /// the reason, if it could not be started. Without input, the program inherits standard input,
    /// where `ssh-keygen` prompts for a passphrase.
    fn finished(&self, mut command: Command, input: Option<&[u8]>, name: &BStr) -> Option<Output> {
        self.events.before_program();
        command.current_dir(self.repo.child_dir()).env_clear().envs(self.repo.child_env());
        command.stderr(Stdio::piped());
        if input.is_some() {
            command.stdin(Stdio::piped());
        }
        sys::interrupt::install();
        sys::changes::note();
        let mut run = || {
            let mut child = command.spawn()?;
            let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) else {
                return child.wait_with_output();
            };
            std::thread::scope(|scope| {
                // The program may fail before it has read the whole input; its exit code reports
                // that.
                let feed = move || stdin.write_all(input);
                std::thread::Builder::new().spawn_scoped(scope, feed)?;
                child.wait_with_output()
            })
        };
        match run() {
            Ok(output) => {
                hooks::report_signal(output.status, name, self.events);
                Some(output)
            }
            Err(error) => {
                hooks::not_started(name, &error, self.events);
                None
            }
        }
    }
}

/// A directory for the files of one signature, accessible to this user only. Dropping it removes
/// it.
struct PrivateDir(PathBuf);

impl PrivateDir {
    fn new(repo: &Repository) -> io::Result<PrivateDir> {
        let parent = repo.env().bytes("TMPDIR").filter(|dir| !dir.is_empty());
        let parent = repo.child_dir().join(parent.map_or("/tmp".as_ref(), |dir| sys::os_str(dir)));
        let pid = std::process::id();
        for number in 0u32.. {
            let path = parent.join(format!(".git_signing_{pid}_{number}"));
            match by_path::create_private_dir(&path) {
                Ok(()) => return Ok(PrivateDir(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        let _ = by_path::remove_dir_all(&self.0);
    }
}

/// Splits a command line as Git splits configured command lines. The first word may be empty.
fn split(line: &BStr) -> Result<Vec<BString>, &'static str> {
    let mut words = vec![BString::default()];
    let mut quote = None;
    let mut bytes = line.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let is_space = |byte: u8| byte.is_ascii_whitespace() || byte == 0x0b;
        let word = words.last_mut().expect("there is a word from the start");
        match (quote, byte) {
            (None, byte) if is_space(byte) => {
                while bytes.next_if(|byte| is_space(*byte)).is_some() {}
                words.push(BString::default());
            }
            (None, b'\'' | b'"') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            (Some(b'\''), byte) => word.push(byte),
            (_, b'\\') => word.push(bytes.next().ok_or("cmdline ends with \\")?),
            (_, byte) => word.push(byte),
        }
    }
    if quote.is_some() { Err("unclosed quote") } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_command_lines() {
        let words = |line: &str| split(line.into()).map(|words| words.join(&b'|').into());
        let good = |text: &str| Ok::<BString, &str>(text.into());
        assert_eq!(words("a  b\tc"), good("a|b|c"));
        assert_eq!(words(r#"a 'b c' "d \" e" f\ g '\'"#), good(r#"a|b c|d " e|f g|\"#));
        assert_eq!(words(""), good(""));
        assert_eq!(words("a 'b"), Err("unclosed quote"));
        assert_eq!(words("a\\"), Err("cmdline ends with \\"));
    }

    #[test]
    fn distinguishes_keys_from_files() {
        assert_eq!(literal("key::ecdsa x".into()), Some("ecdsa x".into()));
        assert_eq!(literal("ssh-ed25519 x".into()), Some("ssh-ed25519 x".into()));
        assert_eq!(literal("~/.ssh/id.pub".into()), None);
    }
}
