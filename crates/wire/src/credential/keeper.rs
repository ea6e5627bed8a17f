//! Runs the credential helpers.

use std::{
    ffi::OsString,
    io::{Read as _, Write as _},
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Arc, atomic::AtomicBool},
    time::{SystemTime, UNIX_EPOCH},
};

use ::http::Address;
use bstr::{BStr, BString, ByteSlice};
use sys::terminal::Echo;

use super::{Credential, Operation, prompt::Prompter};
use crate::{
    Settings,
    matching::{self, Choice},
};

/// The settings of a section: names and values, in order.
type Entries = Vec<(BString, Option<BString>)>;

/// The reason why no credential was found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeeperError {
    #[error("credential value for {0} contains newline")]
    Newline(&'static str),
    #[error(
        "credential value for {0} contains carriage return\nIf this is intended, set `credential.protectProtocol=false`"
    )]
    CarriageReturn(&'static str),
    #[error("credential helper '{0}' told us to quit")]
    Quit(BString),
    #[error("refusing to work with credential missing {0} field")]
    Missing(&'static str),
    #[error("could not read {question}{reason}")]
    Question { question: BString, reason: String },
    #[error("unable to get password from user")]
    NotInteractive,
}

/// Requests credentials from helpers and from the user, and reports to the helpers if the server
/// accepted them.
pub(crate) struct Keeper {
    entries: Entries,
    /// The environment of helpers.
    variables: Vec<(OsString, OsString)>,
    dir: PathBuf,
    prompter: Prompter,
}

/// The settings for one credential.
pub(crate) struct Choices {
    helpers: Vec<BString>,
    username: Option<BString>,
    uses_path: bool,
    protects: bool,
    sanitizes: bool,
    interactive: bool,
}

impl Keeper {
    /// Creates a keeper with these settings. Processes start in `dir`.
    pub(crate) fn new(settings: &dyn Settings, dir: PathBuf, interrupt: Option<Arc<AtomicBool>>) -> Keeper {
        let entries = settings.entries().into_iter().filter(|(key, _)| key.starts_with(b"credential."));
        let entries = entries.map(|(key, value)| (key.to_owned(), value.map(BStr::to_owned))).collect();
        let prompter = Prompter::new(settings, interrupt);
        Keeper { entries, variables: settings.variables(), dir, prompter }
    }

    /// Completes a credential.
    pub(crate) fn fill(&self, credential: &mut Credential, place: &Address) -> Result<(), KeeperError> {
        let choices = self.ask_helpers(credential, place)?;
        if credential.is_complete() {
            return Ok(());
        }
        if !choices.interactive {
            return Err(KeeperError::NotInteractive);
        }
        let ask = |name: &str, place: BString, echo| {
            let place = if choices.sanitizes { sanitized(&place) } else { place };
            let question = BString::from(format!("{name} for '{place}': "));
            self.prompter
                .ask(question.as_bstr(), echo)
                .map_err(|reason| KeeperError::Question { question, reason })
        };
        if credential.username.is_none() {
            credential.username = Some(ask("Username", credential.description(false), Echo::Shown)?);
        }
        if credential.password.is_none() {
            credential.password = Some(ask("Password", credential.description(true), Echo::Hidden)?);
        }
        Ok(())
    }

    /// Completes a credential as far as the helpers can.
    pub(crate) fn ask_helpers(
        &self,
        credential: &mut Credential,
        place: &Address,
    ) -> Result<Choices, KeeperError> {
        let choices = self.choices(place);
        if credential.is_complete() {
            return Ok(choices);
        }
        apply(credential, &choices)?;
        for helper in &choices.helpers {
            let lines = checked(credential, Operation::Get, choices.protects)?;
            let Some(answer) = self.run(helper.as_bstr(), Operation::Get, &lines) else { continue };
            let quit = match credential.read(&answer) {
                Ok(quit) => quit,
                Err(line) => {
                    self.prompter.print(format!("warning: invalid credential line: {line}"));
                    false
                }
            };
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
            if credential.expiry.is_some_and(|expiry| expiry < now) {
                // The refresh token and the user name are kept: the next helper may need them.
                (credential.password, credential.expiry) = (None, None);
                credential.clear_secret();
            }
            if credential.is_complete() {
                return Ok(choices);
            }
            if quit {
                return Err(KeeperError::Quit(helper.clone()));
            }
        }
        Ok(choices)
    }

    /// Reports to the helpers that the server accepted the credential.
    pub(crate) fn approve(&self, credential: &mut Credential, place: &Address) {
        if credential.is_approved || !credential.is_complete() {
            return;
        }
        self.tell(credential, place, Operation::Store);
        credential.is_approved = true;
    }

    /// Reports to the helpers that the server refused the credential, and clears its secret.
    pub(crate) fn reject(&self, credential: &mut Credential, place: &Address) {
        self.tell(credential, place, Operation::Erase);
        credential.forget();
    }

    fn tell(&self, credential: &mut Credential, place: &Address, operation: Operation) {
        let choices = self.choices(place);
        if apply(credential, &choices).is_err() {
            return;
        }
        let mut told = credential.clone();
        if operation == Operation::Store {
            told.challenges.clear();
        }
        let Ok(lines) = checked(&told, operation, choices.protects) else { return };
        for helper in &choices.helpers {
            self.run(helper.as_bstr(), operation, &lines);
        }
    }

    fn choices(&self, place: &Address) -> Choices {
        let mut choices = Choices {
            helpers: Vec::new(),
            username: None,
            uses_path: false,
            protects: true,
            sanitizes: true,
            interactive: true,
        };
        let entries =
            self.entries.iter().map(|(key, value)| (key.as_bstr(), value.as_ref().map(|v| v.as_bstr())));
        for (name, value) in matching::settings(entries, "credential", place, Choice::All) {
            let is_on = format::config::parse_bool(value);
            let text = value.unwrap_or(BStr::new(""));
            match name.as_bytes() {
                b"helper" if text.is_empty() => choices.helpers.clear(),
                b"helper" => choices.helpers.push(text.to_owned()),
                b"username" => choices.username = Some(text.to_owned()),
                b"usehttppath" => choices.uses_path = is_on.unwrap_or(false),
                b"protectprotocol" => choices.protects = is_on.unwrap_or(true),
                b"sanitizeprompt" => choices.sanitizes = is_on.unwrap_or(true),
                b"interactive" => choices.interactive = text != "never" && is_on != Some(false),
                _ => {}
            }
        }
        choices
    }

    /// Runs a helper. Returns its output, or `None` if it failed.
    fn run(&self, helper: &BStr, operation: Operation, lines: &[u8]) -> Option<Vec<u8>> {
        let script = match helper.strip_prefix(b"!") {
            Some(script) => script.to_vec(),
            None if helper.starts_with(b"/") => helper.to_vec(),
            None => [b"git credential-", helper.as_bytes()].concat(),
        };
        let script = [script.as_slice(), b" ", operation.name().as_bytes()].concat();
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(sys::os_str(&script)).arg("sh").current_dir(&self.dir);
        command
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped());
        command.stdout(if operation == Operation::Get { Stdio::piped() } else { Stdio::null() });
        sys::interrupt::install();
        let mut child = command.spawn().ok()?;
        if let Some(mut input) = child.stdin.take() {
            // A helper need not read all of its input.
            let _ = input.write_all(lines);
        }
        let mut answer = Vec::new();
        let read = child.stdout.take().map_or(Ok(0), |mut output| output.read_to_end(&mut answer));
        let ended = child.wait().ok()?;
        (read.is_ok() && ended.success()).then_some(answer)
    }
}

/// Applies the settings to a credential.
fn apply(credential: &mut Credential, choices: &Choices) -> Result<(), KeeperError> {
    if credential.host.is_empty() {
        return Err(KeeperError::Missing("host"));
    }
    if credential.username.is_none() {
        credential.username.clone_from(&choices.username);
    }
    // A path from a helper, which comes later, is kept.
    if !choices.uses_path && !credential.is_configured {
        credential.path = None;
    }
    credential.is_configured = true;
    Ok(())
}

/// Returns the input lines for a helper. Returns an error if a value contains a line end.
fn checked(credential: &Credential, operation: Operation, protects: bool) -> Result<Vec<u8>, KeeperError> {
    let lines = credential.write(operation).map_err(KeeperError::Newline)?;
    match protects && lines.contains(&b'\r') {
        true if credential.host.contains(&b'\r') => Err(KeeperError::CarriageReturn("host")),
        true if credential.path.as_ref().is_some_and(|path| path.contains(&b'\r')) => {
            Err(KeeperError::CarriageReturn("path"))
        }
        true => Err(KeeperError::CarriageReturn("username")),
        false => Ok(lines),
    }
}

/// Encodes control characters, which could change the text of a prompt.
fn sanitized(text: &[u8]) -> BString {
    let mut clean = BString::default();
    for &byte in text {
        if byte.is_ascii_control() {
            clean.extend_from_slice(format!("%{byte:02X}").as_bytes())
        } else {
            clean.push(byte)
        }
    }
    clean
}
