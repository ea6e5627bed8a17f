//! Follows branches of a repository and pushes the bases of their tips.
//!
//! Order of a round: the repository of the mirror is made if it is missing; its branches are
//! fetched; the records of those that the server deleted are removed; each tip whose manifest the
//! remote lacks is pushed. A round changes nothing but that repository and the remote, so two
//! mirrors do not harm each other. In one directory, the second waits for the first.
//!
//! A fetch overwrites and deletes branches, so a mirror works only in a repository that a mirror
//! made: `sapwood.baseMirror` is set there.
//!
//! The repository comes over a [`Source`]; [`crate::clone::ForMirror`] is the one of this crate.

use std::{
    ffi::OsStr,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use base_store::{Address, Remote};
use bstr::{BStr, BString, ByteSlice as _};
use engine::base_transfer::records;
use format::{ObjectId, base_files::manifest::split_signature, config::Edit};
use repo::{
    OpenOptions,
    keys::{self, Key},
    wire::url::without_credentials,
};
use sys::{File, by_path};

use super::{
    Access, Site, bundle,
    push::{self, Options, Sent},
    signature,
    site::cannot,
};
use crate::{
    BaseError, Context, Error, Events, PlanError, RunError, repository::Environment, settings::Settings,
    text, workspace::places,
};

/// Set in the configuration of a repository that a mirror made.
pub const MARK: Key<bool> = keys::sapwood::BASE_MIRROR;

/// The branches to follow.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The bare repository that the mirror keeps, relative to the directory of the plan.
    pub dir: PathBuf,
    /// The address of the remote of bases; `None` for that of `sapwood.baseRemote` in the mirror.
    pub remote: Option<BString>,
    /// The URL of the repository to mirror; `None` for that of the mirror.
    pub url: Option<BString>,
    /// The branches, or patterns of them; those of the mirror's HEAD if empty.
    pub branches: Vec<BString>,
    /// How bases are pushed.
    pub options: Options,
}

/// The result: the branches with a change, or all that are followed, in order.
#[derive(Debug, Default)]
pub struct Report {
    /// The branches.
    pub branches: Vec<Followed>,
}

/// The outcome of a branch.
#[derive(Debug)]
pub enum Followed {
    /// The server deleted the branch, so its record was removed.
    Removed(BString),
    /// The remote has the base of its tip.
    Pushed(Pushed),
    /// Its base was not pushed. The others are.
    Failed(BString, Error),
}

/// A branch whose base is at the remote.
#[derive(Debug)]
pub struct Pushed {
    /// The branch.
    pub branch: BString,
    /// Its tip.
    pub tip: ObjectId,
    /// The remote.
    pub remote: String,
    /// The work that was done; `None` if everything was there.
    pub sent: Option<Sent>,
}

/// The way from the server to the repository of a mirror.
pub trait Source {
    /// The error of a clone or fetch.
    type Error: From<Error>;

    /// Clones `url` into the bare repository `dir`, with one branch and without tags. Sets the
    /// settings, `<key>=<value>`.
    fn clone(&self, url: &BStr, dir: &Path, settings: &[BString]) -> Result<(), Self::Error>;

    /// Fetches the refspecs from `origin` into the repository `dir`, without tags and `FETCH_HEAD`,
    /// and deletes the branches that the server lacks.
    fn fetch(&self, dir: &Path, refspecs: &[BString]) -> Result<(), Self::Error>;
}

/// A round of a mirror.
pub struct Plan {
    mirror: Mirror,
    open: OpenOptions,
    interrupt: Arc<AtomicBool>,
}

/// Examines the repository of the mirror, if it exists. Changes nothing, and contacts nobody.
pub fn plan(dir: &Path, environment: Environment, request: Request) -> Result<Plan, PlanError> {
    let absolute = std::path::absolute(dir);
    let dir = absolute.map_err(|source| Error::CannotOpen { path: dir.to_owned(), source })?;
    let shown = BString::from(request.dir.as_os_str().as_encoded_bytes());
    let mirror = Mirror { dir: dir.join(&request.dir), shown, request };
    let open = crate::repository::outside(dir, environment);
    if by_path::stat(&mirror.dir).map_err(cannot("look at", &mirror.dir))?.is_some() {
        mirror.open(&open)?;
    } else if mirror.request.url.is_none() {
        return Err(mirror.missing().into());
    }
    Ok(Plan { mirror, open, interrupt: Arc::default() })
}

impl Plan {
    /// Returns the flag that stops a running round at its next step.
    pub fn interrupt(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.interrupt)
    }

    /// Does one round. Its repository comes over `source`.
    pub fn run<S: Source<Error = RunError>>(
        self,
        events: &impl Events,
        source: &S,
    ) -> Result<Report, RunError> {
        let mut branches = Vec::new();
        let place = Place { open: &self.open, interrupt: &self.interrupt, events };
        self.mirror.round(place, source, &mut |followed| branches.push(followed))?;
        Ok(Report { branches })
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "mirror into '{}', and push the bases of its branches", self.mirror.shown)
    }
}

/// The process in which a round takes place.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The options for opening a repository from the directory of the caller.
    pub open: &'a OpenOptions,
    /// Stops the round.
    pub interrupt: &'a Arc<AtomicBool>,
    /// Receives the reports.
    pub events: &'a dyn Events,
}

/// A mirror.
pub struct Mirror {
    /// The repository, absolute.
    pub dir: PathBuf,
    /// The repository as the user wrote it, for messages.
    pub shown: BString,
    /// The request.
    pub request: Request,
}

impl Mirror {
    /// Does one round. `followed` gets each branch at once.
    pub fn round<S: Source>(
        &self,
        place: Place<'_>,
        source: &S,
        followed: &mut dyn FnMut(Followed),
    ) -> Result<(), S::Error> {
        let dir = &self.dir;
        let _lock = lock(dir)?;
        if by_path::stat(dir).map_err(cannot("look at", dir))?.is_none() {
            let url = self.request.url.as_ref().ok_or_else(|| self.missing())?;
            source.clone(url.as_bstr(), dir, &[format!("{}=true", MARK.name()).into()])?;
        }
        let repo = self.open(place.open)?;
        self.take_credentials(&repo, place.events)?;
        let branches = self.branches(&repo)?;
        let before = heads(&repo)?;
        let refspec = |branch: &BString| text!("+refs/heads/", branch, ":refs/heads/", branch);
        source.fetch(dir, &branches.iter().map(refspec).collect::<Vec<_>>())?;
        // The refs have changed since the repository was opened.
        let repo = repo.open_again().map_err(Error::from)?;
        Ok(self.push_all(place, &repo, &branches, &before, followed)?)
    }

    fn missing(&self) -> Error {
        BaseError::NoMirror(self.shown.clone()).into()
    }

    /// Opens the repository, whose programs run, and which another user may have made where this
    /// mirror would.
    fn open(&self, options: &OpenOptions) -> Result<repo::Repository, Error> {
        let repo = repo::Repository::open_owned(options, &self.dir)?;
        if !repo.config(&MARK)? {
            return Err(BaseError::NotAMirror(self.shown.clone()).into());
        }
        self.refuse_other_url(&repo)?;
        Ok(repo)
    }

    /// Checks that the repository mirrors the URL of the request. User and password do not count: a
    /// job's token is another one each time.
    fn refuse_other_url(&self, repo: &repo::Repository) -> Result<(), Error> {
        let Some(url) = &self.request.url else { return Ok(()) };
        let origin = origin(repo);
        let (ours, theirs) = (without_credentials(origin.as_bstr()), without_credentials(url.as_bstr()));
        if ours == theirs {
            return Ok(());
        }
        Err(BaseError::OtherMirror { dir: self.shown.clone(), ours, theirs }.into())
    }

    /// Uses user and password of the request from now on.
    fn take_credentials(&self, repo: &repo::Repository, events: &dyn Events) -> Result<(), Error> {
        let Some(url) = self.request.url.as_ref().filter(|url| **url != origin(repo)) else {
            return Ok(());
        };
        let settings = Settings::read(repo, events)?;
        let edits = [Edit::Set { key: keys::remote::URL.of("origin").name().into(), value: url.clone() }];
        let path = repo.common_dir().join("config");
        Ok(store::config::edit(&path, &edits, &settings.config_locks, &settings.fsync)?)
    }

    /// The branches to follow, or patterns of them: those of the request, else the one of HEAD.
    fn branches(&self, repo: &repo::Repository) -> Result<Vec<BString>, Error> {
        if !self.request.branches.is_empty() {
            return Ok(self.request.branches.clone());
        }
        let target = repo.symbolic_target(BStr::new("HEAD"))?;
        let branch = target.as_ref().and_then(|target| target.strip_prefix(b"refs/heads/"));
        Ok(vec![branch.ok_or(BaseError::NoBranch)?.into()])
    }

    /// Removes the records of branches that are gone, and pushes the tips of the others. A branch
    /// that fails does not stop the others.
    fn push_all(
        &self,
        place: Place<'_>,
        repo: &repo::Repository,
        branches: &[BString],
        before: &[(BString, ObjectId)],
        followed: &mut dyn FnMut(Followed),
    ) -> Result<(), Error> {
        let Place { interrupt, events, .. } = place;
        let access = Access::of(repo, Arc::clone(interrupt));
        let address: Address = access.address(self.request.remote.as_ref())?;
        Remote::create(&address)?;
        let settings = Settings::read(repo, events)?;
        let (remote, bases) = (access.open(address)?, places::bases(repo, None)?);
        let context = Context { repo, settings: &settings, events, interrupt, hands_over: false };
        let site = Site { context, bases: &bases, remote: &remote };
        let now = heads(repo)?;
        for (branch, _) in before.iter().filter(|(branch, _)| !now.iter().any(|(other, _)| other == branch)) {
            let removed = records::remove_branch(&remote, branch.as_bstr());
            removed.map_err(|error| site.failed(error))?;
            followed(Followed::Removed(branch.clone()));
        }
        let is_wanted =
            |branch: &BString| branches.iter().any(|wanted| covers(wanted.as_bstr(), branch.as_bstr()));
        for (branch, tip) in now.iter().filter(|(branch, _)| is_wanted(branch)) {
            match self.follow(site, branch, *tip) {
                Ok(pushed) => followed(Followed::Pushed(pushed)),
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => followed(Followed::Failed(branch.clone(), error)),
            }
        }
        Ok(())
    }

    /// Pushes the base of a tip, unless it is the newest of its branch there.
    fn follow(&self, site: Site<'_>, branch: &BString, tip: ObjectId) -> Result<Pushed, Error> {
        let options = &self.request.options;
        let bundle = options.bundle.unwrap_or(true);
        let known = records::branch(site.remote, branch.as_bstr()).ok().flatten();
        let is_newest = known.is_some_and(|known| known.commits.first() == Some(&tip));
        let signs = signature::is_wanted(site.context.repo, options.sign)?;
        let is_enough = |manifest: Vec<u8>| !signs || split_signature(&manifest).1.is_some();
        let is_there = is_newest && site.remote.record(&records::commit_name(&tip))?.is_some_and(is_enough);
        let sent = if is_there {
            // A mirror that was killed may owe the bundle.
            if bundle {
                bundle::write(site, branch.as_bstr(), tip)?;
            }
            None
        } else {
            Some(push::push(site, options, tip, Some(branch.as_bstr()), bundle)?)
        };
        Ok(Pushed { branch: branch.clone(), tip, remote: site.remote.address().to_string(), sent })
    }
}

fn origin(repo: &repo::Repository) -> BString {
    repo.config_str(&keys::remote::URL.of("origin")).unwrap_or_default()
}

/// The branches of the mirror, without `refs/heads/`, and their tips.
fn heads(repo: &repo::Repository) -> Result<Vec<(BString, ObjectId)>, Error> {
    let refs = repo.refs("refs/heads/")?.into_iter();
    Ok(refs.map(|(name, tip)| (name.strip_prefix(b"refs/heads/").unwrap_or(&name).into(), tip)).collect())
}

/// Takes the lock of the mirror, and waits for it. The file stays: its name is the lock.
fn lock(dir: &Path) -> Result<File, Error> {
    let mut name = dir.file_name().unwrap_or(OsStr::new("mirror")).to_owned();
    name.push(".mirror-lock");
    let path = dir.with_file_name(name);
    // As `git clone` does. On a wrong disk a mirror wastes room, and nothing else.
    if let Some(above) = dir.parent() {
        by_path::create_dir_all(above).map_err(cannot("create", above))?;
    }
    let file = by_path::lock_file(&path, 0o666).map_err(cannot("open", &path))?;
    sys::lock(&file).map_err(cannot("lock", &path))?;
    Ok(file)
}

/// Returns true if a branch is the wanted one, or matches a pattern with one `*`, as in a refspec.
fn covers(wanted: &BStr, branch: &BStr) -> bool {
    match wanted.split_once_str("*") {
        None => wanted == branch,
        Some((before, after)) => {
            branch.len() >= before.len() + after.len()
                && branch.starts_with(before)
                && branch.ends_with(after)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_refspecs() {
        let covers = |wanted: &str, branch: &str| covers(wanted.into(), branch.into());
        assert!(covers("main", "main") && covers("*", "a/b") && covers("release/*", "release/1"));
        assert!(!covers("main", "main2") && !covers("release/*", "release") && !covers("a*a", "a"));
    }
}
