//! The options of `checkout`, `switch` and `restore`, in the order their help lists them. What they mean
//! is said by [`super::Request`].

use crate::args::{Opt, Table, Takes};

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

const BRANCH: Takes = Takes::Value("<branch>");

const QUIET: Opt<Key> = Opt::flag(Key::Quiet, b'q', "quiet", "suppress progress reporting");
const RECURSE: Opt<Key> = Opt::value(
    Key::RecurseSubmodules,
    0,
    "recurse-submodules",
    Takes::Optional("[=<checkout>]"),
    "control recursive updating of submodules",
);
const PROGRESS: Opt<Key> = Opt::flag(Key::Progress, 0, "progress", "force progress reporting");
const MERGE: Opt<Key> = Opt::flag(Key::Merge, b'm', "merge", "perform a 3-way merge with the new branch");
const CONFLICT: Opt<Key> = Opt::value(
    Key::Conflict,
    0,
    "conflict",
    Takes::Value("<style>"),
    "conflict style (merge, diff3, or zdiff3)",
);
const DETACH: Opt<Key> = Opt::flag(Key::Detach, b'd', "detach", "detach HEAD at named commit");
const TRACK: Opt<Key> = Opt::value(
    Key::Track,
    b't',
    "track",
    Takes::Optional("[=(direct|inherit)]"),
    "set branch tracking configuration",
);
const FORCE: Opt<Key> =
    Opt::flag(Key::Force, b'f', "force", "force checkout (throw away local modifications)");
const ORPHAN: Opt<Key> =
    Opt::value(Key::Orphan, 0, "orphan", Takes::Value("<new-branch>"), "new unborn branch");
const OVERWRITE_IGNORE: Opt<Key> =
    Opt::flag(Key::OverwriteIgnore, 0, "overwrite-ignore", "update ignored files (default)");
const IGNORE_OTHER: Opt<Key> = Opt::flag(
    Key::IgnoreOtherWorktrees,
    0,
    "ignore-other-worktrees",
    "do not check if another worktree is using this branch",
);
const OURS: Opt<Key> = Opt::flag(Key::Ours, b'2', "ours", "checkout our version for unmerged files").only();
const THEIRS: Opt<Key> =
    Opt::flag(Key::Theirs, b'3', "theirs", "checkout their version for unmerged files").only();
const PATCH: Opt<Key> = Opt::flag(Key::Patch, b'p', "patch", "select hunks interactively");
const UNIFIED: Opt<Key> =
    Opt::value(Key::Unified, b'U', "unified", Takes::Value("<n>"), "generate diffs with <n> lines context")
        .only();
const INTER_HUNK: Opt<Key> = Opt::value(
    Key::InterHunk,
    0,
    "inter-hunk-context",
    Takes::Value("<n>"),
    "show context between diff hunks up to the specified number of lines",
)
.only();
const IGNORE_SKIP: Opt<Key> = Opt::flag(
    Key::IgnoreSkipWorktree,
    0,
    "ignore-skip-worktree-bits",
    "do not limit pathspecs to sparse entries only",
);
const FROM_FILE: Opt<Key> = Opt::value(
    Key::PathspecFromFile,
    0,
    "pathspec-from-file",
    Takes::Value("<file>"),
    "read pathspec from file",
);
const FILE_NUL: Opt<Key> = Opt::flag(
    Key::PathspecFileNul,
    0,
    "pathspec-file-nul",
    "with --pathspec-from-file, pathspec elements are separated with NUL character",
);
const DRY_RUN: Opt<Key> = Opt::flag(Key::DryRun, 0, "dry-run", "print what would be done, and do nothing");

pub(super) const CHECKOUT: Table<Key> = Table {
    usage: &["sapwood checkout [<options>] <branch>", "sapwood checkout [<options>] [<branch>] -- <file>..."],
    options: &[
        Opt::value(Key::NewBranch, b'b', "", BRANCH, "create and checkout a new branch"),
        Opt::value(Key::ForceBranch, b'B', "", BRANCH, "create/reset and checkout a branch"),
        Opt::flag(Key::Reflog, b'l', "", "create reflog for new branch"),
        Opt::flag(Key::Guess, 0, "guess", "second guess 'git checkout <no-such-branch>' (default)"),
        Opt::flag(Key::Overlay, 0, "overlay", "use overlay mode (default)"),
        Opt::flag(
            Key::AutoAdvance,
            0,
            "auto-advance",
            "auto advance to the next file when selecting hunks interactively",
        ),
        QUIET,
        RECURSE,
        PROGRESS,
        MERGE,
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
};

pub(super) const SWITCH: Table<Key> = Table {
    usage: &["sapwood switch [<options>] [<branch>]"],
    options: &[
        Opt::value(Key::NewBranch, b'c', "create", BRANCH, "create and switch to a new branch"),
        Opt::value(Key::ForceBranch, b'C', "force-create", BRANCH, "create/reset and switch to a branch"),
        Opt::flag(Key::Guess, 0, "guess", "second guess 'git switch <no-such-branch>'"),
        Opt::flag(Key::Discard, 0, "discard-changes", "throw away local modifications"),
        QUIET,
        RECURSE,
        PROGRESS,
        MERGE,
        CONFLICT,
        DETACH,
        TRACK,
        FORCE,
        ORPHAN,
        OVERWRITE_IGNORE,
        IGNORE_OTHER,
        DRY_RUN,
    ],
};

pub(super) const RESTORE: Table<Key> = Table {
    usage: &["sapwood restore [<options>] [--source=<branch>] <file>..."],
    options: &[
        Opt::value(
            Key::Source,
            b's',
            "source",
            Takes::Value("<tree-ish>"),
            "which tree-ish to checkout from",
        ),
        Opt::flag(Key::Staged, b'S', "staged", "restore the index"),
        Opt::flag(Key::Worktree, b'W', "worktree", "restore the working tree (default)"),
        Opt::flag(Key::IgnoreUnmerged, 0, "ignore-unmerged", "ignore unmerged entries"),
        Opt::flag(Key::Overlay, 0, "overlay", "use overlay mode"),
        QUIET,
        RECURSE,
        PROGRESS,
        MERGE,
        CONFLICT,
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
};
