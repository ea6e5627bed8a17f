//! Brings the base of a commit from a remote and adds it, for `base pull` and `clone --base`.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use base_store::Remote;
use engine::{
    base_transfer::{
        pull::{self, Pulled, Report, State},
        records::Read,
    },
    workspace::base::{Base, Bases, Dependent, Kind, Owner, Persist, Wanted},
};
use format::ObjectId;
use repo::Repository;
use sapwood::workspace::contents;
use sys::by_path;

use super::{display::Display, signature::Signers, site};
use crate::{
    commands::workspace::build::build_base,
    session::{invocation::Invocation, settings::Settings},
    term::{console, failure::Failure},
};

/// Contents of a shared directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// They are used where they lie.
    InPlace,
    /// They are copied and checked.
    Copy,
}

/// A transfer and its parts.
pub(crate) struct Bring<'a> {
    pub(crate) run: &'a Invocation,
    pub(crate) repo: &'a Repository,
    pub(crate) settings: &'a Settings,
    pub(crate) remote: &'a Remote,
    pub(crate) bases: &'a Bases,
    pub(crate) sharing: Sharing,
    /// The manifest, if it was read.
    pub(crate) manifest: Option<Read>,
    /// The holder and the time of a lease.
    pub(crate) lease: Option<(String, Duration)>,
    /// Progress is shown.
    pub(crate) is_visible: bool,
}

impl Bring<'_> {
    /// Brings the base of `commit` and adds it.
    pub(crate) fn base(mut self, commit: ObjectId, kind: Kind) -> Result<(Base, Report), Failure> {
        let Bring { run, repo, settings, remote, bases, .. } = self;
        let alone = bases.alone();
        let is_copy = self.sharing == Sharing::Copy;
        let bases = if is_copy { &alone } else { bases };
        let signers = Signers::configured(repo)?;
        let shared = match self.sharing {
            Sharing::InPlace => shared_bases(remote)?.filter(|dir| is_trusted(repo, dir)),
            Sharing::Copy => None,
        };
        let verify = |manifest: &[u8], signature: Option<&[u8]>| {
            if let Some(signers) = &signers {
                signers.check(manifest, signature)?;
            }
            // After the signature was checked, and before contents are looked for.
            let Some(dir) = &shared else { return Ok(()) };
            let added = bases.add_alternate(dir, settings.locks.shared, &settings.fsync);
            added.map_err(|error| error.to_string())
        };
        let owner = Owner::of_process();
        let options = pull::Options {
            verify: Some(&verify),
            lease: self.lease.take(),
            manifest: self.manifest.take(),
            base: Some((kind, owner)),
            ..pull::Options::default()
        };
        let display = Display::new(Some(self.is_visible), false);
        let step = |step| display.step(step);
        let pulled = pull::pull(&site::context(run, repo, settings, remote, bases, &step), commit, &options);
        display.end(&pulled);
        let Pulled { manifest, state, report, .. } = pulled.map_err(|error| site::failed(run, error))?;
        contents::register(repo, settings, run);
        let importer = match state {
            State::Base(base) => {
                self.end_dependence()?;
                return Ok((*base, report));
            }
            State::Contents(importer) => importer,
        };
        // The boundary of the history may have moved.
        let repo = repo.open_again()?;
        let wanted = Wanted::new(&repo, manifest.tree, kind, owner, None)?;
        let base = build_base(run, settings, commit, self.is_visible, Persist::Now, |options, messages| {
            importer.add_base(&wanted, options, messages)
        })?;
        self.end_dependence()?;
        Ok((base, report))
    }

    /// After a copy, the shared directory is no alternate any more.
    fn end_dependence(&self) -> Result<(), Failure> {
        if self.sharing == Sharing::InPlace {
            return Ok(());
        }
        let Some(dir) = shared_bases(self.remote)? else { return Ok(()) };
        let (shared, fsync) = (self.settings.locks.shared, &self.settings.fsync);
        let common = self.repo.real_common_dir();
        let by = match self.bases.remove_alternate(&dir, &common, shared, fsync)? {
            None => return Ok(()),
            Some(Dependent::Workspace(path)) => format!("the workspace '{}'", path.display()),
            Some(Dependent::Base(name)) => format!("the base '{name}' of '{}'", self.bases.dir().display()),
        };
        Err(Failure::error(format!(
            "the contents were copied, but {by} still needs '{}': remove it, and run the command again",
            dir.display()
        )))
    }
}

/// The base directory of a remote that is a directory, if it has one.
fn shared_bases(remote: &Remote) -> Result<Option<PathBuf>, Failure> {
    let Some(dir) = remote.directory().map(|dir| dir.join("bases")) else { return Ok(None) };
    let stat = by_path::stat_followed(&dir).map_err(|error| {
        Failure::fatal(format!("cannot look at '{}': {}", dir.display(), sys::reason(&error)))
    })?;
    Ok(stat.map(|_| dir))
}

/// Returns true if a shared directory may be used where it lies. If another user could change it,
/// its contents are copied, and verified on the way.
fn is_trusted(repo: &Repository, dir: &Path) -> bool {
    let checked = repo.trust().check_dir(dir);
    if let Err(error) = &checked {
        console::warning(format!("{error}\nUntil then contents are copied from there"));
    }
    checked.is_ok()
}
