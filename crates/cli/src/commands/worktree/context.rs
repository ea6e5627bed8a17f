//! Shared code of the subcommands of `worktree`: options, paths of the command line, and queries
//! about worktrees.

use crate::{
    commands::checkout::request::track,
    session::{invocation::Invocation, settings::Settings},
    term::{
        args::{
            Grammar,
            Native::{Both, On},
            Opt, Set, Table,
        },
        console::text,
        failure::Failure,
    },
};
use bstr::{BStr, BString, ByteSlice as _};
use engine::switch::tracking::Track;
use engine::{
    workspace::record::{self, LOCK_REASON, Workspace},
    worktree::{
        admin::{Linker, Links},
        prune::{self, Expire, Verdict},
    },
};
use repo::{GitfileError, OpenOptions, Repository, Worktree};
use std::{
    cell::Cell,
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};
use store::SharedRepository;
use sys::{FileType, UserPath, by_path};

/// The options of all subcommands.
#[derive(Default)]
pub(crate) struct Request {
    /// The number of `--force` options.
    pub(crate) force: usize,
    pub(crate) branch: Option<BString>,
    pub(crate) force_branch: Option<BString>,
    pub(crate) orphan: bool,
    pub(crate) detach: bool,
    pub(crate) no_checkout: bool,
    pub(crate) lock: bool,
    pub(crate) reason: Option<BString>,
    pub(crate) quiet: bool,
    pub(crate) track: Option<Track>,
    pub(crate) guess_remote: Option<bool>,
    pub(crate) relative: Option<bool>,
    pub(crate) porcelain: bool,
    pub(crate) verbose: bool,
    /// The date of `--expire`; `--no-expire` is `never`.
    pub(crate) expire: Option<BString>,
    pub(crate) nul: bool,
    pub(crate) dry_run: bool,
}

pub(crate) const ADD: Table<Set<Request>> = Table {
    usage: &[
        "sapwood worktree add [-f] [--detach] [--checkout] [--lock [--reason <string>]]\n                            \
         [--orphan] [(-b | -B) <new-branch>] <path> [<commit-ish>]",
    ],
    options: &[
        Opt::count(
            "-f, --force",
            "checkout <branch> even if already checked out in other worktree",
            |request: &mut Request| &mut request.force,
        )
        .native(Both),
        Opt::text("-b <branch>", "create a new branch", |request: &mut Request| &mut request.branch)
            .native(Both),
        Opt::text("-B <branch>", "create or reset a branch", |request: &mut Request| {
            &mut request.force_branch
        })
        .native(Both),
        Opt::flag("--orphan", "create unborn branch", |request: &mut Request| &mut request.orphan)
            .native(Both),
        Opt::flag("-d, --detach", "detach HEAD at named commit", |request: &mut Request| &mut request.detach)
            .native(Both),
        Opt::new("--checkout", "populate the new working tree", |request: &mut Request, value| {
            request.no_checkout = !value.on;
            Ok(())
        })
        .native(Both),
        Opt::flag("--lock", "keep the new working tree locked", |request: &mut Request| &mut request.lock)
            .native(Both),
        Opt::text("--reason <string>", "reason for locking", |request: &mut Request| &mut request.reason)
            .native(Both),
        Opt::flag("-q, --quiet", "suppress progress reporting", |request: &mut Request| &mut request.quiet)
            .native(Both),
        Opt::new(
            "--track[=(direct|inherit)]",
            "set up tracking mode (see git-branch(1))",
            |request: &mut Request, value| {
                request.track = Some(track(value)?);
                Ok(())
            },
        )
        .native(Both),
        Opt::choice(
            "--guess-remote",
            "try to match the new branch name with a remote-tracking branch",
            |request: &mut Request| &mut request.guess_remote,
        )
        .native(Both),
        Opt::choice("--relative-paths", "use relative paths for worktrees", |request: &mut Request| {
            &mut request.relative
        })
        .native(Both),
    ],
    grammar: Grammar::Mixed,
};

pub(crate) const LIST: Table<Set<Request>> = Table {
    usage: &["sapwood worktree list [-v | --porcelain [-z]]"],
    options: &[
        Opt::flag("--porcelain", "machine-readable output", |request: &mut Request| &mut request.porcelain)
            .native(Both),
        Opt::flag(
            "-v, --verbose",
            "show extended annotations and reasons, if available",
            |request: &mut Request| &mut request.verbose,
        )
        .native(Both),
        Opt::new(
            "--expire <expiry-date>",
            "add 'prunable' annotation to missing worktrees older than <time>",
            |request: &mut Request, value| {
                request.expire = Some(value.text.unwrap_or_else(|| "never".into()));
                Ok(())
            },
        )
        .native(Both),
        Opt::flag("-z", "terminate records with a NUL character", |request: &mut Request| &mut request.nul)
            .only()
            .native(On),
    ],
    grammar: Grammar::Mixed,
};

pub(crate) const LOCK: Table<Set<Request>> = Table {
    usage: &["sapwood worktree lock [--reason <string>] <worktree>"],
    options: &[Opt::text("--reason <string>", "reason for locking", |request: &mut Request| {
        &mut request.reason
    })
    .native(Both)],
    grammar: Grammar::Mixed,
};

pub(crate) const MOVE: Table<Set<Request>> = Table {
    usage: &["sapwood worktree move <worktree> <new-path>"],
    options: &[
        Opt::count(
            "-f, --force",
            "force move even if worktree is dirty or locked",
            |request: &mut Request| &mut request.force,
        )
        .native(Both),
        Opt::choice("--relative-paths", "use relative paths for worktrees", |request: &mut Request| {
            &mut request.relative
        })
        .native(Both),
    ],
    grammar: Grammar::Mixed,
};

pub(crate) const PRUNE: Table<Set<Request>> = Table {
    usage: &["sapwood worktree prune [-n] [-v] [--expire <expire>]"],
    options: &[
        Opt::flag("-n, --dry-run", "do not remove, show only", |request: &mut Request| &mut request.dry_run)
            .native(Both),
        Opt::flag("-v, --verbose", "report pruned working trees", |request: &mut Request| {
            &mut request.verbose
        })
        .native(Both),
        Opt::new(
            "--expire <expiry-date>",
            "prune missing working trees older than <time>",
            |request: &mut Request, value| {
                request.expire = Some(value.text.unwrap_or_else(|| "never".into()));
                Ok(())
            },
        )
        .native(Both),
    ],
    grammar: Grammar::Mixed,
};

pub(crate) const REMOVE: Table<Set<Request>> = Table {
    usage: &["sapwood worktree remove [-f] <worktree>"],
    options: &[Opt::count(
        "-f, --force",
        "force removal even if worktree is dirty or locked",
        |request: &mut Request| &mut request.force,
    )
    .native(Both)],
    grammar: Grammar::Mixed,
};

pub(crate) const REPAIR: Table<Set<Request>> = Table {
    usage: &["sapwood worktree repair [<path>...]"],
    options: &[Opt::choice(
        "--relative-paths",
        "use relative paths for worktrees",
        |request: &mut Request| &mut request.relative,
    )
    .native(Both)],
    grammar: Grammar::Mixed,
};

pub(crate) const UNLOCK: Table<Set<Request>> =
    Table { usage: &["sapwood worktree unlock <worktree>"], options: &[], grammar: Grammar::Mixed };

/// The repository and the run of a subcommand.
pub(crate) struct WorktreeContext<'a> {
    pub(crate) run: &'a Invocation,
    pub(crate) repo: &'a Repository,
    /// The common directory, by a path that stays valid when a worktree is moved or removed.
    pub(crate) common: PathBuf,
    pub(crate) table: &'static Table<Set<Request>>,
}

/// A path of the command line.
pub(crate) struct Given {
    /// The path for messages: relative to the worktree's root, because Git changes to the root
    /// first.
    pub(crate) shown: BString,
    pub(crate) path: PathBuf,
}

impl WorktreeContext<'_> {
    /// Prints the usage of the subcommand, for a wrong number of arguments.
    pub(crate) fn misused(&self) -> Failure {
        crate::term::console::eprint_raw(self.table.help().as_bytes());
        Failure::Reported(129)
    }

    pub(crate) fn given(&self, arg: &BStr) -> Result<Given, Failure> {
        let prefix = self.repo.prefix();
        let shown = if arg.starts_with(b"/") { arg.to_owned() } else { text!(prefix, arg) };
        let base = match self.repo.work_tree() {
            Some(top) if !prefix.is_empty() => top,
            _ => &self.run.cwd,
        };
        let path = UserPath::new(&shown);
        let path = path.resolve(base).map_err(|refused| Failure::refused(&path, refused))?;
        Ok(Given { shown, path })
    }

    /// Returns the worktree that an argument names: by the end of its path, or by its path.
    pub(crate) fn find(&self, worktrees: &[Worktree], arg: &BStr) -> Result<Worktree, Failure> {
        let found = find(self, worktrees, arg);
        found.cloned().ok_or_else(|| Failure::Fatal(text!("'", arg, "' is not a working tree")))
    }

    /// Returns the workspace of a worktree; `None` for an ordinary worktree.
    pub(crate) fn workspace(&self, worktree: &Worktree) -> Result<Option<Workspace>, Failure> {
        match &worktree.id {
            Some(id) => Ok(record::of_worktree(&self.common, id)?),
            None => Ok(None),
        }
    }

    pub(crate) fn admin_shown(&self, id: &OsStr) -> BString {
        self.repo.display_common_dir().join("worktrees").join(id).as_os_str().as_bytes().into()
    }

    /// Returns the writer of the two links of a worktree: relative or absolute, as requested, else
    /// by `worktree.useRelativePaths`.
    pub(crate) fn linker(&self, relative: Option<bool>) -> Result<Linker, Failure> {
        let repo = self.repo;
        let settings = Settings::read(self.run, repo)?;
        let relative = match relative {
            Some(relative) => relative,
            None => repo.config_bool("worktree.useRelativePaths")?.unwrap_or(false),
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
    pub(crate) fn shared_or_default(&self) -> SharedRepository {
        crate::session::settings::shared(self.repo).unwrap_or_default()
    }

    /// Checks that a worktree and its administrative directory refer to each other. The error is
    /// the mismatch.
    pub(crate) fn validate(&self, worktree: &Worktree, may_be_missing: bool) -> Result<(), BString> {
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
        match named == by_path::realpath_forgiving(&worktree.git_dir) {
            true => Ok(()),
            false => Err(text!("'", top, "' does not point back to '", self.admin_shown(id), "'")),
        }
    }
}

pub(crate) fn find<'w>(
    context: &WorktreeContext<'_>,
    worktrees: &'w [Worktree],
    arg: &BStr,
) -> Option<&'w Worktree> {
    let ends_so = |worktree: &&Worktree| {
        let before = worktree.path.as_os_str().as_bytes().strip_suffix(arg.as_bytes());
        !arg.is_empty() && before.is_some_and(|before| before.is_empty() || before.ends_with(b"/"))
    };
    let mut by_suffix = worktrees.iter().filter(ends_so);
    match (by_suffix.next(), by_suffix.next()) {
        (Some(only), None) => Some(only),
        _ => find_by_path(worktrees, &context.given(arg).ok()?.path),
    }
}

/// Returns the worktree that `arg` names.
pub(crate) fn meant(run: &Invocation, repo: &Repository, arg: &BStr) -> Option<Worktree> {
    let context = WorktreeContext { run, repo, common: repo.real_common_dir(), table: &REMOVE };
    find(&context, &repo.worktrees().ok()?, arg).cloned()
}

pub(crate) fn find_by_path<'w>(worktrees: &'w [Worktree], path: &Path) -> Option<&'w Worktree> {
    let wanted = real(path)?;
    worktrees.iter().find(|worktree| real(&worktree.path).as_ref() == Some(&wanted))
}

/// Resolves symlinks in the path; its last component may be missing.
pub(crate) fn real(path: &Path) -> Option<PathBuf> {
    match by_path::canonical(path) {
        Ok(real) => Some(real),
        Err(_) => Some(by_path::canonical(path.parent()?).ok()?.join(path.file_name()?)),
    }
}

pub(crate) fn is_directory(path: &Path) -> bool {
    let stat = by_path::stat_followed(path).ok().flatten();
    stat.is_some_and(|stat| stat.file_type == FileType::Directory)
}

pub(crate) fn is_empty_directory(path: &Path) -> bool {
    by_path::list(path).is_ok_and(|names| names.is_empty())
}

/// Returns the reason why a worktree is locked, which may be empty; `None` if it is not locked. The
/// lock that keeps the real Git from pruning an unmounted workspace does not count.
pub(crate) fn lock_reason(worktree: &Worktree) -> Result<Option<BString>, Failure> {
    if worktree.id.is_none() {
        return Ok(None);
    }
    let path = worktree.git_dir.join("locked");
    if matches!(by_path::stat(&path), Ok(None)) {
        return Ok(None);
    }
    let reason = by_path::read(&path).map_err(|error| {
        let reason = crate::term::text::os_error(&error);
        Failure::fatal(format!("failed to read '{}': {reason}", path.display()))
    })?;
    let reason = BString::from(format::blank::trim(&reason.unwrap_or_default()));
    Ok((reason != LOCK_REASON).then_some(reason))
}

pub(crate) fn prune_reason(worktree: &Worktree, common: &Path, expire: Expire) -> Option<String> {
    match prune::verdict(common, worktree.id.as_ref()?, expire) {
        Verdict::Prune(reason) => Some(reason),
        Verdict::Keep(_) => None,
    }
}

/// Returns an error if a worktree contains submodules: their links to their repositories would
/// break.
pub(crate) fn refuse_submodules(context: &WorktreeContext<'_>, worktree: &Worktree) -> Result<(), Failure> {
    let refused = || Err(Failure::fatal("working trees containing submodules cannot be moved or removed"));
    if is_directory(&worktree.git_dir.join("modules")) {
        return refused();
    }
    let options = store::index::ReadOptions::default();
    let index = store::index::load(&worktree.git_dir.join("index"), context.repo.hash(), &options);
    let index = index.map_err(|error| Failure::fatal(error.to_string()))?;
    let gitlinks = index.entries().iter().filter(|entry| entry.mode.is_gitlink());
    for entry in gitlinks {
        let gitfile = worktree.path.join(sys::os_str(index.path(entry))).join(".git");
        let populated = match context.repo.read_gitfile(&gitfile) {
            Ok(_) => true,
            Err(GitfileError::IsADirectory) => context.repo.is_git_directory(&gitfile),
            Err(_) => false,
        };
        if populated {
            return refused();
        }
    }
    Ok(())
}

/// Returns the only argument of a subcommand.
pub(crate) fn only<'p>(context: &WorktreeContext<'_>, args: &'p [BString]) -> Result<&'p BStr, Failure> {
    match args {
        [only] => Ok(only.as_bstr()),
        _ => Err(context.misused()),
    }
}

/// Opens the repository from within a worktree. The `.git` file there must lead back to the
/// administrative directory: another user may have made a directory where a worktree was.
pub(crate) fn open_worktree(run: &Invocation, worktree: &Worktree) -> Result<Repository, Failure> {
    let options = OpenOptions {
        cwd: worktree.path.clone(),
        git_dir: Some(worktree.path.join(".git")),
        work_tree: Some(worktree.path.clone()),
        ..run.outside()
    };
    let repo = Repository::open(&options)?;
    let real = by_path::realpath_forgiving;
    match real(repo.git_dir()) == real(&worktree.git_dir) {
        true => Ok(repo),
        false => Err(Failure::Fatal(text!(
            "'",
            worktree.path.as_os_str().as_bytes(),
            "' does not point back to '",
            worktree.git_dir.as_os_str().as_bytes(),
            "'"
        ))),
    }
}
