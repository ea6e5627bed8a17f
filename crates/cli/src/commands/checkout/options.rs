//! The options of `checkout`, `switch` and `restore`, in the order their help lists them. What they mean
//! is said by [`super::Request`].

use crate::term::args::{Grammar, Native, Opt, Table};

/// An option, by what it asks for: the three commands share most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    NewBranch,
    ForceBranch,
    Reflog,
    Guess,
    Overlay,
    AutoAdvance,
    Discard,
    Quiet,
    RecurseSubmodules,
    Progress,
    Merge,
    Conflict,
    Detach,
    Track,
    Force,
    Orphan,
    OverwriteIgnore,
    IgnoreOtherWorktrees,
    Ours,
    Theirs,
    Patch,
    Unified,
    InterHunk,
    IgnoreSkipWorktree,
    PathspecFromFile,
    PathspecFileNul,
    Source,
    Staged,
    Worktree,
    IgnoreUnmerged,
    DryRun,
}

const QUIET: Opt<Key> =
    Opt::new(Key::Quiet, "-q, --quiet", "suppress progress reporting").native(Native::Both);
const RECURSE: Opt<Key> = Opt::new(
    Key::RecurseSubmodules,
    "--recurse-submodules[=<checkout>]",
    "control recursive updating of submodules",
)
.native(Native::Both);
const PROGRESS: Opt<Key> =
    Opt::new(Key::Progress, "--progress", "force progress reporting").native(Native::Both);
const MERGE: Opt<Key> = Opt::new(Key::Merge, "-m, --merge", "perform a 3-way merge with the new branch");
const CONFLICT: Opt<Key> =
    Opt::new(Key::Conflict, "--conflict <style>", "conflict style (merge, diff3, or zdiff3)")
        .native(Native::Both);
const DETACH: Opt<Key> =
    Opt::new(Key::Detach, "-d, --detach", "detach HEAD at named commit").native(Native::Both);
const TRACK: Opt<Key> =
    Opt::new(Key::Track, "-t, --track[=(direct|inherit)]", "set branch tracking configuration")
        .native(Native::Both);
const FORCE: Opt<Key> =
    Opt::new(Key::Force, "-f, --force", "force checkout (throw away local modifications)")
        .native(Native::Both);
const ORPHAN: Opt<Key> =
    Opt::new(Key::Orphan, "--orphan <new-branch>", "new unborn branch").native(Native::Both);
const OVERWRITE_IGNORE: Opt<Key> =
    Opt::new(Key::OverwriteIgnore, "--overwrite-ignore", "update ignored files (default)")
        .native(Native::Both);
const IGNORE_OTHER: Opt<Key> = Opt::new(
    Key::IgnoreOtherWorktrees,
    "--ignore-other-worktrees",
    "do not check if another worktree is using this branch",
)
.native(Native::Both);
const OURS: Opt<Key> =
    Opt::new(Key::Ours, "-2, --ours", "checkout our version for unmerged files").only().native(Native::On);
const THEIRS: Opt<Key> = Opt::new(Key::Theirs, "-3, --theirs", "checkout their version for unmerged files")
    .only()
    .native(Native::On);
const PATCH: Opt<Key> = Opt::new(Key::Patch, "-p, --patch", "select hunks interactively");
const UNIFIED: Opt<Key> =
    Opt::new(Key::Unified, "-U, --unified <n>", "generate diffs with <n> lines context").only();
const INTER_HUNK: Opt<Key> = Opt::new(
    Key::InterHunk,
    "--inter-hunk-context <n>",
    "show context between diff hunks up to the specified number of lines",
)
.only();
const IGNORE_SKIP: Opt<Key> = Opt::new(
    Key::IgnoreSkipWorktree,
    "--ignore-skip-worktree-bits",
    "do not limit pathspecs to sparse entries only",
)
.native(Native::Both);
const FROM_FILE: Opt<Key> =
    Opt::new(Key::PathspecFromFile, "--pathspec-from-file <file>", "read pathspec from file")
        .native(Native::Both);
const FILE_NUL: Opt<Key> = Opt::new(
    Key::PathspecFileNul,
    "--pathspec-file-nul",
    "with --pathspec-from-file, pathspec elements are separated with NUL character",
)
.native(Native::Both);
const DRY_RUN: Opt<Key> = Opt::new(Key::DryRun, "--dry-run", "print what would be done, and do nothing");

pub(super) const CHECKOUT: Table<Key> = Table {
    usage: &["sapwood checkout [<options>] <branch>", "sapwood checkout [<options>] [<branch>] -- <file>..."],
    options: &[
        Opt::new(Key::NewBranch, "-b <branch>", "create and checkout a new branch").native(Native::Both),
        Opt::new(Key::ForceBranch, "-B <branch>", "create/reset and checkout a branch").native(Native::Both),
        Opt::new(Key::Reflog, "-l", "create reflog for new branch").native(Native::Both),
        Opt::new(Key::Guess, "--guess", "second guess 'git checkout <no-such-branch>' (default)")
            .native(Native::Both),
        Opt::new(Key::Overlay, "--overlay", "use overlay mode (default)").native(Native::Both),
        Opt::new(
            Key::AutoAdvance,
            "--auto-advance",
            "auto advance to the next file when selecting hunks interactively",
        ),
        QUIET,
        RECURSE,
        PROGRESS,
        MERGE.native(Native::Both),
        CONFLICT,
        DETACH,
        TRACK,
        FORCE,
        ORPHAN,
        OVERWRITE_IGNORE,
        IGNORE_OTHER,
        OURS,
        THEIRS,
        PATCH,
        UNIFIED,
        INTER_HUNK,
        IGNORE_SKIP,
        FROM_FILE,
        FILE_NUL,
        DRY_RUN,
    ],
    grammar: Grammar::MixedWithDashes,
};

pub(super) const SWITCH: Table<Key> = Table {
    usage: &["sapwood switch [<options>] [<branch>]"],
    options: &[
        Opt::new(Key::NewBranch, "-c, --create <branch>", "create and switch to a new branch")
            .native(Native::Both),
        Opt::new(Key::ForceBranch, "-C, --force-create <branch>", "create/reset and switch to a branch")
            .native(Native::Both),
        Opt::new(Key::Guess, "--guess", "second guess 'git switch <no-such-branch>'").native(Native::Both),
        Opt::new(Key::Discard, "--discard-changes", "throw away local modifications").native(Native::Both),
        QUIET,
        RECURSE,
        PROGRESS,
        MERGE.native(Native::Both),
        CONFLICT,
        DETACH,
        TRACK,
        FORCE,
        ORPHAN,
        OVERWRITE_IGNORE,
        IGNORE_OTHER,
        DRY_RUN,
    ],
    grammar: Grammar::Mixed,
};

pub(super) const RESTORE: Table<Key> = Table {
    usage: &["sapwood restore [<options>] [--source=<branch>] <file>..."],
    options: &[
        Opt::new(Key::Source, "-s, --source <tree-ish>", "which tree-ish to checkout from")
            .native(Native::Both),
        Opt::new(Key::Staged, "-S, --staged", "restore the index").native(Native::Both),
        Opt::new(Key::Worktree, "-W, --worktree", "restore the working tree (default)").native(Native::Both),
        Opt::new(Key::IgnoreUnmerged, "--ignore-unmerged", "ignore unmerged entries").native(Native::Both),
        Opt::new(Key::Overlay, "--overlay", "use overlay mode").native(Native::Both),
        QUIET,
        RECURSE,
        PROGRESS,
        MERGE.native(Native::Off),
        CONFLICT.native(Native::Neither),
        OURS,
        THEIRS,
        PATCH,
        UNIFIED,
        INTER_HUNK,
        IGNORE_SKIP,
        FROM_FILE,
        FILE_NUL,
        DRY_RUN,
    ],
    grammar: Grammar::Mixed,
};
