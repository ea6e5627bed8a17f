//! Brings the base of a commit from a remote and adds it, for a pull and for a clone with a base.
//!
//! Order: the remote's commits, trees and contents ([`engine::base_transfer::pull`]); the base, for
//! the backend that a workspace will have.

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
    workspace::base::{Base, Dependent, Kind, Owner, Persist, Wanted},
};
use format::ObjectId;
use repo::Repository;
use sys::by_path;

use super::{
    Site,
    signature::Signers,
    site::{Shown, cannot},
};
use crate::{
    BaseError, Context, Error, Events, Notice,
    workspace::{build::build_base, contents},
};

/// Contents of a shared directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// They are used where they lie.
    #[default]
    InPlace,
    /// They are copied and checked.
    Copy,
}

/// A transfer and its parts.
pub(crate) struct Bring<'a> {
    /// The repository, the base directory and the remote.
    pub site: Site<'a>,
    /// The contents of a shared directory.
    pub sharing: Sharing,
    /// The manifest, if it was read.
    pub manifest: Option<Read>,
    /// The holder and the time of a lease.
    pub lease: Option<(String, Duration)>,
    /// Passed to [`Events::transferring`] and [`Events::adding_base`].
    pub progress: Option<bool>,
}

impl Bring<'_> {
    /// Brings the base of `commit` and adds it.
    pub(crate) fn base(mut self, commit: ObjectId, kind: Kind) -> Result<(Base, Report), Error> {
        let Context { repo, settings, events, interrupt, .. } = self.site.context;
        let (is_copy, alone) = (self.sharing == Sharing::Copy, self.site.bases.alone());
        let bases = if is_copy { &alone } else { self.site.bases };
        let site = Site { bases, ..self.site };
        let signers = Signers::configured(site.context)?;
        let shared = match self.sharing {
            Sharing::InPlace => shared_bases(site.remote)?.filter(|dir| is_trusted(repo, dir, events)),
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
        let shown = Shown::begin(events, self.progress);
        let step = |step| shown.step(step);
        let pulled = pull::pull(&site.parts(&step), commit, &options);
        shown.end(&pulled);
        let Pulled { manifest, state, report, .. } = pulled.map_err(|error| site.failed(error))?;
        contents::register(repo, settings, events);
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
        let reports = (events, interrupt);
        let base =
            build_base(reports, settings, commit, self.progress, Persist::Now, |options, messages| {
                importer.add_base(&wanted, options, messages)
            })?;
        self.end_dependence()?;
        Ok((base, report))
    }

    /// After a copy, the shared directory is no alternate any more.
    fn end_dependence(&self) -> Result<(), Error> {
        let Site { context, bases, remote } = self.site;
        let Some(dir) = shared_bases(remote)?.filter(|_| self.sharing == Sharing::Copy) else {
            return Ok(());
        };
        let (shared, fsync) = (context.settings.locks.shared, &context.settings.fsync);
        let common = context.repo.real_common_dir();
        let by = match bases.remove_alternate(&dir, &common, shared, fsync)? {
            None => return Ok(()),
            Some(Dependent::Workspace(path)) => format!("the workspace '{}'", path.display()),
            Some(Dependent::Base(name)) => format!("the base '{name}' of '{}'", bases.dir().display()),
        };
        Err(BaseError::StillNeeded { by, dir }.into())
    }
}

/// The base directory of a remote that is a directory, if it has one.
fn shared_bases(remote: &Remote) -> Result<Option<PathBuf>, Error> {
    let Some(dir) = remote.directory().map(|dir| dir.join("bases")) else { return Ok(None) };
    let stat = by_path::stat_followed(&dir).map_err(cannot("look at", &dir))?;
    Ok(stat.map(|_| dir))
}

/// Returns true if a shared directory may be used where it lies. If another user could change it,
/// its contents are copied, and verified on the way.
fn is_trusted(repo: &Repository, dir: &Path, events: &dyn Events) -> bool {
    let checked = repo.trust().check_dir(dir);
    if let Err(error) = &checked {
        events.notice(Notice::ContentsCopied(error.to_string()));
    }
    checked.is_ok()
}
