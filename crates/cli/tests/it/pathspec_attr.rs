//! Random pathspecs with attributes (`:(attr:...)`) in random repositories with attribute files in
//! many places.

use testkit::{Oracle, Repo, Sandbox};

use crate::{SAPWOOD, full, random::Random};

const TRACKED: [&str; 12] = [
    "a",
    "b.c",
    "c.txt",
    "sub/a",
    "sub/b.c",
    "sub/c.txt",
    "sub/deep/a",
    "sub/deep/b.c",
    "dir/a",
    "dir/b.c",
    "dir/c.txt",
    "e/a",
];
const OTHERS: [&str; 10] = [
    "new",
    "new.c",
    "sub/new.c",
    "others/a",
    "others/b.c",
    "others/deep/b.c",
    "dir/new/a",
    "ignored/a",
    "ignored/b.c",
    "sub/i.o",
];
const PATTERNS: [&str; 16] = [
    "*",
    "*.c",
    "a",
    "sub",
    "sub/",
    "sub/*",
    "/dir",
    "/dir/*",
    "**/deep/**",
    "others",
    "others/",
    "deep/",
    "b.*",
    "/one",
    "ignored",
    "[a-c]*",
];
const STATES: [&str; 14] = [
    "foo", "-foo", "!foo", "foo=bar", "foo=a,b", "baz", "-baz", "!baz", "baz=1", "mac", "-mac", "binary",
    "text", "inner",
];
const ASKED: [&str; 22] = [
    "foo",
    "-foo",
    "!foo",
    "foo=bar",
    "foo=a\\,b",
    "baz",
    "-baz",
    "!baz",
    "baz=1",
    "mac",
    "-mac",
    "!mac",
    "-text",
    "!diff",
    "-diff",
    "inner",
    "!inner",
    "binary",
    "builtin_other",
    "!builtin_other",
    " ",
    "foo=b\\ar",
];

fn pick<'a>(random: &mut Random, of: &[&'a str]) -> &'a str {
    of[random.below(of.len())]
}

/// Returns some lines for an attribute file. Macros are defined only if `macros` is true.
fn attributes(random: &mut Random, macros: bool) -> String {
    let mut lines = String::new();
    if macros && random.below(2) == 0 {
        lines += &format!("[attr]mac {} {}\n", pick(random, &STATES[..9]), pick(random, &STATES[5..9]));
    }
    for _ in 0..1 + random.below(4) {
        let (one, other) = (pick(random, &STATES), pick(random, &STATES));
        lines += &format!("{} {one} {other}\n", pick(random, &PATTERNS));
    }
    lines
}

/// Creates a repository that depends only on `random`.
fn make(repo: &Repo<'_>, random: &mut Random) {
    repo.git(&["init", "-q", "-b", "main", "one"]);
    repo.git(&["-C", "one", "commit", "-q", "--allow-empty", "-m", "first"]);
    for path in TRACKED {
        if random.below(5) > 0 {
            repo.write(path, "1\n");
        }
    }
    repo.write(".gitignore", "ignored\n*.o\n");
    for place in ["", "sub/", "sub/deep/", "dir/"] {
        if random.below(3) > 0 {
            let lines = attributes(random, place.is_empty());
            repo.write(format!("{place}.gitattributes"), lines);
        }
    }
    repo.commit("first");
    if random.below(4) == 0 {
        let dir = pick(random, &["sub", "dir"]);
        repo.git(&["sparse-checkout", "set", "--cone", "--sparse-index", dir]);
        repo.git(&["config", "advice.sparseIndexExpanded", "false"]);
    }
    for path in TRACKED {
        let is_there = repo.exists(path);
        match random.below(6) {
            0 | 1 => repo.write(path, "2\n"),
            2 if is_there => repo.remove(path),
            3 if is_there => drop(repo.git(&["rm", "-q", "--cached", "--sparse", path])),
            4 => {
                repo.write(path, "3\n");
                repo.git(&["add", "--sparse", path]);
            }
            _ => {}
        }
    }
    for path in OTHERS {
        if random.below(4) > 0 {
            repo.write(path, "new\n");
        }
    }
    if random.below(3) == 0 {
        let lines = attributes(random, false);
        repo.write("others/.gitattributes", lines);
    }
    // Leaves some attribute files only in the index.
    if random.below(3) == 0 && repo.exists(".gitattributes") {
        repo.remove(".gitattributes");
    }
    if random.below(2) == 0 {
        let lines = attributes(random, true);
        repo.write(".git/info/attributes", lines);
    }
    if random.below(2) == 0 {
        let lines = attributes(random, true);
        repo.write(".git/own", lines);
        repo.git(&["config", "core.attributesFile", ".git/own"]);
    }
    if random.below(4) == 0 {
        repo.git(&["config", "core.ignoreCase", "true"]);
    }
}

/// Returns one pathspec, sometimes more.
fn pathspecs(random: &mut Random) -> Vec<String> {
    const NAMES: [&str; 18] = [
        "",
        "",
        "",
        "",
        "*",
        "*.c",
        "a",
        "**/a",
        "one",
        "sub",
        "others",
        "sub/",
        "sub/*",
        "dir/b.c",
        "one/",
        "others/",
        "dir/",
        "others/deep",
    ];
    // If all other pathspecs lie in a directory below an exclusion, Git reads past the end of the
    // exclusion.
    const WITHOUT_SLASH: usize = 11;
    let excludes = random.below(3) == 0;
    let names = if excludes { &NAMES[..WITHOUT_SLASH] } else { &NAMES[..] };
    let others = ["", "", "", "top", "icase", "glob", "literal", "exclude", "exclude", "exclude"];
    let others = if excludes { &others[..] } else { &others[..7] };
    let one = |random: &mut Random| {
        let words: Vec<&str> = (0..[1, 1, 1, 2][random.below(4)]).map(|_| pick(random, &ASKED)).collect();
        let asked = match random.below(6) {
            0 => String::new(),
            _ => format!("attr:{}", words.join(" ")),
        };
        format!(":({},{asked}){}", pick(random, others), pick(random, names))
    };
    let count = [1, 1, 1, 2, 2, 3][random.below(6)];
    (0..count).map(|_| one(random)).collect()
}

const LINES: [&[&str]; 24] = [
    &["ls-files"],
    &["ls-files", "-s"],
    &["ls-files", "-m", "-d"],
    &["ls-files", "-o"],
    &["ls-files", "-o", "--exclude-standard"],
    &["ls-files", "-o", "--directory"],
    &["ls-files", "-o", "-i", "--exclude-standard"],
    &["ls-files", "-o", "-c", "--error-unmatch"],
    &["ls-files", "--error-unmatch"],
    &["ls-files", "-t", "-c", "-m", "-o", "--directory", "--no-empty-directory"],
    &["ls-files", "-k", "-t"],
    &["status", "-s"],
    &["status", "-s", "-uall"],
    &["status", "--porcelain=v2", "--ignored"],
    &["status", "-s", "--ignored=matching", "-uall"],
    &["status", "-s", "--ignored", "-uall"],
    &["status", "-s", "-b", "-uno"],
    &["diff-files"],
    &["diff-files", "--name-status"],
    &["diff-files", "--quiet"],
    &["diff-index", "HEAD"],
    &["diff-index", "--cached", "HEAD"],
    &["diff-index", "--cached", "-M", "HEAD"],
    &["clean", "-n", "-d"],
];

fn answer(run: &testkit::Run) -> (i32, bstr::BString, bstr::BString) {
    (run.code, run.stdout.clone(), run.stderr.clone())
}

#[test]
fn lists_random_attribute_pathspecs_as_git_does() {
    let seeds = if full() { 60 } else { 6 };
    let mut found = 0;
    for seed in 0..seeds {
        let mut random = Random::new(seed);
        let sandbox = Sandbox::new();
        let repo = sandbox.init("repo");
        make(&repo, &mut random);
        for _ in 0..150 {
            let specs = pathspecs(&mut random);
            let mut args = LINES[random.below(LINES.len())].to_vec();
            args.push("--");
            args.extend(specs.iter().map(String::as_str));
            let place = match random.below(3) {
                0 if repo.exists("sub/") => sandbox.repo("repo/sub"),
                _ => sandbox.repo("repo"),
            };
            let (theirs, ours) = (place.try_git(&args), place.run(SAPWOOD.as_ref(), &args));
            assert_eq!(answer(&theirs), answer(&ours), "seed {seed}: {args:?}; git left, ours right");
            found += usize::from(!ours.stdout.is_empty());
        }
    }
    assert!(found > seeds as usize * 20, "{found} answers: the dice are loaded");
}

/// A bare repository has only the attributes of `info/attributes` and of the configuration. A
/// repository that is not bare, in its own Git directory, also has those of the index.
#[test]
fn matches_attributes_without_a_worktree() {
    let sandbox = Sandbox::new();
    for seed in 0..3 {
        let mut random = Random::new(seed);
        let repo = sandbox.init(&format!("repo{seed}"));
        make(&repo, &mut random);
        repo.write(".git/info/attributes", "a foo\n[attr]mac inner\n*.c mac\n");
        for bare in ["false", "true"] {
            repo.git(&["config", "core.bare", bare]);
            let place = sandbox.repo(&format!("repo{seed}/.git"));
            for _ in 0..60 {
                let specs = pathspecs(&mut random);
                let line = [&["ls-files"][..], &["ls-files", "-s"], &["diff-index", "--cached", "HEAD"]]
                    [random.below(3)];
                let args = [line, &["--"], &specs.iter().map(String::as_str).collect::<Vec<_>>()].concat();
                let (theirs, ours) = (place.try_git(&args), place.run(SAPWOOD.as_ref(), &args));
                assert_eq!(
                    answer(&theirs),
                    answer(&ours),
                    "seed {seed}, bare {bare}: {args:?}; git left, ours right"
                );
            }
        }
    }
}

const CHANGES: [&[&str]; 12] = [
    &["reset", "-q"],
    &["reset", "HEAD"],
    &["restore"],
    &["restore", "-S"],
    &["restore", "-SW", "--source=HEAD"],
    &["restore", "-W", "--source=HEAD"],
    &["checkout"],
    &["checkout", "HEAD"],
    &["clean", "-f"],
    &["clean", "-f", "-d"],
    &["clean", "-f", "-d", "-x"],
    &["update-index", "--again"],
];

#[test]
fn changes_random_attribute_pathspecs_as_git_does() {
    let seeds = if full() { 200 } else { 24 };
    for seed in 0..seeds {
        let mut random = Random::new(seed);
        let oracle = Oracle::new(SAPWOOD, |repo| make(repo, &mut Random::new(seed)));
        for _ in 0..6 {
            let specs = pathspecs(&mut random);
            let mut args = CHANGES[random.below(CHANGES.len())].to_vec();
            args.push("--");
            args.extend(specs.iter().map(String::as_str));
            oracle.same_as(&format!("seed {seed}"), &args);
        }
    }
}
