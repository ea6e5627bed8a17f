//! A commit's contents and history go to a remote.
//!
//! Order: the base ([`engine::base_transfer::push`]); the base directory of a remote that is a
//! directory; bundles, if they are wanted.

use std::{cell::RefCell, fmt, num::NonZeroU32};

use base_store::{Address, Remote};
use bstr::{BStr, BString, ByteSlice as _};
pub use engine::base_transfer::push::Report as Sent;
use engine::{
    base_transfer::{self, push},
    workspace::base::{Bases, Kind, Owner, Persist, Wanted},
};
use format::{ObjectId, base_files::frame};
use repo::{Head, keys};

use super::{Access, Site, access::peeled, bundle, signature, site::Shown};
use crate::{
    BaseError, Context, Error, Events, Notice, PlanError, Repository, RunError, text,
    workspace::{build::build_base, places},
};

/// The options of a push.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The address of the remote; `None` for that of `sapwood.baseRemote`.
    pub remote: Option<BString>,
    /// The commit; `None` for HEAD's.
    pub commit: Option<BString>,
    /// The branch whose newest base it is. `None` for the branch that the commit's name says, else
    /// the only one, here or at a remote, whose tip it is.
    pub branch: Option<BString>,
    /// The rest.
    pub options: Options,
}

/// How a base is pushed.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The length of the history.
    pub depth: Depth,
    /// Sign the manifest with `user.signingKey`; `None` for `sapwood.baseSign`.
    pub sign: Option<bool>,
    /// Write bundles for `git clone --bundle-uri`, which needs Git. `None` for no in a push, and
    /// for yes in a mirror.
    pub bundle: Option<bool>,
    /// Add nothing to the base directory of a remote that is a directory.
    pub no_mount: bool,
    /// The level of compression, 1 to 19; `None` for `sapwood.baseCompression`.
    pub level: Option<i32>,
    /// Passed to [`Events::transferring`] and [`Events::adding_base`].
    pub progress: Option<bool>,
}

/// The length of the history that goes with a base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// The commit alone.
    #[default]
    One,
    /// This many commits.
    Commits(NonZeroU32),
    /// All of it.
    All,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Report {
    /// The address of the remote.
    pub remote: String,
    /// The commit.
    pub commit: ObjectId,
    /// The branch; `None` if none is known, so that only the commit leads to the base.
    pub branch: Option<BString>,
    /// The work that was done.
    pub sent: Sent,
}

/// A base that can be pushed.
pub struct Plan<'r> {
    repository: &'r Repository,
    push: Push,
}

/// Finds the commit and its branch. Contacts nobody.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let access = Access::from(repository);
    let push = Push::prepare(&access, repository.context(&crate::Silent), request)?;
    Ok(Plan { repository, push })
}

impl Plan<'_> {
    /// Sends what the remote lacks.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let access = Access::from(self.repository);
        Ok(self.push.run(&access, self.repository.context(events))?)
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "push the base of {} to {}", self.push.commit, self.push.address)
    }
}

/// A push that can run.
#[derive(Debug)]
pub struct Push {
    address: Address,
    commit: ObjectId,
    branch: Option<BString>,
    options: Options,
}

impl Push {
    /// Finds the commit and its branch. Contacts nobody.
    pub fn prepare(access: &Access<'_>, context: Context<'_>, request: Request) -> Result<Push, Error> {
        let address = access.address(request.remote.as_ref())?;
        let name = request.commit.unwrap_or_else(|| "HEAD".into());
        let commit = peeled(context.repo, name.as_bstr())?;
        let branch = match request.branch {
            Some(branch) => Some(branch),
            None => branch_of(context.repo, name.as_bstr(), &commit)?,
        };
        level(context.repo, request.options.level)?;
        Ok(Push { address, commit, branch, options: request.options })
    }

    /// Pushes the base.
    pub fn run(self, access: &Access<'_>, context: Context<'_>) -> Result<Report, Error> {
        let Push { address, commit, branch, options } = self;
        Remote::create(&address)?;
        let remote = access.open(address)?;
        let bases = places::bases(context.repo, None)?;
        let site = Site { context, bases: &bases, remote: &remote };
        let bundle = options.bundle.unwrap_or(false);
        let sent = push(site, &options, commit, branch.as_ref().map(AsRef::as_ref), bundle)?;
        Ok(Report { remote: remote.address().to_string(), commit, branch, sent })
    }
}

/// Returns the branch that a revision names: the current one for `HEAD`. A detached HEAD, as
/// runners have it, and other names of a commit name none: then it is the only branch, here or at a
/// remote, whose tip is the commit.
fn branch_of(repo: &repo::Repository, name: &BStr, commit: &ObjectId) -> Result<Option<BString>, Error> {
    if name == "HEAD" || name == "@" {
        if let Head::Branch { name, .. } = repo.head()? {
            return Ok(name.strip_prefix(b"refs/heads/").map(BString::from));
        }
        return only_branch_at(repo, commit);
    }
    let short = name.strip_prefix(b"refs/heads/").unwrap_or(name).as_bstr();
    let full = text!("refs/heads/", short);
    match repo.find_ref(full.as_bstr()).ok().flatten() {
        Some(_) => Ok(Some(short.to_owned())),
        None => only_branch_at(repo, commit),
    }
}

fn only_branch_at(repo: &repo::Repository, commit: &ObjectId) -> Result<Option<BString>, Error> {
    let of_remotes = repo.remotes().into_iter().map(|remote| format!("refs/remotes/{remote}/"));
    let mut names: Vec<BString> = Vec::new();
    for prefix in of_remotes.chain(["refs/heads/".to_owned()]) {
        let refs = repo.refs(&prefix)?.into_iter().filter(|(_, tip)| tip == commit);
        let short = refs.filter_map(|(name, _)| name.strip_prefix(prefix.as_bytes()).map(BString::from));
        names.extend(short.filter(|name| name != "HEAD"));
    }
    names.sort();
    names.dedup();
    Ok(<[BString; 1]>::try_from(names).ok().map(|[only]| only))
}

/// Pushes the base of `commit`, and what the options ask for beside it.
pub(super) fn push(
    site: Site<'_>,
    options: &Options,
    commit: ObjectId,
    branch: Option<&BStr>,
    bundle: bool,
) -> Result<Sent, Error> {
    let context = site.context;
    let unsigned = RefCell::new(None);
    let signer = |manifest: &[u8]| {
        signature::sign(context, manifest).map_err(|error| {
            unsigned.replace(Some(error));
            String::new()
        })
    };
    let signs = signature::is_wanted(context.repo, options.sign)?;
    let how = push::Options {
        branch: branch.map(BStr::to_owned),
        after: Vec::new(),
        depth: options.depth.limit(),
        level: level(context.repo, options.level)?,
        sign: signs.then_some(&signer),
        ..push::Options::default()
    };
    let shown = Shown::begin(context.events, options.progress);
    let progress = |step| shown.step(step);
    let sent = push::push(&site.parts(&progress), commit, &how);
    shown.end(&sent);
    let sent = sent.map_err(|error| match (error, unsigned.take()) {
        (base_transfer::Error::Sign(_), Some(cause)) => site.failed(BaseError::NotSigned(cause)),
        (error, _) => site.failed(error),
    })?;
    if !options.no_mount {
        add_at(site, commit, options.progress)?;
    }
    if bundle {
        bundle::write(site, branch.ok_or(BaseError::BundlesWithoutBranch)?, commit)?;
    }
    Ok(sent)
}

/// Adds the base to the base directory of a remote that is a directory. The directory may belong to
/// another user, who then gets no base, only verified files.
fn add_at(site: Site<'_>, commit: ObjectId, progress: Option<bool>) -> Result<(), Error> {
    let Context { repo, settings, events, interrupt, .. } = site.context;
    let Some(dir) = site.remote.directory() else { return Ok(()) };
    let bases = match Bases::trusted(&dir.join("bases"), repo.trust()) {
        Ok(bases) => bases,
        Err(error) => {
            events.notice(Notice::NoBaseAdded(error.to_string()));
            return Ok(());
        }
    };
    let wanted = Wanted::new(repo, repo.tree_of(commit)?, Kind::Image, Owner::of_process(), None)?;
    build_base((events, interrupt), settings, commit, progress, Persist::Now, |options, messages| {
        bases.add(&wanted, options, messages)
    })?;
    Ok(())
}

impl Depth {
    fn limit(self) -> Option<NonZeroU32> {
        match self {
            Depth::One => NonZeroU32::new(1),
            Depth::Commits(number) => Some(number),
            Depth::All => None,
        }
    }
}

/// Returns the given level, else that of `sapwood.baseCompression`.
fn level(repo: &repo::Repository, given: Option<i32>) -> Result<i32, Error> {
    let text = match given {
        Some(level) => level.to_string().into(),
        None => match repo.config_str(&keys::sapwood::BASE_COMPRESSION) {
            Some(text) => text,
            None => return Ok(frame::DEFAULT_LEVEL),
        },
    };
    let number = text.to_str().ok().and_then(|text| text.parse().ok());
    Ok(number.filter(|number| (1..=19).contains(number)).ok_or(BaseError::Level(text))?)
}
