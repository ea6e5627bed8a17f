//! The worktrees of a repository: search, checks, locks, and the links to their records.

use std::{
    cell::Cell,
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    workspace::record::{self, LOCK_REASON, Workspace},
    worktree::{
        admin::{self, Found, Linker, Links},
        prune::{self, Expire, Verdict},
    },
};
use repo::{GitfileError, OpenOptions, Repository, Worktree, keys};
use store::SharedRepository;
use sys::{FileType, UserPath, by_path};

use crate::{
    Error,
    context::Context,
    events::Events,
    notice::Notice,
    settings::{self, Settings},
    text,
};

/// The worktrees of a repository, for steps that need no settings.
pub struct Worktrees<'a> {
    /// The repository.
    pub repo: &'a Repository,
    /// The common directory, by a path that stays valid when a worktree is moved or removed.
    pub common: PathBuf,
    /// Receives the reports.
    pub events: &'a dyn Events,
    /// Set to stop the operation at its next step.
    pub interrupt: &'a AtomicBool,
    /// The directories that the caller works in. A worktree with one of them is removed directly,
    /// not through the trash: there, Git would find the repository that contains the trash.
    pub occupied: Vec<PathBuf>,
}

/// A path that the caller named.
#[derive(Clone, Debug)]
pub struct Given {
    /// The path for messages.
    pub shown: BString,
    /// The absolute path.
    pub path: PathBuf,
}

impl Given {
    /// Returns an absolute path, shown as it is.
    pub fn new(path: PathBuf) -> Given {
        Given { shown: path.as_os_str().as_bytes().into(), path }
    }

    /// Returns a path relative to the directory from which the repository was opened.
    pub(crate) fn of(repository: &crate::Repository, path: &Path) -> Result<Given, Error> {
        let shown = UserPath::new(path.as_os_str().as_bytes());
        let resolved = shown.resolve(repository.inner.cwd());
        let resolved = resolved.map_err(|refused| Error::refused(&shown, refused))?;
        Ok(Given { shown: path.as_os_str().as_bytes().into(), path: resolved })
    }

    /// Claims the directory: of several processes that add a worktree at one path, only one finds
    /// no `.git` there.
    pub(crate) fn claim(&self, settings: &Settings) -> Result<(), Error> {
        let Given { path: top, shown } = self;
        settings.locks.shared.create_dir_all(top).map_err(|error| {
            let reason = sys::reason(&error).to_string();
            Error::Failed(text!("could not create leading directories of '", shown, "/.git': ", reason))
        })?;
        by_path::create_new(&top.join(".git"), 0o666).map(drop).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => Error::Failed(text!("'", shown, "' already exists")),
            _ => {
                let reason = sys::reason(&error).to_string();
                Error::Failed(text!("could not open '", shown, "/.git' for writing: ", reason))
            }
        })
    }
}

impl<'a> Worktrees<'a> {
    /// Returns the worktrees of the repository of a context.
    pub fn of(context: Context<'a>, occupied: Vec<PathBuf>) -> Worktrees<'a> {
        let Context { repo, events, interrupt, .. } = context;
        Worktrees { repo, common: repo.real_common_dir(), events, interrupt, occupied }
    }

    /// Returns the same worktrees with another receiver of reports.
    pub fn reporting_to<'e>(&self, events: &'e dyn Events) -> Worktrees<'e>
    where
        'a: 'e,
    {
        let Worktrees { repo, common, interrupt, occupied, .. } = self;
        Worktrees { repo, common: common.clone(), events, interrupt, occupied: occupied.clone() }
    }

    /// Returns the context of a step in the repository `repo`, which need not be this one.
    pub fn context<'s>(&'s self, repo: &'s Repository, settings: &'s Settings) -> Context<'s> {
        Context { repo, settings, events: self.events, interrupt: self.interrupt, hands_over: false }
    }

    /// Returns the receiver of reports and the flag that stops the operation.
    pub fn reports(&self) -> (&'a dyn Events, &'a AtomicBool) {
        (self.events, self.interrupt)
    }

    /// Returns an error if the operation should stop.
    pub fn check_interrupt(&self) -> Result<(), Error> {
        if self.interrupt.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Returns the worktree that an argument names: by the end of its path, or by its path.
    pub fn find(&self, worktrees: &[Worktree], arg: &BStr, path: Option<&Path>) -> Result<Worktree, Error> {
        let found = find(worktrees, arg, path);
        found.cloned().ok_or_else(|| Error::Failed(text!("'", arg, "' is not a working tree")))
    }

    /// Returns the workspace of a worktree; `None` for an ordinary worktree.
    pub fn workspace(&self, worktree: &Worktree) -> Result<Option<Workspace>, Error> {
        match &worktree.id {
            Some(id) => Ok(record::of_worktree(&self.common, id)?),
            None => Ok(None),
        }
    }

    /// Returns the path of an administrative directory for messages.
    pub fn admin_shown(&self, id: &OsStr) -> BString {
        self.repo.display_common_dir().join("worktrees").join(id).as_os_str().as_bytes().into()
    }

    /// Returns the writer of the two links of a worktree: relative or absolute, as requested, else
    /// by `worktree.useRelativePaths`.
    pub fn linker(&self, relative: Option<bool>) -> Result<Linker, Error> {
        let repo = self.repo;
        let settings = Settings::read(repo, self.events)?;
        let relative = match relative {
            Some(relative) => relative,
            None => repo.config(&keys::worktree::USE_RELATIVE_PATHS)?,
        };
        Ok(Linker {
            links: if relative { Links::Relative } else { Links::Absolute },
            config: self.common.join("config"),
            version: repo.extensions().version,
            unknown: repo.extensions().unknown.first().cloned(),
            extended: Cell::new(repo.extensions().relative_worktrees),
            locks: settings.config_locks,
            fsync: settings.fsync,
        })
    }

    /// Returns the repository's permissions. Git does not read them for a removal, so an invalid
    /// value counts as unset.
    pub fn shared_or_default(&self) -> SharedRepository {
        settings::shared(self.repo).unwrap_or_default()
    }

    /// Checks that a worktree and its administrative directory refer to each other. The error is
    /// the mismatch.
    pub fn validate(&self, worktree: &Worktree, may_be_missing: bool) -> Result<(), BString> {
        let Some(id) = &worktree.id else { return Ok(()) };
        let top: BString = worktree.path.as_os_str().as_bytes().into();
        let gitfile = worktree.path.join(".git");
        let shown = text!(top, "/.git");
        if !worktree.path.is_absolute() {
            let gitdir = text!(self.admin_shown(id), "/gitdir");
            return Err(text!(
                "'",
                gitdir,
                "' file does not contain absolute path to the working tree location"
            ));
        }
        let is_missing = |path: &Path| matches!(by_path::stat(path), Ok(None));
        if may_be_missing && is_missing(&worktree.path) {
            return Ok(());
        }
        if is_missing(&gitfile) {
            return Err(text!("'", shown, "' does not exist"));
        }
        let named = self.repo.read_gitfile(&gitfile).map_err(|error: GitfileError| {
            text!("'", shown, "' is not a .git file, error code ", (error as u8).to_string())
        })?;
        if named == by_path::realpath_forgiving(&worktree.git_dir) {
            Ok(())
        } else {
            Err(text!("'", top, "' does not point back to '", self.admin_shown(id), "'"))
        }
    }

    /// Checks that a path may become a worktree. If the path is recorded for a missing worktree,
    /// the record may have to be removed first.
    pub fn check_candidate(
        &self,
        at: &Given,
        force: usize,
        worktrees: &[Worktree],
        command: &str,
    ) -> Result<(), Error> {
        let Some(found) = self.find_record(at, force, worktrees, command)? else { return Ok(()) };
        let id = found.id.as_ref().expect("the main worktree has no record");
        if self.delete_admin(id, &Found::at(&found.git_dir))? {
            Ok(())
        } else {
            Err(Error::Failed(text!("unusable worktree destination '", at.shown, "'")))
        }
    }

    /// Like [`Worktrees::check_candidate`], but returns the record to remove.
    pub(super) fn find_record<'w>(
        &self,
        at: &Given,
        force: usize,
        worktrees: &'w [Worktree],
        command: &str,
    ) -> Result<Option<&'w Worktree>, Error> {
        let quoted = |after: &str| Error::Failed(text!("'", at.shown, "'", after));
        if !matches!(by_path::stat(&at.path), Ok(None)) && !is_empty_directory(&at.path) {
            return Err(quoted(" already exists"));
        }
        let found = find_by_path(worktrees, &at.path).filter(|found| found.id.is_some());
        let Some(found) = found else { return Ok(None) };
        let locked = lock_reason(found)?.is_some();
        if force > usize::from(locked) {
            return Ok(Some(found));
        }
        Err(if locked {
            quoted(&format!(
                " is a missing but locked worktree;\nuse '{command} -f -f' to override, \
                 or 'unlock' and 'prune' or 'remove' to clear"
            ))
        } else {
            quoted(&format!(
                " is a missing but already registered worktree;\nuse '{command} -f' to override, \
                 or 'prune' or 'remove' to clear"
            ))
        })
    }

    /// Removes `worktrees/<id>` if it still is `meant`. Returns false if it stays; the reason was
    /// reported.
    pub fn delete_admin(&self, id: &OsStr, meant: &Found) -> Result<bool, Error> {
        let removed = admin::delete(&self.common, id, meant, self.shared_or_default(), self.interrupt);
        self.deleted(removed, self.admin_shown(id).as_bstr())
    }

    /// Reports a removal that failed. Returns false then.
    pub(super) fn deleted(
        &self,
        removed: Result<(), engine::trash::Error>,
        shown: &BStr,
    ) -> Result<bool, Error> {
        match removed {
            Ok(()) => Ok(true),
            Err(engine::trash::Error::Interrupted) => Err(Error::Interrupted),
            Err(engine::trash::Error::Unremovable(stuck)) => {
                let reason = stuck.first().map(|stuck| sys::reason(&stuck.source).to_string());
                let path = shown.to_owned();
                self.events.notice(Notice::NotDeleted { path, reason: reason.unwrap_or_default() });
                Ok(false)
            }
        }
    }

    /// Removes `worktrees/` if it is empty.
    pub fn drop_empty_list(&self) {
        let _ = by_path::remove_dir(&self.common.join("worktrees"));
    }
}

/// Returns the worktree that is named by the end of its path, else by the path `path`.
fn find<'w>(worktrees: &'w [Worktree], arg: &BStr, path: Option<&Path>) -> Option<&'w Worktree> {
    let ends_so = |worktree: &&Worktree| {
        let before = worktree.path.as_os_str().as_bytes().strip_suffix(arg.as_bytes());
        !arg.is_empty() && before.is_some_and(|before| before.is_empty() || before.ends_with(b"/"))
    };
    let mut by_suffix = worktrees.iter().filter(ends_so);
    match (by_suffix.next(), by_suffix.next()) {
        (Some(only), None) => Some(only),
        _ => find_by_path(worktrees, path?),
    }
}

/// Returns the worktree at a path.
fn find_by_path<'w>(worktrees: &'w [Worktree], path: &Path) -> Option<&'w Worktree> {
    let wanted = real(path)?;
    // Most worktrees are elsewhere, and one call says so.
    let id = file_id(&wanted);
    let may_be = |worktree: &&Worktree| match (&id, file_id(&worktree.path)) {
        (Ok(wanted), Ok(found)) => *wanted == found,
        _ => true,
    };
    let mut candidates = worktrees.iter().filter(may_be);
    candidates.find(|worktree| real(&worktree.path).as_ref() == Some(&wanted))
}

/// Returns the device and the inode of what a path leads to; `None` if it leads nowhere.
fn file_id(path: &Path) -> std::io::Result<Option<(u64, u64)>> {
    Ok(by_path::stat_followed(path)?.map(|stat| (stat.dev, stat.ino)))
}

/// Resolves symlinks in the path; its last component may be missing.
fn real(path: &Path) -> Option<PathBuf> {
    match by_path::canonical(path) {
        Ok(real) => Some(real),
        Err(_) => Some(by_path::canonical(path.parent()?).ok()?.join(path.file_name()?)),
    }
}

/// Returns true for a directory, also behind symlinks.
pub fn is_directory(path: &Path) -> bool {
    let stat = by_path::stat_followed(path).ok().flatten();
    stat.is_some_and(|stat| stat.file_type == FileType::Directory)
}

/// Returns true for a directory without entries.
fn is_empty_directory(path: &Path) -> bool {
    by_path::list(path).is_ok_and(|names| names.is_empty())
}

/// Returns the reason why a worktree is locked, which may be empty; `None` if it is not locked. The
/// lock that keeps the real Git from pruning an unmounted workspace does not count.
pub fn lock_reason(worktree: &Worktree) -> Result<Option<BString>, Error> {
    if worktree.id.is_none() {
        return Ok(None);
    }
    let path = worktree.git_dir.join("locked");
    if matches!(by_path::stat(&path), Ok(None)) {
        return Ok(None);
    }
    let reason = by_path::read(&path).map_err(|error| {
        let reason = sys::reason(&error);
        Error::failed(format!("failed to read '{}': {reason}", path.display()))
    })?;
    let reason = BString::from(format::blank::trim(&reason.unwrap_or_default()));
    Ok((reason != LOCK_REASON).then_some(reason))
}

/// Returns the reason why `worktree prune` would forget a worktree.
pub(super) fn prune_reason(worktree: &Worktree, common: &Path, expire: Expire) -> Option<String> {
    match prune::verdict(common, worktree.id.as_ref()?, expire) {
        Verdict::Prune(reason) => Some(reason),
        Verdict::Keep(_) => None,
    }
}

/// Returns an error if a worktree contains submodules: their links to their repositories would
/// break.
pub fn refuse_submodules(repo: &Repository, worktree: &Worktree) -> Result<(), Error> {
    let refused = || Err(Error::failed("working trees containing submodules cannot be moved or removed"));
    if is_directory(&worktree.git_dir.join("modules")) {
        return refused();
    }
    let options = store::index::ReadOptions::default();
    let index = store::index::load(&worktree.git_dir.join("index"), repo.hash(), &options);
    let index = index.map_err(|error| Error::failed(error.to_string()))?;
    for at in index.gitlinks() {
        let gitfile = worktree.path.join(sys::os_str(index.path_at(at))).join(".git");
        let populated = match repo.read_gitfile(&gitfile) {
            Ok(_) => true,
            Err(GitfileError::IsADirectory) => repo.is_git_directory(&gitfile),
            Err(_) => false,
        };
        if populated {
            return refused();
        }
    }
    Ok(())
}

/// Opens the repository from within a worktree. The `.git` file there must lead back to the
/// administrative directory: another user may have made a directory where a worktree was.
pub fn open_worktree(repo: &Repository, worktree: &Worktree) -> Result<Repository, Error> {
    let options = OpenOptions {
        git_dir: Some(worktree.path.join(".git")),
        work_tree: Some(worktree.path.clone()),
        ..repo.options_at(&worktree.path)
    };
    let repo = Repository::open(&options)?;
    let real = by_path::realpath_forgiving;
    if real(repo.git_dir()) == real(&worktree.git_dir) {
        Ok(repo)
    } else {
        Err(Error::Failed(text!(
            "'",
            worktree.path.as_os_str().as_bytes(),
            "' does not point back to '",
            worktree.git_dir.as_os_str().as_bytes(),
            "'"
        )))
    }
}
