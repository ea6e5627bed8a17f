//! Faults while new objects are recorded: every operation that `add` and `commit` request from
//! their disk fails in every way. Either the command reports it, and the index, HEAD, refs, logs and
//! files are as before, or it reports success and everything is as Git leaves it. No temporary file
//! and no lock stays, and the same command succeeds afterwards.

use std::{collections::BTreeSet, fmt};

use bstr::{BStr, BString, ByteSlice as _};
use testkit::{
    Repo,
    weather::{At, Counts, Fault, Nth, Operation, Profile, What, usable},
};

use super::{
    cases::Trouble::{self, Access, Io, NoSpace, Quota, ReadOnly},
    only_chosen,
};
use crate::{
    bounded, full,
    power::{
        judge::old_or_new,
        rig::{Ran, Stage, State, Who, World},
        scenarios::{Scenario, Stored, new_files, step},
    },
    seen::names,
};

/// The number of cases in a slice.
const SLICE: usize = 50;

/// The failures of each operation. A full disk stays full.
const TROUBLES: &[(Operation, &[Trouble])] = &[
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

/// The commands. Each is the only one of its scenario.
const COMMANDS: &[Scenario] = &[Scenario {
    name: "update-index",
    prepare: new_files,
    steps: &[step(&["update-index", "--add", "new", "dir/new"])],
    journals: &[],
    stored: Stored::Freely,
}];

/// One run with one fault.
struct Case<'w> {
    number: usize,
    world: &'w World,
    workers: usize,
    operation: Operation,
    trouble: Trouble,
    nth: Nth,
}

impl fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { number, world, workers, operation, trouble, nth } = self;
        let (name, operation) = (world.scenario.name, operation.name());
        write!(f, "{number}: {name}, {workers} workers, {operation}: {trouble:?}, {nth:?}")
    }
}

impl Case<'_> {
    fn faults(&self) -> Vec<Fault> {
        let (operation, what) = (Some(self.operation), self.trouble.what());
        vec![Fault { operation, at: At::Anywhere, nth: self.nth, what }]
    }
}

/// Returns the cases of a command that needs `counts` of each operation: every call fails.
fn cases<'w>(world: &'w World, workers: usize, counts: &Counts) -> Vec<Case<'w>> {
    let mut cases = Vec::new();
    for &(operation, troubles) in TROUBLES {
        for &trouble in troubles {
            for place in 1..=counts.of(operation) {
                // The kernel repeats a read by itself after a failed read-ahead.
                let lasts = matches!(trouble, NoSpace | Quota | ReadOnly) || operation == Operation::Read;
                let nth = if lasts { Nth::From(place) } else { Nth::Only(place) };
                cases.push(Case { number: 0, world, workers, operation, trouble, nth });
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
            let Ran { code, stderr, counts, .. } = stage.run(Who::Sapwood(workers), Vec::new());
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
    let who = Who::Sapwood(case.workers);
    let ran = stage.run(who, case.faults());
    let wrong = judge(case.world, &stage, who, &ran, case.trouble);
    stage.remove();
    let Ran { code, stderr, struck, .. } = ran;
    let wrong = wrong.join("\n  WRONG ");
    assert!(
        wrong.is_empty(),
        "{case}\n  struck {struck:?}\n  exit {code}\n  stderr: {stderr}\n  WRONG {wrong}"
    );
}

/// Returns the errors found in a run and in the state it left, and in a second run without faults.
fn judge(world: &World, stage: &Stage<'_>, who: Who, ran: &Ran, trouble: Trouble) -> Vec<String> {
    let mut wrong = Vec::new();
    let (old, new) = (&world.states[0], &world.states[1]);
    let Ran { code, stderr, struck, .. } = ran;
    if !matches!(code, 0 | 1 | 128) || stderr.contains_str("panicked") {
        wrong.push(format!("it ended by {code}"));
    }
    let repo = stage.repo();
    wrong.extend(left_behind(&repo, world, ran));
    match State::of(&repo, world.scenario.stored) {
        Ok(state) if *code == 0 && state != *new => wrong.push("it said that all is done".into()),
        // It could not be made durable: it may be there.
        Ok(state) if *code != 0 && is_told_unsynced(ran) => wrong.extend(old_or_new(&state, old, Some(new))),
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
    let permission = trouble == Access && stderr.contains_str("insufficient permission for adding an object");
    if *code != 0 && !permission && !stderr.contains_str(trouble.reason()) {
        wrong.push(format!("it does not say why ({})", trouble.reason()));
    }
    if *code == 0 {
        return wrong;
    }
    let again = stage.run(who, Vec::new());
    match State::of(&repo, world.scenario.stored) {
        _ if again.code != 0 => wrong.push(format!("again: exit {}: {}", again.code, again.stderr)),
        Ok(state) if state != *new => wrong.push("again, the state is another".into()),
        Ok(_) => wrong.extend(whole(&repo)),
        Err(error) => wrong.push(error),
    }
    wrong
}

/// Returns true if a directory could not be synced after a rename in it, and the message says so.
fn is_told_unsynced(ran: &Ran) -> bool {
    let syncs = [Operation::Opendir, Operation::Fsyncdir];
    ran.stderr.contains_str("could not sync '")
        && ran.struck.iter().all(|struck| syncs.contains(&struck.operation))
}

/// Finds locks and temporary files, except for those whose removal was refused.
fn left_behind(repo: &Repo<'_>, world: &World, ran: &Ran) -> Vec<String> {
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

/// Checks that Git finds no fault.
fn whole(repo: &Repo<'_>) -> Option<String> {
    let fsck = repo.try_git(&["fsck", "--strict", "--no-dangling", "--no-progress"]);
    let is_clean = fsck.code == 0 && fsck.stderr.is_empty();
    (!is_clean).then(|| format!("git fsck: exit {}: {}{}", fsck.code, fsck.stdout, fsck.stderr))
}
