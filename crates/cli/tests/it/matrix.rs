//! The transition matrix: the kind of a path before and after, its local state, and the command, at
//! one and at eight workers. Git's result in a copy of the repository is the expected one.

use std::fmt;

use testkit::{Oracle, Repo, Sandbox};

use crate::{SAPWOOD, bounded};

/// The kind of the path `p` in a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Absent,
    File,
    Executable,
    Symlink,
    Directory,
    Submodule,
}

const KINDS: [Kind; 6] =
    [Kind::Absent, Kind::File, Kind::Executable, Kind::Symlink, Kind::Directory, Kind::Submodule];

/// The local change in the worktree or the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No change.
    Clean,
    /// Same content, other times.
    Touched,
    /// Other content in the worktree.
    Dirty,
    /// Other content in worktree and index.
    Staged,
    /// The content of the target, staged by the user.
    StagedAsTarget,
    /// Deleted from the worktree.
    Deleted,
    /// Deleted from worktree and index.
    RemovedFromIndex,
    /// An untracked file at the path, or inside if the path is a directory.
    UntrackedFile,
    /// An untracked directory with a file, in place of the path.
    UntrackedDirectory,
    /// Like `UntrackedFile`, but ignored.
    IgnoredFile,
    /// Like `UntrackedDirectory`, but ignored.
    IgnoredDirectory,
    /// An untracked symbolic link in place of the path.
    UntrackedSymlink,
    /// An untracked symbolic link to a directory in place of the path.
    LinkToDirectory,
    /// Like `Dirty`, but assumed unchanged.
    AssumedUnchanged,
    /// An untracked file with an intent-to-add entry, only where the path was absent.
    IntendedToAdd,
    /// A submodule that is checked out; like `Clean` for other kinds.
    Populated,
}

const STATES: [State; 16] = [
    State::Clean,
    State::Touched,
    State::Dirty,
    State::Staged,
    State::StagedAsTarget,
    State::Deleted,
    State::RemovedFromIndex,
    State::UntrackedFile,
    State::UntrackedDirectory,
    State::IgnoredFile,
    State::IgnoredDirectory,
    State::UntrackedSymlink,
    State::LinkToDirectory,
    State::AssumedUnchanged,
    State::IntendedToAdd,
    State::Populated,
];

/// The command; the branch of the target kind is appended.
const COMMANDS: [&[&str]; 7] = [
    &["checkout"],
    &["checkout", "-f"],
    &["switch", "--no-overwrite-ignore"],
    &["reset", "--hard"],
    &["reset", "--keep"],
    &["reset", "--merge"],
    &["reset", "--mixed"],
];

struct Case {
    from: Kind,
    to: Kind,
    state: State,
    command: &'static [&'static str],
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { from, to, state, command } = self;
        write!(f, "{from:?} -> {to:?}, {state:?}, {}", command.join(" "))
    }
}

fn branch(kind: Kind) -> String {
    format!("{kind:?}").to_lowercase()
}

/// Creates `p` of this kind in worktree and index.
fn put(repo: &Repo<'_>, kind: Kind) {
    match kind {
        Kind::Absent => {}
        Kind::File => repo.write("p", "file\n"),
        Kind::Executable => repo.write_executable("p", "executable\n"),
        Kind::Symlink => repo.symlink("target", "p"),
        Kind::Directory => {
            repo.write("p/inner", "inner\n");
            repo.write("p/sub/deep", "deep\n");
        }
        Kind::Submodule => {
            let commit = repo.git(&["rev-parse", "first"]).stdout.to_string();
            repo.git(&["update-index", "--add", "--cacheinfo", "160000", commit.trim(), "p"]);
            std::fs::create_dir_all(repo.join("p")).expect("an empty directory");
            return;
        }
    }
    repo.git(&["add", "-A", "."]);
}

/// Creates a repository with a branch for each kind, and checks out the branch of `from`.
fn template(repo: &Repo<'_>, from: Kind) {
    repo.write("keep", "keep\n");
    repo.write("z/keep", "keep\n");
    repo.commit("first");
    repo.git(&["tag", "first"]);
    for kind in KINDS {
        repo.git(&["checkout", "-q", "-b", &branch(kind), "first"]);
        if repo.exists("p") {
            repo.remove("p");
        }
        put(repo, kind);
        repo.git(&["commit", "-q", "--allow-empty", "-m", &branch(kind)]);
    }
    if repo.exists("p") {
        repo.remove("p");
    }
    repo.git(&["checkout", "-q", "-f", &branch(from)]);
}

fn clear(repo: &Repo<'_>) {
    if repo.exists("p") {
        repo.remove("p");
    }
}

fn disturb(repo: &Repo<'_>, case: &Case) {
    let inside = case.from == Kind::Directory;
    match case.state {
        State::Clean => {}
        State::Touched => {
            let path = if inside { "p/inner" } else { "p" };
            if repo.exists(path) && !matches!(case.from, Kind::Symlink | Kind::Submodule) {
                // A time long ago. Within one clock tick Git's own result depends on chance.
                let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
                let file = std::fs::File::options().append(true).open(repo.join(path)).expect("there");
                file.set_modified(long_ago).expect("our own file");
            }
        }
        State::Dirty | State::Staged | State::AssumedUnchanged => {
            match case.from {
                Kind::Directory => repo.write("p/inner", "changed\n"),
                Kind::Submodule => repo.write("p/untracked", "in the submodule\n"),
                Kind::Symlink => {
                    clear(repo);
                    repo.symlink("elsewhere", "p");
                }
                _ => repo.write("p", "changed\n"),
            }
            if case.state == State::AssumedUnchanged {
                let path = if inside { "p/inner" } else { "p" };
                repo.try_git(&["update-index", "--assume-unchanged", path]);
            }
            if case.state == State::Staged && case.from != Kind::Submodule {
                repo.git(&["add", "-A", "."]);
            }
        }
        State::StagedAsTarget => {
            repo.git(&["rm", "-rq", "--cached", "--ignore-unmatch", "p"]);
            clear(repo);
            put(repo, case.to);
        }
        State::Deleted => clear(repo),
        State::RemovedFromIndex => {
            repo.git(&["rm", "-rq", "--cached", "--ignore-unmatch", "p"]);
        }
        State::UntrackedFile | State::IgnoredFile => {
            if inside {
                repo.write("p/extra", "untracked\n");
            } else {
                clear(repo);
                repo.write("p", "untracked\n");
            }
        }
        State::UntrackedDirectory | State::IgnoredDirectory => {
            if inside {
                repo.write("p/extra/file", "untracked\n");
            } else {
                clear(repo);
                repo.write("p/extra", "untracked\n");
            }
        }
        State::UntrackedSymlink => {
            clear(repo);
            repo.symlink("untracked", "p");
        }
        State::LinkToDirectory => {
            clear(repo);
            repo.symlink("z", "p");
        }
        State::IntendedToAdd => {
            if case.from == Kind::Absent {
                repo.write("p", "intended\n");
                repo.git(&["add", "-N", "p"]);
            }
        }
        State::Populated => {
            if case.from == Kind::Submodule {
                repo.git(&["clone", "-q", "--no-local", ".", "p"]);
                repo.git(&["-C", "p", "checkout", "-q", "--detach", "first"]);
            }
        }
    }
    if matches!(case.state, State::IgnoredFile | State::IgnoredDirectory) {
        repo.write(".git/info/exclude", "p\nextra\n");
    }
}

/// The results with any number of workers are equal.
const WORKERS: [&[&str]; 2] = [
    &["-c", "checkout.workers=1"],
    &["-c", "checkout.workers=8", "-c", "checkout.thresholdForParallelism=0"],
];

fn run(case: &Case, made: &Repo<'_>) {
    let oracle = Oracle::several_of(SAPWOOD, made, WORKERS.len());
    oracle.both(|repo| disturb(repo, case));
    let target = branch(case.to);
    oracle.same_with_each(&case.to_string(), &WORKERS, &[case.command, &[target.as_str()]].concat());
}

#[test]
fn makes_every_transition_as_git_does() {
    let sandbox = Sandbox::new();
    let made = KINDS.map(|from| {
        let repo = sandbox.init(&branch(from));
        template(&repo, from);
        repo
    });
    let mut cases = Vec::new();
    for from in KINDS {
        for to in KINDS {
            for state in STATES {
                for command in COMMANDS {
                    cases.push(Case { from, to, state, command });
                }
            }
        }
    }
    bounded(cases, 400, |case| {
        let at = KINDS.iter().position(|kind| *kind == case.from).expect("one of them");
        run(case, &made[at]);
    });
}
