//! Creating a sealed workspace: a repository of its own, with files from a base.
//!
//! Order: the base; the state, whose record names this process; the file `.git`, which claims the
//! directory; the mark of the claim in the state; the Git directory; the mount; the sync; the
//! record of a complete workspace. A failure removes everything except the base. A kill leaves a
//! record with the number of the process. `workspace gc` finds it there, and [`remains`] decides
//! how much it may remove.
//!
//! Design: docs/design/sealed.md.

use std::path::PathBuf;

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    switch::names,
    workspace::{
        record::{Activity, Sealed, Workspace},
        sealed::{self, Head, Hooks, Parts, Shared, Sharing},
    },
    worktree::{admin::Admin, removal::remove_incomplete},
};
use format::ObjectId;
use repo::{
    Repository,
    keys::{self, Name},
};
use sys::by_path;

use super::{
    create::Report,
    land,
    maker::{Maker, NewWorkspace, WorkspaceOptions},
    mounts, remove,
};
use crate::{
    Error, Notice,
    settings::Settings,
    switch::new_branch_ref,
    text,
    worktree::{
        add::{NewFiles as _, fill},
        records::{Given, Worktrees},
    },
};

/// The start of a sealed workspace.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// The name of the workspace.
    pub name: BString,
    /// The branch or commit; `None` for the branch with the name of the workspace, else HEAD.
    pub revision: Option<BString>,
    /// The branch of the workspace; `None` for its name.
    pub branch: Option<BString>,
}

impl Start {
    /// Finds the commit and the branch. Changes nothing.
    pub fn find(&self, repo: &Repository) -> Result<Sealed, Error> {
        if repo.objects().is_partial() {
            return Err(Error::failed(
                "a sealed workspace of a partial clone would lack the objects that the clone left out",
            ));
        }
        refuse_name(repo, self.name.as_bstr())?;
        let branch = new_branch_ref(repo, self.branch.as_ref().unwrap_or(&self.name).as_bstr())?;
        let own = names::branch_ref(repo, self.name.as_bstr())?;
        let own = own.map(|own| repo.find_ref(own.as_bstr())).transpose()?.flatten();
        let commit = match (&self.revision, own) {
            (Some(revision), _) => self.commit(repo, revision.as_bstr())?,
            (None, Some(own)) => own,
            (None, None) => self.commit(repo, "HEAD".into())?,
        };
        Ok(Sealed { branch, commit, landed: None })
    }

    fn commit(&self, repo: &Repository, revision: &BStr) -> Result<ObjectId, Error> {
        let unknown = || Error::Failed(text!("invalid reference: ", revision));
        let found = repo.rev_parse(revision).and_then(|oid| repo.peel_to_commit(oid));
        found.map_err(|error| Error::of_name(error, unknown()))?.ok_or_else(unknown)
    }
}

/// Returns an error for the name of a worktree: users could not tell one from the other.
fn refuse_name(repo: &Repository, name: &BStr) -> Result<(), Error> {
    let name = sys::os_str(name);
    match repo.linked_worktree(name) {
        Some(_) => Err(Error::failed(format!("a worktree '{}' exists already", name.to_string_lossy()))),
        None => Ok(()),
    }
}

/// The options that only a sealed workspace has.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// HEAD is detached.
    pub detach: bool,
    /// The way to get the objects.
    pub sharing: Sharing,
}

/// Creates the workspace at `at`. `workspace` are the options of `maker`, with a name and the
/// start.
pub fn create(
    worktrees: &Worktrees<'_>,
    settings: &Settings,
    (maker, workspace): (&Maker<'_>, &WorkspaceOptions),
    at: &Given,
    options: Options,
) -> Result<Report, Error> {
    let (Some(sealed), Some(name)) = (&workspace.sealed, &workspace.name) else {
        return Err(Error::failed("a sealed workspace needs a name and a start"));
    };
    worktrees.check_candidate(at, 0, &worktrees.repo.worktrees()?, "add")?;
    refuse_name(worktrees.repo, name.as_bstr())?;
    let files = maker.files(sealed.commit, &at.path)?;
    let files = files.ok_or_else(|| Error::failed("no backend serves a sealed workspace here"))?;
    let admin = Admin { dir: PathBuf::new(), id: sys::os_str(name).to_owned() };
    let git_dir = files.create_state(&admin).inspect_err(|_| files.undo())?;
    let admin = Admin { dir: git_dir, ..admin };
    // Commands that come meanwhile refuse the workspace, or wait.
    let locked = files.workspace().lock(&worktrees.repo.trust());
    let locked = locked.map_err(Error::from).and_then(|lock| at.claim(settings).map(|()| lock));
    let _lock = locked.inspect_err(|_| files.undo())?;
    let new = New { worktrees, settings, files: &files, workspace, sealed, options, at, admin: &admin };
    let complete = new.fill().and_then(|()| {
        let mut complete = files.workspace().clone();
        complete.record.activity = Activity::Active;
        complete.store(&settings.fsync)?;
        Ok(complete)
    });
    let complete = complete.inspect_err(|_| {
        files.undo();
        remove_incomplete(&[&at.path], sys::cores());
    })?;
    let backend = complete.record.backend;
    Ok(Report { path: at.path.clone(), git_dir: at.path.join(".git"), backend, hook: 0 })
}

/// The remains of a creation that was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remains {
    /// Nothing that a user has made. The directory may be somebody else's, and stays then.
    Nothing,
    /// A workspace in which somebody may have worked.
    Work,
}

/// Returns the remains of a sealed workspace whose creation was killed. Files in its directory
/// count as work, because those of a checkout cannot be distinguished from those of a user.
pub fn remains(worktrees: &Worktrees<'_>, workspace: &Workspace) -> Remains {
    let has_upper = workspace.record.backend.has_upper();
    let is_used = if has_upper {
        !remove::is_empty(workspace)
    } else if workspace.is_unclaimed() {
        false
    } else {
        // HEAD comes before the first file. Without it, a new repository may have an index.
        !remove::is_empty(workspace) || has_git(worktrees, workspace)
    };
    if is_used { Remains::Work } else { Remains::Nothing }
}

/// Returns true if the Git directory of a workspace has a commit or an index.
fn has_git(worktrees: &Worktrees<'_>, workspace: &Workspace) -> bool {
    let is_there = |path: PathBuf| matches!(by_path::stat(&path), Ok(Some(_)));
    let git_dir = workspace.git_dir();
    let has_commit = || land::foreign_tip(worktrees, workspace).is_ok_and(|tip| tip.commit.is_some());
    is_there(git_dir.join("index")) || has_commit()
}

/// A workspace whose place is claimed.
struct New<'a> {
    worktrees: &'a Worktrees<'a>,
    settings: &'a Settings,
    files: &'a NewWorkspace<'a>,
    workspace: &'a WorkspaceOptions,
    sealed: &'a Sealed,
    options: Options,
    at: &'a Given,
    admin: &'a Admin,
}

impl New<'_> {
    fn fill(&self) -> Result<(), Error> {
        let (files, admin, top) = (self.files, self.admin, &self.at.path);
        let has_upper = files.workspace().record.backend.has_upper();
        let io = |path: PathBuf| move |source| Error::CannotOpen { path, source };
        files.workspace().mark_claimed()?;
        if !has_upper {
            // The claim gives way to the directory.
            by_path::remove_file(&admin.dir).map_err(io(admin.dir.clone()))?;
        }
        by_path::create_dir(&admin.dir).map_err(io(admin.dir.clone()))?;
        let hooks = self.hooks()?;
        let parts = Parts {
            repo: self.worktrees.repo,
            head: if self.options.detach { Head::Detached } else { Head::Branch(&self.sealed.branch) },
            commit: self.sealed.commit,
            sharing: self.options.sharing,
            hooks: hooks.as_deref(),
            settings: &inherited(self.worktrees.repo, self.sealed)?,
            refs: self.settings.refs_with_hook(self.worktrees.repo)?,
            workers: self.settings.workers,
            interrupt: self.worktrees.interrupt,
        };
        let written = parts.write(&admin.dir).map_err(|error| match error {
            sealed::Error::Interrupted => Error::Interrupted,
            error => error.into(),
        })?;
        if written.shared == Shared::Copied {
            let name = self.workspace.name.clone().unwrap_or_default();
            self.worktrees.events.notice(Notice::ObjectsCopied(name));
        }
        files.configure(admin)?;
        if has_upper {
            mounts::mark_unmounted(files.workspace())?;
        }
        if files.is_checkout() {
            fill::reset(self.worktrees, top, true)?;
        } else {
            files.mount(admin)?;
        }
        Ok(sealed::sync(&admin.dir, written.objects, &self.settings.fsync)?)
    }

    /// Returns the directory whose hooks the workspace gets.
    fn hooks(&self) -> Result<Option<PathBuf>, Error> {
        let repo = self.worktrees.repo;
        match &self.workspace.hooks {
            Hooks::Default | Hooks::None => Ok(None),
            Hooks::Directory(dir) => Ok(Some(dir.clone())),
            Hooks::Repository => match repo.config_path(&keys::core::HOOKS_PATH)? {
                Some(path) if path.as_bytes().is_empty() => Ok(None),
                Some(path) => {
                    let dir = path.resolve(repo.child_dir());
                    Ok(Some(dir.map_err(|refused| Error::refused(&path, refused))?))
                }
                None => Ok(Some(repo.common_dir().join("hooks"))),
            },
        }
    }
}

/// Settings of the repository and of the user that the workspace gets as its own: those that decide
/// the bytes of files, and the identity, because a sandbox may not see the user's file. Maintenance
/// is off: it would copy the objects that are shared.
fn inherited(repo: &Repository, sealed: &Sealed) -> Result<Vec<(BString, BString)>, Error> {
    let keys: [&dyn Name; 14] = [
        &keys::core::FILE_MODE,
        &keys::core::SYMLINKS,
        &keys::core::IGNORE_CASE,
        &keys::core::PRECOMPOSE_UNICODE,
        &keys::core::PROTECT_HFS,
        &keys::core::PROTECT_NTFS,
        &keys::core::AUTOCRLF,
        &keys::core::EOL,
        &keys::core::TRUSTCTIME,
        &keys::core::CHECK_STAT,
        &keys::core::BIG_FILE_THRESHOLD,
        &keys::i18n::COMMIT_ENCODING,
        &keys::user::NAME,
        &keys::user::EMAIL,
    ];
    let value = |key: &&dyn Name| Some((BString::from(key.name()), repo.config_str(*key)?));
    let mut settings: Vec<(BString, BString)> = keys.iter().filter_map(value).collect();
    settings.push((keys::gc::AUTO.name().into(), "0".into()));
    settings.push((keys::maintenance::AUTO.name().into(), "false".into()));
    if repo.find_ref(sealed.branch.as_bstr())?.is_some() {
        let short = sealed.branch.strip_prefix(names::BRANCHES).unwrap_or(&sealed.branch);
        settings.push((keys::branch::REMOTE.with(short), "origin".into()));
        settings.push((keys::branch::MERGE.with(short), sealed.branch.clone()));
    }
    Ok(settings)
}
