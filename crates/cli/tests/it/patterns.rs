//! Wildcards match equally in all places: ignore rules, attributes, pathspecs, sparse patterns,
//! order files of a diff and conditions of the configuration.

use std::{ffi::OsStr, io::Write as _, os::unix::ffi::OsStrExt as _, path::Path, process::Stdio};

use bstr::{BString, ByteSlice as _};
use testkit::{Oracle, Repo, Sandbox, wildcards::Dice};

use crate::{SAPWOOD, full};

/// Special cases of the grammar, on which matchers disagree.
const PATTERNS: &[&str] = &[
    // Ranges whose ends are out of order or missing.
    "[z-a]",
    "[!z-a]",
    "[^z-a]",
    "[5--]",
    "[c-a-z]",
    "[a-]",
    "[-a]",
    "[--a]",
    "[a-c-e]",
    "[[:digit:]-z]",
    "[\\z-a]",
    "[z-\\a]",
    "[!-a]",
    "[]-a]",
    "[[-]]",
    // Brackets that do not end, and classes.
    "[a",
    "[]",
    "[!]",
    "[]]",
    "[!]]",
    "[[]",
    "[[:]",
    "[[:]]",
    "[[::]]",
    "[a[:digit]b]",
    "[[:digit:][:none:]]",
    "[[:space:]]",
    "[[:upper:]]",
    "[[:lower:]]",
    "[[:punct:]]",
    "[[:cntrl:]]",
    "[[:xdigit:]]",
    // Case.
    "[A]",
    "[A-A]",
    "\\A",
    "A",
    "[\\A]",
    "[Z-a]",
    // Escapes.
    "\\",
    "*\\",
    "\\\\",
    "\\[z-a]",
    "\\*",
    "?\\-",
    // Stars.
    "**",
    "***",
    "d/**",
    "d/***",
    "**/z",
    "***/z",
    "d**/z",
    "d/**z",
    "d/**/z",
    "d/**/**/z",
    "**\\/z",
    "d/**\\/z",
    "d\\/**",
    "*/z",
    "*\\/z",
    "*/*/z",
    "d?z",
    "d[/]z",
    "d[!a]z",
    "/**",
    "/*",
    "d/[z-a]",
    "[y-a]/z",
];

const NAMES: &[&str] = &[
    "z", "a", "b", "c", "e", "-", "5", "6", "A", "Z", "B", "[", "]", "^", "!", ":", "\\", "*", "[z-a]", "a-",
    "zz", "a b", "\u{b}", "\t", "d/z", "d/a", "d/A", "d/zz", "d/e/z", "d/e/f/z", "D/z", "y/z", "dz", "[a",
    "a]",
];

fn names(repo: &Repo<'_>) {
    NAMES.iter().for_each(|name| repo.write(name, format!("{name}\n")));
}

#[test]
fn matches_ignore_rules() {
    let oracle = Oracle::new(SAPWOOD, |_| {});
    for (number, pattern) in PATTERNS.iter().enumerate() {
        let fold = number % 2 == 0;
        oracle.both(|repo| {
            names(repo);
            std::fs::create_dir_all(repo.join(".git/info")).expect("made");
            repo.write(".git/info/exclude", format!("{pattern}\n"));
        });
        let setting = format!("core.ignoreCase={fold}");
        let asked = [&["-c", &setting, "check-ignore", "-vn", "--"], NAMES].concat();
        oracle.same_as(pattern, &asked);
        oracle.same_as(pattern, &["-c", &setting, "ls-files", "-oi", "-x", pattern]);
        oracle.same_as(pattern, &["-c", &setting, "status", "--porcelain", "--ignored", "-uall"]);
        oracle.same_as(pattern, &["-c", &setting, "clean", "-fd"]);
    }
}

#[test]
fn matches_pathspecs_and_attributes() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        names(repo);
        repo.commit("first");
    });
    for pattern in PATTERNS {
        for magic in ["", ":(glob)", ":(icase)", ":(icase,glob)", ":(exclude)"] {
            let spec = format!("{magic}{pattern}");
            oracle.same_as(&spec, &["ls-files", "--", &spec]);
        }
        oracle.both(|repo| {
            repo.write(".git/info/attributes", format!("\"{}\" mark\n", pattern.replace('\\', "\\\\")))
        });
        for fold in ["core.ignoreCase=false", "core.ignoreCase=true"] {
            let asked = [&["-c", fold, "check-attr", "mark", "--"], NAMES].concat();
            oracle.same_as(pattern, &asked);
        }
    }
}

#[test]
fn matches_sparse_patterns_and_order_files() {
    let setup = |repo: &Repo<'_>| {
        names(repo);
        repo.commit("first");
        NAMES.iter().for_each(|name| repo.write(name, "changed\n"));
    };
    let changed = Oracle::new(SAPWOOD, setup);
    let sparse = Oracle::new(SAPWOOD, |repo| {
        setup(repo);
        repo.git(&["reset", "-q", "--hard"]);
    });
    for pattern in PATTERNS {
        changed.both(|repo| repo.write(".git/order", format!("{pattern}\n")));
        let order = format!("-O{}", ".git/order");
        changed.same_as(pattern, &["diff-files", "--name-only", &order]);
        sparse.same_as(pattern, &["sparse-checkout", "set", "--no-cone", "--", pattern]);
    }
}

#[test]
fn matches_conditions_of_the_configuration() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.write("\u{e9}", "1\n");
        repo.commit("first");
        repo.git(&["remote", "add", "origin", "h:d/e/z"]);
        repo.write(".git/included", "[core]\n\tquotePath = false\n");
        repo.write(".git/before", repo.read(".git/config"));
    });
    let mut held = 0;
    for branch in ["z", "d/e/z"] {
        oracle.both(|repo| drop(repo.git(&["symbolic-ref", "HEAD", &format!("refs/heads/{branch}")])));
        let conditions = PATTERNS.iter().flat_map(|pattern| {
            let url = format!("hasconfig:remote.*.url:h:{pattern}");
            [
                format!("onbranch:{pattern}"),
                url,
                format!("gitdir:../rep[{pattern}"),
                format!("gitdir/i:**/{pattern}/.git"),
            ]
        });
        for condition in conditions {
            let quoted = condition.replace('\\', "\\\\");
            oracle.both(|repo| {
                let include = format!("[includeIf \"{quoted}\"]\n\tpath = included\n");
                repo.write(".git/config", [repo.read(".git/before").to_vec(), include.into_bytes()].concat());
            });
            let run = oracle.ours().run(SAPWOOD.as_ref(), &["ls-files"]);
            assert_eq!(run, oracle.git().try_git(&["ls-files"]), "{condition} on {branch}");
            held += usize::from(!run.stdout.starts_with(b"\""));
        }
    }
    assert!(held > 30, "only {held} conditions held");
    assert!(oracle.git().read(".git/config").contains_str("includeIf"));
}

#[test]
fn parses_the_short_form_of_magic() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    let mut unknown = 0;
    for sign in (b'!'..=b'~').filter(u8::is_ascii_punctuation).map(char::from) {
        for spec in [format!(":{sign}a"), format!(":{sign}:a"), format!(":/{sign}a")] {
            let args = ["ls-files", "--", &spec];
            let ours = repo.run(Path::new(SAPWOOD), &args);
            assert_eq!(ours, repo.try_git(&args), "{spec}; Git right");
            unknown += usize::from(ours.stderr.contains_str("Unimplemented pathspec magic"));
        }
    }
    assert!(unknown > 20, "only {unknown} unknown");
}

/// Runs a program with an input. Returns its whole output and its exit code.
fn answer(repo: &Repo<'_>, program: &Path, args: &[&[u8]], input: &[u8]) -> (BString, Option<i32>) {
    let mut command = repo.command(program);
    command.args(args.iter().map(|arg| OsStr::from_bytes(arg)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program runs");
    let mut stdin = child.stdin.take().expect("piped");
    let output = std::thread::scope(|scope| {
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().expect("the program ends")
    });
    ([output.stdout, output.stderr].concat().into(), output.status.code())
}

#[test]
fn matches_random_patterns() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    std::fs::create_dir_all(repo.join(".git/info")).expect("made");
    let git = std::env::var_os("SAPWOOD_TEST_GIT").unwrap_or("git".into());
    let same = |args: &[&[u8]], input: &[u8]| {
        let ours = answer(&repo, Path::new(SAPWOOD), args, input);
        assert_eq!(
            ours,
            answer(&repo, Path::new(&git), args, input),
            "{:?}; Git right",
            args.last().map(|arg| arg.as_bstr())
        );
        ours.0
    };
    let mut dice = Dice::new(4);
    let (mut answers, mut found) = (0, 0);
    for _ in 0..if full() { 20 } else { 2 } {
        let paths: Vec<BString> = (0..1000).map(|_| dice.path()).collect();
        let entries: Vec<u8> = paths
            .iter()
            .flat_map(|path| {
                [b"100644 e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\t", &path[..], b"\0"].concat()
            })
            .collect();
        repo.git(&["read-tree", "--empty"]);
        answer(&repo, Path::new(&git), &[b"update-index", b"-z", b"--index-info"], &entries);
        let mut asked: Vec<BString> = (0..300).map(|_| dice.path_or_directory()).collect();
        // A path that begins with unknown magic would end the command.
        asked.retain(|path| !path.starts_with(b":"));
        let patterns: Vec<BString> = (0..200).map(|_| dice.pattern(&asked)).collect();
        repo.write(".git/info/exclude", patterns.join(&b"\n"[..]));
        let number = asked.len();
        let asked = asked.join(&b"\0"[..]);
        for fold in [&b"core.ignoreCase=false"[..], b"core.ignoreCase=true"] {
            let told =
                same(&[b"-c", fold, b"check-ignore", b"--stdin", b"-z", b"-v", b"-n", b"--no-index"], &asked);
            answers += number * patterns.len();
            found += told.find_iter(b".git/info/exclude\0").count();
        }
        for _ in 0..10 {
            let pattern = dice.pattern(&paths);
            for magic in [&b":(top)"[..], b":(top,glob)", b":(top,icase)", b":(top,icase,glob)"] {
                let told = same(&[b"ls-files", b"-z", b"--", &[magic, &pattern].concat()], b"");
                answers += 1000;
                found += told.find_iter(b"\0").count();
            }
        }
    }
    println!("{answers} answers, {found} found");
    assert!(found > answers / 500, "only {found} found");
}
