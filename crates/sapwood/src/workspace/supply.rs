//! The base of a workspace: one that exists, one of another user in a form that the backend can
//! use, or a new one.

use std::path::Path;

use engine::{
    sparse::Patterns,
    workspace::{
        backend::{self, Backend},
        base::{Base, Bases, Form, Kind, Owner, Persist, Wanted},
    },
};
use format::ObjectId;
use repo::Repository;
use sys::by_path;

use super::{build, durable, places};
use crate::{Error, settings::Settings, worktree::records::Worktrees};

/// The wanted files, and the base directories.
pub struct Supply<'a> {
    /// Receives the reports.
    pub worktrees: &'a Worktrees<'a>,
    /// The repository with the commit.
    pub repo: &'a Repository,
    /// Its settings.
    pub settings: &'a Settings,
    /// The commit.
    pub commit: ObjectId,
    /// The sparse patterns.
    pub patterns: Option<&'a Patterns>,
    /// The modification time of all files; `None` for the usual one.
    pub time: Option<(u64, u32)>,
    /// See [`crate::Events::adding_base`].
    pub progress: Option<bool>,
    /// The base directories that may get a new base, the first that can be written.
    pub dirs: Vec<Bases>,
}

/// A base that exists.
enum Existing {
    Base(Box<Base>),
    /// Another user has a base, which the backend cannot use.
    Unusable(String),
    Nothing,
}

impl Supply<'_> {
    /// Returns the base for the backend `first`. If another user's base exists that this backend
    /// cannot use, or no base can be built, returns the first of `others` that finds a base, with
    /// that base.
    pub fn provide(
        &self,
        first: Backend,
        others: impl FnOnce() -> Vec<Backend>,
    ) -> Result<(Backend, Base), Error> {
        let reason = match self.existing(first)? {
            Existing::Base(base) => return Ok((first, *base)),
            Existing::Nothing if self.can_build() => return Ok((first, self.build(first)?)),
            Existing::Nothing => None,
            Existing::Unusable(reason) => Some(reason),
        };
        for other in others() {
            if let Existing::Base(base) = self.existing(other)? {
                return Ok((other, *base));
            }
        }
        match reason {
            Some(reason) if !self.can_build() => Err(backend::Error::Unfit { backend: first, reason }.into()),
            _ => Ok((first, self.build(first)?)),
        }
    }

    /// Returns the base for the backend, and builds it if it does not exist.
    pub fn base(&self, backend: Backend) -> Result<Base, Error> {
        self.provide(backend, Vec::new).map(|(_, base)| base)
    }

    /// Returns the directories that may hold bases: the given ones, and that of the repository,
    /// which gets what belongs to this user alone.
    fn all_dirs(&self) -> Result<Vec<Bases>, Error> {
        let own = places::default_bases(self.repo)?;
        let is_listed = self.dirs.iter().any(|dir| dir.dir() == own.dir());
        Ok(self.dirs.iter().cloned().chain((!is_listed).then_some(own)).collect())
    }

    /// Returns the base that the backend needs.
    pub fn wanted(&self, backend: Backend) -> Result<Wanted<'_>, Error> {
        let tree = self.repo.tree_of(self.commit)?;
        let (kind, owner) = (build::kind_of(backend), Owner::of_process());
        Ok(Wanted::new(self.repo, tree, kind, owner, self.patterns)?.with_time(self.time))
    }

    fn existing(&self, backend: Backend) -> Result<Existing, Error> {
        let (wanted, dirs) = (self.wanted(backend)?, self.all_dirs()?);
        for dir in &dirs {
            if let Some(base) = dir.find(&wanted)? {
                return Ok(Existing::Base(Box::new(base)));
            }
        }
        for dir in dirs.iter().filter(|_| stacks(backend)) {
            if let Some(base) = dir.find_difference(&wanted)? {
                return Ok(Existing::Base(Box::new(base)));
            }
        }
        let search = places::programs(self.repo);
        let mut reason = None;
        let mut shared: Option<(Base, Form)> = None;
        for sibling in siblings(&dirs, &wanted)? {
            match backend::form_for(backend, &sibling, &search) {
                Ok(Form::InPlace) if wanted.kind() == Kind::Directory => {
                    sibling.note_user(self.repo);
                    return Ok(Existing::Base(Box::new(sibling)));
                }
                Ok(form) if shared.is_none() => shared = Some((sibling, form)),
                Ok(_) => {}
                Err(why) => reason = Some(why),
            }
        }
        match (shared, reason) {
            (Some((sibling, form)), _) => {
                self.view(&dirs, &wanted, &sibling, form).map(|base| Existing::Base(Box::new(base)))
            }
            (None, Some(reason)) => Ok(Existing::Unusable(reason)),
            (None, None) => Ok(Existing::Nothing),
        }
    }

    /// Returns the base that shows `sibling`, which lies in a directory of `dirs` or an alternate.
    fn view(&self, dirs: &[Bases], wanted: &Wanted<'_>, sibling: &Base, form: Form) -> Result<Base, Error> {
        for dir in dirs {
            if let Some(base) = dir.find_view(wanted, form)? {
                return Ok(base);
            }
        }
        let target = dirs.iter().find(|dir| can_be_written(dir)).or(dirs.last());
        let target = target.expect("the repository has a directory");
        let other = sibling.dir.parent().unwrap_or(&sibling.dir);
        let real = |dir: &Path| by_path::canonical(dir).unwrap_or_else(|_| dir.to_owned());
        if real(target.dir()) != real(other) {
            target.add_alternate(other, self.settings.locks.shared, &self.settings.fsync)?;
        }
        let persist = Persist::Now;
        build::build_base(
            self.worktrees.reports(),
            self.settings,
            self.commit,
            Some(false),
            persist,
            |options, _| target.view(wanted, sibling, form, options),
        )
    }

    /// Returns true if one of the directories can be written.
    pub fn can_build(&self) -> bool {
        self.dirs.iter().any(can_be_written)
    }

    fn build(&self, backend: Backend) -> Result<Base, Error> {
        let dir = self.dirs.iter().find(|dir| can_be_written(dir)).or(self.dirs.first());
        let dir = dir.expect("a supply has a directory");
        let (reports, settings) = (self.worktrees.reports(), self.settings);
        let wanted = self.wanted(backend)?;
        if stacks(backend) {
            let persist = Persist::Now;
            let near = build::build_base(
                reports,
                settings,
                self.commit,
                Some(false),
                persist,
                |options, messages| dir.add_difference(&wanted, options, messages),
            )?;
            if let Some(base) = near {
                return Ok(base);
            }
        }
        let persist = durable::persist_in(dir, self.worktrees.events);
        build::build_base(reports, settings, self.commit, self.progress, persist, |options, messages| {
            dir.add(&wanted, options, messages)
        })
    }
}

/// Returns true if the backend can show a base that lies over another one. The other backends copy
/// one directory.
pub fn stacks(backend: Backend) -> bool {
    matches!(backend, Backend::Image | Backend::Overlay | Backend::OverlayUser)
}

fn siblings(dirs: &[Bases], wanted: &Wanted<'_>) -> Result<Vec<Base>, Error> {
    let mut all: Vec<Base> = Vec::new();
    for dir in dirs {
        for sibling in dir.siblings(wanted)? {
            if !all.iter().any(|known| known.dir == sibling.dir) {
                all.push(sibling);
            }
        }
    }
    Ok(all)
}

/// Returns true if this process may add to the base directory, or make it in the nearest directory
/// above it that exists.
fn can_be_written(bases: &Bases) -> bool {
    let is_there = |path: &Path| matches!(by_path::stat_followed(path), Ok(Some(_)));
    let dir = bases.dir();
    let top = dir.ancestors().find(|path| is_there(path));
    let users = dir.join("users");
    top.is_some_and(|top| by_path::may_be_written(top).is_ok())
        && (!is_there(&users) || by_path::may_be_written(&users).is_ok())
        && match by_path::append(&dir.join("lock"), false, 0) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        }
}
