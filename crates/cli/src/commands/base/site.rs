//! The remote of a command.

use bstr::{BString, ByteSlice as _};
use repo::wire::url::without_credentials;
use sapwood::base::Access;

use crate::{
    session::{
        Session,
        invocation::{Invocation, Place},
        settings::Settings,
    },
    term::{console::text, failure::Failure},
};

/// Returns the settings for remotes of a repository, or outside of one.
pub(super) fn access<'a>(run: &Invocation, place: &'a Place) -> Access<'a> {
    match place {
        Place::Repository(repo) => access_of(run, repo),
        Place::Outside(config) => Access::outside(config, run.interrupt.shared()),
    }
}

fn access_of<'a>(run: &Invocation, repo: &'a repo::Repository) -> Access<'a> {
    Access::of(repo, run.interrupt.shared())
}

/// Takes the remote from the words of a command line: the first word, unless `sapwood.baseRemote`
/// is set and the first word is no address.
pub(super) fn take_remote(access: &Access<'_>, words: &mut Vec<BString>) -> Option<BString> {
    let is_address = words.first().is_some_and(|word| !access.has_default() || word.contains_str("://"));
    is_address.then(|| words.remove(0))
}

/// Refuses a word that follows the remote.
pub(super) fn refuse_more(command: &str, words: &[BString]) -> Result<(), Failure> {
    let Some(extra) = words.first() else { return Ok(()) };
    let extra = without_credentials(extra.as_bstr());
    Err(Failure::fatal(text!(command, " takes one remote, and so not '", extra, "'")))
}

/// The repository of a command, and its settings.
pub(super) struct Site<'a> {
    run: &'a Invocation,
    repo: repo::Repository,
    settings: Settings,
}

impl<'a> Site<'a> {
    /// Opens the repository.
    pub(super) fn open(run: &'a Invocation) -> Result<Site<'a>, Failure> {
        let repo = run.open()?;
        let settings = Settings::read(&repo)?;
        Ok(Site { run, repo, settings })
    }

    /// Returns the settings for remotes.
    pub(super) fn access(&self) -> Access<'_> {
        access_of(self.run, &self.repo)
    }

    /// Returns the context of the library.
    pub(super) fn context(&self) -> sapwood::Context<'_> {
        let session = Session { invocation: self.run, repository: &self.repo, settings: &self.settings };
        session.context(self.run)
    }
}

/// Takes the commit from the words after the remote, of which there is at most one.
pub(super) fn only_commit(words: Vec<BString>) -> Result<Option<BString>, Failure> {
    if words.len() > 1 {
        return Err(Failure::fatal("name the remote, and at most one commit"));
    }
    Ok(words.into_iter().next())
}
