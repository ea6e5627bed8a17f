//! A clone that begins with the base of a commit, from a remote of bases.
//!
//! Order: the server names the tip; the remote knows the nearest base of its branch; commits, trees
//! and contents come from there; the base is added; then the server sends what is newer. Contents
//! of a shared directory are used where they lie.

use std::{
    cell::{OnceCell, RefCell},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    base_transfer::{
        self,
        records::{self, Read},
    },
    clone::{Brought, Seed, Unseeded},
    workspace::{
        backend::{self, Backend, Visibility},
        base::{Bases, Kind},
        record,
    },
};
use format::ObjectId;
use repo::{OpenOptions, Repository, StandaloneConfig};

use crate::{
    Context, Error, Events, Notice,
    base::{
        Access, Remote, Site,
        bring::{Bring, Sharing},
    },
    settings::Settings,
    text,
    workspace::places,
};

/// A remote that may have the base.
#[derive(Clone, Debug)]
pub struct BaseRemote {
    /// Its address.
    pub address: BString,
    /// The consequence of its failure.
    pub need: Need,
}

/// The consequence of a failure of a remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The clone fails, unless another remote has the base.
    Required,
    /// The next remote is asked; without one, the clone begins without a base.
    IfAble,
}

/// The base of a clone.
pub struct BaseSource<'a> {
    /// The remotes, in the order in which they are asked.
    pub remotes: &'a [BaseRemote],
    /// The options of the caller's directory, with the settings of the new repository, which hold
    /// for its remotes too.
    pub open: OpenOptions,
    /// Stops requests.
    pub interrupt: Arc<AtomicBool>,
    /// Receives the reports.
    pub events: &'a dyn Events,
    /// The directory that will become a workspace of the clone.
    pub workspace: Option<PathBuf>,
    /// Passed to [`Events::transferring`] and [`Events::adding_base`].
    pub progress: Option<bool>,
    /// The state of the search.
    pub search: Search,
}

/// The state of the search for a base.
#[derive(Default)]
pub struct Search {
    chosen: RefCell<Option<Chosen>>,
    /// Messages about remotes that were asked before the chosen one.
    failures: RefCell<Failures>,
    tip: OnceCell<ObjectId>,
    failure: RefCell<Option<Error>>,
}

/// A remote with the base.
struct Chosen {
    /// The position in [`BaseSource::remotes`].
    at: usize,
    remote: Remote,
    manifest: Read,
}

impl BaseSource<'_> {
    /// Takes the reason why the base did not come.
    pub fn take_failure(&self) -> Option<Error> {
        self.search.failure.take()
    }

    fn keep<T>(&self, result: Result<T, Error>) -> Result<T, Unseeded> {
        result.map_err(|failure| {
            self.search.failure.replace(Some(failure));
            Unseeded
        })
    }

    fn warn(&self, text: impl Into<BString>) {
        self.events.notice(Notice::Fetch(text.into()));
    }

    fn look_up(&self, branch: Option<&BStr>, tip: &ObjectId) -> Result<Option<ObjectId>, Error> {
        let short = branch.map(|name| name.strip_prefix(b"refs/heads/").unwrap_or(name).as_bstr());
        let _ = self.search.tip.set(*tip);
        let mut failures = Failures::default();
        let found = self.first_from(0, &mut failures, |remote| match short {
            Some(name) => records::nearest(remote, name, Some(tip)),
            None => records::manifest(remote, tip),
        });
        if let Some(chosen) = found? {
            self.search.failures.replace(failures);
            let commit = chosen.manifest.manifest.commit;
            self.search.chosen.replace(Some(chosen));
            return Ok(Some(commit));
        }
        let what = short.map_or_else(|| tip.to_string().into(), |name| text!("branch '", name, "'"));
        let missing = failures.missing.join(", ");
        failures.decide()?;
        self.warn(match missing.as_str() {
            "" => "cloning without a base".into(),
            missing => text!(missing, " has no base of ", what, "; cloning without one"),
        });
        Ok(None)
    }

    /// Returns the first remote from position `from` on in which `read` finds a base.
    fn first_from(
        &self,
        from: usize,
        failures: &mut Failures,
        read: impl Fn(&Remote) -> Result<Option<Read>, base_transfer::Error>,
    ) -> Result<Option<Chosen>, Error> {
        for (at, BaseRemote { address, need }) in self.remotes.iter().enumerate().skip(from) {
            let asked = self.open(address).and_then(|remote| match read(&remote) {
                Ok(found) => Ok((remote, found)),
                Err(_) if self.interrupt.load(Ordering::Relaxed) => Err(Error::Interrupted),
                Err(error) => Err(error.into()),
            });
            match asked {
                Ok((remote, Some(manifest))) => return Ok(Some(Chosen { at, remote, manifest })),
                Ok((remote, None)) => failures.missing.push(remote.address().to_string()),
                Err(failure) => self.add(failures, failure, *need)?,
            }
        }
        Ok(None)
    }

    fn open(&self, address: &BString) -> Result<Remote, Error> {
        let config = StandaloneConfig::load(&self.open)?;
        let access = Access::outside(&config, Arc::clone(&self.interrupt));
        access.open(access.address(Some(address))?)
    }

    /// Adds a failure. An interruption ends the clone.
    fn add(&self, failures: &mut Failures, failure: Error, need: Need) -> Result<(), Error> {
        match (failure, need) {
            (Error::Interrupted, _) => return Err(Error::Interrupted),
            (failure, Need::Required) if failures.required.is_none() => failures.required = Some(failure),
            (failure, _) => self.warn(failure.to_string()),
        }
        Ok(())
    }

    /// Brings the base from the chosen remote, or from a later one that has it.
    fn bring_from_any(&self, repo: &Repository, commit: &ObjectId) -> Result<Brought, Error> {
        let mut failures = self.search.failures.take();
        let mut next = self.search.chosen.take();
        while let Some(chosen) = next {
            match self.pull(repo, commit, &chosen) {
                Ok(()) => {
                    // A remote that the user requires failed, and another one had the base.
                    failures.required.iter().for_each(|failure| self.warn(failure.to_string()));
                    return Ok(Brought::Base);
                }
                Err(failure) => self.add(&mut failures, failure, self.remotes[chosen.at].need)?,
            }
            let read = |remote: &Remote| records::manifest(remote, commit);
            next = self.first_from(chosen.at + 1, &mut failures, read)?;
        }
        failures.decide()?;
        self.warn("cloning without a base");
        Ok(Brought::Nothing)
    }

    fn pull(&self, repo: &Repository, commit: &ObjectId, chosen: &Chosen) -> Result<(), Error> {
        let settings = Settings::read(repo, self.events)?;
        let bases = places::bases(repo, None)?;
        let context = Context {
            repo,
            settings: &settings,
            events: self.events,
            interrupt: &self.interrupt,
            hands_over: false,
        };
        let bring = Bring {
            site: Site { context, bases: &bases, remote: &chosen.remote },
            sharing: Sharing::InPlace,
            manifest: Some(chosen.manifest.clone()),
            lease: None,
            progress: self.progress,
        };
        // The base keeps its contents from being removed.
        bring.base(*commit, self.kind(repo, &bases, commit)?).map(drop)
    }

    /// A workspace on this very commit will need the kind of its backend. An image is the cheapest.
    fn kind(&self, repo: &Repository, bases: &Bases, commit: &ObjectId) -> Result<Kind, Error> {
        let Some(top) = self.workspace.as_ref().filter(|_| self.search.tip.get() == Some(commit)) else {
            return Ok(Kind::Image);
        };
        let (upper, programs) = (record::directory(&repo.real_common_dir()), places::programs(repo));
        let service = places::mount_service(repo)?;
        let place =
            backend::Place { upper: &upper, bases: bases.dir(), top, programs: &programs, service: &service };
        let chosen = backend::choose(None, Visibility::EverybodyWithoutCopy, &place)?;
        Ok(if matches!(chosen, Backend::Image | Backend::Copy) { Kind::Image } else { Kind::Directory })
    }
}

impl Seed for BaseSource<'_> {
    fn find(&self, branch: Option<&BStr>, tip: &ObjectId) -> Result<Option<ObjectId>, Unseeded> {
        self.keep(self.look_up(branch, tip))
    }

    fn bring(&self, repo: &Repository, commit: &ObjectId) -> Result<Brought, Unseeded> {
        self.keep(self.bring_from_any(repo, commit))
    }
}

/// Failures of remotes before another one is asked.
#[derive(Default)]
struct Failures {
    /// The first of a remote that the user requires.
    required: Option<Error>,
    /// The remotes that answered, and lack the base.
    missing: Vec<String>,
}

impl Failures {
    /// No remote had the base: returns the failure of one that the user requires.
    fn decide(self) -> Result<(), Error> {
        self.required.map_or(Ok(()), Err)
    }
}
