//! The transition matrix: what a path is before, what it is to become, what is in its way, by which
//! command, at one and at eight workers; Git in a twin of the repository says what is right.

use std::fmt;

use testkit::{Oracle, Repo, Sandbox};

use crate::{SAPWOOD, bounded};

/// What the path `p` is in a commit.
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

/// What happened in the worktree or the index since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing.
    Clean,
    /// Touched: same content, other times.
    Touched,
    /// Another content in the worktree.
    Dirty,
    /// Another content in worktree and index.
    Staged,
    /// The content of the target already staged by hand.
    StagedAsTarget,
    /// Gone from the worktree.
    Deleted,
    /// Gone from worktree and index.
    RemovedFromIndex,
    /// An untracked file where the path is, or inside if it is a directory.
    UntrackedFile,
    /// An untracked directory with a file in the path's place.
    UntrackedDirectory,
    /// As `UntrackedFile`, ignored.
    IgnoredFile,
    /// As `UntrackedDirectory`, ignored.
    IgnoredDirectory,
    /// An untracked symlink in the path's place.
    UntrackedSymlink,
    /// An untracked symlink to a directory in the path's place.
    LinkToDirectory,
    /// As `Dirty`, but assumed unchanged.
    AssumedUnchanged,
    /// Untracked in the worktree, and to be added some time: only where nothing was.
    IntendedToAdd,
    /// A submodule that is checked out; else as `Clean`.
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

/// Makes `p` of this kind in worktree and index.
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

/// A repository with a branch of each kind; that of `from` is checked out.
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
                // Long ago: within one tick Git itself could not tell, and would answer by chance.
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

/// The same at any number of workers.
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
fn every_transition_is_gits() {
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
