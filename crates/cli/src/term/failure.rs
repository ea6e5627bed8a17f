//! How a command ends when it does not end well: what is said, and the exit code Git would give.

use bstr::BString;

use crate::term::{
    args::{self, Stop},
    console,
};

/// The end of a command that did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// `fatal: <message>` on standard error, exit code 128.
    Fatal(BString),
    /// `error: <message>` on standard error, and the exit code.
    Error(BString, u8),
    /// Everything has been said; only the exit code is left.
    Said(u8),
    /// The command line was wrong, or asked for help: exit code 129.
    Usage(Stop),
    /// A wrong global option: the message without a lead, the usage, exit code 129.
    Misused(BString),
    /// Another failure, and as a hint what to do about it.
    Advised(Box<Failure>, String),
    /// Warnings, and the failure that they come before.
    Warned(Vec<BString>, Box<Failure>),
    /// Planning found something in the repository that sapwood does not serve. Nothing was done.
    /// Printed like `Fatal`.
    Unserved(&'static str),
    /// A signal stopped us: the process ends by it, as the shell expects.
    Signal(i32),
}

/// Returns an error if a page of a mapped index could not be read after the index was opened. A
/// command that reads only parts of the index calls this before it prints an answer.
pub(crate) fn must_have_been_readable() -> Result<(), Failure> {
    match sys::unreported_unreadable_map() {
        None => Ok(()),
        Some((path, source)) => {
            Err(Failure::fatal(format!("unable to read '{}': {}", path.display(), sys::reason(&source))))
        }
    }
}

/// Refuses an option or form that sapwood does not serve yet, if it was asked for.
pub(crate) fn unserved_if(asked: bool, what: &str) -> Result<(), Failure> {
    if asked { Err(Failure::unsupported(what)) } else { Ok(()) }
}

/// Refuses an option that only has a meaning with `--patch`, if it was asked for: sapwood does not
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

    /// A path that cannot lead anywhere.
    pub(crate) fn refused(path: &sys::UserPath, refused: sys::Refused) -> Failure {
        Failure::fatal(match refused {
            sys::Refused::Empty => refused.to_string(),
            sys::Refused::TooLong => format!("Invalid path '{path}': {refused}"),
        })
    }

    /// An option without the one it belongs to.
    pub(crate) fn requires(option: &str, other: &str) -> Failure {
        Failure::fatal(format!("the option '{option}' requires '{other}'"))
    }

    /// There is no worktree.
    pub(crate) fn no_worktree() -> Failure {
        Failure::fatal("this operation must be run in a work tree")
    }

    /// Returns the failure for a worktree whose top cannot be opened. Git, which changes to it,
    /// treats a missing one as no worktree.
    pub(crate) fn cannot_open(dir: &std::path::Path) -> impl Fn(std::io::Error) -> Failure + '_ {
        use std::io::ErrorKind::{NotADirectory, NotFound};
        move |error| match error.kind() {
            NotFound | NotADirectory => Failure::no_worktree(),
            _ => Failure::fatal(format!("cannot open '{}': {}", dir.display(), sys::reason(&error))),
        }
    }

    /// Returns the failure for an unknown name: Git's message, unless the name may stand for
    /// something that cannot be read.
    pub(crate) fn of_name(error: repo::Error, otherwise: Failure) -> Failure {
        if error.is_unreadable() || error.is_final() { error.into() } else { otherwise }
    }

    /// An option or form that sapwood does not have yet. Git has it: SHORTCOMINGS.md lists it.
    pub(crate) fn unsupported(what: &str) -> Failure {
        Failure::Fatal(format!("{what} is not supported by sapwood yet (see SHORTCOMINGS.md)").into())
    }
}

impl Failure {
    /// This failure, with `advice` if there is any.
    pub(crate) fn advised(self, advice: Option<String>) -> Failure {
        match advice {
            Some(advice) => Failure::Advised(Box::new(self), advice),
            None => self,
        }
    }

    /// This failure without advice of our own: Git gives none.
    pub(crate) fn plain(self) -> Failure {
        match self {
            Failure::Advised(failure, _) => failure.plain(),
            Failure::Warned(warnings, failure) => Failure::Warned(warnings, Box::new(failure.plain())),
            other => other,
        }
    }

    /// Returns true if the failure prints this text.
    pub(crate) fn mentions(&self, text: &str) -> bool {
        use bstr::ByteSlice as _;
        match self {
            Failure::Fatal(message) => message.contains_str(text),
            Failure::Advised(failure, _) | Failure::Warned(_, failure) => failure.mentions(text),
            _ => false,
        }
    }

    /// Says what has not been said yet.
    pub(crate) fn say(&self) {
        match self {
            Failure::Fatal(message) => console::report("fatal", message),
            Failure::Error(message, _) => console::error(message),
            Failure::Usage(Stop::Help(usage)) => {
                console::out(usage.trim_end_matches('\n'));
                console::out("");
            }
            Failure::Usage(Stop::Mistake { message, usage }) => {
                console::error(message);
                if let Some(usage) = usage {
                    console::raw(usage.as_bytes());
                }
            }
            Failure::Misused(message) => {
                console::note(message);
                console::note(args::USAGE);
            }
            Failure::Advised(failure, advice) => {
                failure.say();
                console::hint(advice);
            }
            Failure::Warned(warnings, failure) => {
                warnings.iter().for_each(console::warning);
                failure.say();
            }
            Failure::Unserved(what) => console::report("fatal", format!("{what} are not supported yet")),
            Failure::Said(_) | Failure::Signal(_) => {}
        }
    }

    /// The exit code; for a signal, what a shell makes of it.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Fatal(_) | Failure::Unserved(_) => 128,
            Failure::Error(_, code) | Failure::Said(code) => *code,
            Failure::Usage(_) | Failure::Misused(_) => 129,
            Failure::Advised(failure, _) | Failure::Warned(_, failure) => failure.code(),
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
            warnings => Failure::Warned(warnings.to_vec(), Box::new(failure)),
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
                console::error(other.to_string());
                Failure::fatal("unable to write new index file")
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
        Failure::fatal(error.to_string())
    }
}

impl From<engine::workspace::base::Error> for Failure {
    fn from(error: engine::workspace::base::Error) -> Failure {
        Failure::fatal(error.to_string())
    }
}

impl From<engine::fleet::Error> for Failure {
    fn from(error: engine::fleet::Error) -> Failure {
        let advice = match &error {
            engine::fleet::Error::Remote(error) => error.advice(),
            _ => None,
        };
        Failure::fatal(error.to_string()).advised(advice.map(str::to_owned))
    }
}

impl From<remote::Error> for Failure {
    fn from(error: remote::Error) -> Failure {
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

impl From<engine::workspace::rebase::Error> for Failure {
    fn from(error: engine::workspace::rebase::Error) -> Failure {
        Failure::fatal(error.to_string())
    }
}

impl From<engine::workspace::remove::Error> for Failure {
    fn from(error: engine::workspace::remove::Error) -> Failure {
        Failure::fatal(error.to_string())
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
        console::error(error.to_string());
        Failure::fatal("unable to upgrade repository format to support relative worktrees")
    }
}
