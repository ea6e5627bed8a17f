//! Random edits in two worktrees of equal repositories: an ordinary one, in which Git works, and
//! one under test, in which Git, sapwood or both work. After every few steps both have equal
//! status, differences, index, commits, and files with equal bytes and modes. [`kept`] is the only
//! exception.
//!
//! A case is identified by its seed. The directory of a failing case is kept for inspection.

mod kept;
mod sides;
mod steps;
mod verifier;

use std::{fmt, mem::ManuallyDrop};

use testkit::{NoMountsBelow, Sandbox};

use crate::{full, random::Random};
use sides::{Kind, Pair, Tool};
use steps::{Inside, RandomSteps};
use verifier::Verifier;

struct Case {
    kind: Kind,
    tool: Tool,
    inside: Inside,
    seed: u64,
    steps: usize,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {:?}, ", self.kind, self.tool)?;
        write!(f, "{:?} inside, seed {}, {} steps", self.inside, self.seed, self.steps)
    }
}

/// The number of steps between two comparisons.
const PACE: usize = 4;

fn walk(case: &Case) {
    // The sandbox of a failing case is kept for inspection, but not its mounts.
    let sandbox = ManuallyDrop::new(Sandbox::new());
    let mounts = NoMountsBelow::new(&sandbox.path());
    walk_in(&sandbox, case);
    drop(mounts);
    drop(ManuallyDrop::into_inner(sandbox));
}

fn walk_in(sandbox: &Sandbox, case: &Case) {
    let pair = Pair::new(sandbox, case.kind, case.tool);
    let mut steps = RandomSteps::new(&pair, Random::new(case.seed), case.inside);
    let verifier = Verifier::new(&pair, format!("{case} in {}", sandbox.path().display()));
    verifier.check(&steps.log);
    for number in 0..case.steps {
        steps.step(number);
        if steps.is_over {
            println!("{case}: over after {number} steps");
            return;
        }
        if number % PACE == PACE - 1 || number + 1 == case.steps {
            verifier.check(&steps.log);
        }
    }
    steps.end();
    verifier.check(&steps.log);
    verifier.is_sound(&steps.log);
    println!("{case}: {}", steps.summary());
}

/// Runs 5,000 steps with `SAPWOOD_TEST_FULL`, otherwise `slice` of them; spread over the tools.
fn walks(kind: Kind, slice: usize) {
    walks_with(kind, Inside::Nothing, 5000, slice);
}

fn walks_with(kind: Kind, inside: Inside, whole: usize, slice: usize) {
    let seeds = std::env::var("SAPWOOD_TEST_SEED").ok().map(|seed| seed.parse().expect("a number"));
    // A mount point may end a walk.
    let long = if inside == Inside::Mounts { 50 } else { 200 };
    let (length, steps) = if full() { (long, whole) } else { (slice.div_ceil(3), slice) };
    let cases = steps.div_ceil(length);
    let all = (0..cases as u64).filter(|seed| seeds.is_none_or(|wanted: u64| wanted == *seed));
    let cases =
        all.map(|seed| Case { kind, tool: Tool::ALL[seed as usize % 3], inside, seed, steps: length });
    crate::bounded(cases.collect(), usize::MAX, walk);
}

#[test]
fn ordinary_worktrees_stay_the_same() {
    walks(Kind::Ordinary, 60);
}

#[test]
fn overlay_workspaces_stay_as_ordinary_worktrees() {
    walks(Kind::Overlay, 80);
}

#[test]
fn image_workspaces_stay_as_ordinary_worktrees() {
    walks(Kind::Image, 80);
}

#[test]
fn user_workspaces_stay_as_ordinary_worktrees() {
    walks(Kind::OverlayUser, 50);
}

#[test]
fn copied_workspaces_stay_as_ordinary_worktrees() {
    walks(Kind::Copy, 30);
}

/// Runs 2,000 steps on each backend with `SAPWOOD_TEST_FULL`: edits and commands, with mounts
/// inside both worktrees.
#[test]
fn mounts_inside_a_workspace_change_nothing() {
    walks_with(Kind::Overlay, Inside::Mounts, 2000, 60);
    walks_with(Kind::Image, Inside::Mounts, 2000, 30);
}

/// Proves that the comparison can fail.
#[test]
fn comparison_finds_every_difference() {
    let sandbox = Sandbox::new();
    let pair = Pair::new(&sandbox, Kind::Ordinary, Tool::Git);
    let verifier = Verifier::new(&pair, "injected".into());
    verifier.check(&[]);
    let (git, tested) = (&pair.tested, &pair.tested.repo);
    type Difference<'a> = (&'a str, &'a dyn Fn(), &'a dyn Fn());
    let differences: [Difference<'_>; 7] = [
        (
            "a byte that the index hides",
            &|| {
                git.git(&["update-index", "--assume-unchanged", "a"]);
                tested.write("a", "other\n");
            },
            &|| {
                git.git(&["update-index", "--no-assume-unchanged", "a"]);
                git.git(&["checkout", "a"]);
            },
        ),
        ("a mode", &|| tested.write_executable("a", tested.read("a")), &|| {
            git.git(&["reset", "-q", "--hard"]);
        }),
        ("an ignored file", &|| tested.write("more.o", "1\n"), &|| tested.remove("more.o")),
        ("an entry", &|| drop(git.git(&["rm", "-q", "--cached", "a"])), &|| drop(git.git(&["reset", "-q"]))),
        ("a commit", &|| drop(git.git(&["commit", "-q", "--allow-empty", "-m", "more"])), &|| {
            git.git(&["reset", "-q", "--hard", "HEAD~1"]);
        }),
        ("an empty directory", &|| std::fs::create_dir(tested.join("none")).expect("a new one"), &|| {
            tested.remove("none")
        }),
        (
            "a link",
            &|| {
                tested.remove("link");
                tested.symlink("b", "link");
            },
            &|| drop(git.git(&["checkout", "link"])),
        ),
    ];
    for (name, make, unmake) in differences {
        make();
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| verifier.check(&[])));
        assert!(found.is_err(), "{name} was not found");
        unmake();
        verifier.check(&[]);
    }
}
