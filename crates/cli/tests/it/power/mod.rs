//! Power cuts at each change that a command makes to its disk. Everything that a command had
//! reported as done is there afterwards, everything else is in its old or its new state, and Git
//! finds no fault. The disk keeps either what POSIX guarantees (`strict`), or what a journal keeps.

pub(crate) mod rig;
pub(crate) mod scenarios;
pub(crate) mod verify;

use std::fmt;

use testkit::weather::{Journal, Operation, usable};

use self::{
    rig::{Program, World},
    scenarios::{SCENARIOS, Scenario},
};
use crate::{bounded, full};

/// The operations that change a disk, or that make changes durable.
const CHANGES: [Operation; 11] = [
    Operation::Mkdir,
    Operation::Create,
    Operation::Symlink,
    Operation::Setattr,
    Operation::Write,
    Operation::Link,
    Operation::Rename,
    Operation::Unlink,
    Operation::Rmdir,
    Operation::Fsync,
    Operation::Fsyncdir,
];

/// The number of cuts in a slice.
const SLICE: usize = 70;

/// One cut.
struct Cut<'w> {
    number: usize,
    world: &'w World,
    journal: Journal,
    /// The power fails before this operation; `None` for after the last command.
    at: Option<(Operation, u64)>,
    /// Unsynced changes survive at random.
    lucky: bool,
}

impl fmt::Display for Cut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cut { number, world, journal, at, lucky } = self;
        let luck = if *lucky { "some" } else { "nothing" };
        write!(f, "{number}: {}, {journal:?}, {luck} unsynced survives, ", world.scenario.name)?;
        match at {
            Some((operation, nth)) => write!(f, "before {} {nth}", operation.name()),
            None => write!(f, "at the end"),
        }
    }
}

/// Returns the scenarios whose names contain `SAPWOOD_TEST_POWER`, or all.
fn chosen() -> Vec<&'static Scenario> {
    let wanted = std::env::var("SAPWOOD_TEST_POWER").unwrap_or_default();
    SCENARIOS.iter().filter(|scenario| scenario.name.contains(&wanted)).collect()
}

#[test]
fn reported_changes_survive_a_power_cut() {
    if let Err(unusable) = usable() {
        println!("skipped: {unusable}");
        return;
    }
    let worlds: Vec<World> = chosen().into_iter().map(World::new).collect();
    let mut cuts = Vec::new();
    for world in &worlds {
        let counts = world.counts(Program::Sapwood(1));
        println!("{}: {counts}", world.scenario.name);
        for &journal in world.scenario.journals {
            let places = CHANGES
                .iter()
                .flat_map(|&operation| (1..=counts.of(operation)).map(move |nth| Some((operation, nth))));
            for at in places.chain([None]) {
                for lucky in [false, true] {
                    cuts.push(Cut { number: cuts.len(), world, journal, at, lucky });
                }
            }
        }
    }
    // The cut after the last command finds most errors, so every slice includes it.
    let (ends, within): (Vec<Cut<'_>>, Vec<Cut<'_>>) = cuts.into_iter().partition(|cut| cut.at.is_none());
    let ends = ends
        .into_iter()
        .filter(|cut| full() || (cut.journal == cut.world.scenario.journals[0] && !cut.lucky));
    let ends: Vec<Cut<'_>> = ends.collect();
    let slice = SLICE.saturating_sub(ends.len());
    let count = ends.len();
    bounded(ends, count, check);
    bounded(within, slice, check);
}

fn check(cut: &Cut<'_>) {
    let wrong = cut_power(cut, Program::Sapwood(1));
    assert!(wrong.is_empty(), "{cut}\n  WRONG {}", wrong.join("\n  WRONG "));
}

/// Cuts the power, and returns the errors found afterwards.
fn cut_power(cut: &Cut<'_>, program: Program) -> Vec<String> {
    let name = format!("{program:?}-{}", cut.number);
    let found = cut.world.cut(&name, program, cut.journal, cut.at, cut.lucky);
    let wrong = verify::verify(cut.world, &found, program);
    found.remove();
    wrong
}

/// By default Git does not sync loose objects, the index or refs. The checks above must detect
/// that, or they detect nothing.
#[test]
fn gits_reported_changes_do_not_survive() {
    if let Err(unusable) = usable() {
        println!("skipped: {unusable}");
        return;
    }
    let scenarios = SCENARIOS.iter().filter(|scenario| full() || scenario.name == scenarios::SHORTEST);
    for scenario in scenarios {
        let world = World::new(scenario);
        let cut = Cut { number: 0, world: &world, journal: Journal::Strict, at: None, lucky: false };
        let wrong = cut_power(&cut, Program::Git);
        println!("{}: Git loses {}", scenario.name, wrong.join("; "));
        assert!(!wrong.is_empty(), "{}: the checks find nothing", scenario.name);
    }
}
