//! Random pathspecs in the form that Git passes to its own processes (`:(prefix:<n>)`), and
//! pathspecs from the root.

use bstr::ByteSlice as _;
use testkit::{Repo, Sandbox};

use crate::{SAPWOOD, full, random::Random, shim::Shim};

const TRACKED: [&str; 11] = [
    "a",
    "A.c",
    "sub/x",
    "sub/X.c",
    "sub/deep/y",
    "sub/deep/Y.c",
    "SUB/x",
    "su*/x",
    "dir/x",
    "dir/su/x",
    "[s]ub/x",
];
const NAMES: [&str; 28] = [
    "", "a", "A.C", "sub", "sub/", "sub/x", "SUB/X", "Sub/*", "sub/*.c", "su*/x", "*", "s?b/x", "**/x",
    "sub/deep", "./a", "sub//x", "../a", "sub/../a", "./", "/a", "sub/.", "deep/y", "x", "new", "sub/new",
    "nowhere", "[s]ub/x", "[s]*",
];
const WORDS: [&str; 9] = ["top", "icase", "glob", "literal", "exclude", "attr:foo", "attr:-bar", "", ""];
const NUMBERS: [&str; 20] = [
    "0",
    "1",
    "2",
    "3",
    "4",
    "5",
    "7",
    "8",
    "-1",
    "-5",
    "",
    " 2",
    "+3",
    "2x",
    "04",
    "0x2",
    "99",
    "4294967298",
    "-4294967293",
    "99999999999999999999",
];
const LINES: [&[&str]; 16] = [
    &["ls-files"],
    &["ls-files", "-o"],
    &["ls-files", "-o", "--directory"],
    &["ls-files", "-m"],
    &["ls-files", "--error-unmatch"],
    &["ls-files", "-t", "-c", "-o", "--deduplicate"],
    &["status", "-s"],
    &["status", "-s", "-uall", "--ignored"],
    &["diff-files"],
    &["diff-index", "HEAD"],
    &["diff-index", "--cached", "HEAD"],
    &["clean", "-n"],
    &["clean", "-n", "-d"],
    &["check-ignore"],
    &["check-ignore", "-v", "-n"],
    &["checkout-index"],
];

fn pick<'a>(random: &mut Random, of: &[&'a str]) -> &'a str {
    of[random.below(of.len())]
}

fn make(repo: &Repo<'_>, random: &mut Random) {
    repo.write(".gitattributes", "*.c foo\nsub/* bar\n");
    TRACKED.iter().for_each(|path| repo.write(path, path));
    repo.commit("first");
    for path in TRACKED.iter().chain(&["new", "sub/new", "sub/deep/new", "other/x"]) {
        if random.below(2) == 0 {
            repo.write(path, "more");
        }
    }
    if random.below(2) == 0 {
        repo.git(&["add", "sub/deep", "a"]);
    }
}

fn pathspec(random: &mut Random) -> String {
    let mut words = Vec::new();
    match random.below(8) {
        0 => {}
        1 | 2 => words.push("top".to_owned()),
        _ => words.push(format!("prefix:{}", pick(random, &NUMBERS))),
    }
    for _ in 0..random.below(3) {
        words.insert(random.below(words.len() + 1), pick(random, &WORDS).to_owned());
    }
    let name = pick(random, &NAMES);
    if words.is_empty() {
        format!("{}{name}", pick(random, &[":/", ":", ":!/"]))
    } else {
        format!(":({}){name}", words.join(","))
    }
}

#[test]
fn matches_random_prefixes_as_git_does() {
    let (mut found, mut died) = (0, 0);
    let seeds = if full() { 30 } else { 4 };
    for seed in 0..seeds {
        let mut random = Random::new(seed);
        let sandbox = Sandbox::new();
        let repo = sandbox.init("repo");
        make(&repo, &mut random);
        for _ in 0..150 {
            let specs: Vec<String> = (0..1 + random.below(3)).map(|_| pathspec(&mut random)).collect();
            let mut args = LINES[random.below(LINES.len())].to_vec();
            args.push("--");
            args.extend(specs.iter().map(String::as_str));
            let place =
                sandbox.repo(pick(&mut random, &["repo", "repo", "repo", "repo/sub", "repo/sub/deep"]));
            let (theirs, ours) = (place.try_git(&args), place.run(SAPWOOD.as_ref(), &args));
            let case = format!("seed {seed}: {args:?}; git left, ours right");
            // A bug in Git: its message names the line of its source.
            if theirs.stderr.starts_with(b"BUG: ") {
                let said = ours.stderr.strip_prefix(b"fatal: ").expect("a refusal");
                assert!(theirs.stderr.ends_with(said), "{case}: {} {}", theirs.stderr, ours.stderr);
                assert_eq!(ours.code, 128, "{case}");
                died += 1;
                continue;
            }
            if theirs.stderr.contains_str("oops in prep_exclude") {
                assert_eq!(ours.stderr, "", "{case}");
                continue;
            }
            let answer = |run: &testkit::Run| (run.code, run.stdout.clone(), run.stderr.clone());
            assert_eq!(answer(&theirs), answer(&ours), "{case}");
            found += usize::from(!ours.stdout.is_empty());
        }
    }
    assert!(found > seeds as usize * 20, "{found} answers: the dice are loaded");
    assert!(died > seeds as usize * 20, "{died} deaths: the dice are loaded");
}

/// Only a pathspec without wildcards is finished once it has matched a whole path.
#[test]
fn matches_a_pattern_against_every_path() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    TRACKED.iter().for_each(|path| repo.write(path, path));
    repo.commit("first");
    for specs in [&["[s]ub/x"][..], &["su*/x"], &["*", ":!su*/x"], &["sub/x", "a"]] {
        let args = [&["ls-files", "--error-unmatch", "-c", "-d", "-m"], specs].concat();
        let (theirs, ours) = (repo.try_git(&args), repo.run(SAPWOOD.as_ref(), &args));
        assert_eq!((theirs.code, theirs.stdout), (ours.code, ours.stdout), "{args:?}; git left, ours right");
    }
}

#[test]
fn hands_over_prefixes_that_git_rejects() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    make(&repo, &mut Random::new(1));
    let below = sandbox.repo("repo/sub");
    for args in [&["diff-files", "--", ":(prefix:4)sub/x"][..], &["ls-files", ":(icase,prefix:3)sub/X"]] {
        assert_eq!(shim.run(&repo, args).stdout, repo.try_git(args).stdout, "{args:?}");
        shim.was_native(args);
        assert_eq!(shim.run(&below, args).stderr, below.try_git(args).stderr, "{args:?}");
        shim.was_handed_over(args, "a pathspec with a prefix");
    }
    let too_long = ["ls-files", ":(prefix:9)sub/x"];
    shim.run(&repo, &too_long);
    shim.was_handed_over(&too_long, "a pathspec with a prefix");
}
