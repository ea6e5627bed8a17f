//! Faults while new objects are recorded: every operation that `add` and `commit` request from
//! their disk fails in every way. Either the command reports it, and the index, HEAD, refs, logs
//! and files are as before, or it reports success and the result equals Git's. No temporary file
//! and no lock stays, and the same command succeeds afterwards.

use std::{collections::BTreeSet, fmt};

use bstr::{BStr, BString, ByteSlice as _};
use testkit::{
    Repo,
    weather::{At, Counts, Fault, Nth, Operation, Profile, What, usable},
};

use super::{
    cases::InjectedError::{self, Access, Io, NoSpace, Quota, ReadOnly},
    only_chosen,
};
use crate::{
    bounded, full,
    power::{
        rig::{Program, RunResult, Stage, State, World},
        scenarios::{Scenario, Stored, new_files, staged_files, step},
        verify::old_or_new,
    },
    seen::names,
};

/// The number of cases in a slice.
const SLICE: usize = 40;

/// The number of comparisons with Git in a slice.
const COMPARED: usize = 15;

/// The failures of each operation. A full disk stays full.
const TROUBLES: &[(Operation, &[InjectedError])] = &[
    (Operation::Lookup, &[Io, Access]),
    (Operation::Getattr, &[Io]),
    (Operation::Setattr, &[Io, Access, ReadOnly]),
    (Operation::Readlink, &[Io]),
    (Operation::Mkdir, &[Io, NoSpace, Quota, Access, ReadOnly]),
    (Operation::Unlink, &[Io, Access, ReadOnly]),
    (Operation::Rmdir, &[Io, Access, ReadOnly]),
    (Operation::Rename, &[Io, NoSpace, Quota, Access, ReadOnly]),
    (Operation::Link, &[Io, NoSpace, Quota, Access, ReadOnly]),
    (Operation::Open, &[Io, Access]),
    (Operation::Read, &[Io]),
    (Operation::Write, &[Io, NoSpace, Quota]),
    (Operation::Create, &[Io, NoSpace, Quota, Access, ReadOnly]),
    (Operation::Flush, &[Io, NoSpace, Quota]),
    (Operation::Fsync, &[Io, NoSpace, Quota]),
    (Operation::Opendir, &[Io, Access]),
    (Operation::Readdir, &[Io]),
    (Operation::Fsyncdir, &[Io, NoSpace]),
    (Operation::Fallocate, &[Io, NoSpace, Quota]),
];

/// The commands. Each is the only step of its scenario.
const COMMANDS: &[Scenario] = &[
    Scenario {
        name: "add",
        prepare: new_files,
        steps: &[step(&["add", "-A"])],
        journals: &[],
        stored: Stored::Freely,
    },
    Scenario {
        name: "add, a pack",
        prepare: new_files,
        steps: &[step(&["-c", "sapwood.packOnAdd=1", "add", "-A"])],
        journals: &[],
        stored: Stored::Freely,
    },
    Scenario {
        name: "commit",
        prepare: staged_files,
        steps: &[step(&["commit", "-q", "-m", "three"])],
        journals: &[],
        stored: Stored::Freely,
    },
    Scenario {
        name: "commit -a",
        prepare: new_files,
        steps: &[step(&["commit", "-q", "-a", "-m", "three"])],
        journals: &[],
        stored: Stored::Freely,
    },
];

/// One run with one fault.
struct Case<'w> {
    number: usize,
    world: &'w World,
    workers: usize,
    operation: Operation,
    injected: InjectedError,
    nth: Nth,
}

impl fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { number, world, workers, operation, injected, nth } = self;
        let (name, operation) = (world.scenario.name, operation.name());
        write!(f, "{number}: {name}, {workers} workers, {operation}: {injected:?}, {nth:?}")
    }
}

impl Case<'_> {
    fn faults(&self) -> Vec<Fault> {
        let (operation, what) = (Some(self.operation), self.injected.what());
        vec![Fault { operation, at: At::Anywhere, nth: self.nth, what }]
    }
}

/// Returns the cases of a command that needs `counts` of each operation: every call fails.
fn cases<'w>(world: &'w World, workers: usize, counts: &Counts) -> Vec<Case<'w>> {
    let mut cases = Vec::new();
    for &(operation, troubles) in TROUBLES {
        for &injected in troubles {
            for place in 1..=counts.of(operation) {
                // The kernel repeats a read by itself after a failed read-ahead.
                let lasts = matches!(injected, NoSpace | Quota | ReadOnly) || operation == Operation::Read;
                let nth = if lasts { Nth::From(place) } else { Nth::Only(place) };
                cases.push(Case { number: 0, world, workers, operation, injected, nth });
            }
        }
    }
    cases
}

fn worlds() -> Option<Vec<World>> {
    if let Err(unusable) = usable() {
        println!("skipped: {unusable}");
        return None;
    }
    Some(COMMANDS.iter().map(World::new).collect())
}

#[test]
fn a_failure_while_recording_changes_nothing() {
    let Some(worlds) = worlds() else { return };
    let workers: &[usize] = if full() { &[1, 4] } else { &[1] };
    let mut all = Vec::new();
    for world in &worlds {
        for &workers in workers {
            let stage = world.stage("counted", &Profile::bare());
            let RunResult { code, stderr, counts, .. } = stage.run(Program::Sapwood(workers), Vec::new());
            assert_eq!((code, stderr.as_bstr()), (0, BStr::new("")), "{}", world.scenario.name);
            println!("{}, {workers} workers: {counts}", world.scenario.name);
            stage.remove();
            all.extend(cases(world, workers, &counts));
        }
    }
    all.iter_mut().enumerate().for_each(|(number, case)| case.number = number);
    only_chosen(&mut all, |case| case.number);
    bounded(all, SLICE, check);
}

fn check(case: &Case<'_>) {
    let stage = case.world.stage(&format!("case-{}", case.number), &Profile::bare());
    let program = Program::Sapwood(case.workers);
    let ran = stage.run(program, case.faults());
    let wrong = verify(case.world, &stage, program, &ran, case.injected);
    stage.remove();
    let RunResult { code, stderr, struck, .. } = ran;
    let wrong = wrong.join("\n  WRONG ");
    assert!(
        wrong.is_empty(),
        "{case}\n  struck {struck:?}\n  exit {code}\n  stderr: {stderr}\n  WRONG {wrong}"
    );
}

/// Returns true if a stat failed, and the message contains its path.
fn names_unread_file(ran: &RunResult) -> bool {
    let mut stats = ran.struck.iter().filter(|struck| struck.operation == Operation::Getattr);
    stats.any(|struck| struck.paths.iter().any(|path| ran.stderr.starts_with(format!("{path}: ").as_bytes())))
}

/// Returns the errors found in a run and in the state it left, and in a second run without faults.
fn verify(
    world: &World,
    stage: &Stage<'_>,
    program: Program,
    ran: &RunResult,
    injected: InjectedError,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let (old, new) = (&world.states[0], &world.states[1]);
    let RunResult { code, stderr, struck, .. } = ran;
    if !matches!(code, 0 | 1 | 128) || stderr.contains_str("panicked") {
        wrong.push(format!("it ended by {code}"));
    }
    let repo = stage.repo();
    wrong.extend(left_behind(&repo, world, ran));
    match State::of(&repo, world.scenario.stored) {
        // A directory that cannot be read is skipped with a warning, as in Git.
        Ok(_) if *code == 0 && stderr.contains_str("warning: could not open directory") => {}
        // A file whose stat data cannot be read is skipped with a message, as in Git.
        Ok(_) if *code == 0 && names_unread_file(ran) => {}
        Ok(state) if *code == 0 && state != *new => {
            wrong.push("it said that all is done".into());
            wrong.extend(old_or_new(&state, new, None));
        }
        // The rename could not be made durable, so the new state may be there or not.
        Ok(state) if *code != 0 && names_failed_sync(ran) => wrong.extend(old_or_new(&state, old, Some(new))),
        // The commit was made, as Git's message states; only the index is old.
        Ok(state) if names_stale_handle(ran) => {
            wrong.extend(old_or_new(&State { index: new.index.clone(), ..state }, new, None));
        }
        Ok(state) if *code != 0 && (State { objects: old.objects.clone(), ..state.clone() }) != *old => {
            wrong.push("it failed, but changed something".into())
        }
        Ok(_) => {}
        Err(error) => wrong.push(error),
    }
    wrong.extend(whole(&repo));
    if *code != 0 && struck.is_empty() {
        wrong.push("it failed without a cause".into());
    }
    let permission =
        injected == Access && stderr.contains_str("insufficient permission for adding an object");
    // Git does not print the reason either.
    let exclude = stderr.contains_str("as an exclude file");
    let is_told = permission || exclude || names_stale_handle(ran);
    if *code != 0 && !is_told && !stderr.contains_str(injected.reason()) {
        wrong.push(format!("it does not say why ({})", injected.reason()));
    }
    if *code == 0 {
        return wrong;
    }
    if names_stale_handle(ran) || names_failed_sync(ran) {
        // There may be nothing left to commit.
        return wrong;
    }
    let again = stage.run(program, Vec::new());
    match State::of(&repo, world.scenario.stored) {
        _ if again.code != 0 => wrong.push(format!("again: exit {}: {}", again.code, again.stderr)),
        Ok(state) if state != *new => wrong.push("again, the state is another".into()),
        Ok(_) => wrong.extend(whole(&repo)),
        Err(error) => wrong.push(error),
    }
    wrong
}

/// Returns true if a directory could not be synced after a rename in it, and the message says so.
fn names_failed_sync(ran: &RunResult) -> bool {
    let syncs = [Operation::Opendir, Operation::Fsyncdir];
    ran.stderr.contains_str("could not sync '")
        && ran.struck.iter().all(|struck| syncs.contains(&struck.operation))
}

/// A path, an operation on it that always fails, and its errors. The path is the same for Git, so
/// that messages and exit codes can be compared.
type FailingPath = (&'static str, Operation, MessageMatch, &'static [InjectedError]);

/// How the messages compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageMatch {
    /// The messages are equal.
    Same,
    /// The reasons are equal. Git also names the file that it was adding, but sapwood publishes new
    /// objects together.
    Reason,
    /// Git omits the file, its whole path, or the reason, and sapwood prints it.
    Better,
}

use MessageMatch::{Better, Reason, Same};

/// Paths below the repository. `.git/objects` stands for all paths in it.
const PLACES: &[FailingPath] = &[
    (".git/index.lock", Operation::Create, Same, &[Io, NoSpace, Access, ReadOnly]),
    (".git/index.lock", Operation::Rename, Better, &[Io, Access]),
    (".git/index.lock", Operation::Write, Better, &[Io, NoSpace, Quota]),
    (".git/index", Operation::Open, Better, &[Io, Access]),
    ("new", Operation::Open, Same, &[Io, Access]),
    ("new", Operation::Read, Same, &[Io]),
    (".git/objects/3e", Operation::Mkdir, Reason, &[NoSpace, Access, ReadOnly]),
    (".git/objects", Operation::Create, Reason, &[NoSpace, Quota, Access, ReadOnly]),
    (".git/objects", Operation::Write, Better, &[NoSpace, Quota, Io]),
    (".git/objects", Operation::Rename, Reason, &[Io, NoSpace, Access]),
    (".git/HEAD", Operation::Open, Better, &[Io, Access]),
    (".git/HEAD.lock", Operation::Create, Same, &[Access, NoSpace]),
    (".git/refs/heads/main.lock", Operation::Create, Same, &[Access, NoSpace, ReadOnly]),
    (".git/refs/heads/main.lock", Operation::Write, Better, &[NoSpace, Io]),
    (".git/refs/heads/main.lock", Operation::Rename, Better, &[Io, Access]),
    (".git/logs/HEAD", Operation::Open, Same, &[Io, Access]),
    (".git/logs/HEAD", Operation::Write, Same, &[NoSpace]),
    (".git/COMMIT_EDITMSG", Operation::Open, Better, &[Io, Access, ReadOnly]),
];

/// One place, one error, one command.
struct Compared<'w> {
    number: usize,
    world: &'w World,
    path: &'static str,
    operation: Operation,
    words: MessageMatch,
    injected: InjectedError,
}

impl fmt::Display for Compared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Compared { number, world, path, operation, injected, .. } = self;
        write!(f, "{number}: {}, {} of {path}: {injected:?}", world.scenario.name, operation.name())
    }
}

#[test]
fn a_failure_while_recording_has_gits_message() {
    let Some(worlds) = worlds() else { return };
    let mut all = Vec::new();
    for world in &worlds {
        for &(path, operation, words, troubles) in PLACES {
            for &injected in troubles {
                all.push(Compared { number: all.len(), world, path, operation, words, injected });
            }
        }
    }
    only_chosen(&mut all, |compared| compared.number);
    bounded(all, COMPARED, compare);
}

/// Runs Git and sapwood with the same fault, and compares exit codes and messages.
fn compare(compared: &Compared<'_>) {
    let Compared { number, world, path, operation, words, injected } = *compared;
    let at = match path {
        ".git/objects" => At::Below(path.into()),
        _ => At::Path(path.into()),
    };
    let fault =
        || vec![Fault { operation: Some(operation), at: at.clone(), nth: Nth::Every, what: injected.what() }];
    let run = |program: Program, name: &str| {
        let stage = world.stage(&format!("{name}-{number}"), &Profile::bare());
        let ran = stage.run(program, fault());
        (stage, ran)
    };
    let (stage, git) = run(Program::Git, "git");
    let git_said = said(&git, &stage);
    stage.remove();
    let (stage, ours) = run(Program::Sapwood(1), "ours");
    let mut wrong = verify(world, &stage, Program::Sapwood(1), &ours, injected);
    let we_said = said(&ours, &stage);
    stage.remove();
    let met = !git.struck.is_empty() && !ours.struck.is_empty();
    let reason = |text: &str| {
        let line = text.lines().next().unwrap_or_default();
        line.split_once(": ").map(|(_, reason)| reason.to_owned())
    };
    let is_alike = match words {
        Same => git_said.1 == we_said.1,
        Reason => reason(&git_said.1) == reason(&we_said.1),
        Better => true,
    };
    if met && (git_said.0 != we_said.0 || !is_alike) {
        wrong.push("Git says something else".into());
    }
    let wrong = wrong.join("\n  WRONG ");
    assert!(wrong.is_empty(), "{compared}\n  ours: {we_said:?}\n  Git's: {git_said:?}\n  WRONG {wrong}");
}

/// Returns the exit code and the message, without the names of temporary files and of the disk.
fn said(ran: &RunResult, stage: &Stage<'_>) -> (i32, String) {
    let disk = stage.mount.path().display().to_string();
    let text = ran.stderr.to_string().replace(&disk, "DISK");
    let is_temporary = |word: &str| word.contains("tmp_");
    let words = text
        .split_inclusive(char::is_whitespace)
        .map(|word| if is_temporary(word) { "TEMPORARY " } else { word });
    (ran.code, words.collect())
}

/// Returns true if a commit was made, but the index could not be written afterwards.
fn names_stale_handle(ran: &RunResult) -> bool {
    ran.code != 0
        && ran.stderr.contains_str("repository has been updated, but unable to write\nnew index file")
}

/// Finds locks and temporary files, except for those whose removal was refused.
fn left_behind(repo: &Repo<'_>, world: &World, ran: &RunResult) -> Vec<String> {
    let refused: BTreeSet<&BString> = ran
        .struck
        .iter()
        .filter(|struck| matches!((struck.operation, struck.what), (Operation::Unlink, What::Fail(_))))
        .flat_map(|struck| &struck.paths)
        .collect();
    let is_temporary = |path: &BString| {
        let name = path.rsplit_once_str("/").map_or(path.as_slice(), |(_, name)| name);
        name.ends_with(b".lock") || name.starts_with(b"tmp_") || name.starts_with(b".tmp")
    };
    let is_object = |path: &BString| path.starts_with(b"objects/") && !is_temporary(path);
    let known = &world.names;
    let left = names(&repo.join(".git")).into_iter().filter(|path| {
        let below = BString::from([b".git/", path.as_slice()].concat());
        !known.contains(path) && !is_object(path) && !refused.contains(&below)
    });
    left.map(|path| format!("{path} is left in the Git directory")).collect()
}

/// Checks that Git's `fsck` reports nothing.
fn whole(repo: &Repo<'_>) -> Option<String> {
    let fsck = repo.try_git(&["fsck", "--strict", "--no-dangling", "--no-progress"]);
    let is_clean = fsck.code == 0 && fsck.stderr.is_empty();
    (!is_clean).then(|| format!("git fsck: exit {}: {}{}", fsck.code, fsck.stdout, fsck.stderr))
}
