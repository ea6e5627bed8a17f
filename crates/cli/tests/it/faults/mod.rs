//! The fault matrix: every operation that a clone, a checkout, a switch and a reset request from
//! their disk fails in every way, at the first, the middle and the last call. The command exits
//! like Git, reports the path and the reason, leaves no partial state, and completes when it runs
//! again.

mod cases;
mod recording;
mod rig;
mod verify;

use std::fmt;

use testkit::weather;

use self::{
    cases::{Case, FailingPath, RefRead},
    rig::{Command, Program, RunResult, World},
};
use crate::{bounded, full, random::Random};

/// Returns `None` where FUSE is not available.
fn world() -> Option<World> {
    if let Err(unusable) = weather::usable() {
        println!("skipped: {unusable}");
        return None;
    }
    Some(World::new())
}

/// Runs in full or not at all: the choice of cases in a slice would change with every operation
/// that is added to or removed from a command.
#[test]
fn recovers_from_a_failure_of_each_operation() {
    if !full() {
        println!("skipped: `just faults` runs it");
        return;
    }
    let Some(world) = world() else { return };
    let mut random = Random::new(4);
    let mut all: Vec<Case> = Vec::new();
    for command in Command::ALL {
        for workers in [1, 8] {
            let stage = world.stage(&format!("counted-{command:?}-{workers}"), command);
            let RunResult { run, counts, .. } = stage.run(Program::Sapwood(workers), Vec::new());
            assert_eq!(run.code, 0, "{command:?}: {}", run.stderr);
            assert!(stage.see() == world.after[&command], "{command:?} is not what Git makes of it");
            println!("{command:?}, {workers} workers: {counts}");
            stage.remove();
            all.extend(cases::of(command, workers, &counts, places(), &mut random));
        }
    }
    all.iter_mut().enumerate().for_each(|(number, case)| case.number = number);
    only_chosen(&mut all, |case| case.number);
    bounded(all, 1, |case| check(&world, case));
}

fn check(world: &World, case: &Case) {
    let stage = world.stage(&format!("case-{}", case.number), case.command);
    let ran = stage.run(case.program(), case.faults());
    let verdict = verify::verify(world, &stage, case.command, case.program(), &ran, case.injected);
    stage.remove();
    let RunResult { run, struck, .. } = ran;
    assert!(
        verdict.0.is_empty(),
        "{case}\n  struck {struck:?}\n  exit {}\n  stderr: {}\n  WRONG {}",
        run.code,
        run.stderr,
        verdict.0.join("\n  WRONG ")
    );
}

/// Keeps the cases named by `SAPWOOD_TEST_FAULTS`, which are separated by semicolons: numbers, or
/// parts of their descriptions (`unlink: Io`; `Clone, 1 workers, read`).
fn only_chosen<C: fmt::Display>(cases: &mut Vec<C>, number: impl Fn(&C) -> usize) {
    let Ok(wanted) = std::env::var("SAPWOOD_TEST_FAULTS") else { return };
    let wanted: Vec<&str> = wanted.split(';').map(str::trim).filter(|piece| !piece.is_empty()).collect();
    cases.retain(|case| {
        let (number, described) = (number(case), case.to_string());
        wanted.iter().any(|piece| match piece.parse::<usize>() {
            Ok(chosen) => chosen == number,
            Err(_) => described.contains(piece),
        })
    });
}

/// Returns the number of calls of each kind that fail besides the first, the middle and the last:
/// `SAPWOOD_TEST_PLACES`, 2 by default.
fn places() -> usize {
    std::env::var("SAPWOOD_TEST_PLACES").ok().and_then(|text| text.parse().ok()).unwrap_or(2)
}

/// A ref that cannot be read is not missing, and its older value is not used: `topic` has an older
/// value in packed-refs.
#[test]
fn recovers_from_a_failure_of_each_read_of_refs() {
    let Some(world) = world() else { return };
    let mut all = RefRead::all();
    only_chosen(&mut all, |look| look.number);
    bounded(all, 12, |look| {
        for nth in 1.. {
            let stage = world.stage(&format!("look-{}-{nth}", look.number), look.command);
            let ran = stage.run(Program::Sapwood(1), look.faults(nth));
            let verdict =
                verify::verify(&world, &stage, look.command, Program::Sapwood(1), &ran, RefRead::ERROR);
            stage.remove();
            let RunResult { run, struck, .. } = ran;
            let wrong = verdict.0.join("\n  WRONG ");
            assert!(wrong.is_empty(), "{look}, {nth}: exit {}: {}\n  WRONG {wrong}", run.code, run.stderr);
            if struck.is_empty() {
                break;
            }
        }
    });
}

#[test]
fn exits_as_git_does_under_the_same_fault() {
    let Some(world) = world() else { return };
    let mut all = cases::places(|what| world.path_of(what));
    only_chosen(&mut all, |place| place.number);
    bounded(all, 50, |place| compare(&world, place));
}

/// Runs Git and sapwood with the same fault, and compares their exit codes.
fn compare(world: &World, place: &FailingPath) {
    let run = |program: Program, name: &str| {
        let stage = world.stage(&format!("{name}-{}", place.number), place.command);
        let ran = stage.run(program, place.faults());
        (stage, ran)
    };
    let (stage, git) = run(Program::Git, "git");
    stage.remove();
    let (stage, ours) = run(Program::Sapwood(1), "ours");
    let mut verdict =
        verify::verify(world, &stage, place.command, Program::Sapwood(1), &ours, place.injected);
    stage.remove();
    let met = !git.struck.is_empty() && !ours.struck.is_empty();
    let expected = verify::expected(place, git.run.code);
    verdict.require(!met || ours.run.code == expected, || format!("exit {expected} was expected"));
    assert!(
        verdict.0.is_empty(),
        "{place}\n  exit {}, Git's {}\n  stderr: {}\n  Git's: {}\n  WRONG {}",
        ours.run.code,
        git.run.code,
        ours.run.stderr,
        git.run.stderr,
        verdict.0.join("\n  WRONG ")
    );
}

/// With few file descriptors a command either gets slower or fails cleanly.
#[test]
fn fails_cleanly_without_file_descriptors() {
    let Some(world) = world() else { return };
    let mut commands: Vec<(usize, Command, u64)> = Vec::new();
    for command in Command::ALL {
        commands.extend([5, 8, 10, 12, 16, 24].map(|limit| (0, command, limit)));
    }
    commands.iter_mut().enumerate().for_each(|(number, case)| case.0 = number);
    for &(number, command, limit) in &commands {
        if !full() && number % 3 != 0 {
            continue;
        }
        let program = Program::Sapwood(8);
        let stage = world.stage(&format!("descriptors-{number}"), command);
        let ran = stage.run_limited(program, limit);
        let verdict =
            verify::verify(&world, &stage, command, program, &ran, cases::InjectedError::TooManyOpen);
        stage.remove();
        let RunResult { run, .. } = ran;
        let wrong = verdict.0.join("\n  WRONG ");
        assert!(wrong.is_empty(), "{command:?}, {limit}: exit {}: {}\n  WRONG {wrong}", run.code, run.stderr);
    }
}
