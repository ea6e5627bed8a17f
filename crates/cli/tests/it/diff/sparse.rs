//! Random differences in sparse indexes: directory entries that are sources of copies, that are one
//! side of a pair, or that have to be expanded.

use testkit::{Repo, Sandbox};

use crate::{SAPWOOD, full, random::Random, shim::Shim};

const FILES: [&str; 13] = [
    "a",
    "b",
    "z",
    "in/x",
    "in/y",
    "in/deep/q",
    "in/w/k",
    "out/x",
    "out/y",
    "out/deep/y",
    "out/deep/er/z",
    "other/x",
    "other/w/v",
];
const OPTIONS: [&[&str]; 20] = [
    &["-R"],
    &["-r"],
    &["-t"],
    &["-t", "-Sline 5"],
    &["-t", "-Gline 3", "--pickaxe-all"],
    &["-B"],
    &["-l2"],
    &["-l5"],
    &["-Sline 5"],
    &["-Gline 3"],
    &["--name-status"],
    &["--diff-filter=CR"],
    &["--diff-filter=M"],
    &["--quiet"],
    &["--relative=in/"],
    &["--relative=out/"],
    &["--pickaxe-all", "-Sline 1"],
    &["--no-rename-empty"],
    &["--find-object=HEAD:out/x"],
    &["-z"],
];
const PATHS: [&[&str]; 8] = [&[], &[], &["in"], &["out"], &["out/"], &["out/x"], &[":!in"], &["a", "other"]];

fn pick<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len())]
}

fn content(random: &mut Random) -> String {
    let letter = pick(random, &["p", "q", "r", "s"]);
    (0..pick(random, &[0, 4, 8, 8])).map(|line| format!("{letter} line {line}\n")).collect()
}

fn make(repo: &Repo<'_>, random: &mut Random) {
    let contents: Vec<String> = FILES.iter().map(|_| content(random)).collect();
    FILES.iter().zip(&contents).for_each(|(path, content)| repo.write(path, content));
    repo.commit("first");
    repo.git(&["tag", "first"]);
    for path in FILES {
        match random.below(6) {
            0 | 1 => repo.write(path, format!("{}more\n", contents[random.below(FILES.len())])),
            2 => repo.remove(path),
            _ => {}
        }
    }
    // Writes directories with the content of other paths.
    for dir in ["out/new", "out/deep2"] {
        if random.below(2) == 0 {
            repo.write(format!("{dir}/y"), &contents[9]);
            repo.write(format!("{dir}/er/z"), &contents[10]);
        }
    }
    repo.write("out/x", &contents[0]);
    repo.commit("second");
    repo.git(&["sparse-checkout", "set", "--sparse-index", pick(random, &["in", "in/deep", "other"])]);
    if random.below(2) == 0 {
        repo.git(&["reset", "-q", "--soft", "HEAD~1"]);
    }
    for path in ["new", "a", "b", "c"] {
        if random.below(2) == 0 {
            repo.write(path, format!("{}tail\n", contents[random.below(FILES.len())]));
            let how: &[&str] = if path == "new" { &["add", "-N", "new"] } else { &["add", path] };
            if random.below(2) == 0 {
                repo.git(how);
            }
        }
    }
}

#[test]
fn diffs_random_sparse_indexes_as_git_does() {
    let lines: [&[&str]; 6] = [
        &["diff-files"],
        &["diff-index", "HEAD"],
        &["diff-index", "--cached", "HEAD"],
        &["diff-index", "--cached", "first"],
        &["diff-index", "first"],
        &["diff-index", "-m", "HEAD"],
    ];
    let finds: [&[&str]; 6] = [
        &[],
        &["-C"],
        &["-C", "-C"],
        &["--find-copies-harder"],
        &["-C", "-C30%"],
        &["--find-copies-harder", "--no-renames"],
    ];
    let (shim, mut found, mut died) = (Shim::new(), 0, 0);
    let seeds = if full() { 60 } else { 8 };
    for seed in 0..seeds {
        let mut random = Random::new(seed);
        let sandbox = Sandbox::new();
        let repo = sandbox.init("repo");
        make(&repo, &mut random);
        for _ in 0..40 {
            let (command, revision) = pick(&mut random, &lines).split_at(1);
            let mut args = [command, pick(&mut random, &finds)].concat();
            (0..random.below(3)).for_each(|_| args.extend(pick(&mut random, &OPTIONS)));
            args.extend(revision);
            args.push("--");
            args.extend(pick(&mut random, &PATHS));
            let (theirs, ours) = (repo.try_git(&args), repo.run(SAPWOOD.as_ref(), &args));
            let answer = |run: &testkit::Run| (run.code, run.stdout.clone(), run.stderr.clone());
            assert_eq!(answer(&theirs), answer(&ours), "seed {seed}: {args:?}; git left, ours right");
            found += usize::from(!ours.stdout.is_empty());
            died += usize::from(ours.code == 128);
        }
        let harder = ["diff-index", "-C", "-C", "HEAD"];
        assert_eq!(repo.try_git(&harder), shim.run(&repo, &harder));
        shim.was_native(&harder);
    }
    assert!(found > seeds as usize * 10, "{found} answers: the dice are loaded");
    assert!(died > 0, "the dice are loaded");
}
