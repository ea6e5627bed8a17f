//! Tests of `-G` on random files. Git's line alignment decides which lines count as changed.

use testkit::{Repo, Sandbox};

use crate::{SAPWOOD, diff_random::NEWEST, full, random::Random};

/// The number of marked lines in each file. Their order is equal in both versions, so the diff
/// decides which of them count as changed.
const MARKS: usize = 8;

/// The two versions of a file.
type Versions = [Vec<String>; 2];

fn fresh(random: &mut Random) -> String {
    format!("fresh {} {}", random.below(1 << 20), random.below(1 << 20))
}

fn lines(random: &mut Random, count: usize, kinds: usize) -> Vec<String> {
    (0..count).map(|_| random.below(kinds).to_string()).collect()
}

/// Inserts the marks at random places of both versions.
fn mark(versions: &mut Versions, random: &mut Random) {
    for lines in versions {
        let mut places: Vec<usize> = (0..MARKS).map(|_| random.below(lines.len() + 1)).collect();
        places.sort_unstable();
        for (number, place) in places.into_iter().enumerate().rev() {
            lines.insert(place, format!("mark {number}"));
        }
    }
}

/// Creates an old version of random lines. In the new version lines are replaced, reordered,
/// removed or added.
fn shuffled(random: &mut Random, most: usize) -> Versions {
    let kinds = [2, 3, 10, 50, 5000][random.below(5)];
    let count = 1 + random.below(most);
    let old = lines(random, count, kinds);
    let new = match random.below(4) {
        0 => {
            let count = 1 + random.below(count + 5);
            lines(random, count, kinds)
        }
        1 => {
            let kept = 1 + random.below(20);
            old.iter()
                .map(
                    |line| {
                        if random.below(20) < kept { line.clone() } else { random.below(kinds).to_string() }
                    },
                )
                .collect()
        }
        2 => {
            let mut blocks: Vec<&[String]> = old.chunks(30).collect();
            for at in (1..blocks.len()).rev() {
                blocks.swap(at, random.below(at + 1));
            }
            blocks.concat()
        }
        _ => {
            let mut new = Vec::new();
            for line in &old {
                match random.below(5) {
                    0 => continue,
                    1 => new.push(fresh(random)),
                    _ => {}
                }
                new.push(line.clone());
            }
            new
        }
    };
    let mut versions = [old, new];
    mark(&mut versions, random);
    versions
}

/// Creates versions whose marks are repeated lines, between a varying number of lines that the
/// other version lacks.
fn common(random: &mut Random) -> Versions {
    let mut versions = Versions::default();
    for number in 0..MARKS {
        let foreign = [2, 3, 5, 8, 8, 12, 20][random.below(7)];
        let count = 55 + random.below(85);
        for lines in &mut versions {
            let mut left = count;
            while left > 0 {
                if random.below(foreign + 1) == 0 {
                    lines.push(format!("mark {number}"));
                    left -= 1;
                } else {
                    lines.push(fresh(random));
                }
                if random.below(60) == 0 {
                    lines.push(format!("shared {}", random.below(30)));
                }
            }
        }
    }
    versions
}

/// Creates versions in which most lines are equal. The marks stay near their old places.
fn monotonous(random: &mut Random, least: usize) -> Versions {
    let (rare, kinds) = ([5, 10, 20, 33][random.below(4)], [2, 3, 20, 500][random.below(4)]);
    let line = |random: &mut Random| match random.below(rare) {
        0 => (1 + random.below(kinds)).to_string(),
        _ => "0".to_owned(),
    };
    let count = least + random.below(2 * least);
    let mut old: Vec<String> = (0..count).map(|_| line(random)).collect();
    let mut new: Vec<String> = match random.below(2) {
        0 => (0..count).map(|_| line(random)).collect(),
        _ => {
            let changed = [1, 3, 6][random.below(3)];
            let other = |old: &String| if random.below(10) < changed { line(random) } else { old.clone() };
            old.iter().map(other).collect()
        }
    };
    for number in (0..MARKS).rev() {
        let place = count / (MARKS + 1) * (number + 1);
        old.insert(place, format!("mark {number}"));
        new.insert(place + random.below(5) - 2, format!("mark {number}"));
    }
    [old, new]
}

fn write(repo: &Repo<'_>, files: &[Versions], version: usize) {
    for (number, versions) in files.iter().enumerate() {
        let end = if number % 5 == 0 { "" } else { "\n" };
        repo.write(format!("file {number}"), versions[version].join("\n") + end);
    }
}

#[test]
fn finds_the_same_changed_lines_as_git() {
    let (rounds, count) = if full() { (20, 40) } else { (1, 40) };
    let (mut found, mut looked_at) = (0, 0);
    for seed in 0..rounds {
        let mut random = Random::new(seed);
        let sandbox = Sandbox::new();
        if sandbox.git_version() < NEWEST {
            println!("skipped: this Git is old");
            return;
        }
        let repo = sandbox.init("repo");
        let mut files: Vec<Versions> = (0..count)
            .map(|number| match number % 4 {
                0 => common(&mut random),
                1 => monotonous(&mut random, 300),
                2 => shuffled(&mut random, 60),
                _ => shuffled(&mut random, 1500),
            })
            .collect();
        if full() {
            // Git's diff gives up early only in long files.
            files.extend((0..4).map(|_| monotonous(&mut random, 35_000)));
        }
        write(&repo, &files, 0);
        repo.git(&["add", "-A"]);
        write(&repo, &files, 1);
        let patterns = (0..MARKS).map(|number| format!("^mark {number}$"));
        for pattern in patterns.chain(["^1?7$".into(), "^$".into(), "9".into()]) {
            let args = ["diff-files", "--name-only", "-G", &pattern];
            let (theirs, ours) = (repo.git(&args), repo.run(SAPWOOD.as_ref(), &args));
            assert_eq!(theirs.stdout, ours.stdout, "seed {seed}: {args:?}; git left, ours right");
            found += ours.stdout.iter().filter(|&&byte| byte == b'\n').count();
            looked_at += files.len();
        }
    }
    assert!(
        found > looked_at / 5 && found < looked_at / 5 * 4,
        "{found} of {looked_at}: the dice are loaded"
    );
}
