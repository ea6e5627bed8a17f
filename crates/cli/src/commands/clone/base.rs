//! `clone --base`: the clone begins with the base of a commit, from a remote for bases.
//!
//! Order: the server names the tip; the remote knows the nearest base of its branch; commits, trees
//! and contents come from there; the base is added; then the server sends what is newer. Contents
//! of a shared directory are used where they lie.
//!
//! With `--workspace` the repository is bare, and the directory becomes a workspace of it.

use std::{
    cell::{OnceCell, RefCell},
    path::{Path, PathBuf},
};

use base_store::{Address, Remote};
use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    base_transfer::{
        self,
        records::{self, Read},
    },
    checkout::Force,
    clone::{Brought, Cloned, Seed, Unseeded, Worktree},
    workspace::{
        backend::{self, Backend, Visibility},
        base::{Bases, Kind},
        record,
    },
};
use format::ObjectId;
use repo::{Repository, StandaloneConfig};

use super::{options::Need, worktree};
use crate::{
    commands::{
        base::{
            bring::{Bring, Sharing},
            site::{self, Config},
        },
        workspace::{
            self,
            context::programs,
            gc::{self, Recovered},
        },
    },
    session::{invocation::Invocation, settings::Settings},
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// The base of a clone.
pub(super) struct Source<'a> {
    pub(super) run: &'a Invocation,
    /// The remotes, in the order in which they are asked.
    pub(super) addresses: &'a [(BString, Need)],
    /// The settings of the new repository, which hold for its remotes too (`--config`).
    pub(super) settings: &'a [BString],
    /// The directory that becomes a workspace.
    pub(super) workspace: Option<PathBuf>,
    /// Progress is shown.
    pub(super) is_visible: bool,
    pub(super) search: Search,
}

/// The state of the search for a base.
#[derive(Default)]
pub(super) struct Search {
    chosen: RefCell<Option<Chosen>>,
    /// Messages about remotes that were asked before the chosen one.
    failures: RefCell<Failures>,
    tip: OnceCell<ObjectId>,
    failure: RefCell<Option<Failure>>,
}

/// A remote with the base.
struct Chosen {
    /// The position in [`Source::addresses`].
    at: usize,
    remote: Remote,
    manifest: Read,
}

impl Source<'_> {
    /// Takes the reason why the base did not come.
    pub(super) fn take_failure(&self) -> Option<Failure> {
        self.search.failure.take()
    }

    fn keep<T>(&self, result: Result<T, Failure>) -> Result<T, Unseeded> {
        result.map_err(|failure| {
            self.search.failure.replace(Some(failure));
            Unseeded
        })
    }

    fn look_up(&self, branch: Option<&BStr>, tip: &ObjectId) -> Result<Option<ObjectId>, Failure> {
        let short = branch.map(|name| name.strip_prefix(b"refs/heads/").unwrap_or(name).as_bstr());
        let _ = self.search.tip.set(*tip);
        let found = self.first_from(0, |remote| match short {
            Some(name) => records::nearest(remote, name, Some(tip)),
            None => records::manifest(remote, tip),
        });
        let mut failures = Failures::default();
        if let Some(chosen) = found(&mut failures)? {
            self.search.failures.replace(failures);
            let commit = chosen.manifest.manifest.commit;
            self.search.chosen.replace(Some(chosen));
            return Ok(Some(commit));
        }
        let what = short.map_or_else(|| tip.to_string().into(), |name| text!("branch '", name, "'"));
        let missing = failures.missing.join(", ");
        failures.decide()?;
        console::warning(match missing.as_str() {
            "" => "cloning without a base".into(),
            missing => text!(missing, " has no base of ", what, "; cloning without one"),
        });
        Ok(None)
    }

    /// Returns a search for the first remote from position `from` on in which `read` finds a base.
    fn first_from<'s>(
        &'s self,
        from: usize,
        read: impl Fn(&Remote) -> Result<Option<Read>, base_transfer::Error> + 's,
    ) -> impl Fn(&mut Failures) -> Result<Option<Chosen>, Failure> + 's {
        move |failures| {
            for (at, (address, need)) in self.addresses.iter().enumerate().skip(from) {
                let asked = self.open(address).and_then(|remote| {
                    let found = read(&remote).map_err(|error| site::failed(self.run, error))?;
                    Ok((remote, found))
                });
                match asked {
                    Ok((remote, Some(manifest))) => return Ok(Some(Chosen { at, remote, manifest })),
                    Ok((remote, None)) => failures.missing.push(remote.address().to_string()),
                    Err(failure) => failures.add(failure, *need)?,
                }
            }
            Ok(None)
        }
    }

    fn open(&self, address: &BString) -> Result<Remote, Failure> {
        let address = Address::parse(address.as_bstr(), &self.run.cwd)?;
        let mut options = self.run.outside();
        options.config = self.settings.iter().chain(&self.run.config).cloned().collect();
        let config = StandaloneConfig::load(&options)?;
        site::open(self.run, &Config::Outside(&config), address)
    }

    /// Brings the base from the chosen remote, or from a later one that has it.
    fn bring_from_any(&self, repo: &Repository, commit: &ObjectId) -> Result<Brought, Failure> {
        let mut failures = self.search.failures.take();
        let mut next = self.search.chosen.take();
        while let Some(chosen) = next {
            match self.pull(repo, commit, &chosen) {
                Ok(()) => {
                    failures.warn();
                    return Ok(Brought::Base);
                }
                Err(failure) => failures.add(failure, self.addresses[chosen.at].1)?,
            }
            let search = self.first_from(chosen.at + 1, |remote| records::manifest(remote, commit));
            next = search(&mut failures)?;
        }
        failures.decide()?;
        console::warning("cloning without a base");
        Ok(Brought::Nothing)
    }

    fn pull(&self, repo: &Repository, commit: &ObjectId, chosen: &Chosen) -> Result<(), Failure> {
        let settings = Settings::read(repo)?;
        let bases = workspace::context::bases(self.run, repo, None)?;
        let bring = Bring {
            run: self.run,
            repo,
            settings: &settings,
            remote: &chosen.remote,
            bases: &bases,
            sharing: Sharing::InPlace,
            manifest: Some(chosen.manifest.clone()),
            lease: None,
            is_visible: self.is_visible,
        };
        // The base keeps its contents from being removed.
        bring.base(*commit, self.kind(repo, &bases, commit)?).map(drop)
    }

    /// A workspace on this very commit will need the kind of its backend. An image is the cheapest.
    fn kind(&self, repo: &Repository, bases: &Bases, commit: &ObjectId) -> Result<Kind, Failure> {
        let Some(top) = self.workspace.as_ref().filter(|_| self.search.tip.get() == Some(commit)) else {
            return Ok(Kind::Image);
        };
        let (upper, programs) = (record::directory(&repo.real_common_dir()), programs(self.run));
        let place = backend::Place { upper: &upper, bases: bases.dir(), top, programs: &programs };
        let chosen = backend::choose(None, Visibility::EverybodyWithoutCopy, &place)?;
        Ok(if matches!(chosen, Backend::Image | Backend::Copy) { Kind::Image } else { Kind::Directory })
    }
}

impl Seed for Source<'_> {
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
    required: Option<Failure>,
    /// The remotes that answered, and lack the base.
    missing: Vec<String>,
}

impl Failures {
    /// Adds a failure. A signal ends the command.
    fn add(&mut self, failure: Failure, need: Need) -> Result<(), Failure> {
        match (failure, need) {
            (failure @ Failure::Signal(_), _) => Err(failure),
            (failure, Need::Required) if self.required.is_none() => {
                self.required = Some(failure);
                Ok(())
            }
            (failure, _) => {
                failure.print_as_warning();
                Ok(())
            }
        }
    }

    /// Another remote had the base.
    fn warn(&self) {
        if let Some(failure) = &self.required {
            failure.print_as_warning();
        }
    }

    /// No remote had the base: returns the failure of one that the user requires.
    fn decide(self) -> Result<(), Failure> {
        self.required.map_or(Ok(()), Err)
    }
}

/// Completes the checkout of a workspace, as in any clone that is resumed.
fn fill(within: &Invocation, admin: PathBuf, top: &Path, verbosity: i32) -> Result<u8, Failure> {
    let inside = within.in_repository(&admin)?;
    let worktree = match inside.open()?.head()? {
        repo::Head::Branch { oid, .. } => Worktree::Branch(oid),
        repo::Head::Detached { oid } => Worktree::Detached(oid),
        repo::Head::Unborn { .. } | repo::Head::Unresolvable => Worktree::Nonexistent,
    };
    let mut rest = Cloned::unfilled(admin.clone(), top.to_owned(), worktree);
    let filled = worktree::fill(&inside, &mut rest, verbosity.min(0));
    let code = filled.map_err(|unfilled| unfilled.failure)?;
    gc::settle(&admin)?;
    Ok(code)
}

/// Makes the workspace `top` of a clone, on its branch, or goes on with the one that a killed clone
/// was making. The clone stays after a failure, and so does its marker.
pub(super) fn make_workspace(
    run: &Invocation,
    cloned: &Cloned,
    top: &Path,
    verbosity: i32,
) -> Result<u8, Failure> {
    let quiet = verbosity < 0;
    let made = run.in_repository(&cloned.git_dir).and_then(|within| {
        if cloned.force == Force::Remnants {
            match gc::recover_at(&within, top)? {
                Recovered::Workspace => return Ok(0),
                Recovered::Unfilled(admin) => return fill(&within, admin, top, verbosity),
                Recovered::Nothing if !super::is_free(top) => return Err(super::taken(top)),
                Recovered::Nothing => {}
            }
        }
        let repo = within.open()?;
        match repo.head()? {
            repo::Head::Branch { name, .. } => {
                let short = name.strip_prefix(b"refs/heads/").unwrap_or(&name);
                workspace::create::at(&within, top, short.into(), false, quiet)
            }
            repo::Head::Detached { oid } => {
                workspace::create::at(&within, top, oid.to_string().into(), true, quiet)
            }
            repo::Head::Unborn { .. } | repo::Head::Unresolvable => {
                console::warning("remote HEAD refers to nonexistent ref, unable to checkout");
                Ok(0)
            }
        }
    });
    made.inspect_err(|failure| {
        failure.print();
        console::warning(
            "Clone succeeded, but the workspace was not made.\n\
             Run the same command again when the cause is gone\n",
        );
    })
    .map_err(|failure| match failure {
        Failure::Signal(signal) => Failure::Signal(signal),
        said => Failure::Reported(said.code()),
    })
}
