//! The branch, the record and the files of a new worktree.

use std::{os::unix::ffi::OsStrExt as _, path::Path};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    switch::{self, Target, names, tracking::Track},
    workspace::record::{self, LOCK_REASON},
    worktree::{
        admin::{self, Admin},
        removal::remove_incomplete,
    },
};
use format::{ObjectId, config::Edit, refname};
use store::refs::{Change, Expected};
use sys::by_path;

use repo::keys;

use super::{Add, NewFiles, Report, basename, fill};
use crate::{Error, Notice, hooks, refs, switch::new_branch_ref, text, upstream};

impl Add<'_> {
    /// Creates a branch, like `git branch [--force] <word> <start>`.
    pub(super) fn make_branch(&self, word: &BStr, start: &BStr) -> Result<(), Error> {
        let (repo, settings) = (self.repo, self.settings);
        let full = new_branch_ref(repo, word)?;
        let branch = full.strip_prefix(names::BRANCHES).unwrap_or(&full).as_bstr();
        let exists = repo.find_ref(full.as_bstr())?.is_some();
        if exists && self.request.force_branch.is_none() {
            return Err(Error::BranchExists(full));
        }
        if exists && let Some(path) = repo.worktree_using(full.as_bstr(), false)? {
            let path = path.as_os_str().as_bytes();
            return Err(Error::Failed(text!(
                "cannot force update the branch '",
                branch,
                "' used by worktree at '",
                path,
                "'"
            )));
        }
        let track = match self.request.track {
            Some(track) => track,
            None => Track::configured(repo)?,
        };
        let from = upstream::Start::find(repo, start, track)?;
        let commit = self.commit(start)?.expect("it was looked up before");
        let context = self.worktrees.context(repo, settings);
        let mut refs = refs::options(context)?;
        if self.source.is_some() {
            // An interrupted creation must not leave a branch that no program can read.
            refs.fsync = refs.fsync.for_recording();
        }
        switch::create_branch(&refs, full.as_bstr(), commit, start, exists)?;
        let installed = upstream::set(context, branch, from, track)?.filter(|_| !self.request.quiet);
        if let Some(installed) = installed {
            context.events.notice(Notice::Upstream(Box::new(installed)));
        }
        Ok(())
    }

    pub(super) fn make(
        &self,
        name: &BStr,
        orphan: bool,
        files: Option<&dyn NewFiles>,
    ) -> Result<Report, Error> {
        let (repo, request) = (self.repo, self.request);
        self.worktrees.check_candidate(self.at, request.force, &repo.worktrees()?, "add")?;
        let existing = if request.detach { None } else { self.existing(name)? };
        if let Some(full) = existing.as_ref().filter(|_| request.force == 0) {
            self.refuse_used(full.as_bstr())?;
        }
        let is_branch = existing.is_some();
        let branch = match existing {
            Some(full) if orphan => return Err(Error::BranchExists(full)),
            Some(full) => full,
            None if orphan => new_branch_ref(repo, name)?,
            None => BString::default(),
        };
        let commit = self.commit(name)?;
        if commit.is_none() && !orphan {
            return Err(Error::Failed(text!("invalid reference: ", name)));
        }
        let reason = match (&request.reason, request.lock) {
            (Some(reason), _) => reason.clone(),
            (None, true) => "added with --lock".into(),
            (None, false) => "initializing".into(),
        };
        let head = match commit {
            Some(commit) if !is_branch && !orphan => Head::Commit(commit),
            _ => Head::Branch(branch.as_bstr()),
        };
        if !orphan {
            let target = match head {
                Head::Branch(full) => Target::Branch(full),
                Head::Commit(commit) => Target::Commit(commit),
            };
            let mut refs = refs::options(self.worktrees.context(repo, self.settings))?;
            // The new directory cannot contain a lock yet.
            refs.git_dir = repo.common_dir().join("worktrees");
            switch::check_head(&refs, target, commit)?;
        }
        let reason = match files {
            Some(_) if !request.lock => {
                record::initializing(&by_path::realpath_forgiving(&self.at.path)).into()
            }
            _ => reason,
        };
        let name = match files {
            Some(files) => files.name(&self.at.path),
            None => basename(self.at.shown.as_bstr()),
        };
        let id = refname::sanitized(name);
        let admin = admin::make(repo.common_dir(), id.as_bstr(), &reason, self.settings.locks.shared)?;
        let claimed = files
            .map_or(Ok(()), |files| files.check_name(&admin))
            .and_then(|()| self.at.claim(self.settings));
        if let Err(error) = claimed {
            remove_incomplete(&[&admin.dir], sys::cores());
            return Err(error);
        }
        let filled = match files {
            Some(files) => self.fill_otherwise(&admin, head, files),
            None => self.fill(&admin, head),
        };
        if let Err(error) = filled {
            if let Some(files) = files {
                files.undo();
            }
            remove_incomplete(&[&admin.dir, &self.at.path], sys::cores());
            return Err(error);
        }
        if let Some(files) = files {
            if !request.lock {
                admin::write(&admin.dir.join("locked"), LOCK_REASON.as_bytes())?;
            }
            files.persist(&admin)?;
        } else if !request.lock {
            // If the lock cannot be removed, the worktree still exists.
            let _ = by_path::remove_file(&admin.dir.join("locked"));
        }
        let hook = match commit {
            Some(commit) if !request.no_checkout && !orphan => {
                let context = self.worktrees.context(repo, self.settings);
                hooks::post_checkout_of_new(context, &self.at.path, commit)?
            }
            _ => 0,
        };
        Ok(Report { path: self.at.path.clone(), git_dir: admin.dir, hook })
    }

    /// Like [`Add::fill`], for files that do not come from a checkout.
    fn fill_otherwise(&self, admin: &Admin, head: Head<'_>, files: &dyn NewFiles) -> Result<(), Error> {
        let gitfile = files.create_state(admin)?;
        let linker = self.worktrees.linker(self.request.relative)?;
        linker.link_through(&gitfile, &self.at.path, &admin.dir)?;
        self.fill_admin(admin, head)?;
        files.configure(admin)?;
        if files.is_checkout() { self.reset() } else { files.mount(admin) }
    }

    /// Runs all steps between the directory and the hook. An error undoes the worktree.
    fn fill(&self, admin: &Admin, head: Head<'_>) -> Result<(), Error> {
        self.worktrees.linker(self.request.relative)?.link(&self.at.path, &admin.dir)?;
        self.fill_admin(admin, head)?;
        if self.request.no_checkout { Ok(()) } else { self.reset() }
    }

    fn reset(&self) -> Result<(), Error> {
        fill::reset(self.worktrees, &self.at.path, self.request.quiet)
    }

    /// Writes the administrative directory, except for the links.
    fn fill_admin(&self, admin: &Admin, head: Head<'_>) -> Result<(), Error> {
        self.settings.locks.shared.create_dir(&admin.dir.join("refs")).map_err(|error| {
            Error::failed(format!("could not create '{}': {error}", admin.dir.join("refs").display()))
        })?;
        self.write_head(admin, head)?;
        if self.repo.config(&keys::core::SPARSE_CHECKOUT)? {
            self.copy(admin, "info/sparse-checkout", |from, to| {
                text!("failed to copy '", from, "' to '", to, "'; sparse-checkout may not work correctly")
            });
        }
        if self.repo.extensions().worktree_config {
            self.copy_config(admin)?;
        }
        Ok(())
    }

    fn write_head(&self, admin: &Admin, head: Head<'_>) -> Result<(), Error> {
        let mut refs = refs::options(self.worktrees.context(self.repo, self.settings))?;
        refs.git_dir = admin.dir.clone();
        let name = BString::from("HEAD");
        let change = match head {
            Head::Commit(new) => {
                Change::Update { name, new, expected: Expected::Any, message: BString::default() }
            }
            Head::Branch(target) => {
                let target = target.to_owned();
                Change::Symbolic { name, target, message: None, old: None, new: None }
            }
        };
        Ok(store::refs::apply(&refs, vec![change]).map_err(switch::Error::from)?)
    }

    /// Copies a file of this worktree's Git directory, if it exists. `failed` returns the message
    /// for a failure.
    fn copy(&self, admin: &Admin, name: &str, failed: impl Fn(&[u8], &[u8]) -> BString) -> bool {
        let (from, to) = (self.repo.git_dir().join(name), admin.dir.join(name));
        let copied = || -> std::io::Result<bool> {
            let Some(content) = by_path::read(&from)? else { return Ok(false) };
            let shared = self.settings.locks.shared;
            shared.create_dir_all(to.parent().unwrap_or(Path::new("/")))?;
            let mut file = shared.create_new(&to, 0o666)?;
            std::io::Write::write_all(&mut file, &content)?;
            Ok(true)
        };
        copied().unwrap_or_else(|_| {
            let text = failed(from.as_os_str().as_bytes(), to.as_os_str().as_bytes());
            self.worktrees.events.notice(Notice::NotCopied(text));
            false
        })
    }

    /// Copies the configuration of this worktree, without its location and `core.bare`.
    fn copy_config(&self, admin: &Admin) -> Result<(), Error> {
        let copied = self.copy(admin, "config.worktree", |from, to| {
            text!("failed to copy worktree config from '", from, "' to '", to, "'")
        });
        if !copied {
            return Ok(());
        }
        let path = admin.dir.join("config.worktree");
        let mut edits = Vec::new();
        if repo::setting_of(&path, &keys::core::BARE).is_some_and(|bare| bare.is_true()) {
            edits.push(Edit::Unset { key: keys::core::BARE.name().into() });
        }
        if repo::setting_of(&path, &keys::core::WORKTREE).is_some() {
            edits.push(Edit::Unset { key: keys::core::WORKTREE.name().into() });
        }
        Ok(store::config::edit(&path, &edits, &self.settings.config_locks, &self.settings.fsync)?)
    }
}

#[derive(Clone, Copy)]
enum Head<'a> {
    Branch(&'a BStr),
    Commit(ObjectId),
}
