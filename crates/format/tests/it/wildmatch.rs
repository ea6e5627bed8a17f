//! Compares the matcher with its definition ([`reference`]) and with Git: `check-attr` matches many
//! patterns against many paths at once, `test-tool wildmatch` one at a time.

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs,
    io::Write as _,
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
    process::Stdio,
    time::{Duration, Instant},
};

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    pattern::Pattern,
    quote,
    wildmatch::{Mode, wildmatch},
};
use testkit::{Repo, Sandbox, wildcards::Dice};

use crate::reference;

/// The Git version whose matcher is the oracle. Older versions (2.47) let `b**//?` match `b/c`.
const MATCHER_OF: (u32, u32) = (2, 55);

const MODES: [Mode; 4] = [
    Mode { pathname: false, icase: false },
    Mode { pathname: false, icase: true },
    Mode { pathname: true, icase: false },
    Mode { pathname: true, icase: true },
];

/// Returns true for the full comparison (`SAPWOOD_TEST_FULL`), false for the slice of CI.
fn full() -> bool {
    std::env::var_os("SAPWOOD_TEST_FULL").is_some()
}

#[test]
fn classes_agree_with_the_definition_for_every_byte() {
    let names = [
        "alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper",
        "xdigit",
    ];
    let mut patterns: Vec<String> = names.iter().map(|name| format!("[[:{name}:]]")).collect();
    patterns.extend(
        ["[^[:alnum:]]", "[z-a]", "[!z-a]", "[A-z]", "[\\a-\\c]", "[A]", "?", "[]-a]"].map(String::from),
    );
    for pattern in patterns {
        for byte in 1..=255 {
            for mode in MODES {
                let ours = wildmatch(pattern.as_bytes(), &[byte], mode);
                let expected = reference::matches(pattern.as_bytes(), &[byte], mode.pathname, mode.icase);
                assert_eq!(ours, expected, "{pattern} {byte} {mode:?}");
            }
        }
    }
}

#[test]
fn agrees_with_the_definition() {
    let mut dice = Dice::new(1);
    let mut hits = 0;
    let rounds = if full() { 400 } else { 8 };
    for _ in 0..rounds {
        let paths: Vec<BString> = (0..50).map(|_| dice.path()).collect();
        for _ in 0..50 {
            let pattern = dice.pattern(&paths);
            for path in &paths {
                for mode in MODES {
                    let ours = wildmatch(&pattern, path, mode);
                    let expected = reference::matches(&pattern, path, mode.pathname, mode.icase);
                    assert_eq!(ours, expected, "'{pattern}' '{path}' {mode:?}");
                    hits += usize::from(ours);
                }
            }
        }
    }
    println!("{} answers, {hits} matches", rounds * 50 * 50 * MODES.len());
    assert!(hits > rounds * 100, "only {hits} matches");
}

#[test]
fn long_patterns_match_in_bounded_time() {
    let text = [&b"a/".repeat(2000)[..], &b"a".repeat(2000)].concat();
    for (pattern, mode) in [
        (b"*a".repeat(500), MODES[0]),
        (b"*a".repeat(500), MODES[2]),
        (b"**/a/".repeat(500), MODES[2]),
        (b"**/".repeat(800), MODES[2]),
        (b"**/*a*".repeat(200), MODES[2]),
        (b"*?".repeat(500), MODES[0]),
        (b"*[!b]".repeat(500), MODES[0]),
        (b"**\\/a*".repeat(300), MODES[2]),
    ] {
        let pattern = [&pattern[..], b"b"].concat();
        let begin = Instant::now();
        assert!(!wildmatch(&pattern, &text, mode), "{}", pattern.as_bstr());
        let took = begin.elapsed();
        // An exponential matcher would take years; the limit allows for a busy machine.
        assert!(took < Duration::from_secs(60), "{}: {took:?}", pattern[..12].as_bstr());
    }
}

/// Returns Git's result for each of `paths`: for each pattern, true if it matches.
fn git_attributes(repo: &Repo<'_>, patterns: &[BString], paths: &[BString], icase: bool) -> Vec<Vec<bool>> {
    let mut lines = Vec::new();
    for (number, pattern) in patterns.iter().enumerate() {
        let quoted = match quote(pattern.as_bstr(), true) {
            quoted if quoted.starts_with(b"\"") => quoted,
            plain => [b"\"", plain.as_bytes(), b"\""].concat().into(),
        };
        lines.extend([quoted.as_bytes(), format!(" n{number}\n").as_bytes()].concat());
    }
    repo.write(".git/info/attributes", &lines);
    let asked: Vec<u8> = paths.iter().flat_map(|path| [path.as_bytes(), b"\0"].concat()).collect();
    let icase = format!("core.ignoreCase={icase}");
    let mut git = repo.git_command();
    git.args(["-c", &icase, "check-attr", "--stdin", "-z", "-a"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = git.spawn().expect("Git runs");
    let mut stdin = child.stdin.take().expect("piped");
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(&asked).expect("Git reads"));
        child.wait_with_output().expect("Git ends")
    });
    assert!(output.status.success(), "check-attr");
    let numbers: HashMap<&BStr, usize> =
        paths.iter().enumerate().map(|(at, path)| (path.as_bstr(), at)).collect();
    let mut answers = vec![vec![false; patterns.len()]; paths.len()];
    let words: Vec<&[u8]> = output.stdout.split_str("\0").collect();
    for record in words.chunks_exact(3) {
        let number: usize = record[1][1..].to_str_lossy().parse().expect("one of ours");
        answers[numbers[record[0].as_bstr()]][number] = true;
    }
    answers
}

#[test]
fn agrees_with_check_attr() {
    let sandbox = Sandbox::new();
    if sandbox.git_version() < MATCHER_OF {
        println!("skipped: an older Git matches otherwise");
        return;
    }
    let repo = sandbox.init("repo");
    fs::create_dir_all(repo.join(".git/info")).expect("made");
    let mut dice = Dice::new(2);
    let (mut asked, mut hits) = (0, 0);
    let wanted = if full() { 10_000_000 } else { 300_000 };
    while asked < wanted {
        let icase = dice.one_of(2);
        let mut paths: Vec<BString> = (0..300).map(|_| dice.path_or_directory()).collect();
        paths.sort();
        paths.dedup();
        let patterns: Vec<BString> = (0..300).map(|_| dice.pattern(&paths)).collect();
        let answers = git_attributes(&repo, &patterns, &paths, icase);
        for (path, answers) in paths.iter().zip(answers) {
            let (bare, is_dir) = match path.strip_suffix(b"/") {
                Some(bare) => (bare, true),
                None => (path.as_bytes(), false),
            };
            let name = &bare[bare.rfind_byte(b'/').map_or(0, |slash| slash + 1)..];
            for (pattern, expected) in patterns.iter().zip(answers) {
                let parsed = Pattern::new(pattern);
                let ours = parsed.matches(bare, name, icase) && (is_dir || !parsed.is_for_directories());
                assert_eq!(ours, expected, "'{pattern}' '{path}' icase {icase}; Git right");
                asked += 1;
                hits += usize::from(expected);
            }
        }
    }
    println!("{asked} answers, {hits} matches");
    assert!(hits > asked / 100, "only {hits} matches");
}

#[test]
fn agrees_with_gits_test_tool() {
    let sandbox = Sandbox::new();
    let git = std::env::var_os("SAPWOOD_TEST_GIT").map(PathBuf::from).unwrap_or_default();
    let tool = git.parent().unwrap_or(&git).join("../source/t/helper/test-tool");
    if !tool.exists() {
        println!("skipped: {} is not there", tool.display());
        return;
    }
    let repo = sandbox.repo("");
    let mut dice = Dice::new(3);
    let wanted = if full() { 8_000 } else { 400 };
    let mut hits = 0;
    for _ in 0..wanted {
        let paths = [dice.path()];
        let pattern = dice.pattern(&paths);
        for (name, mode) in ["pathmatch", "ipathmatch", "wildmatch", "iwildmatch"].into_iter().zip(MODES) {
            // The tool refuses a pattern that begins with a slash.
            let shown = match pattern.strip_prefix(b"/") {
                Some(rest) => [b"XXX/", rest].concat(),
                None => pattern.to_vec(),
            };
            let mut asked = repo.command(&tool);
            asked.args(["wildmatch", name]).args([&paths[0][..], &shown].map(OsStr::from_bytes));
            let status = asked.status().expect("the tool runs");
            let ours = wildmatch(&pattern, &paths[0], mode);
            assert_eq!(ours, status.success(), "'{pattern}' '{}' {name}; Git right", paths[0]);
            hits += usize::from(ours);
        }
    }
    println!("{} answers, {hits} matches", wanted * MODES.len());
    assert!(hits > wanted / 4, "only {hits} matches");
}
