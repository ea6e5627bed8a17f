//! Adding bases to a base directory on this machine: built from commits, or a clean checkout where
//! it lies.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use bstr::{BString, ByteSlice as _};
use engine::{
    sparse::Patterns,
    workspace::base::{Base, Bases, Kind, Owner, Persist, Wanted},
};
use format::ObjectId;
use sys::by_path;

use super::access::peeled;
use crate::{
    BaseError, Context, Error, Events, PlanError, Repository, RunError, status,
    workspace::{build::build_base, maker, places},
};

/// The bases to add.
#[derive(Clone, Debug)]
pub struct Request {
    /// The commits; HEAD's if empty.
    pub commits: Vec<BString>,
    /// A clean checkout of the only commit that becomes a base where it lies, relative to the
    /// directory from which the repository was opened.
    pub from: Option<PathBuf>,
    /// The directory of the bases; `None` for `sapwood.baseDir`, else one in the repository.
    pub base_dir: Option<PathBuf>,
    /// The kind of bases that are built.
    pub kind: Kind,
    /// The directories of sparse bases.
    pub sparse: Vec<BString>,
    /// Passed to [`Events::adding_base`].
    pub progress: Option<bool>,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            commits: Vec::new(),
            from: None,
            base_dir: None,
            kind: Kind::Image,
            sparse: Vec::new(),
            progress: None,
        }
    }
}

/// The result.
#[derive(Debug)]
pub struct Report {
    /// The bases, of which some may have been there.
    pub bases: Vec<Base>,
}

/// Bases that can be added.
pub struct Plan<'r> {
    repository: &'r Repository,
    add: Add,
}

/// Finds the commits. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let add = Add::prepare(repository.context(&crate::Silent), request)?;
    Ok(Plan { repository, add })
}

impl Plan<'_> {
    /// Builds the bases that are missing.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        Ok(self.add.run(self.repository.context(events))?)
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dir = self.add.bases.dir().display();
        match &self.add.content {
            Content::Commits { ids, kind, .. } => ids.iter().try_for_each(|commit| {
                writeln!(formatter, "add the base of {commit} ({}) to '{dir}'", kind.name())
            }),
            Content::Checkout { dir: from, id } => {
                writeln!(formatter, "add '{}' as the base of {id} to '{dir}'", from.display())
            }
        }
    }
}

/// Bases that can be added.
pub struct Add {
    bases: Bases,
    content: Content,
    progress: Option<bool>,
}

/// The files of the new bases.
enum Content {
    /// Those of the commits.
    Commits { ids: Vec<ObjectId>, kind: Kind, patterns: Option<Patterns> },
    /// A clean checkout of the commit, whose top is an absolute path without symbolic links.
    Checkout { dir: PathBuf, id: ObjectId },
}

impl Add {
    /// Finds the commits. Changes nothing.
    pub fn prepare(context: Context<'_>, request: Request) -> Result<Add, Error> {
        let repo = context.repo;
        let Request { commits, from, base_dir, kind, sparse, progress } = request;
        let bases = places::bases(repo, base_dir.as_deref())?;
        let content = match from {
            Some(dir) if commits.len() < 2 && sparse.is_empty() => checkout(repo, &dir, commits.first())?,
            Some(_) => return Err(BaseError::PartOfCheckout.into()),
            None => {
                let commits = if commits.is_empty() { vec!["HEAD".into()] } else { commits };
                let ids = commits.iter().map(|name| peeled(repo, name.as_bstr()));
                let patterns = (!sparse.is_empty()).then(|| maker::patterns_of(repo, &sparse)).transpose()?;
                Content::Commits { ids: ids.collect::<Result<_, _>>()?, kind, patterns }
            }
        };
        Ok(Add { bases, content, progress })
    }

    /// Adds the bases that are missing.
    pub fn run(&self, context: Context<'_>) -> Result<Report, Error> {
        let bases = match &self.content {
            Content::Commits { ids, kind, patterns } => {
                let build = |id: &ObjectId| self.build(context, *id, *kind, patterns.as_ref());
                ids.iter().map(build).collect::<Result<_, _>>()?
            }
            Content::Checkout { dir, id } => vec![self.add_from(context, dir, *id)?],
        };
        Ok(Report { bases })
    }

    fn build(
        &self,
        context: Context<'_>,
        commit: ObjectId,
        kind: Kind,
        patterns: Option<&Patterns>,
    ) -> Result<Base, Error> {
        let Context { repo, settings, events, interrupt, .. } = context;
        let wanted = Wanted::new(repo, repo.tree_of(commit)?, kind, Owner::of_process(), patterns)?;
        let (reports, persist) = ((events, interrupt), Persist::Now);
        build_base(reports, settings, commit, self.progress, persist, |options, messages| {
            self.bases.add(&wanted, options, messages)
        })
    }

    fn add_from(&self, context: Context<'_>, dir: &Path, commit: ObjectId) -> Result<Base, Error> {
        let Context { repo, settings, events, interrupt, .. } = context;
        // A file may have changed since the plan was made.
        let checkout = repo::Repository::open(&repo.options_at(dir))?;
        refuse_changes(&Repository::of(checkout, Arc::default())?, dir)?;
        let tree = repo.tree_of(commit)?;
        let wanted = Wanted::new(repo, tree, Kind::Directory, Owner::of_process(), None)?;
        let (reports, persist) = ((events, interrupt), Persist::Now);
        build_base(reports, settings, commit, Some(false), persist, |options, _| {
            self.bases.add_from(&wanted, dir, options)
        })
    }
}

/// Examines the checkout at `dir`. Its untracked files would appear in each workspace, so there may
/// be none. Without a commit, it is the one that is checked out.
fn checkout(repo: &repo::Repository, dir: &Path, commit: Option<&BString>) -> Result<Content, Error> {
    let dir = repo.cwd().join(dir);
    let dir = by_path::canonical(&dir).map_err(Error::cannot_open(&dir))?;
    let checkout = repo::Repository::open(&repo.options_at(&dir))?;
    let top = checkout.work_tree().and_then(|top| by_path::canonical(top).ok());
    if top.as_ref() != Some(&dir) {
        return Err(BaseError::NotATop(dir).into());
    }
    // The commit of the checkout is looked up there.
    let id = match commit {
        Some(commit) => peeled(repo, commit.as_bstr())?,
        None => peeled(&checkout, b"HEAD".as_bstr())?,
    };
    refuse_changes(&Repository::of(checkout, Arc::default())?, &dir)?;
    Ok(Content::Checkout { dir, id })
}

/// Returns an error if a file of the checkout is changed or untracked.
fn refuse_changes(checkout: &Repository, dir: &Path) -> Result<(), Error> {
    let status = status::plan(checkout, status::Request::default()).map_err(Error::from)?;
    let found = status.status();
    if !found.changes.is_empty() || !found.untracked.is_empty() {
        return Err(BaseError::NotClean(dir.to_owned()).into());
    }
    Ok(())
}
