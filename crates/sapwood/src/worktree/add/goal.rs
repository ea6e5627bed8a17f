//! The branch or commit of a new worktree.

use std::fmt;

use bstr::{BString, ByteSlice as _};
use format::ObjectId;
use repo::{Guess, keys};

use super::{Add, FileSource, basename};
use crate::{Error, Notice, status::messages::about_objects, text};

/// The branch or commit of a new worktree.
#[derive(Clone, Debug)]
pub struct Goal {
    /// The branch, or the name of the commit.
    pub(super) name: BString,
    /// The branch to create.
    pub(super) new_branch: Option<BString>,
    pub(super) orphan: bool,
    pub(super) commit: Option<ObjectId>,
}

impl fmt::Display for Goal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.new_branch {
            Some(branch) if self.orphan => write!(formatter, "new branch '{branch}' without a commit"),
            Some(branch) => write!(formatter, "branch '{branch}' at {}", self.name),
            None => write!(formatter, "{}", self.name),
        }
    }
}

impl Add<'_> {
    /// Finds the branch or commit. Changes nothing.
    pub fn plan(&self) -> Result<Goal, Error> {
        let mut goal = self.goal()?;
        if !goal.orphan {
            goal.commit = self.commit(goal.name.as_bstr())?;
            if goal.commit.is_none() {
                return Err(self.no_commit(&goal)?);
            }
        }
        Ok(goal)
    }

    fn goal(&self) -> Result<Goal, Error> {
        let request = self.request;
        let given = request.start.is_some();
        let mut name = request.start.clone().unwrap_or_else(|| "HEAD".into());
        if name == "-" {
            name = "@{-1}".into();
        }
        if let Some(branch) = &request.force_branch
            && request.force == 0
            && let Some(full) = self.existing(branch.as_bstr())?
        {
            self.refuse_used(full.as_bstr())?;
        }
        let mut new_branch = request.force_branch.clone().or_else(|| request.branch.clone());
        let mut orphan = request.orphan;
        let named = self.source.and_then(FileSource::name);
        let base = named.unwrap_or_else(|| basename(self.at.shown.as_bstr()));
        if orphan {
            new_branch = new_branch.or_else(|| Some(base.to_owned()));
        } else if request.detach {
            if name == "HEAD" {
                self.has_local_refs()?;
            }
        } else if !given && new_branch.is_some() {
            orphan = self.infers_orphan(None)?;
        } else if !given {
            let mut found = None;
            if self.existing(base)?.is_some() {
                found = Some(base.to_owned());
            } else {
                new_branch = Some(base.to_owned());
                if self.guesses_remote()?
                    && let Guess::Unique { tracking, .. } = self.repo.guess_remote_branch(base)?
                {
                    found = Some(tracking);
                }
            }
            match found {
                Some(found) => name = found,
                None => orphan = self.infers_orphan(Some(self.guesses_remote()?))?,
            }
        } else {
            if self.commit(name.as_bstr())?.is_none()
                && let Guess::Unique { tracking, .. } = self.repo.guess_remote_branch(name.as_bstr())?
            {
                new_branch = Some(std::mem::replace(&mut name, tracking));
            }
            if name == "HEAD" {
                self.has_local_refs()?;
            }
        }
        Ok(Goal { name, new_branch, orphan, commit: None })
    }

    fn guesses_remote(&self) -> Result<bool, Error> {
        Ok(match self.request.guess_remote {
            Some(guesses) => guesses,
            None => self.repo.config(&keys::worktree::GUESS_REMOTE)?,
        })
    }

    /// Returns true if HEAD or any branch exists.
    fn has_local_refs(&self) -> Result<bool, Error> {
        if self.repo.head().is_ok_and(|head| head.oid().is_some()) {
            return Ok(true);
        }
        let any = !self.repo.refs("refs/heads/")?.is_empty();
        if any && !self.request.quiet {
            self.worktrees.events.notice(Notice::InvalidHead);
        }
        Ok(any)
    }

    /// Returns true if there is no commit to start from, so that the branch is an orphan. If
    /// `remote` is `Some(true)`, remote branches count as starting points.
    fn infers_orphan(&self, remote: Option<bool>) -> Result<bool, Error> {
        if self.has_local_refs()? {
            return Ok(false);
        }
        if remote == Some(true) {
            if !self.repo.refs("refs/remotes/")?.is_empty() {
                return Ok(false);
            }
            if self.request.force == 0 && self.has_remote() {
                return Err(Error::failed(
                    "No local or remote refs exist despite at least one remote\n\
                     present, stopping; use 'add -f' to override or fetch a remote first",
                ));
            }
        }
        if !self.request.quiet {
            self.worktrees.events.notice(Notice::InferringOrphan);
        }
        let together = |other: &str| {
            Err(Error::failed(format!("options '--orphan' and '{other}' cannot be used together")))
        };
        if self.request.track.is_some() {
            return together("--track");
        }
        if self.request.no_checkout {
            return together("--no-checkout");
        }
        Ok(true)
    }

    fn has_remote(&self) -> bool {
        let head = self.repo.head().ok();
        let branch = head.as_ref().and_then(|head| head.branch()).unwrap_or("".into());
        let remote = self.repo.remote_of(branch);
        self.repo.config_str(&keys::remote::URL.of(remote)).is_some()
    }

    /// Returns the error of a goal without a commit, and reports Git's advice.
    fn no_commit(&self, goal: &Goal) -> Result<Error, Error> {
        let Add { worktrees, repo, settings, request, .. } = self;
        about_objects(repo, worktrees.events);
        if !request.quiet
            && request.start.is_none()
            && settings.advises(repo, keys::advice::WORKTREE_ADD_ORPHAN)?
        {
            let branch = request.branch.as_ref().or(request.force_branch.as_ref()).cloned();
            worktrees.events.notice(Notice::OrphanAdvice { branch, path: self.at.shown.clone() });
        }
        Ok(Error::Failed(text!("invalid reference: ", goal.name)))
    }

    pub(super) fn report_preparing(&self, goal: &Goal) -> Result<(), Error> {
        let what = match &goal.new_branch {
            Some(branch) => {
                let was = match self.request.force_branch {
                    Some(_) => self.commit(branch.as_bstr())?,
                    None => None,
                };
                match was {
                    Some(commit) => {
                        let short = self.repo.abbreviate(commit)?;
                        text!("resetting branch '", branch, "'; was at ", short)
                    }
                    None => text!("new branch '", branch, "'"),
                }
            }
            None if !self.request.detach && self.existing(goal.name.as_bstr())?.is_some() => {
                text!("checking out '", goal.name, "'")
            }
            None => {
                let commit = self.commit(goal.name.as_bstr())?.expect("it was looked up before");
                text!("detached HEAD ", self.repo.abbreviate(commit)?)
            }
        };
        self.worktrees.events.notice(Notice::PreparingWorktree(what));
        Ok(())
    }
}
