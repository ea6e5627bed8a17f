//! Shared code of the subcommands of `worktree`: options, and paths of the command line.

use std::ops::Deref;

use bstr::{BStr, BString, ByteSlice as _};
use engine::switch::tracking::Track;
use repo::{Repository, Worktree};
use sapwood::{
    UserPath,
    worktree::records::{Given, Worktrees},
};

use crate::{
    commands::checkout::request::track,
    session::invocation::Invocation,
    term::{
        args::{Both, Grammar, On, Opt, Set, Table},
        console::text,
        failure::Failure,
    },
};

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
            field!(force),
        )
        .native(Both),
        Opt::text("-b <branch>", "create a new branch", field!(branch)).native(Both),
        Opt::text("-B <branch>", "create or reset a branch", field!(force_branch)).native(Both),
        Opt::flag("--orphan", "create unborn branch", field!(orphan)).native(Both),
        Opt::flag("-d, --detach", "detach HEAD at named commit", field!(detach)).native(Both),
        Opt::new("--checkout", "populate the new working tree", |request: &mut Request, value| {
            request.no_checkout = !value.on;
            Ok(())
        })
        .native(Both),
        Opt::flag("--lock", "keep the new working tree locked", field!(lock)).native(Both),
        Opt::text("--reason <string>", "reason for locking", field!(reason)).native(Both),
        Opt::flag("-q, --quiet", "suppress progress reporting", field!(quiet)).native(Both),
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
            field!(guess_remote),
        )
        .native(Both),
        Opt::choice("--relative-paths", "use relative paths for worktrees", field!(relative)).native(Both),
    ],
    grammar: Grammar::Mixed,
};

pub(crate) const LIST: Table<Set<Request>> = Table {
    usage: &["sapwood worktree list [-v | --porcelain [-z]]"],
    options: &[
        Opt::flag("--porcelain", "machine-readable output", field!(porcelain)).native(Both),
        Opt::flag("-v, --verbose", "show extended annotations and reasons, if available", field!(verbose))
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
        Opt::flag("-z", "terminate records with a NUL character", field!(nul)).only().native(On),
    ],
    grammar: Grammar::Mixed,
};

pub(crate) const LOCK: Table<Set<Request>> = Table {
    usage: &["sapwood worktree lock [--reason <string>] <worktree>"],
    options: &[Opt::text("--reason <string>", "reason for locking", field!(reason)).native(Both)],
    grammar: Grammar::Mixed,
};

pub(crate) const MOVE: Table<Set<Request>> = Table {
    usage: &["sapwood worktree move <worktree> <new-path>"],
    options: &[
        Opt::count("-f, --force", "force move even if worktree is dirty or locked", field!(force))
            .native(Both),
        Opt::choice("--relative-paths", "use relative paths for worktrees", field!(relative)).native(Both),
    ],
    grammar: Grammar::Mixed,
};

pub(crate) const PRUNE: Table<Set<Request>> = Table {
    usage: &["sapwood worktree prune [-n] [-v] [--expire <expire>]"],
    options: &[
        Opt::flag("-n, --dry-run", "do not remove, show only", field!(dry_run)).native(Both),
        Opt::flag("-v, --verbose", "report pruned working trees", field!(verbose)).native(Both),
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
    options: &[Opt::count("-f, --force", "force removal even if worktree is dirty or locked", field!(force))
        .native(Both)],
    grammar: Grammar::Mixed,
};

pub(crate) const REPAIR: Table<Set<Request>> = Table {
    usage: &["sapwood worktree repair [<path>...]"],
    options: &[
        Opt::choice("--relative-paths", "use relative paths for worktrees", field!(relative)).native(Both)
    ],
    grammar: Grammar::Mixed,
};

pub(crate) const UNLOCK: Table<Set<Request>> =
    Table { usage: &["sapwood worktree unlock <worktree>"], options: &[], grammar: Grammar::Mixed };

/// The repository and the run of a subcommand.
pub(crate) struct WorktreeContext<'a> {
    pub(crate) run: &'a Invocation,
    worktrees: Worktrees<'a>,
    pub(crate) table: &'static Table<Set<Request>>,
}

impl<'a> Deref for WorktreeContext<'a> {
    type Target = Worktrees<'a>;

    fn deref(&self) -> &Worktrees<'a> {
        &self.worktrees
    }
}

impl<'a> WorktreeContext<'a> {
    /// Returns the context of a subcommand with these options.
    pub(crate) fn new(
        run: &'a Invocation,
        repo: &'a Repository,
        table: &'static Table<Set<Request>>,
    ) -> WorktreeContext<'a> {
        let worktrees = Worktrees {
            repo,
            common: repo.real_common_dir(),
            events: run,
            interrupt: run.interrupt.flag(),
            occupied: vec![run.cwd.clone(), run.started_in.clone()],
        };
        WorktreeContext { run, worktrees, table }
    }
}

impl WorktreeContext<'_> {
    /// Prints the usage of the subcommand, for a wrong number of arguments.
    pub(crate) fn misused(&self) -> Failure {
        crate::term::console::eprint_raw(self.table.help().as_bytes());
        Failure::Reported(129)
    }

    /// Returns a path of the command line. In messages it is relative to the worktree's root,
    /// because Git changes to the root first.
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
        let given = self.given(arg).ok();
        Ok(self.worktrees.find(worktrees, arg, given.as_ref().map(|given| given.path.as_path()))?)
    }
}

/// Returns the worktree that `arg` names.
pub(crate) fn meant(run: &Invocation, repo: &Repository, arg: &BStr) -> Option<Worktree> {
    WorktreeContext::new(run, repo, &REMOVE).find(&repo.worktrees().ok()?, arg).ok()
}

/// Returns the only argument of a subcommand.
pub(crate) fn only<'p>(context: &WorktreeContext<'_>, args: &'p [BString]) -> Result<&'p BStr, Failure> {
    match args {
        [only] => Ok(only.as_bstr()),
        _ => Err(context.misused()),
    }
}
