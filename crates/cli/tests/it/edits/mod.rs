//! Random edits. After each step `status`, `diff-files`, `diff-index`, `ls-files`, `check-ignore`
//! and `update-index --refresh` print the same as Git, whatever cache is in use and whichever
//! program wrote the index last: Git and sapwood take turns.
//!
//! The expected output is Git's without caches and with an index of the oldest possible date, so
//! that Git trusts no stat data. Nothing that either program has recorded can hide a change. A case
//! is identified by its seed. The directory of a failing case is kept for inspection.

mod audit;
mod random_edits;
mod verifier;
mod watch;

use std::{fmt, mem::ManuallyDrop, ops::Range};

use testkit::{Repo, Sandbox};

use crate::{bounded, full, random::Random};
use random_edits::RandomEdits;
use verifier::Verifier;
use watch::Watch;

/// The cache that saves scans, or the form of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cache {
    None,
    Untracked,
    Split,
    SplitUntracked,
    HookV1,
    HookV2,
    HookV2Untracked,
    Daemon,
    DaemonUntracked,
    SparseIndex,
    SparseIndexUntracked,
    SparsePatterns,
}

const CACHES: [Cache; 12] = [
    Cache::None,
    Cache::Untracked,
    Cache::Split,
    Cache::SplitUntracked,
    Cache::HookV1,
    Cache::HookV2,
    Cache::HookV2Untracked,
    Cache::Daemon,
    Cache::DaemonUntracked,
    Cache::SparseIndex,
    Cache::SparseIndexUntracked,
    Cache::SparsePatterns,
];

impl Cache {
    fn untracked(self) -> bool {
        use Cache::{DaemonUntracked, HookV2Untracked, SparseIndexUntracked, SplitUntracked, Untracked};
        matches!(self, Untracked | SplitUntracked | HookV2Untracked | DaemonUntracked | SparseIndexUntracked)
    }

    fn split(self) -> bool {
        matches!(self, Cache::Split | Cache::SplitUntracked)
    }

    fn cone(self) -> bool {
        matches!(self, Cache::SparseIndex | Cache::SparseIndexUntracked)
    }

    /// Returns true if there is a file system monitor.
    fn is_watched(self) -> bool {
        self.daemon() || matches!(self, Cache::HookV1 | Cache::HookV2 | Cache::HookV2Untracked)
    }

    fn daemon(self) -> bool {
        matches!(self, Cache::Daemon | Cache::DaemonUntracked)
    }
}

struct Case {
    cache: Cache,
    seed: u64,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, seed {}", self.cache, self.seed)
    }
}

/// The configuration of one run, which does not change.
#[derive(Clone, Debug)]
struct Settings {
    lines: Vec<&'static str>,
    /// Inodes and change times are not compared. Files of equal size differ only by their seconds.
    minimal: bool,
    /// The index may be split.
    splits: bool,
}

impl Settings {
    fn new(cache: Cache, random: &mut Random) -> Settings {
        let mut lines = vec![
            "advice.addEmbeddedRepo=false",
            "advice.statusUoption=false",
            // Git prints this advice irregularly, because it expands the index for other reasons
            // too.
            "advice.sparseIndexExpanded=false",
            "commit.gpgSign=false",
            "fsck.gitmodulesSymlink=ignore",
            "fsck.gitmodulesBlob=ignore",
            "fsck.gitmodulesMissing=ignore",
        ];
        let sometimes = [
            ("index.version=4", 3),
            ("index.version=2", 5),
            ("index.skipHash=true", 6),
            ("core.trustctime=false", 4),
            ("core.fileMode=false", 5),
            ("core.symlinks=false", 8),
            ("core.ignoreCase=true", 6),
            ("core.preloadIndex=false", 4),
            ("core.checkStat=minimal", 5),
        ];
        lines.extend(
            sometimes.into_iter().filter(|(_, times)| random.below(*times) == 0).map(|(line, _)| line),
        );
        if cache.split() {
            // Git then writes an unreadable index: the hash of the shared index is null and left
            // out.
            lines.retain(|line| *line != "index.skipHash=true");
        }
        if cache.is_watched() {
            // Git marks an entry that it adds under a corrected name as valid, although no file has
            // that name on a case-sensitive file system.
            lines.retain(|line| *line != "core.ignoreCase=true");
        }
        if cache.untracked() {
            // A directory that changes twice in a second then matches the recorded stat data.
            lines.retain(|line| *line != "core.checkStat=minimal");
            lines.push("core.untrackedCache=true");
        } else if random.below(3) == 0 {
            lines.push("core.untrackedCache=false");
        }
        if cache.split() {
            let often = [
                "splitIndex.maxPercentChange=0",
                "splitIndex.maxPercentChange=20",
                "splitIndex.maxPercentChange=100",
            ];
            lines.extend(["core.splitIndex=true", often[random.below(often.len())]]);
        }
        let minimal = lines.contains(&"core.checkStat=minimal");
        let splits = !cache.cone() && !lines.contains(&"index.skipHash=true");
        Settings { lines, minimal, splits }
    }
}

/// Creates some history, a branch to merge, a submodule, and the cache.
fn begin(repo: &Repo<'_>, cache: Cache, settings: &Settings) {
    for line in &settings.lines {
        let (name, value) = line.split_once('=').expect("name and value");
        repo.git(&["config", name, value]);
    }
    let excludes = repo.join(".git/excludes");
    repo.git(&["config", "core.excludesFile", excludes.to_str().expect("a plain name")]);
    for name in [
        "a",
        "b",
        "d/a",
        "d/b",
        "d/d/a",
        "d/d/b",
        "out/a",
        "out/d/a.o",
        "a.o/d/a",
        "a-b",
        "a.b",
        "x y",
        "gone",
        "é",
    ] {
        repo.write(name, "1\n");
    }
    for name in ["long", "d/long"] {
        repo.write(name, random_edits::LINES.concat());
    }
    repo.symlink("d", "link");
    repo.git(&["init", "-q", "-b", "main", "sub"]);
    repo.write("sub/file", "1\n");
    repo.git(&["-C", "sub", "add", "file"]);
    repo.git(&["-C", "sub", "commit", "-q", "-m", "inner"]);
    repo.write(".gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\turl = ./sub\n");
    repo.commit("first");
    repo.git(&["checkout", "-q", "-b", "side"]);
    repo.write("a", "side\n");
    repo.write("d/a", "side\n");
    repo.write("new/side", "1\n");
    repo.remove("gone");
    repo.commit("side");
    repo.git(&["checkout", "-q", "main"]);
    repo.write("b", "2\n");
    repo.write("gone", "2\n");
    repo.commit("second");
    if cache.cone() {
        repo.git(&["sparse-checkout", "set", "--sparse-index", "d"]);
    } else if cache == Cache::SparsePatterns {
        repo.git(&["sparse-checkout", "set", "--no-cone", "/*", "!/out", "!/d/d/b"]);
    }
}

fn walk(case: &Case, steps: usize) {
    // The sandbox of a failing case is kept for inspection.
    let sandbox = ManuallyDrop::new(Sandbox::new());
    walk_in(&sandbox, case, steps);
    drop(ManuallyDrop::into_inner(sandbox));
}

fn walk_in(sandbox: &Sandbox, case: &Case, steps: usize) {
    let mut random = Random::new(case.seed);
    let settings = Settings::new(case.cache, &mut random);
    // Disables maintenance in nested repositories as well.
    sandbox.repo("home").write(".gitconfig", "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n");
    let repo = sandbox.init("repo");
    begin(&repo, case.cache, &settings);
    let Some(watch) = Watch::start(&repo, case.cache) else { return };
    let mut edits = RandomEdits::new(&repo, case.cache, &settings, random, watch);
    let name = format!("{case} in {}, {settings:?}", repo.path.display());
    let mut verifier = Verifier::new(&repo, name);
    for number in 0..steps {
        edits.step(number);
        verifier.check(&mut edits, number);
    }
    verifier.is_sound(&mut edits);
    println!("{case}: {}", verifier.summary(&edits));
}

/// Returns the seeds to run: `SAPWOOD_TEST_SEED` (a number, or a range like `200..308`), or a fixed
/// range.
fn seeds() -> Range<u64> {
    let Ok(asked) = std::env::var("SAPWOOD_TEST_SEED") else { return 0..108 };
    let number = |text: &str| text.parse().expect("a seed is a number");
    match asked.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => number(&asked)..number(&asked) + 1,
    }
}

#[test]
fn matches_git_after_random_edits() {
    let cases =
        seeds().map(|seed| Case { cache: CACHES[(seed % CACHES.len() as u64) as usize], seed }).collect();
    let steps = if full() { 100 } else { 24 };
    bounded(cases, 20, |case| walk(case, steps));
}
