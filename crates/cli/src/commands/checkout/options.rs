//! The options of `checkout`, `switch` and `restore`, in the order of their help. They fill a
//! [`super::request::Request`].

use engine::checkout::ConflictSide;

use super::request::{NewBranchKind, Request, track};
use crate::{
    commands::pathspec_file::{file_nul, from_file},
    session::submodules,
    term::{
        args::{Both, Grammar, Neither, Off, On, Opt, Set, Table},
        failure::{requires_patch_if, unserved_if},
    },
};

const QUIET: Opt<Set<Request>> =
    Opt::flag("-q, --quiet", "suppress progress reporting", field!(quiet)).native(Both);
const RECURSE: Opt<Set<Request>> = Opt::new(
    "--recurse-submodules[=<checkout>]",
    "control recursive updating of submodules",
    |request: &mut Request, value| {
        request.recurse = Some(submodules::parse(value.on, value.text)?);
        Ok(())
    },
)
.native(Both);
const PROGRESS: Opt<Set<Request>> =
    Opt::choice("--progress", "force progress reporting", field!(progress)).native(Both);
const MERGE: Opt<Set<Request>> =
    Opt::choice("-m, --merge", "perform a 3-way merge with the new branch", field!(merge));
const CONFLICT: Opt<Set<Request>> = Opt::new(
    "--conflict <style>",
    "conflict style (merge, diff3, or zdiff3)",
    |request: &mut Request, value| request.take_conflict(value),
)
.native(Both);
const DETACH: Opt<Set<Request>> =
    Opt::flag("-d, --detach", "detach HEAD at named commit", field!(detach)).native(Both);
const TRACK: Opt<Set<Request>> = Opt::new(
    "-t, --track[=(direct|inherit)]",
    "set branch tracking configuration",
    |request: &mut Request, value| {
        request.track = Some(track(value)?);
        Ok(())
    },
)
.native(Both);
const FORCE: Opt<Set<Request>> =
    Opt::flag("-f, --force", "force checkout (throw away local modifications)", field!(force)).native(Both);
const ORPHAN: Opt<Set<Request>> =
    Opt::new("--orphan <new-branch>", "new unborn branch", |request: &mut Request, value| {
        request.name(value, NewBranchKind::Orphan)
    })
    .native(Both);
const OVERWRITE_IGNORE: Opt<Set<Request>> =
    Opt::flag("--overwrite-ignore", "update ignored files (default)", field!(overwrite_ignore)).native(Both);
const IGNORE_OTHER: Opt<Set<Request>> = Opt::flag(
    "--ignore-other-worktrees",
    "do not check if another worktree is using this branch",
    field!(ignore_other_worktrees),
)
.native(Both);
const OURS: Opt<Set<Request>> =
    Opt::new("-2, --ours", "checkout our version for unmerged files", |request: &mut Request, _| {
        request.side = Some(ConflictSide::Ours);
        Ok(())
    })
    .only()
    .native(On);
const THEIRS: Opt<Set<Request>> =
    Opt::new("-3, --theirs", "checkout their version for unmerged files", |request: &mut Request, _| {
        request.side = Some(ConflictSide::Theirs);
        Ok(())
    })
    .only()
    .native(On);
const PATCH: Opt<Set<Request>> =
    Opt::new("-p, --patch", "select hunks interactively", |_: &mut Request, value| {
        unserved_if(value.on, "option '--patch'")
    });
const UNIFIED: Opt<Set<Request>> =
    Opt::new("-U, --unified <n>", "generate diffs with <n> lines context", |_: &mut Request, _| {
        requires_patch_if(true, "--unified")
    })
    .only();
const INTER_HUNK: Opt<Set<Request>> = Opt::new(
    "--inter-hunk-context <n>",
    "show context between diff hunks up to the specified number of lines",
    |_: &mut Request, _| requires_patch_if(true, "--inter-hunk-context"),
)
.only();
const IGNORE_SKIP: Opt<Set<Request>> = Opt::flag(
    "--ignore-skip-worktree-bits",
    "do not limit pathspecs to sparse entries only",
    field!(ignore_skip_worktree),
)
.native(Both);
const FROM_FILE: Opt<Set<Request>> = from_file(field!(pathspec_file.files)).native(Both);
const FILE_NUL: Opt<Set<Request>> = file_nul(field!(pathspec_file.nul));
const DRY_RUN: Opt<Set<Request>> =
    Opt::flag("--dry-run", "print what would be done, and do nothing", field!(dry_run));

pub(super) const CHECKOUT: Table<Set<Request>> = Table {
    usage: &["sapwood checkout [<options>] <branch>", "sapwood checkout [<options>] [<branch>] -- <file>..."],
    options: &[
        Opt::new("-b <branch>", "create and checkout a new branch", |request: &mut Request, value| {
            request.name(value, NewBranchKind::Create)
        })
        .native(Both),
        Opt::new("-B <branch>", "create/reset and checkout a branch", |request: &mut Request, value| {
            request.name(value, NewBranchKind::Reset)
        })
        .native(Both),
        Opt::flag("-l", "create reflog for new branch", field!(reflog)).native(Both),
        Opt::choice("--guess", "second guess 'git checkout <no-such-branch>' (default)", field!(guess))
            .native(Both),
        Opt::choice("--overlay", "use overlay mode (default)", field!(overlay)).native(Both),
        Opt::new(
            "--auto-advance",
            "auto advance to the next file when selecting hunks interactively",
            |_: &mut Request, value| requires_patch_if(!value.on, "--no-auto-advance"),
        ),
        QUIET,
        RECURSE,
        PROGRESS,
        MERGE.native(Both),
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

pub(super) const SWITCH: Table<Set<Request>> = Table {
    usage: &["sapwood switch [<options>] [<branch>]"],
    options: &[
        Opt::new(
            "-c, --create <branch>",
            "create and switch to a new branch",
            |request: &mut Request, value| request.name(value, NewBranchKind::Create),
        )
        .native(Both),
        Opt::new(
            "-C, --force-create <branch>",
            "create/reset and switch to a branch",
            |request: &mut Request, value| request.name(value, NewBranchKind::Reset),
        )
        .native(Both),
        Opt::choice("--guess", "second guess 'git switch <no-such-branch>'", field!(guess)).native(Both),
        Opt::flag("--discard-changes", "throw away local modifications", field!(discard)).native(Both),
        QUIET,
        RECURSE,
        PROGRESS,
        MERGE.native(Both),
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

pub(super) const RESTORE: Table<Set<Request>> = Table {
    usage: &["sapwood restore [<options>] [--source=<branch>] <file>..."],
    options: &[
        Opt::text("-s, --source <tree-ish>", "which tree-ish to checkout from", field!(source)).native(Both),
        Opt::choice("-S, --staged", "restore the index", field!(staged)).native(Both),
        Opt::choice("-W, --worktree", "restore the working tree (default)", field!(worktree)).native(Both),
        Opt::flag("--ignore-unmerged", "ignore unmerged entries", field!(ignore_unmerged)).native(Both),
        Opt::choice("--overlay", "use overlay mode", field!(overlay)).native(Both),
        QUIET,
        RECURSE,
        PROGRESS,
        MERGE.native(Off),
        CONFLICT.native(Neither),
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
