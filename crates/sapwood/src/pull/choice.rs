//! The integration of fetched commits.

use bstr::{BString, ByteSlice as _};
use format::ObjectId;
use repo::{Repository, keys};

use crate::{Error, fast_forward::FastForward, settings::refused::Refused, text};

/// The integration of fetched commits if HEAD has commits of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rebase {
    /// A merge.
    No,
    /// A rebase.
    Yes,
    /// A rebase that makes merges again.
    Merges,
    /// A rebase whose steps the user edits.
    Interactive,
}

impl Rebase {
    /// Parses the value of the option or setting `name`.
    pub fn parse(name: &str, value: &BString) -> Result<Rebase, Refused> {
        let detail = match (repo::parse_bool(Some(value.as_bstr())), value.as_slice()) {
            (Some(false), _) => return Ok(Rebase::No),
            (Some(true), _) => return Ok(Rebase::Yes),
            (None, b"merges" | b"m") => return Ok(Rebase::Merges),
            (None, b"interactive" | b"i") => return Ok(Rebase::Interactive),
            (None, b"preserve" | b"p") => Some(format!("{value}: 'preserve' superseded by 'merges'")),
            (None, _) => None,
        };
        Err(Refused { detail, message: text!("invalid value for '", name, "': '", value, "'") })
    }
}

/// The integration that a request and the configuration select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// When a fast-forward is wanted; `None` for `merge.ff`.
    pub ff: Option<FastForward>,
    /// The integration of commits that have diverged.
    pub rebase: Rebase,
    /// True if neither the request nor a setting selects [`Choice::rebase`].
    pub is_default: bool,
}

/// Adds the settings `pull.ff`, `branch.<name>.rebase` and `pull.rebase` to the request of a pull.
pub fn choose(repo: &Repository, ff: Option<FastForward>, rebase: Option<Rebase>) -> Result<Choice, Error> {
    let ff = match (ff, repo.config_str(&keys::pull::FF)) {
        (None, Some(value)) => Some(match repo::parse_bool(Some(value.as_bstr())) {
            Some(true) => FastForward::Allowed,
            Some(false) => FastForward::Never,
            // An explicit `--rebase` takes precedence.
            None if value == "only" && rebase.is_some() => FastForward::Allowed,
            None if value == "only" => FastForward::Only,
            None => return Err(Error::Failed(text!("invalid value for 'pull.ff': '", value, "'"))),
        }),
        (ff, _) => ff,
    };
    if let Some(rebase) = rebase {
        return Ok(Choice { ff, rebase, is_default: false });
    }
    let head = repo.head()?;
    let branch = head.branch().and_then(|branch| branch.strip_prefix(b"refs/heads/"));
    let of_branch = branch.map(|branch| keys::branch::REBASE.of(branch.as_bstr()).name().to_owned());
    for key in of_branch.into_iter().chain([keys::pull::REBASE.name().to_owned()]) {
        if let Some(value) = repo.config_str(&key) {
            let rebase = Rebase::parse(&key, &value)?;
            return Ok(Choice { ff, rebase, is_default: false });
        }
    }
    Ok(Choice { ff, rebase: Rebase::No, is_default: true })
}

/// The step after the fetch of a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A merge, which may be a fast-forward.
    Merge,
    /// A rebase.
    Rebase {
        /// The fetched commit.
        onto: ObjectId,
        /// True if a fast-forward is enough.
        can_forward: bool,
    },
}

/// Returns the step that brings the fetched objects into a branch at `ours`. There is at least one.
pub fn decide(repo: &Repository, choice: &Choice, ours: ObjectId, heads: &[ObjectId]) -> Result<Step, Error> {
    let rebases = choice.rebase != Rebase::No;
    let is_ff_only = choice.ff == Some(FastForward::Only);
    if heads.len() > 1 {
        if rebases {
            return Err(Error::failed("Cannot rebase onto multiple branches."));
        }
        if is_ff_only {
            return Err(Error::failed("Cannot fast-forward to multiple branches."));
        }
    }
    let mut commits = Vec::new();
    for oid in heads {
        let commit = repo.peel_to_commit(*oid)?;
        commits.push(commit.ok_or_else(|| Error::failed(format!("{oid} is not a commit")))?);
    }
    let can_forward = commits.len() == 1 && repo.is_reachable(ours, &commits)?;
    let mut is_up_to_date = true;
    for theirs in &commits {
        is_up_to_date = is_up_to_date && repo.is_reachable(*theirs, &[ours])?;
    }
    let must_choose = choice.ff.is_none() && choice.is_default;
    if !can_forward && !is_up_to_date && (is_ff_only || must_choose) {
        return Err(Error::Diverged { ours, theirs: commits[0], must_choose });
    }
    if rebases && !is_ff_only { Ok(Step::Rebase { onto: commits[0], can_forward }) } else { Ok(Step::Merge) }
}
