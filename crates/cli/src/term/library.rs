//! Errors of the library as failures of a command, in Git's words.

use bstr::{BStr, BString, ByteSlice as _};
use sapwood::{
    BaseError, ConfigError, HeadChange, StashError,
    pull::local_changes,
    restore::unmerged,
    upstream::{self, Upstream},
};

use super::{
    console::text,
    failure::{Failure, Preface},
};

impl From<sapwood::PlanError> for Failure {
    fn from(error: sapwood::PlanError) -> Failure {
        match error {
            sapwood::PlanError::Unsupported(what) => Failure::Unserved(what),
            sapwood::PlanError::Failed(error) => error.into(),
        }
    }
}

impl From<sapwood::RunError> for Failure {
    fn from(error: sapwood::RunError) -> Failure {
        error.0.into()
    }
}

impl From<sapwood::Error> for Failure {
    fn from(error: sapwood::Error) -> Failure {
        match error {
            sapwood::Error::Refused(refused) => Failure::Refused(refused, 128),
            sapwood::Error::LinkInSubmodulePath { .. } | sapwood::Error::LinkForSubmodule(_) => {
                Failure::Error(error.to_string().into(), 128)
            }
            sapwood::Error::CannotMoveHead { change, source } => cannot_move_head(change, source),
            sapwood::Error::NotACommit { object, ref kind, .. } => {
                let detail = format!("object {object} is a {kind}, not a commit");
                Failure::fatal(error.to_string()).after(Preface::Error(detail.into()))
            }
            sapwood::Error::InvalidBranchName { ref name, advice } => invalid_branch_name(name, advice),
            sapwood::Error::BranchExpected { found, advises } => {
                let hint = "If you want to detach HEAD at the commit, try again with the --detach option.";
                let hints = if advises { vec![hint.into()] } else { Vec::new() };
                Failure::Fatal(text!("a branch is expected, got ", found)).hinted(hints)
            }
            sapwood::Error::Unmerged(paths) => {
                let lines = paths.iter().map(|path| text!(path, ": needs merge")).collect();
                Failure::error("you need to resolve your current index first").after(Preface::Output(lines))
            }
            sapwood::Error::Unmatched(specs) => {
                let unknown = "' did not match any file(s) known to git";
                Failure::Errors(specs.iter().map(|spec| text!("pathspec '", spec, unknown)).collect(), 1)
            }
            sapwood::Error::UnmergedPaths { paths, side } => {
                Failure::Errors(paths.iter().map(|path| unmerged(path, side)).collect(), 1)
            }
            sapwood::Error::LocalChanges { unstaged, staged } => {
                let lines = local_changes(unstaged, staged).into_iter().map(BString::from);
                Failure::Errors(lines.collect(), 128)
            }
            sapwood::Error::WouldLose(losses) => Failure::Errors(losses.texts(), 1),
            sapwood::Error::Identity(error) => error.into(),
            sapwood::Error::NewBranch(error) => (*error).into(),
            sapwood::Error::UnknownChanges { name, cause } => {
                let error = sapwood::Error::UnknownChanges { name, cause: None };
                let failure = Failure::fatal(error.to_string());
                match cause {
                    Some(cause) => failure.after(Preface::Cause(Box::new((*cause).into()))),
                    None => failure,
                }
            }
            sapwood::Error::Advised { message, advice } => Failure::Fatal(message).advised(Some(advice)),
            sapwood::Error::Backend(error) => (*error).into(),
            sapwood::Error::Record(error) => error.into(),
            sapwood::Error::Newer(error) => (*error).into(),
            sapwood::Error::RemoveWorkspace(error) => (*error).into(),
            sapwood::Error::Worktree(error) => error.into(),
            sapwood::Error::Refs(error) => Failure::fatal(error.to_string()).advised(error.advice()),
            sapwood::Error::Stash(error) => (*error).into(),
            sapwood::Error::Bases(error) => (*error).into(),
            error @ (sapwood::Error::LandConflicts { .. } | sapwood::Error::LandCheck { .. }) => {
                Failure::error(error.to_string())
            }
            sapwood::Error::NulInMessage => Failure::error(error.to_string()),
            // Git hides the cause.
            sapwood::Error::StaleIndex(ref cause) => {
                Failure::fatal(error.to_string()).after(Preface::Error(cause.to_string().into()))
            }
            sapwood::Error::Upstream(error) => error.into(),
            sapwood::Error::BranchExists(full) => already_exists(full.as_bstr()),
            sapwood::Error::Failed(message) => Failure::Fatal(message),
            sapwood::Error::Config(error) => error.into(),
            sapwood::Error::Entries(error) => (*error).into(),
            sapwood::Error::Interrupted => super::interrupt::Interrupt::default().failure(),
            sapwood::Error::ReferenceTransaction => Failure::unsupported(&error.to_string()),
            sapwood::Error::Setting(error) => error.into(),
            sapwood::Error::Repository(error) => error.into(),
            sapwood::Error::Store(error) => error.into(),
            sapwood::Error::WriteIndex(error) => error.into(),
            sapwood::Error::Look(error) => error.into(),
            sapwood::Error::Switch(error) => error.into(),
            sapwood::Error::Pathspec(message) => Failure::Fatal(message),
            error => Failure::fatal(error.to_string()),
        }
    }
}

impl From<BaseError> for Failure {
    fn from(error: BaseError) -> Failure {
        let message = error.to_string();
        match error {
            BaseError::Store(error) => error.into(),
            BaseError::Transfer(error) => error.into(),
            BaseError::NotSigned(cause) => {
                let message = format!("{message}: see above");
                Failure::fatal(message).after(Preface::Cause(Box::new(cause.into())))
            }
            BaseError::StillNeeded { .. } => Failure::error(message),
            _ => Failure::fatal(message),
        }
    }
}

impl From<StashError> for Failure {
    fn from(error: StashError) -> Failure {
        let message = error.to_string();
        match error {
            StashError::NoEntries => Failure::Reported(1).after(Preface::Text(message)),
            StashError::Unmerged(paths) => {
                let lines = paths.iter().map(|path| text!(path, ": needs merge")).collect();
                Failure::error(message).after(Preface::Output(lines))
            }
            // Git hides the cause.
            StashError::NotRecorded(cause) => Failure::Reported(1)
                .advised(cause.advice())
                .after(Preface::Text(message))
                .after(Preface::Error(cause.to_string().into())),
            StashError::NotDropped { source, .. } => {
                Failure::error(message).after(Preface::Error(source.to_string().into()))
            }
            StashError::NotCleared(cause) => Failure::error(message).advised(cause.advice()),
            StashError::NotAnEntry(_) | StashError::NotDurable { .. } => Failure::error(message),
            StashError::Engine(_) => Failure::fatal(message),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        let text = error.to_string();
        match error {
            ConfigError::Key { message, is_incomplete } => {
                Failure::Error(message, 1 + u8::from(is_incomplete))
            }
            ConfigError::NotAFile(_) | ConfigError::NotWritten { .. } => Failure::Error(text.into(), 4),
            ConfigError::Nothing => Failure::Reported(5),
            ConfigError::Multiple(key) => {
                let warning = text!(key, " has multiple values");
                Failure::Reported(5).after(Preface::Warnings(vec![warning]))
            }
            ConfigError::Pattern(message) => Failure::Error(message, 6),
            ConfigError::BadValue { message, place } => Failure::Fatal(place).after(Preface::Error(message)),
            ConfigError::Section(name) => Failure::Error(text!("invalid section name: ", name), 255),
            ConfigError::Locked { name, reason } => {
                Failure::Error(text!("could not lock config file ", name, ": ", reason), 255)
            }
        }
    }
}

/// Returns the failure for a change of HEAD. Git words it for each kind of change.
fn cannot_move_head(change: HeadChange, source: engine::switch::Error) -> Failure {
    if source.is_missing_committer() {
        return source.into();
    }
    let failure = match change {
        HeadChange::Reset => Failure::error(format!("update_ref failed for ref 'HEAD': {source}")),
        HeadChange::Detach | HeadChange::Advance => {
            Failure::fatal(format!("update_ref failed for ref 'HEAD': {source}"))
        }
        HeadChange::Attach => {
            Failure::fatal("unable to update HEAD").after(Preface::Error(source.to_string().into()))
        }
    };
    failure.advised(source.advice())
}

impl From<sapwood::settings::Error> for Failure {
    fn from(error: sapwood::settings::Error) -> Failure {
        match error {
            sapwood::settings::Error::Config(error) => error.into(),
            sapwood::settings::Error::Refused(refused) => refused.into(),
            error => Failure::fatal(error.to_string()),
        }
    }
}

impl From<sapwood::settings::refused::Refused> for Failure {
    fn from(refused: sapwood::settings::refused::Refused) -> Failure {
        let failure = Failure::Fatal(refused.message);
        match refused.detail {
            Some(detail) => failure.after(Preface::Error(detail.into())),
            None => failure,
        }
    }
}

/// Returns the failure of a command that changes one ref. As in Git, only a veto of the hook is
/// fatal.
pub(crate) fn not_changed(error: sapwood::Error) -> Failure {
    match error {
        sapwood::Error::Refs(error) if !error.is_veto() => {
            Failure::error(error.to_string()).advised(error.advice())
        }
        error => error.into(),
    }
}

/// Returns the failure for a new branch `full` that exists.
pub(crate) fn already_exists(full: &BStr) -> Failure {
    let short = full.strip_prefix(b"refs/heads/").unwrap_or(full);
    Failure::Fatal(text!("a branch named '", short, "' already exists"))
}

fn invalid_branch_name(name: &BString, advice: Option<bool>) -> Failure {
    let mut hints = Vec::new();
    if advice.unwrap_or(true) {
        hints.push("See 'git help check-ref-format'".into());
        if advice.is_none() {
            hints.push("Disable this message with \"git config set advice.refSyntax false\"".into());
        }
    }
    Failure::Fatal(text!("'", name, "' is not a valid branch name")).hinted(hints)
}

impl From<upstream::Error> for Failure {
    fn from(error: upstream::Error) -> Failure {
        match error {
            upstream::Error::Ambiguous { start, remotes, advises } => {
                let hints = if advises { vec![several_remotes(&start, &remotes)] } else { Vec::new() };
                Failure::Fatal(text!("not tracking: ambiguous information for ref '", start, "'"))
                    .hinted(hints)
            }
            upstream::Error::Locked { file, reason, advice, created } => {
                let locked = format!("could not lock config file {}: {reason}", file.display());
                let messages = vec![locked.into(), "unable to write upstream branch configuration".into()];
                let hints = created.map(|created| how_to_fix_up(&created.0, &created.1));
                Failure::Errors(messages, 1).hinted(hints.unwrap_or_default()).advised(advice)
            }
            upstream::Error::NotABranch(name) => Failure::Fatal(text!(
                "cannot set up tracking information; starting point '",
                name,
                "' is not a branch"
            )),
            upstream::Error::AmbiguousName(name) => {
                Failure::Fatal(text!("ambiguous object name: '", name, "'"))
            }
            error => Failure::fatal(error.to_string()),
        }
    }
}

fn several_remotes(start: &BString, remotes: &[BString]) -> BString {
    let list = bstr::concat(remotes.iter().map(|name| text!("  ", name, "\n")));
    text!(
        "There are multiple remotes whose fetch refspecs map to the remote\n\
         tracking ref '",
        start,
        "':\n",
        list,
        "\n\
         This is typically a configuration error.\n\
         \n\
         To support setting up tracking branches, ensure that\n\
         different remotes' fetch refspecs map into different\n\
         tracking namespaces."
    )
}

/// Returns how to set the upstream of a branch that exists by now.
fn how_to_fix_up(branch: &BString, upstream: &Upstream) -> Vec<BString> {
    let cause = "\nAfter fixing the error cause you may try to fix up\n\
                 the remote tracking information by invoking:";
    let mut hints = vec![BString::from(cause)];
    match (&upstream.merge[..], &upstream.remote) {
        ([only], Some(remote)) => {
            hints.push(text!("  git branch --set-upstream-to=", remote, "/", only));
        }
        ([only], None) => hints.push(text!("  git branch --set-upstream-to=", only)),
        (many, remote) => {
            let remote = remote.clone().unwrap_or_else(|| ".".into());
            hints.push(text!("  git config --add branch.\"", branch, "\".remote ", remote));
            for name in many {
                hints.push(text!("  git config --add branch.\"", branch, "\".merge ", name));
            }
        }
    }
    hints
}
