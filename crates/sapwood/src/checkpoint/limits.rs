//! The limits of the entries of a worktree.

use engine::worktree::prune::Expire;
use repo::{Repository, keys};

use crate::{
    Error,
    settings::{self, expiry::expire_date},
};

/// The number and the age of the entries that stay.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// `sapwood.checkpointKeep`: at least 1.
    pub(super) keep: usize,
    /// `sapwood.checkpointExpire`: entries from before this time, in seconds since 1970, go. `None`
    /// if none go.
    pub(super) before: Option<i64>,
}

impl Limits {
    /// Reads the settings. Operations do so before they write anything.
    pub(super) fn read(repo: &Repository) -> Result<Limits, Error> {
        Ok(Limits { keep: keep(repo)?, before: before(repo)? })
    }
}

fn keep(repo: &Repository) -> Result<usize, Error> {
    let key = keys::sapwood::CHECKPOINT_KEEP;
    let value = repo.config(&key)?;
    let bad = || settings::Error::Own {
        name: key.name(),
        value: value.to_string().into(),
        expected: "it is a number of entries, at least 1",
    };
    Ok(usize::try_from(value).ok().filter(|keep| *keep > 0).ok_or_else(bad)?)
}

fn before(repo: &Repository) -> Result<Option<i64>, Error> {
    let key = keys::sapwood::CHECKPOINT_EXPIRE;
    let value = repo.config_text(&key);
    match expire_date(value.as_ref()) {
        Some(Expire::At(0)) => Ok(None),
        Some(Expire::At(time)) => Ok(Some(time)),
        Some(Expire::Now) => Ok(Some(i64::MAX)),
        None => {
            let expected = "it is 'never', 'now', or a time such as '2.weeks.ago'";
            Err(settings::Error::Own { name: key.name(), value, expected }.into())
        }
    }
}
