//! One submodule: a fetch if the commit is missing, the worktree, the nested submodules.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
use format::ObjectId;
use repo::{Repository, keys};
use sys::by_path;

use super::{Request, Update};
use crate::{
    Error,
    submodule::{Strategy, Superproject, recorded, remote, setting},
    submodules::connect,
    text,
};

/// The operations in a submodule that an update consists of.
pub trait Source {
    /// The error of an operation.
    type Error: From<Error>;

    /// Fetches in a submodule. Returns false if that failed, and was said.
    fn fetch(&self, submodule: Place<'_>, fetch: Fetch) -> Result<bool, Self::Error>;

    /// Updates the worktree of a submodule to a commit.
    fn bring(&self, submodule: Place<'_>, bring: &Bring) -> Result<(), Self::Error>;

    /// Updates the submodules within a submodule.
    fn nested(&self, submodule: Place<'_>) -> Result<(), Self::Error>;

    /// The branches that were fetched lack the commit, or did not come: the commit itself is
    /// fetched next.
    fn fetches_commit(&self, submodule: Place<'_>, commit: ObjectId);

    /// A submodule has its commit.
    fn updated(&self, updated: Updated);
}

/// A submodule.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Its worktree.
    pub dir: &'a PathBuf,
    /// Its path in the superproject.
    pub path: &'a BStr,
    /// Its path, as messages show it.
    pub shown: &'a BStr,
}

/// The extent of a fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetch {
    /// The branches, as configured.
    Branches,
    /// The branches, because the request follows one of them. Git's output is not reduced then.
    Followed,
    /// A commit, from this remote.
    Commit(BString, ObjectId),
}

/// A change of a submodule's worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bring {
    /// The new commit.
    pub commit: ObjectId,
    /// The way to it; never [`Strategy::None`].
    pub strategy: Strategy,
    /// Local changes are lost.
    pub force: bool,
}

/// A submodule that was updated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Updated {
    /// Its path, as messages show it.
    pub path: BString,
    /// Its commit.
    pub commit: ObjectId,
    /// The way to it.
    pub strategy: Strategy,
}

/// Why a submodule was not updated.
#[derive(Debug)]
pub enum Failed<E> {
    /// The worktree did not get the commit.
    Brought {
        /// The path, as messages show it.
        path: BString,
        /// The change.
        bring: Bring,
        /// The cause.
        cause: E,
    },
    /// A nested submodule was not updated.
    Nested {
        /// The path of the submodule around it, as messages show it.
        path: BString,
        /// The cause.
        cause: E,
    },
    /// A step before that failed.
    Other(E),
}

impl<E: From<Error>> From<Error> for Failed<E> {
    fn from(error: Error) -> Failed<E> {
        Failed::Other(error.into())
    }
}

/// Updates one submodule and the ones within it.
pub fn one<S: Source>(
    superproject: &Superproject<'_>,
    request: &Request,
    update: &Update,
    source: &S,
) -> Result<(), Failed<S::Error>> {
    let path = update.path.as_bstr();
    superproject.submodules.validate(path)?;
    let (dir, shown) = (superproject.dir(path), superproject.shown(path));
    let place = Place { dir: &dir, path, shown: shown.as_bstr() };
    let submodule = open(superproject, path)?;
    connect::renew_worktree(&dir, submodule.git_dir(), superproject.settings)?;
    let strategy = strategy(superproject, request, update)?;
    let is_new = update.is_new || is_unfilled(&dir, &submodule);
    let strategy = if is_new { strategy.of_new() } else { strategy };
    let head = if is_new { None } else { Some(head(&submodule, place.shown)?) };
    let step = Step { superproject, request, place, source };
    let commit =
        if request.remote { step.tip_of_remote(&submodule).map_err(Failed::Other)? } else { update.commit };
    drop(submodule);
    if head != Some(commit) || request.force {
        if !request.no_fetch {
            step.ensure(commit).map_err(Failed::Other)?;
        }
        let bring = Bring { commit, strategy, force: head.is_none() || request.force };
        if let Err(cause) = source.bring(place, &bring) {
            return Err(Failed::Brought { path: shown, bring, cause });
        }
        source.updated(Updated { path: shown.clone(), commit, strategy: bring.strategy });
    }
    if !request.recursive {
        return Ok(());
    }
    source.nested(place).map_err(|cause| Failed::Nested { path: shown.clone(), cause })
}

fn head(submodule: &Repository, shown: &BStr) -> Result<ObjectId, Error> {
    let head = submodule.head().ok().and_then(|head| head.oid());
    let unknown = || text!("Unable to find current revision in submodule path '", shown, "'");
    head.ok_or_else(|| Error::Failed(unknown()))
}

/// Opens the submodule at `path`.
fn open(superproject: &Superproject<'_>, path: &BStr) -> Result<Repository, Error> {
    let opened = superproject.repo.submodule(path).ok().flatten();
    let failed = || text!("could not get a repository handle for submodule '", path, "'");
    opened.ok_or_else(|| Error::Failed(failed()))
}

/// Returns true if an update merges commits or rebases them.
pub(super) fn merges(
    superproject: &Superproject<'_>,
    request: &Request,
    update: &Update,
) -> Result<bool, Error> {
    let strategy = strategy(superproject, request, update)?;
    if update.is_new || !matches!(strategy, Strategy::Merge | Strategy::Rebase) {
        return Ok(false);
    }
    let Ok(submodule) = open(superproject, update.path.as_bstr()) else { return Ok(true) };
    let is_current = head(&submodule, update.path.as_bstr()).is_ok_and(|head| head == update.commit);
    let is_new = is_unfilled(&superproject.dir(update.path.as_bstr()), &submodule);
    Ok(!is_new && (request.remote || request.force || !is_current))
}

/// Returns true if the worktree was never filled: an earlier update was interrupted after it had
/// connected the worktree with its repository.
fn is_unfilled(dir: &Path, submodule: &Repository) -> bool {
    let has_no_index = matches!(by_path::stat(&submodule.git_dir().join("index")), Ok(None));
    has_no_index && by_path::list(dir).is_ok_and(|names| names.iter().all(|(name, _)| name == ".git"))
}

/// Returns the way in which a submodule gets its commit, unless it is new.
fn strategy(superproject: &Superproject<'_>, request: &Request, update: &Update) -> Result<Strategy, Error> {
    let name = update.name.as_bstr();
    let invalid = |value: &BString| {
        let path = &update.path;
        Error::Failed(text!("Invalid update mode '", value, "' configured for submodule path '", path, "'"))
    };
    let strategy = match (&request.strategy, setting(superproject.repo, name, keys::submodule::ONE_UPDATE)) {
        (Some(strategy), _) => strategy.clone(),
        (None, Some(value)) => Strategy::parse(&value).ok_or_else(|| invalid(&value))?,
        (None, None) => {
            match superproject.submodules.module(update.path.as_bstr()).and_then(|module| module.update) {
                Some(update) => recorded(name, &update)?,
                None => Strategy::Checkout,
            }
        }
    };
    Ok(strategy)
}

impl Strategy {
    /// Returns the way in which a new worktree gets its commit: there is nothing to merge with.
    fn of_new(self) -> Strategy {
        match self {
            Strategy::Command(command) => Strategy::Command(command),
            _ => Strategy::Checkout,
        }
    }
}

struct Step<'a, S> {
    superproject: &'a Superproject<'a>,
    request: &'a Request,
    place: Place<'a>,
    source: &'a S,
}

impl<S: Source> Step<'_, S> {
    /// Fetches `commit`, unless it is reachable from the submodule's refs.
    fn ensure(&self, commit: ObjectId) -> Result<(), S::Error> {
        let Step { superproject, place, source, .. } = *self;
        if is_reachable(&open(superproject, place.path)?, commit) {
            return Ok(());
        }
        if !source.fetch(place, Fetch::Branches)? {
            source.fetches_commit(place, commit);
        }
        let submodule = open(superproject, place.path)?;
        if is_reachable(&submodule, commit) {
            return Ok(());
        }
        let remote = remote::of_submodule(superproject, place.path, &submodule)?;
        if source.fetch(place, Fetch::Commit(remote, commit))? {
            return Ok(());
        }
        Err(Error::Failed(text!(
            "Fetched in submodule path '",
            place.shown,
            "', but it did not contain ",
            commit.to_string(),
            ". Direct fetching of that commit failed."
        ))
        .into())
    }

    /// Returns the tip of the branch that the submodule follows, fetched if the request allows it.
    fn tip_of_remote(&self, submodule: &Repository) -> Result<ObjectId, S::Error> {
        let Step { superproject, request, place, source } = *self;
        let path = place.path;
        let remote = remote::of_submodule(superproject, path, submodule)?;
        let branch = self.followed_branch()?;
        if !request.no_fetch && !source.fetch(place, Fetch::Followed)? {
            return Err(Error::Failed(text!("Unable to fetch in submodule path '", path, "'")).into());
        }
        let name = text!("refs/remotes/", remote, "/", branch);
        // Open the submodule again after the fetch.
        let found = open(superproject, path)?.find_ref(name.as_bstr()).ok().flatten();
        let missing = || text!("Unable to find ", name, " revision in submodule path '", path, "'");
        Ok(found.ok_or_else(|| Error::Failed(missing()))?)
    }

    fn followed_branch(&self) -> Result<BString, Error> {
        let superproject = self.superproject;
        let module = superproject.submodules.module(self.place.path).unwrap_or_default();
        let configured = setting(superproject.repo, module.name.as_bstr(), keys::submodule::ONE_BRANCH);
        let Some(branch) = configured.or(module.branch) else { return Ok("HEAD".into()) };
        if branch != "." {
            return Ok(branch);
        }
        let head = superproject.repo.head()?;
        match head.branch().map(|branch| branch.strip_prefix(b"refs/heads/").ok_or(branch)) {
            Some(Ok(branch)) => Ok(branch.into()),
            Some(Err(name)) => Err(Error::Failed(text!("Expecting a full ref name, got ", name))),
            None => Err(Error::Failed(text!(
                "Submodule (",
                module.name,
                ") branch configured to inherit branch from superproject, \
                 but the superproject is not on any branch"
            ))),
        }
    }
}

/// Returns true if the commit is reachable from HEAD or a ref of the submodule. An error counts as
/// no: the fetch then reports it.
fn is_reachable(submodule: &Repository, commit: ObjectId) -> bool {
    let refs = submodule.refs("refs/").unwrap_or_default();
    let head = submodule.head().ok().and_then(|head| head.oid());
    let tips = refs.into_iter().map(|(_, oid)| oid).chain(head);
    let mut bases: Vec<ObjectId> = Vec::new();
    for tip in tips {
        if tip == commit {
            return submodule.objects().contains(&commit);
        }
        // Peel tags; a tip that is not a commit does not count.
        let name = format!("{tip}^{{commit}}");
        if let Ok(base) = submodule.rev_parse(name.as_bytes().as_bstr()) {
            bases.push(base);
        }
    }
    bases.sort_unstable();
    bases.dedup();
    submodule.objects().contains(&commit) && submodule.is_reachable(commit, &bases).unwrap_or(false)
}

impl Updated {
    /// Returns Git's line.
    pub fn text(&self) -> BString {
        let hex = self.commit.to_string();
        let done = match &self.strategy {
            Strategy::Rebase => text!("rebased into '", hex, "'"),
            Strategy::Merge => text!("merged in '", hex, "'"),
            Strategy::Command(command) => text!("'", command, " ", hex, "'"),
            Strategy::Checkout | Strategy::None => text!("checked out '", hex, "'"),
        };
        text!("Submodule path '", self.path, "': ", done)
    }
}

impl Bring {
    /// Returns Git's message if it failed.
    pub fn failed(&self, path: &BStr) -> BString {
        let hex = self.commit.to_string();
        let failed = match &self.strategy {
            Strategy::Rebase => text!("Unable to rebase '", hex, "'"),
            Strategy::Merge => text!("Unable to merge '", hex, "'"),
            Strategy::Command(command) => text!("Execution of '", command, " ", hex, "' failed"),
            Strategy::Checkout | Strategy::None => text!("Unable to checkout '", hex, "'"),
        };
        text!(failed, " in submodule path '", path, "'")
    }
}

impl<E: fmt::Display> fmt::Display for Failed<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Brought { path, bring, cause } => {
                write!(formatter, "{}: {cause}", bring.failed(path.as_bstr()))
            }
            Failed::Nested { path, cause } => {
                write!(formatter, "Failed to recurse into submodule path '{path}': {cause}")
            }
            Failed::Other(cause) => cause.fmt(formatter),
        }
    }
}
