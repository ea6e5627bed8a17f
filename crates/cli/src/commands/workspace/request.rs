//! The options of the subcommands of `workspace`.

use bstr::BString;

use crate::term::args::{Grammar, Opt, Set, Table};

/// The options of all subcommands.
#[derive(Default)]
pub(super) struct Request {
    pub(super) branch: Option<BString>,
    pub(super) detach: bool,
    pub(super) dir: Option<BString>,
    pub(super) backend: Option<BString>,
    pub(super) base_dir: Option<BString>,
    pub(super) unused: Option<BString>,
    pub(super) upper_dir: Option<BString>,
    pub(super) sparse: Vec<BString>,
    pub(super) with: Vec<BString>,
    pub(super) from: Option<BString>,
    pub(super) no_include: bool,
    pub(super) at: Option<BString>,
    pub(super) volatile: bool,
    pub(super) sealed: bool,
    pub(super) rebase: bool,
    pub(super) objects: Option<BString>,
    pub(super) hooks: Option<BString>,
    pub(super) settings: Vec<BString>,
    pub(super) quota: Option<BString>,
    pub(super) onto: Option<BString>,
    pub(super) check: Option<BString>,
    pub(super) recurse_submodules: bool,
    pub(super) exec: bool,
    pub(super) json: bool,
    pub(super) quiet: bool,
    pub(super) progress: Option<bool>,
    pub(super) force: bool,
    pub(super) all: bool,
    pub(super) dry_run: bool,
    pub(super) classes: bool,
    pub(super) landed: bool,
    pub(super) idle: Option<BString>,
    pub(super) budget: Option<BString>,
}

const JSON: Opt<Set<Request>> = Opt::flag("--json", "print one JSON document", field!(json));
const QUIET: Opt<Set<Request>> = Opt::flag("-q, --quiet", "print only errors", field!(quiet));
const PROGRESS: Opt<Set<Request>> =
    Opt::choice("--progress", "show progress without a terminal too", field!(progress));
const BASE_DIR: Opt<Set<Request>> =
    Opt::text("--base-dir <dir>", "the directory of the bases (sapwood.baseDir)", field!(base_dir));
const SHOW_AT: Opt<Set<Request>> =
    Opt::text("--at <dir>", "show the workspace at this directory, only to the command", field!(at));
const FORCE: Opt<Set<Request>> = Opt::flag("-f, --force", "discard unsaved work", field!(force));
const DRY_RUN: Opt<Set<Request>> = Opt::flag("-n, --dry-run", "only say what would be done", field!(dry_run));

pub(super) const CREATE: Table<Set<Request>> = Table {
    usage: &[
        "sapwood workspace create [<options>] <name> [<commit>]",
        "sapwood workspace create [<options>] --exec <name> [<commit>] -- <command>...",
    ],
    options: &[
        Opt::text("-b <branch>", "create a branch", field!(branch)),
        Opt::flag("-d, --detach", "detach HEAD at the commit", field!(detach)),
        Opt::text("--dir <path>", "the directory of the workspace", field!(dir)),
        Opt::text(
            "--backend <backend>",
            "auto, image, overlay, overlay-user, fuse, btrfs, reflink or copy",
            field!(backend),
        ),
        BASE_DIR,
        Opt::text(
            "--upper-dir <dir>",
            "the directory that holds the changes, if the repository's file system cannot",
            field!(upper_dir),
        ),
        Opt::list("--sparse <dir>", "include only this directory (repeatable)", field!(sparse)),
        Opt::list("--with <path>", "share these ignored files (repeatable)", field!(with)),
        Opt::text("--from <workspace>", "take the files of --with from this workspace", field!(from)),
        Opt::flag(
            "--recurse-submodules",
            "fill the submodules too, from bases of their own",
            field!(recurse_submodules),
        ),
        Opt::flag(
            "--no-include",
            "do not take the ignored files that .worktreeinclude names",
            field!(no_include),
        ),
        Opt::flag("--volatile", "ignore fsync, also with sapwood.workspaceSync=always", field!(volatile)),
        Opt::flag(
            "--sealed",
            "make it a repository of its own, for a sandbox that sees only its directory",
            field!(sealed),
        ),
        Opt::text(
            "--objects <way>",
            "how a sealed workspace gets the objects: auto, reflink, link or copy",
            field!(objects),
        ),
        Opt::text("--hooks <hooks>", "none, repository or a directory", field!(hooks)),
        Opt::list("--config <key=value>", "set this only for the workspace (repeatable)", field!(settings)),
        Opt::text(
            "--quota <size>",
            "the most bytes that its changes may have on the disk, such as 2G; or none",
            field!(quota),
        ),
        Opt::text(
            "--at <dir>",
            "let 'exec' and 'enter' show the workspace at this directory, only to their processes",
            field!(at),
        ),
        Opt::flag(
            "--exec",
            "run the command in the workspace, then remove it unless something is unsaved",
            field!(exec),
        ),
        PROGRESS,
        JSON,
        QUIET,
    ],
    grammar: Grammar::MixedWithDashes,
};

pub(super) const LIST: Table<Set<Request>> = Table {
    usage: &["sapwood workspace list [-v] [--json]"],
    options: &[
        Opt::flag(
            "-v, --classes",
            "also show what each one is: landed, pushed, unsaved, live, idle since when",
            field!(classes),
        ),
        JSON,
    ],
    grammar: Grammar::Mixed,
};

pub(super) const CONFLICTS: Table<Set<Request>> = Table {
    usage: &["sapwood workspace conflicts [--json] [<workspace>...]"],
    options: &[JSON],
    grammar: Grammar::Mixed,
};

pub(super) const LAND: Table<Set<Request>> = Table {
    usage: &["sapwood workspace land [<options>] (--all | <workspace>...)"],
    options: &[
        Opt::text("--onto <branch>", "the branch that gets the commits", field!(onto)),
        Opt::flag(
            "--rebase",
            "replay the commits on a branch that has others, instead of merging",
            field!(rebase),
        ),
        Opt::text(
            "--check <command>",
            "land only a result in whose worktree this shell command succeeds",
            field!(check),
        ),
        Opt::flag("--all", "land every workspace, in the order of their names", field!(all)),
        JSON,
        QUIET,
    ],
    grammar: Grammar::Mixed,
};

pub(super) const EXEC: Table<Set<Request>> = Table {
    usage: &["sapwood workspace exec [--at <dir>] <workspace> [--] <command>..."],
    options: &[SHOW_AT],
    grammar: Grammar::OptionsFirst,
};

pub(super) const ENTER: Table<Set<Request>> = Table {
    usage: &["sapwood workspace enter [--at <dir>] <workspace>"],
    options: &[SHOW_AT],
    grammar: Grammar::Mixed,
};

pub(super) const MOUNT: Table<Set<Request>> = Table {
    usage: &["sapwood workspace mount (--all | <workspace>...) [--json]"],
    options: &[Opt::flag("--all", "mount every workspace of the repository", field!(all)), JSON, QUIET],
    grammar: Grammar::Mixed,
};

pub(super) const DIR: Table<Set<Request>> =
    Table { usage: &["sapwood workspace dir <workspace>"], options: &[], grammar: Grammar::Mixed };

pub(super) const HOOK: Table<Set<Request>> =
    Table { usage: &["sapwood workspace hook (create | remove)"], options: &[], grammar: Grammar::Mixed };

pub(super) const UNMOUNT: Table<Set<Request>> = Table {
    usage: &["sapwood workspace unmount (--all | <workspace>...) [--json]"],
    options: &[Opt::flag("--all", "unmount every workspace of the repository", field!(all)), JSON, QUIET],
    grammar: Grammar::Mixed,
};

pub(super) const SYNC: Table<Set<Request>> = Table {
    usage: &["sapwood workspace sync (--all | <workspace>...) [--json]"],
    options: &[Opt::flag("--all", "sync every workspace of the repository", field!(all)), JSON],
    grammar: Grammar::Mixed,
};

pub(super) const QUOTA: Table<Set<Request>> = Table {
    usage: &["sapwood workspace quota [--json] <workspace> [<size> | none]"],
    options: &[JSON, QUIET],
    grammar: Grammar::Mixed,
};

pub(super) const REMOVE: Table<Set<Request>> = Table {
    usage: &["sapwood workspace remove [-f] [--json] <workspace>..."],
    options: &[FORCE, JSON, QUIET],
    grammar: Grammar::Mixed,
};

pub(super) const REBASE: Table<Set<Request>> = Table {
    usage: &["sapwood workspace rebase [-d] [-q] [--json] <workspace> <commit>"],
    options: &[Opt::flag("-d, --detach", "detach HEAD at the commit", field!(detach)), JSON, QUIET],
    grammar: Grammar::Mixed,
};

pub(super) const MOVE: Table<Set<Request>> = Table {
    usage: &["sapwood workspace move [--json] <workspace> <path>"],
    options: &[JSON, QUIET],
    grammar: Grammar::Mixed,
};

pub(super) const ADOPT: Table<Set<Request>> = Table {
    usage: &["sapwood workspace adopt [-q] <directory>"],
    options: &[QUIET],
    grammar: Grammar::Mixed,
};

pub(super) const FREEZE: Table<Set<Request>> = Table {
    usage: &["sapwood workspace freeze [--json] <workspace>..."],
    options: &[JSON, QUIET],
    grammar: Grammar::Mixed,
};

pub(super) const THAW: Table<Set<Request>> = Table {
    usage: &["sapwood workspace thaw [--json] <workspace>..."],
    options: &[JSON, QUIET],
    grammar: Grammar::Mixed,
};

pub(super) const GC: Table<Set<Request>> = Table {
    usage: &[
        "sapwood workspace gc [--all] [-n] [--json]",
        "sapwood workspace gc [--landed] [--idle <time>] [--budget <size>] [-n] [--json]",
    ],
    options: &[
        Opt::flag(
            "--landed",
            "also remove workspaces whose commits are in the default branch or the upstream",
            field!(landed),
        ),
        Opt::text(
            "--idle <time>",
            "also remove workspaces that are pushed, or without commits of their own, and idle for so long: 12h, 3d",
            field!(idle),
        ),
        Opt::text(
            "--budget <size>",
            "remove them only until all workspaces together need no more than this: 20G",
            field!(budget),
        ),
        Opt::flag(
            "--all",
            "also unmount what belongs to repositories that were deleted; works outside of a repository",
            field!(all),
        ),
        DRY_RUN,
        JSON,
        QUIET,
    ],
    grammar: Grammar::Mixed,
};

pub(super) const DOCTOR: Table<Set<Request>> = Table {
    usage: &["sapwood workspace doctor [--dir <path>] [--json]"],
    options: &[
        Opt::text("--dir <path>", "the directory of a workspace", field!(dir)),
        BASE_DIR,
        Opt::text("--upper-dir <dir>", "the directory that holds the changes", field!(upper_dir)),
        JSON,
    ],
    grammar: Grammar::Mixed,
};

pub(super) const BASE: Table<Set<Request>> = Table {
    usage: &[
        "sapwood workspace base add [<options>] [<commit>...]",
        "sapwood workspace base add [<options>] --from <directory> [<commit>]",
        "sapwood workspace base list [--base-dir <dir>] [--json]",
        "sapwood workspace base verify [--base-dir <dir>] [--json] [<base>...]",
        "sapwood workspace base remove [--base-dir <dir>] [--json] <base>...",
        "sapwood workspace base gc [-n] [--base-dir <dir>] [--json]",
        "sapwood workspace base prune [-n] [--unused <time>] [--base-dir <dir>] [--json]",
    ],
    options: &[
        Opt::text("--backend <backend>", "the backend that will use the base", field!(backend)),
        Opt::list("--sparse <dir>", "include only this directory (repeatable)", field!(sparse)),
        Opt::text(
            "--from <directory>",
            "use this clean checkout where it lies, and copy nothing",
            field!(from),
        ),
        BASE_DIR,
        Opt::text(
            "--unused <time>",
            "prune only bases that nobody used for so long: 12h, 14d",
            field!(unused),
        ),
        PROGRESS,
        DRY_RUN,
        JSON,
        QUIET,
    ],
    grammar: Grammar::Mixed,
};
