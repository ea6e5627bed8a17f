//! How a failed command ends: its message, and the exit code that Git would return.

use bstr::BString;

use sapwood::transaction::Refused;

use crate::term::{
    args::stop::{self, Stop},
    console,
};

/// The reason why a command ended without success.
#[derive(Debug)]
pub(crate) enum Failure {
    /// `fatal: <message>` on standard error, exit code 128.
    Fatal(BString),
    /// `error: <message>` on standard error, and the exit code.
    Error(BString, u8),
    /// `error: <message>` for each message, and the exit code.
    Errors(Vec<BString>, u8),
    /// All messages were printed; only the exit code is left.
    Reported(u8),
    /// The command line was invalid, or requested help: exit code 129.
    Usage(Stop),
    /// An invalid global option: the message without a prefix, the usage, exit code 129.
    Misused(BString),
    /// Another failure, and sapwood's hint on how to resolve it.
    Advised(Box<Failure>, String),
    /// Another failure, and Git's hints after it.
    Hinted(Box<Failure>, Vec<BString>),
    /// A failure, and what is printed before it.
    Preceded(Preface, Box<Failure>),
    /// Planning found something in the repository that sapwood does not serve. Nothing was changed.
    /// Printed like `Fatal`.
    Unserved(&'static str),
    /// A change is refused; the exit code.
    Refused(Refused, u8),
    /// A signal stopped the command: the process ends by it, as the shell expects.
    Signal(i32),
}

/// The text that is printed before a failure.
#[derive(Debug)]
pub(crate) enum Preface {
    /// Lines without a prefix.
    Text(String),
    /// `error: <message>`
    Error(BString),
    /// `warning: <message>` for each message.
    Warnings(Vec<BString>),
    /// Lines on standard output.
    Output(Vec<BString>),
    /// The messages of the cause.
    Cause(Box<Failure>),
}

impl Preface {
    fn plain(self) -> Preface {
        match self {
            Preface::Cause(failure) => Preface::Cause(Box::new(failure.plain())),
            other => other,
        }
    }

    fn print(&self) {
        match self {
            Preface::Text(text) => console::eprint_line(text),
            Preface::Error(message) => console::error(message),
            Preface::Warnings(messages) => messages.iter().for_each(console::warning),
            Preface::Output(lines) => lines.iter().for_each(console::out),
            Preface::Cause(failure) => failure.print(),
        }
    }
}

/// Refuses an option or form that sapwood does not serve yet, if the user gave it.
pub(crate) fn unserved_if(asked: bool, what: &str) -> Result<(), Failure> {
    if asked { Err(Failure::unsupported(what)) } else { Ok(()) }
}

/// Refuses an option that only has a meaning with `--patch`, if the user gave it: sapwood does not
/// serve `--patch`.
pub(crate) fn requires_patch_if(asked: bool, option: &str) -> Result<(), Failure> {
    if asked { Err(Failure::requires(option, "--patch")) } else { Ok(()) }
}

impl Failure {
    /// `fatal: <message>`
    pub(crate) fn fatal(message: impl Into<BString>) -> Failure {
        Failure::Fatal(message.into())
    }

    /// `error: <message>` with exit code 1.
    pub(crate) fn error(message: impl Into<BString>) -> Failure {
        Failure::Error(message.into(), 1)
    }

    /// Returns the failure for a path that the system cannot resolve.
    pub(crate) fn refused(path: &sys::UserPath, refused: sys::Refused) -> Failure {
        Failure::fatal(match refused {
            sys::Refused::Empty => refused.to_string(),
            sys::Refused::TooLong => format!("Invalid path '{path}': {refused}"),
        })
    }

    /// Returns the failure for an option that is given without the option it depends on.
    pub(crate) fn requires(option: &str, other: &str) -> Failure {
        Failure::fatal(format!("the option '{option}' requires '{other}'"))
    }

    /// Returns the failure for a command that needs a worktree in a repository without one.
    pub(crate) fn no_worktree() -> Failure {
        Failure::fatal("this operation must be run in a work tree")
    }

    /// Returns the failure for a worktree whose root cannot be opened. Git changes its directory to
    /// the root, and treats a missing one as no worktree.
    pub(crate) fn cannot_open(dir: &std::path::Path) -> impl Fn(std::io::Error) -> Failure + '_ {
        use std::io::ErrorKind::{NotADirectory, NotFound};
        move |error| match error.kind() {
            NotFound | NotADirectory => Failure::no_worktree(),
            _ => Failure::fatal(format!("cannot open '{}': {}", dir.display(), sys::reason(&error))),
        }
    }

    /// Returns the failure for an unknown name: `otherwise`, Git's message, unless the lookup
    /// failed because something could not be read.
    pub(crate) fn of_name(error: repo::Error, otherwise: Failure) -> Failure {
        if error.is_unreadable() || error.is_final() { error.into() } else { otherwise }
    }

    /// Returns the failure for an option or form that Git has and sapwood lacks (SHORTCOMINGS.md).
    pub(crate) fn unsupported(what: &str) -> Failure {
        Failure::Fatal(format!("{what} is not supported by sapwood yet (see SHORTCOMINGS.md)").into())
    }
}

impl Failure {
    /// Adds what is printed before this failure.
    pub(crate) fn after(self, preface: Preface) -> Failure {
        Failure::Preceded(preface, Box::new(self))
    }

    /// Adds `advice` to this failure, if there is any.
    pub(crate) fn advised(self, advice: Option<String>) -> Failure {
        match advice {
            Some(advice) => Failure::Advised(Box::new(self), advice),
            None => self,
        }
    }

    /// Adds Git's hints to this failure, if there are any.
    pub(crate) fn hinted(self, hints: Vec<BString>) -> Failure {
        if hints.is_empty() { self } else { Failure::Hinted(Box::new(self), hints) }
    }

    /// Returns sapwood's own advice.
    pub(crate) fn advice(&self) -> Option<&str> {
        match self {
            Failure::Advised(_, advice) => Some(advice),
            Failure::Hinted(failure, _) | Failure::Preceded(_, failure) => failure.advice(),
            _ => None,
        }
    }

    /// Replaces the exit code of messages that are no fatal ones.
    pub(crate) fn with_code(self, code: u8) -> Failure {
        match self {
            Failure::Error(message, _) => Failure::Error(message, code),
            Failure::Errors(messages, _) => Failure::Errors(messages, code),
            Failure::Reported(_) => Failure::Reported(code),
            other => other,
        }
    }

    /// Removes sapwood's own advice: Git gives none.
    pub(crate) fn plain(self) -> Failure {
        match self {
            Failure::Advised(failure, _) => failure.plain(),
            Failure::Hinted(failure, hints) => failure.plain().hinted(hints),
            Failure::Preceded(preface, failure) => failure.plain().after(preface.plain()),
            other => other,
        }
    }

    /// Returns true if the failure prints this text.
    pub(crate) fn mentions(&self, text: &str) -> bool {
        use bstr::ByteSlice as _;
        match self {
            Failure::Fatal(message) | Failure::Error(message, _) => message.contains_str(text),
            Failure::Advised(failure, _) | Failure::Hinted(failure, _) | Failure::Preceded(_, failure) => {
                failure.mentions(text)
            }
            _ => false,
        }
    }

    /// Prints the message as a warning: the command goes on.
    pub(crate) fn print_as_warning(&self) {
        match self {
            Failure::Fatal(message) | Failure::Error(message, _) => console::warning(message),
            Failure::Preceded(preface @ (Preface::Text(_) | Preface::Error(_)), failure) => {
                preface.print();
                failure.print_as_warning();
            }
            Failure::Advised(failure, _) | Failure::Hinted(failure, _) | Failure::Preceded(_, failure) => {
                failure.print_as_warning()
            }
            other => other.print(),
        }
    }

    /// Prints the messages that were not printed yet. A failure that is only the effect of a signal
    /// has none.
    pub(crate) fn print(&self) {
        if self.mentions(sys::interrupt::STOPPED) {
            return;
        }
        match self {
            Failure::Fatal(message) => console::report("fatal", message),
            Failure::Error(message, _) => console::error(message),
            Failure::Errors(messages, _) => messages.iter().for_each(console::error),
            Failure::Usage(Stop::Help(usage)) => {
                console::out(usage.trim_end_matches('\n'));
                console::out("");
            }
            Failure::Usage(Stop::Mistake { message, usage }) => {
                console::error(message);
                if let Some(usage) = usage {
                    console::eprint_raw(usage.as_bytes());
                }
            }
            Failure::Misused(message) => {
                console::eprint_line(message);
                console::eprint_line(stop::USAGE);
            }
            Failure::Advised(failure, advice) => {
                failure.print();
                console::hint(advice);
            }
            Failure::Hinted(failure, hints) => {
                failure.print();
                hints.iter().for_each(console::hint);
            }
            Failure::Preceded(preface, failure) => {
                preface.print();
                failure.print();
            }
            Failure::Refused(refused @ Refused::Paths { .. }, _) => console::eprint_raw(&refused.text()),
            Failure::Refused(Refused::NotTrivial { quiet: true }, _) => {}
            Failure::Refused(refused, _) => console::error(refused.text()),
            Failure::Unserved(what) => console::report("fatal", format!("{what} are not supported yet")),
            Failure::Reported(_) | Failure::Signal(_) => {}
        }
    }

    /// Returns the exit code; for a signal, the one that a shell reports.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Fatal(_) | Failure::Unserved(_) => 128,
            Failure::Error(_, code)
            | Failure::Errors(_, code)
            | Failure::Reported(code)
            | Failure::Refused(_, code) => *code,
            Failure::Usage(_) | Failure::Misused(_) => 129,
            Failure::Advised(failure, _) | Failure::Hinted(failure, _) | Failure::Preceded(_, failure) => {
                failure.code()
            }
            Failure::Signal(signal) => (128 + signal).clamp(0, 255) as u8,
        }
    }
}

impl From<Stop> for Failure {
    fn from(stop: Stop) -> Failure {
        Failure::Usage(stop)
    }
}

impl From<repo::Error> for Failure {
    fn from(error: repo::Error) -> Failure {
        let failure = Failure::fatal(error.to_string());
        match error.warnings() {
            [] => failure,
            warnings => failure.after(Preface::Warnings(warnings.to_vec())),
        }
    }
}

impl From<engine::guard::Error> for Failure {
    fn from(error: engine::guard::Error) -> Failure {
        Failure::fatal(error.to_string())
    }
}

impl From<repo::objects::Error> for Failure {
    fn from(error: repo::objects::Error) -> Failure {
        Failure::fatal(error.to_string())
    }
}

impl From<engine::switch::Error> for Failure {
    fn from(error: engine::switch::Error) -> Failure {
        Failure::fatal(error.to_string()).advised(error.advice())
    }
}

impl From<engine::sparse::LoadError> for Failure {
    fn from(error: engine::sparse::LoadError) -> Failure {
        Failure::fatal(error.to_string())
    }
}

impl From<engine::look::LookError> for Failure {
    fn from(error: engine::look::LookError) -> Failure {
        match error {
            engine::look::LookError::Unsupported(what) => Failure::Unserved(what),
            error @ engine::look::LookError::LinkedSubmodule { .. } => {
                Failure::Error(error.to_string().into(), 128)
            }
            error => Failure::fatal(error.to_string()),
        }
    }
}

impl From<engine::checkout::PlanError> for Failure {
    fn from(error: engine::checkout::PlanError) -> Failure {
        match error {
            engine::checkout::PlanError::Look(error) => error.into(),
            error => Failure::fatal(error.to_string()),
        }
    }
}

/// Returns the conversion of an error of planning; a refusal ends the command with this exit code.
pub(crate) fn refused_with(code: u8) -> impl Fn(sapwood::PlanError) -> Failure {
    move |error| match error {
        sapwood::PlanError::Failed(sapwood::Error::Refused(refused)) => Failure::Refused(refused, code),
        error => error.into(),
    }
}

/// How to configure an identity.
const UNKNOWN: &str = "
*** Please tell me who you are.

Run

  git config --global user.email \"you@example.com\"
  git config --global user.name \"Your Name\"

to set your account's default identity.
Omit --global to set the identity only in this repository.
";

impl From<repo::IdentityError> for Failure {
    fn from(error: repo::IdentityError) -> Failure {
        let failure = Failure::fatal(error.to_string());
        let whose = match error.unknown {
            Some(repo::Who::Author) => "Author",
            Some(repo::Who::Committer) => "Committer",
            None => return failure,
        };
        failure.after(Preface::Text(format!("{whose} identity unknown\n{UNKNOWN}")))
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Failure {
        Failure::fatal(error.to_string()).advised(error.advice())
    }
}

impl From<store::index::CommitError> for Failure {
    fn from(error: store::index::CommitError) -> Failure {
        match error {
            store::index::CommitError::Store(error) => error.into(),
            other => {
                let failure = Failure::fatal("unable to write new index file");
                failure.after(Preface::Error(other.to_string().into()))
            }
        }
    }
}

impl From<store::config::Error> for Failure {
    fn from(error: store::config::Error) -> Failure {
        let advice = match &error {
            store::config::Error::Store(error) => error.advice(),
            _ => None,
        };
        Failure::fatal(error.to_string()).advised(advice)
    }
}

impl From<engine::workspace::record::Error> for Failure {
    fn from(error: engine::workspace::record::Error) -> Failure {
        let advice = match &error {
            engine::workspace::record::Error::Quota(error) => error.advice(),
            _ => None,
        };
        Failure::fatal(error.to_string()).advised(advice.map(str::to_owned))
    }
}

impl From<engine::workspace::union::Error> for Failure {
    fn from(error: engine::workspace::union::Error) -> Failure {
        Failure::fatal(error.to_string())
    }
}

impl From<engine::workspace::base::Error> for Failure {
    fn from(error: engine::workspace::base::Error) -> Failure {
        Failure::fatal(error.to_string())
    }
}

impl From<engine::base_transfer::Error> for Failure {
    fn from(error: engine::base_transfer::Error) -> Failure {
        let advice = match &error {
            engine::base_transfer::Error::Remote(error) => error.advice(),
            _ => None,
        };
        Failure::fatal(error.to_string()).advised(advice.map(str::to_owned))
    }
}

impl From<base_store::Error> for Failure {
    fn from(error: base_store::Error) -> Failure {
        let advice = error.advice().map(str::to_owned);
        Failure::fatal(error.to_string()).advised(advice)
    }
}

impl From<engine::workspace::backend::Error> for Failure {
    fn from(error: engine::workspace::backend::Error) -> Failure {
        Failure::fatal(error.to_string()).advised(error.advice())
    }
}

impl From<engine::workspace::frozen::Error> for Failure {
    fn from(error: engine::workspace::frozen::Error) -> Failure {
        Failure::fatal(error.to_string())
    }
}

impl From<engine::workspace::newer::Error> for Failure {
    fn from(error: engine::workspace::newer::Error) -> Failure {
        match error {
            engine::workspace::newer::Error::Mount(error) => error.into(),
            error => Failure::fatal(error.to_string()),
        }
    }
}

impl From<engine::workspace::remove::Error> for Failure {
    fn from(error: engine::workspace::remove::Error) -> Failure {
        match error {
            engine::workspace::remove::Error::Backend(error) => error.into(),
            error => Failure::fatal(error.to_string()),
        }
    }
}

impl From<engine::workspace::upper::Error> for Failure {
    fn from(error: engine::workspace::upper::Error) -> Failure {
        Failure::fatal(error.to_string())
    }
}

impl From<engine::worktree::Error> for Failure {
    fn from(error: engine::worktree::Error) -> Failure {
        use engine::worktree::Error;
        if !matches!(error, Error::Config(_) | Error::Upgrade(_)) {
            return Failure::fatal(error.to_string());
        }
        Failure::fatal("unable to upgrade repository format to support relative worktrees")
            .after(Preface::Error(error.to_string().into()))
    }
}
