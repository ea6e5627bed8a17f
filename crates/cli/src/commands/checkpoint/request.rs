//! The options of the commands, and the repository in which they work.

use bstr::BString;
use repo::Repository;

use crate::{
    session::{
        invocation::Invocation,
        settings::{Reader, Settings, refused},
    },
    term::failure::Failure,
};

/// The options of all commands.
#[derive(Default)]
pub(super) struct Request {
    pub(super) label: Option<BString>,
    pub(super) json: bool,
    pub(super) quiet: bool,
    pub(super) head: bool,
    pub(super) to: Option<BString>,
    pub(super) backend: Option<BString>,
    pub(super) hook: bool,
    pub(super) watch: bool,
    pub(super) settle: Option<BString>,
    pub(super) fill: Option<BString>,
}

/// Opens the repository of a command.
pub(super) fn open(run: &Invocation) -> Result<(Repository, Settings), Failure> {
    let repo = run.open()?;
    if repo.work_tree().is_none() {
        return Err(Failure::no_worktree());
    }
    refused::check(&repo, &[Reader::Refs, Reader::Hooks])?;
    let settings = Settings::read(&repo)?.for_recording();
    Ok((repo, settings))
}

/// Returns the command line, for the entry.
pub(super) fn command_line(run: &Invocation) -> BString {
    let words = [BString::from("sapwood"), run.command.clone()];
    bstr::join(" ", words.iter().chain(&run.args)).into()
}
