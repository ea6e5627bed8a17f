//! Checks of a run with a fault, and of a second run without it.

use std::collections::BTreeMap;

use bstr::{BStr, BString, ByteSlice as _};
use testkit::weather::{Operation, Struck};

use super::{
    cases::{FailingPath, InjectedError},
    rig::{Command, Program, RepositoryState, RunResult, Stage, World},
};
use crate::seen::Node;

/// The flaws found in a run and in the state it left. Empty if there are none.
pub(super) struct Verdict(pub(super) Vec<String>);

impl Verdict {
    fn add(&mut self, wrong: impl Into<String>) {
        self.0.push(wrong.into());
    }

    pub(super) fn require(&mut self, holds: bool, wrong: impl FnOnce() -> String) {
        if !holds {
            self.add(wrong());
        }
    }
}

/// Checks a run of the program, then runs it again without faults.
pub(super) fn verify(
    world: &World,
    stage: &Stage<'_>,
    command: Command,
    program: Program,
    ran: &RunResult,
    injected: InjectedError,
) -> Verdict {
    let mut verdict = Verdict(Vec::new());
    let (before, after) = (&world.before[&command], &world.after[&command]);
    let RunResult { run, struck, .. } = ran;
    verdict.require(matches!(run.code, 0 | 1 | 128 | 255), || format!("it ended by {}", run.code));
    verdict.require(!run.stderr.contains_str("panicked"), || "it panicked".into());
    // If the disk denies the creation of a link, Git too treats it as a disk without symbolic
    // links.
    let no_links =
        struck.iter().flat_map(|struck| &struck.paths).any(|path| path.ends_with(b"symlink-probe"));
    if no_links && injected == InjectedError::Access {
        return verdict;
    }
    let seen = stage.see();
    if command.is_clone() {
        verdict.require(stage.source_is_untouched(), || "the source was changed".into());
    }
    tidy(&mut verdict, (before, after), &seen, ran);
    whole(&mut verdict, (before, after), &seen);
    index_is_true(&mut verdict, world, (before, after), stage, &seen);
    if run.code == 0 {
        same(&mut verdict, "it said that all is done", &with_what_stays(before, after, &run.stderr), &seen);
    } else if injected == InjectedError::TooManyOpen && struck.is_empty() {
        // The limit is the system's own, so the disk did not record the failure.
        verdict.require(run.stderr.contains_str("Too many open files"), || "it does not say why".into());
    } else if child_failed(command, &run.stderr, struck) {
        verdict.require(run.code == 128, || "a child's failure has an exit code of its own".into());
    } else if struck.is_empty() || injected.is_absorbed() {
        verdict.add("it failed without a cause");
    } else {
        explained(&mut verdict, &run.stderr, struck, injected);
    }
    if run.code == 0 {
        return verdict;
    }
    // The index could not be written, or HEAD not be moved, after all other work. As with Git, a
    // second run then treats its own files as the user's. With `-f` it continues.
    let refuses = struck
        .iter()
        .flat_map(|struck| &struck.paths)
        .any(|path| TOO_LATE.iter().any(|end| path.ends_with_str(end)));
    let again = match command {
        Command::Checkout | Command::Switch if refuses => stage.run_forced(program),
        _ => stage.run(program, Vec::new()),
    };
    let took = again.run.stderr.contains_str("would be removed by checkout:\n\tdir-to-file\n");
    let again = if took { stage.run_forced(program) } else { again };
    verdict.require(again.run.code == 0, || {
        format!("again, it ended by {}: {}", again.run.code, again.run.stderr)
    });
    same(&mut verdict, "after it ran again", after, &stage.see());
    verdict
}

/// Returns the exit code that sapwood must return for Git's exit code.
pub(super) fn expected(place: &FailingPath, git: i32) -> i32 {
    let stays = place.operation == Operation::Unlink && place.path.ends_with("old/1");
    let loose = place.operation == Operation::Read && is_loose(&place.path);
    match (place.command, git) {
        // Git reports a file that it could not write, and exits with 0. For a file that it could
        // not remove, sapwood does so too.
        (Command::Checkout | Command::Switch, 0) if !stays => 1,
        // Git is killed when it reads a mapped loose object that cannot be read. sapwood does not
        // map loose objects: it does not write the file and continues, as above.
        (Command::Checkout | Command::Switch, 135) if loose => 1,
        (_, 135) => 128,
        (_, git) => git,
    }
}

fn is_loose(path: &str) -> bool {
    path.rsplit_once('/').is_some_and(|(dir, name)| {
        dir.len() > 2 && name.len() == 38 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Paths that a switch writes after all other work.
const TOO_LATE: &[&str] =
    &[".git/index", ".git/index.lock", ".git/HEAD", ".git/HEAD.lock", ".git/logs/HEAD", ".git"];

/// Checks that no lock, temporary file or unknown file is left.
fn tidy(
    verdict: &mut Verdict,
    (before, after): (&RepositoryState, &RepositoryState),
    seen: &RepositoryState,
    ran: &RunResult,
) {
    for name in &seen.git_dir {
        let is_known = before.git_dir.contains(name) || after.git_dir.contains(name);
        // The marker of an unfinished clone may stay. A source that looked remote for a moment
        // sends a pack.
        let pack = [".pack", ".idx", ".rev"].iter().any(|end| name.ends_with_str(end));
        let may_be = name == "sapwood-clone" || name.starts_with(b"objects/pack/pack-") && pack;
        verdict.require(is_known || may_be || stays(name, ran), || {
            format!("{name} is left in the Git directory")
        });
    }
}

/// Returns true for a lock whose removal failed. It stays as Git's lock does, and a warning names
/// it.
fn stays(name: &BString, RunResult { run, struck, .. }: &RunResult) -> bool {
    let place = BString::from([b".git/", name.as_slice()].concat());
    let mut removals = struck.iter().filter(|struck| struck.operation == Operation::Unlink);
    name.ends_with(b".lock")
        && removals.any(|struck| struck.paths.iter().any(|path| path.ends_with(&place)))
        && run.stderr.lines().any(|line| {
            line.starts_with(b"warning: unable to unlink '") && line.contains_str(format!("/{place}': "))
        })
}

/// Checks that each file is missing, in its old state, or in its new state, and that the user's
/// files are unchanged.
fn whole(
    verdict: &mut Verdict,
    (before, after): (&RepositoryState, &RepositoryState),
    seen: &RepositoryState,
) {
    for (path, node) in &seen.worktree {
        let known = [before.worktree.get(path), after.worktree.get(path)];
        verdict.require(known.contains(&Some(node)), || {
            format!("{path} is neither its old self nor its new: {node:?}")
        });
    }
    for (path, node) in &before.worktree {
        let users = !before.index.contains_key(path) && after.worktree.get(path) == Some(node);
        verdict.require(!users || seen.worktree.get(path) == Some(node), || {
            format!("{path}, the user's, is gone")
        });
    }
    if seen.git_dir.is_empty() {
        return;
    }
    for (name, value) in &seen.refs {
        let known = [before.refs.get(name), after.refs.get(name)];
        verdict.require(known.contains(&Some(value)), || format!("{name} is {value}"));
    }
    for name in before.refs.keys() {
        verdict.require(seen.refs.contains_key(name), || format!("{name} is gone"));
    }
}

/// Checks that the index describes each file correctly, as read by Git.
fn index_is_true(
    verdict: &mut Verdict,
    world: &World,
    (before, after): (&RepositoryState, &RepositoryState),
    stage: &Stage<'_>,
    seen: &RepositoryState,
) {
    if seen.git_dir.is_empty() {
        return;
    }
    let target = stage.target();
    let status =
        target.try_git(&["--no-optional-locks", "status", "--porcelain", "-z", "--no-renames", "-uno"]);
    if status.code != 0 {
        return verdict.add(format!("git status: {}", status.stderr));
    }
    let lines = status.stdout.split(|byte| *byte == 0).filter(|line| line.len() > 3);
    let changed: BTreeMap<&BStr, bool> = lines.map(|line| (line[3..].as_bstr(), line[1] != b' ')).collect();
    for (path, entry) in &seen.index {
        let known = [before.index.get(path), after.index.get(path)];
        verdict.require(known.contains(&Some(entry)), || format!("the index has {entry} for {path}"));
        let told = changed.get(path.as_bstr()).copied().unwrap_or(false);
        let differs = differs(world, path, entry, seen.worktree.get(path));
        verdict.require(told == differs, || {
            format!("by the index {path} is {}, but it is not so", if told { "changed" } else { "clean" })
        });
    }
}

/// Returns true if a file differs from its index entry.
fn differs(world: &World, path: &BString, entry: &BString, node: Option<&Node>) -> bool {
    let words: Vec<&str> = entry.to_str().expect("text").split(' ').collect();
    let blob = &world.blobs[&BString::from(words[1])];
    match (words[0], node) {
        ("120000", Some(Node::Link(target))) => target != blob,
        ("100644" | "100755", Some(Node::File { executable, content })) => {
            let content =
                if path.ends_with(b".crlf") { content.replace("\r\n", "\n").into() } else { content.clone() };
            content != *blob || *executable != (words[0] == "100755")
        }
        _ => true,
    }
}

/// Adds the files that could not be removed: they stay, untracked and with a warning, as in Git. A
/// file in the way of another one must be removed a second time, which must succeed.
fn with_what_stays(before: &RepositoryState, after: &RepositoryState, stderr: &BString) -> RepositoryState {
    let mut expected = after.clone();
    for (path, node) in &before.worktree {
        let told = stderr.contains_str(format!("warning: unable to unlink '{path}': "));
        let in_the_way = after.worktree.keys().any(|new| is_above(new, path) || is_above(path, new));
        if told && !in_the_way && !after.worktree.contains_key(path) {
            expected.worktree.insert(path.clone(), node.clone());
        }
    }
    expected
}

/// Returns true if `path` lies below `dir`.
fn is_above(dir: &BString, path: &BString) -> bool {
    path.strip_prefix(dir.as_slice()).is_some_and(|rest| rest.starts_with(b"/"))
}

/// Checks that the state equals the one that Git reaches without faults.
fn same(verdict: &mut Verdict, when: &str, expected: &RepositoryState, seen: &RepositoryState) {
    let files = |seen: &RepositoryState| seen.worktree.keys().cloned().collect::<Vec<_>>();
    verdict.require(files(expected) == files(seen), || {
        format!("{when}, the files are {:?}, not {:?}", files(seen), files(expected))
    });
    for (path, node) in &expected.worktree {
        let now = seen.worktree.get(path);
        verdict.require(now.is_none() || now == Some(node), || format!("{when}, {path} is another"));
    }
    verdict.require(expected.index == seen.index, || format!("{when}, the index is another"));
    verdict.require(expected.refs == seen.refs, || {
        format!("{when}, refs are {:?}, not {:?}", seen.refs, expected.refs)
    });
}

/// Returns true if the fault hit the real Git, which checks a bundle's clone for missing objects.
/// Its message contains no reason, and it does not retry an interrupted call. Git's own clone runs
/// the same check and ends in the same way.
fn child_failed(command: Command, stderr: &BString, struck: &[Struck]) -> bool {
    let mut lines = stderr.lines().rev();
    let asked = "fatal: remote did not send all necessary objects".as_bytes();
    let [Struck { paths, .. }] = struck else { return false };
    command == Command::CloneBundle
        && lines.next() == Some(asked)
        && lines.next().is_some_and(|line| line.starts_with(b"fatal: ") || line.starts_with(b"error: "))
        && paths.iter().all(|path| path == "copy" || path.starts_with(b"copy/.git"))
}

/// Checks that the message contains a path that failed, and the reason.
fn explained(verdict: &mut Verdict, stderr: &BString, struck: &[Struck], injected: InjectedError) {
    let reason = injected.reason();
    verdict.require(stderr.contains_str(&reason), || format!("it does not say why ({reason})"));
    let named = struck.iter().flat_map(|struck| &struck.paths).any(|path| {
        // The name of the file, or of its directory, must occur.
        let mut names = path.rsplit(|byte| *byte == b'/').take(2);
        names.any(|name| stderr.contains_str(name.strip_suffix(b".lock").unwrap_or(name)))
    });
    // A ref's name stands for the files that may contain it.
    let named = named || stderr.contains_str("unable to resolve reference '");
    verdict.require(named, || format!("it names none of {struck:?}"));
}
