//! Shared code of the subcommands.

use bstr::BString;
use repo::Repository;
use sapwood::stash::{
    self,
    entry::{self, Entry},
};

use crate::{
    session::{invocation::Invocation, settings::Settings},
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// Opens the repository of a subcommand.
pub(super) fn open(run: &Invocation) -> Result<(Repository, Settings), Failure> {
    let repo = run.open()?;
    stash::check(&repo)?;
    let settings = Settings::read(&repo)?.for_recording();
    Ok((repo, settings))
}

/// Finds the entry that `args` name; the newest one without arguments.
pub(super) fn find(repo: &Repository, args: &[BString]) -> Result<Entry, Failure> {
    if args.len() > 1 {
        let names: Vec<BString> = args.iter().map(|name| text!(" '", name, "'")).collect();
        console::eprint_line(text!("Too many revisions specified:", bstr::concat(names)));
        return Err(Failure::Reported(1));
    }
    Ok(entry::find(repo, args.first())?)
}

/// Prints that a stash needs an initial commit. Returns the exit code.
pub(super) fn no_commit_yet(quiet: bool) -> u8 {
    if !quiet {
        console::eprint_line("You do not have the initial commit yet");
    }
    1
}
