//! The upstream of a new branch: `branch.<name>.remote` and `.merge`.

use std::path::PathBuf;

use bstr::{BStr, BString, ByteSlice as _};
pub use engine::switch::tracking::Upstream;
use engine::switch::{
    names,
    tracking::{self, NoUpstream, Track},
};
use format::config::Edit;
use repo::{Repository, keys};

use crate::{Context, Error as CommonError, Notice, text};

/// Why a branch cannot get an upstream.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// With an explicit request: the start is not a branch.
    #[error("cannot set up tracking information; starting point '{0}' is not a branch")]
    NotABranch(BString),
    /// The start names several refs.
    #[error("ambiguous object name: '{0}'")]
    AmbiguousName(BString),
    /// Several remotes fetch into the start.
    #[error("not tracking: ambiguous information for ref '{start}'")]
    Ambiguous {
        /// The full name of the start.
        start: BString,
        /// The remotes.
        remotes: Vec<BString>,
        /// True if the text says how to go on: `advice.ambiguousFetchRefspec`.
        advises: bool,
    },
    /// A pull would rebase onto several refs.
    #[error("cannot inherit upstream tracking configuration of multiple refs when rebasing is requested")]
    RebaseOntoSeveral,
    /// Another process has the configuration locked.
    #[error("could not lock config file {}: {reason}", .file.display())]
    Locked {
        /// The file.
        file: PathBuf,
        /// The reason.
        reason: String,
        /// How to go on, if the lock may be a stale one.
        advice: Option<String>,
        /// The branch and its upstream, if the branch was created by then.
        created: Option<Box<(BString, Upstream)>>,
    },
}

/// An upstream that was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The short name of the branch.
    pub branch: BString,
    /// Its upstream.
    pub upstream: Upstream,
    /// A pull rebases the branch (`branch.autoSetupRebase`).
    pub rebases: bool,
}

impl Installed {
    /// Returns Git's text.
    pub fn text(&self) -> BString {
        let Installed { branch, upstream, rebases } = self;
        let friendly = |name: &BString| {
            let short = name.strip_prefix(names::BRANCHES).unwrap_or(name);
            match &upstream.remote {
                Some(remote) => text!(remote, "/", short),
                None => short.into(),
            }
        };
        match &upstream.merge[..] {
            [only] => {
                let end = if *rebases { "' by rebasing." } else { "'." };
                text!("branch '", branch, "' set up to track '", friendly(only), end)
            }
            many => {
                let all = bstr::concat(many.iter().map(|name| text!("\n  ", friendly(name))));
                text!("branch '", branch, "' set up to track:", all)
            }
        }
    }
}

/// The ref that a branch starts from, if it can be an upstream.
#[derive(Debug)]
pub struct Start(Option<BString>);

impl Start {
    /// Finds the ref. With [`Track::Explicit`], it is an error if it cannot be an upstream.
    pub fn find(repo: &Repository, name: &BStr, track: Track) -> Result<Start, CommonError> {
        let mut refs = names::expand(repo, name)?;
        if refs.len() > 1 {
            return Err(Error::AmbiguousName(name.to_owned()).into());
        }
        let is_branch = |full: &BString| {
            full.starts_with(names::BRANCHES) || tracking::is_tracking_ref(repo, full.as_bstr())
        };
        let full = refs.pop().map(|(full, _)| full).filter(is_branch);
        if full.is_none() && track == Track::Explicit {
            return Err(Error::NotABranch(name.to_owned()).into());
        }
        Ok(Start(full))
    }
}

/// Returns an error if [`set`] would fail. Called before the branch is created.
pub fn preflight(
    context: Context<'_>,
    branch: &BStr,
    start: &Start,
    track: Track,
) -> Result<(), CommonError> {
    let repo = context.repo;
    let Some(start) = &start.0 else { return Ok(()) };
    let upstream = match tracking::choose_upstream(repo, branch, start.as_bstr(), track) {
        Ok(upstream) => upstream,
        Err(NoUpstream::Ambiguous(remotes)) => return Err(ambiguous(context, start.as_bstr(), remotes)?),
        Err(_) => return Ok(()),
    };
    rebases(repo, &upstream)?;
    let config = repo.common_dir().join("config");
    store::Lock::wait_until_free(&config, context.settings.config_locks.wait).map_err(|error| {
        let reason = match &error {
            store::Error::CannotLock { source, .. } => sys::reason(source).to_string(),
            _ => "File exists".to_owned(),
        };
        let file = repo.display_common_file("config");
        Error::Locked { file, reason, advice: error.advice(), created: None }.into()
    })
}

/// Returns true if a pull of a branch with this upstream rebases (`branch.autoSetupRebase`).
fn rebases(repo: &Repository, upstream: &Upstream) -> Result<bool, Error> {
    let rebase =
        match repo.config_str(&keys::branch::AUTO_SETUP_REBASE).as_ref().map(|value| value.as_bytes()) {
            Some(b"always") => true,
            Some(b"local") => upstream.remote.is_none(),
            Some(b"remote") => upstream.remote.is_some(),
            _ => false,
        };
    if rebase && upstream.merge.len() > 1 { Err(Error::RebaseOntoSeveral) } else { Ok(rebase) }
}

/// Writes `branch.<name>.remote` and `.merge`, if there is an upstream. Reports why there is none.
pub fn set(
    context: Context<'_>,
    branch: &BStr,
    start: Start,
    track: Track,
) -> Result<Option<Installed>, CommonError> {
    let Some(start) = start.0 else { return Ok(None) };
    match tracking::choose_upstream(context.repo, branch, start.as_bstr(), track) {
        Ok(upstream) => install(context, branch, &upstream).map(Some),
        Err(NoUpstream::Ambiguous(remotes)) => Err(ambiguous(context, start.as_bstr(), remotes)?),
        Err(none) => {
            let notice = explain(branch, start.as_bstr(), &none).map(Notice::NoUpstream);
            notice.into_iter().for_each(|notice| context.events.notice(notice));
            Ok(None)
        }
    }
}

/// Sets the upstream of the branch.
pub fn install(context: Context<'_>, branch: &BStr, upstream: &Upstream) -> Result<Installed, CommonError> {
    let repo = context.repo;
    let rebases = rebases(repo, upstream)?;
    let remote = upstream.remote.clone().unwrap_or_else(|| ".".into());
    let mut edits = vec![
        Edit::Set { key: keys::branch::REMOTE.with(branch), value: remote },
        Edit::Unset { key: keys::branch::MERGE.with(branch) },
    ];
    edits.extend(
        upstream
            .merge
            .iter()
            .map(|name| Edit::Add { key: keys::branch::MERGE.with(branch), value: name.clone() }),
    );
    if rebases {
        edits.push(Edit::Set { key: keys::branch::REBASE.with(branch), value: "true".into() });
    }
    let path = repo.common_dir().join("config");
    match store::config::edit(&path, &edits, &context.settings.config_locks, &context.settings.fsync) {
        Err(store::config::Error::Store(store::Error::Locked { .. } | store::Error::CannotLock { .. })) => {
            let (file, reason) = (repo.display_common_file("config"), "File exists".to_owned());
            let created = Some(Box::new((branch.to_owned(), upstream.clone())));
            return Err(Error::Locked { file, reason, advice: None, created }.into());
        }
        edited => edited?,
    }
    Ok(Installed { branch: branch.to_owned(), upstream: upstream.clone(), rebases })
}

fn ambiguous(context: Context<'_>, start: &BStr, remotes: Vec<BString>) -> Result<CommonError, CommonError> {
    let advises = context.advises(keys::advice::AMBIGUOUS_FETCH_REFSPEC)?;
    Ok(Error::Ambiguous { start: start.to_owned(), remotes, advises }.into())
}

/// Returns Git's warning about a branch that gets no upstream.
fn explain(branch: &BStr, start: &BStr, none: &NoUpstream) -> Option<BString> {
    let short = start.strip_prefix(names::BRANCHES).unwrap_or(start);
    let asked =
        |missing: &str| text!("asked to inherit tracking from '", short, "', but no ", missing, " is set");
    match none {
        NoUpstream::NotWanted | NoUpstream::Ambiguous(_) => None,
        NoUpstream::Itself => Some(text!("not setting branch '", branch, "' as its own upstream")),
        NoUpstream::StartHasNoRemote => Some(asked("remote")),
        NoUpstream::StartHasNoMerge => Some(asked("merge configuration")),
    }
}
