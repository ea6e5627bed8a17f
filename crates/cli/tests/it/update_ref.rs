//! `update-ref`, run as `git` and compared with Git: messages, refs, reflogs, and the hook.

use bstr::{BString, ByteSlice as _};
use testkit::{Oracle, Repo, Run, wording};

use crate::{
    random::Random,
    shim::{Shim, finished},
};

fn setup(repo: &Repo<'_>) {
    repo.write("f", "1\n");
    repo.commit("one");
    repo.git(&["branch", "side"]);
    repo.git(&["branch", "dir/deep"]);
    repo.git(&["tag", "-a", "-m", "a tag", "annotated"]);
    repo.git(&["pack-refs", "--all"]);
    repo.write("f", "2\n");
    repo.commit("two");
    repo.git(&["branch", "loose"]);
    repo.git(&["tag", "one", "HEAD^"]);
    repo.git(&["tag", "two", "HEAD"]);
    repo.git(&["tag", "blob", "HEAD:f"]);
    repo.git(&["symbolic-ref", "refs/heads/dangling", "refs/heads/nowhere"]);
    repo.git(&["symbolic-ref", "refs/heads/link", "refs/heads/loose"]);
    repo.git(&["symbolic-ref", "refs/heads/links", "refs/heads/link"]);
    repo.git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/heads/main"]);
    repo.write(".git/refs/heads/broken", "nonsense\n");
}

const ZEROS: &str = "0000000000000000000000000000000000000000";
const ABSENT: &str = "1111111111111111111111111111111111111111";

#[test]
fn one_ref_as_git_does() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), setup);
    for args in [
        &["refs/heads/new", "HEAD"][..],
        &["-m", "a  reason\n", "refs/heads/new", "HEAD^", "HEAD"],
        &["refs/heads/new", "HEAD", "HEAD"],
        &["refs/heads/new", "HEAD", ""],
        &["refs/heads/other", "one", ZEROS],
        &["refs/heads/a/b/c", "one"],
        &["--create-reflog", "refs/tags/logged", "one"],
        &["-m", "again", "refs/tags/logged", "two"],
        &["refs/tags/blob", "annotated"],
        &["refs/heads/new", "annotated"],
        &["refs/heads/new", "blob"],
        &["refs/heads/new", ABSENT],
        &["refs/heads/new", "nothing"],
        &["refs/heads/new", "one", "nothing"],
        &["-m", "", "refs/heads/new", "one"],
        &["-m", "moved", "HEAD", "HEAD^"],
        &["HEAD", "two", "two"],
        &["refs/heads/main", "two"],
        &["refs/heads/link", "one"],
        &["refs/heads/links", "two", "one"],
        &["refs/remotes/origin/HEAD", "one"],
        &["--no-deref", "refs/heads/links", "one"],
        &["--no-deref", "refs/heads/dangling", "one", ZEROS],
        &["refs/heads/dangling", "one"],
        &["refs/heads/dir", "one"],
        &["refs/heads/side/below", "one"],
        &["refs/heads/loose/below", "one"],
        &["refs/heads/broken", "one"],
        &["refs/heads/a..b", "one"],
        &["refs/heads/b.lock", "one"],
        &["FETCH_HEAD", "one"],
        &["MERGE_HEAD", "one"],
        &["ORIG_HEAD", "one"],
        &["lower", "one"],
        &["-d", "lower"],
        &["-d", "ORIG_HEAD"],
        &["-d", "refs/heads/side", "two"],
        &["-d", "refs/heads/side", ZEROS],
        &["-d", "refs/heads/side"],
        &["-d", "-m", "gone", "refs/heads/a/b/c"],
        &["-d", "refs/heads/loose"],
        &["-d", "refs/heads/a..b"],
        &["-d", "refs/../f"],
        &["--no-deref", "-d", "refs/remotes/origin/HEAD"],
        &["refs/heads/dir/deep", ZEROS],
        &["-d", "HEAD"],
        &["HEAD", "one"],
        &["--no-deref", "HEAD", "two"],
        &["HEAD", "one"],
        &["--batch-updates", "HEAD", "one"],
    ] {
        let args = [&["update-ref"], args].concat();
        oracle.same(&args);
        shim.was_native(&args);
    }
    for (args, why) in [
        (&["refs/heads/new"][..], "a wrong number of arguments"),
        (&["-d"], "a wrong number of arguments"),
        (&["-z", "refs/heads/new", "one"], "a wrong number of arguments"),
        (&["--stdin", "refs/heads/new"], "a wrong number of arguments"),
    ] {
        let args = [&["update-ref"], args].concat();
        oracle.same(&args);
        shim.was_handed_over(&args, why);
    }
}

/// Input of sessions without `-z`. `ONE` and `TWO` stand for the commits.
const TALKS: &[&str] = &[
    "",
    "\n",
    " update\n",
    "unknown refs/heads/a\n",
    "update\n",
    "update \n",
    "create refs/heads/a ONE\nupdate refs/heads/b TWO\n",
    "create refs/heads/a TWO\n",
    "update refs/heads/a TWO ONE\nupdate refs/heads/b ONE ONE\n",
    "update refs/heads/a TWO ONE\nupdate refs/heads/b ONE TWO\n",
    "update refs/heads/a ONE TWO extra\n",
    "update refs/heads/a\n",
    "update refs/heads/a ONE",
    "update refs/heads/a  ONE\n",
    "update \"refs/heads/q\\165oted\" ONE\n",
    "update \"refs/heads/a ONE\n",
    "update \"refs/heads/a\"x ONE\n",
    "update refs/heads/a..b ONE\n",
    "update refs/heads/a nothing\n",
    "update refs/heads/a ONE nothing\n",
    "update refs/heads/c ABSENT\n",
    "update refs/heads/c blob\n",
    "create refs/heads/c 0000000000000000000000000000000000000000\n",
    "create refs/heads/c \"\"\n",
    "create refs/heads/c\n",
    "verify refs/heads/a TWO\nverify refs/heads/none\n",
    "verify refs/heads/a\n",
    "verify refs/heads/none ONE\n",
    "verify HEAD TWO\n",
    "delete refs/heads/a ONE\n",
    "delete refs/heads/a 0000000000000000000000000000000000000000\n",
    "delete refs/heads/a TWO\ndelete refs/heads/dir/deep\n",
    "delete refs/heads/none\n",
    "create refs/heads/x ONE\ncreate refs/heads/x ONE\n",
    "create refs/heads/x ONE\ncreate refs/heads/x/y ONE\n",
    "create refs/heads/y/x ONE\ncreate refs/heads/y ONE\n",
    "create refs/heads/side/x ONE\n",
    "create refs/heads/loose/x ONE\n",
    "update HEAD ONE\nupdate refs/heads/main ONE\n",
    "option no-deref\nupdate HEAD ONE\nupdate refs/heads/main ONE\n",
    "update refs/heads/link ONE\nupdate refs/heads/loose ONE\n",
    "update refs/heads/links ONE TWO\n",
    "option no-deref\nupdate refs/heads/links ONE\nupdate refs/heads/link TWO\n",
    "option unknown\n",
    "option no-deref x\n",
    "symref-create refs/heads/sym refs/heads/loose\n",
    "symref-create refs/heads/sym refs/heads/loose\n",
    "symref-create refs/heads/sym2\n",
    "symref-update refs/heads/sym refs/heads/side\n",
    "option no-deref\nsymref-update refs/heads/sym refs/heads/main ref refs/heads/loose\n",
    "option no-deref\nsymref-update refs/heads/sym refs/heads/main ref refs/heads/side\n",
    "option no-deref\nsymref-update refs/heads/sym refs/heads/loose oid TWO\n",
    "symref-update refs/heads/new refs/heads/main oid 0000000000000000000000000000000000000000\n",
    "symref-update refs/heads/new refs/heads/main ref\n",
    "symref-update refs/heads/new refs/heads/main what x\n",
    "symref-update refs/heads/new refs/heads/main ref a..b\n",
    "symref-update refs/heads/new refs/heads/main oid nothing\n",
    "symref-verify refs/heads/sym refs/heads/loose\n",
    "option no-deref\nsymref-verify refs/heads/sym refs/heads/loose\n",
    "option no-deref\nsymref-verify refs/heads/sym refs/heads/other\n",
    "option no-deref\nsymref-verify refs/heads/main refs/heads/other\n",
    "option no-deref\nsymref-verify refs/heads/none refs/heads/other\n",
    "option no-deref\nsymref-verify refs/heads/none\n",
    "option no-deref\nsymref-verify refs/heads/dangling\n",
    "symref-delete refs/heads/sym\n",
    "option no-deref\nsymref-delete refs/heads/sym refs/heads/other\n",
    "option no-deref\nsymref-delete refs/heads/sym refs/heads/loose\n",
    "option no-deref\nsymref-delete refs/heads/main refs/heads/loose\n",
    "start\ncreate refs/heads/t ONE\n",
    "start\ncreate refs/heads/t ONE\nprepare\n",
    "start\ncreate refs/heads/t ONE\nprepare\ncommit\n",
    "start\ndelete refs/heads/t ONE\ncommit\nstart\ncreate refs/heads/u ONE\ncommit\n",
    "start\ncreate refs/heads/v ONE\nabort\n",
    "start\nstart\n",
    "commit\n",
    "abort\n",
    "prepare\ncreate refs/heads/v ONE\n",
    "start\ncommit\ncreate refs/heads/v ONE\n",
    "start\ncreate refs/heads/u ONE\nprepare\n",
    "start x\n",
    "commit x\n",
    "create refs/heads/w ONE\ncommit\n",
    "symref-update refs/heads/main refs/heads/side\n",
    "delete refs/heads/main\n",
    "update HEAD ONE\n",
];

/// Runs a program in one copy, with `input` from a file.
fn said(repo: &Repo<'_>, mut command: std::process::Command, args: &[&str], input: &[u8]) -> Run {
    let dir = repo.path.parent().expect("below the sandbox").to_owned();
    std::fs::write(dir.join("input"), input).expect("written");
    let input = std::fs::File::open(dir.join("input")).expect("it was just written");
    let run = finished(command.args(args).stdin(input));
    let plain = |text: BString| {
        text.replace(dir.as_os_str().as_encoded_bytes(), "<root>").replace("sapwood", "git").into()
    };
    Run { code: run.code, stdout: plain(run.stdout), stderr: plain(run.stderr) }
}

/// Runs the same session with both programs, and compares.
#[track_caller]
fn talk(oracle: &Oracle, shim: &Shim, options: &[&str], input: &[u8]) {
    let [theirs, ours] = both(oracle, shim, options, input);
    same(oracle, shim, &format!("{options:?} {:?}", input.as_bstr()), [theirs, ours]);
}

fn both(oracle: &Oracle, shim: &Shim, options: &[&str], input: &[u8]) -> [Run; 2] {
    let args = [&["update-ref"], options, &["--stdin"]].concat();
    let (git, ours) = (oracle.git(), oracle.ours());
    [said(&git, git.git_command(), &args, input), said(&ours, shim.command(&ours), &args, input)]
}

#[track_caller]
fn same(oracle: &Oracle, shim: &Shim, context: &str, [theirs, ours]: [Run; 2]) {
    assert_eq!(
        wording(&theirs.stderr),
        wording(&ours.stderr),
        "{context}: standard error; git left, ours right"
    );
    assert_eq!(theirs.stdout, ours.stdout, "{context}: standard output; git left, ours right");
    assert_eq!(theirs.code, ours.code, "{context}: exit code; git left, ours right");
    oracle.same_state(&[context]);
    shim.was_native(&[context]);
}

fn commits(oracle: &Oracle) -> [String; 2] {
    ["one", "two"].map(|tag| oracle.git().git(&["rev-parse", tag]).stdout.to_string().trim().to_owned())
}

fn filled(oracle: &Oracle, text: &str) -> String {
    let [one, two] = commits(oracle);
    text.replace("ONE", &one).replace("TWO", &two).replace("ABSENT", ABSENT)
}

#[test]
fn conversations_as_with_git() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), setup);
    for text in TALKS {
        let text = filled(&oracle, text);
        let all = [&[][..], &["--batch-updates"], &["-m", "why", "--create-reflog"], &["--no-deref"]];
        for options in if crate::full() { &all[..] } else { &all[..2] } {
            talk(&oracle, &shim, options, text.as_bytes());
        }
    }
}

#[test]
fn arguments_that_end_in_nul() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), setup);
    for text in [
        "create refs/heads/a\0ONE\0update refs/heads/b\0TWO\0\0",
        "update refs/heads/b\0ONE\0TWO\0",
        "update refs/heads/b\0ONE\0TWO",
        "update refs/heads/b\0ONE\0",
        "update refs/heads/b\0ONE",
        "update refs/heads/b\0",
        "update refs/heads/b",
        "update refs/heads/b\0\0\0",
        "update refs/heads/b ONE\0\0\0",
        "create refs/heads/c\0\0",
        "create refs/heads/c\0nothing\0",
        "delete refs/heads/a\0\0",
        "delete refs/heads/a\0nothing\0",
        "verify refs/heads/a\0\0",
        "verify refs/heads/none\0\0",
        "symref-create refs/heads/s\0refs/heads/a\0",
        "symref-update refs/heads/s\0refs/heads/main\0\0\0",
        "symref-update refs/heads/s\0refs/heads/main\0ref\0refs/heads/a\0",
        "option no-deref\0symref-update refs/heads/s\0refs/heads/main\0ref\0refs/heads/a\0",
        "option no-deref\0symref-delete refs/heads/s\0\0",
        "option no-deref\0symref-verify refs/heads/none\0\0",
        "option no-deref x\0",
        "option other\0",
        "start\0create refs/heads/t\0ONE\0prepare\0commit\0",
        "start\0abort\0start\0commit\0",
        "\0",
        "nonsense\0",
        " update\0",
    ] {
        let text = filled(&oracle, text);
        for options in [&["-z"][..], &["-z", "--batch-updates"]] {
            talk(&oracle, &shim, options, text.as_bytes());
        }
    }
}

/// Installs a hook that logs its input, and fails in the stage `objects_in`.
fn hook(oracle: &Oracle, objects_in: &str) {
    oracle.both(|repo| {
        let script = format!(
            "#!/bin/sh\ncat >>../hooked; echo \"$1\" >>../hooked\n\
             if test \"$1\" = {objects_in}; then echo no; exit 1; fi\n"
        );
        repo.write_executable(".git/hooks/reference-transaction", script);
    });
}

fn hooked(repo: &Repo<'_>) -> BString {
    let log = repo.path.parent().expect("below the sandbox").join("hooked");
    let content = std::fs::read(&log).unwrap_or_default();
    let _ = std::fs::remove_file(&log);
    content.into()
}

#[test]
fn reference_transaction_gets_the_same_input_as_from_git() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), setup);
    for objects_in in ["never", "preparing", "prepared", "committed", "aborted"] {
        hook(&oracle, objects_in);
        for text in [
            "update HEAD ONE\ncreate refs/heads/a ONE\nverify refs/heads/side ONE\n",
            "update HEAD TWO\ndelete refs/heads/a\ndelete refs/heads/dir/deep ONE\n",
            "create refs/heads/dir/deep ONE\nupdate refs/heads/links TWO\n",
            "create refs/heads/side ONE\n",
            "start\nsymref-update refs/heads/link refs/heads/side\nprepare\nabort\n",
            "start\nsymref-create refs/heads/linked refs/heads/side\ncommit\n",
            "start\ncreate refs/heads/x ONE\n",
            "start\ncreate refs/heads/x ONE\nprepare\n",
        ] {
            let text = filled(&oracle, text);
            talk(&oracle, &shim, &[], text.as_bytes());
            assert_eq!(hooked(&oracle.git()), hooked(&oracle.ours()), "{objects_in} {text:?}");
        }
        for args in [&["refs/heads/y", "one"][..], &["HEAD", "one"], &["-d", "refs/heads/y"]] {
            oracle.same(&[&["update-ref"], args].concat());
            assert_eq!(hooked(&oracle.git()), hooked(&oracle.ours()), "{objects_in} {args:?}");
        }
        oracle.both(|repo| drop(repo.git(&["-c", "core.hooksPath=/dev/null", "pack-refs", "--all"])));
    }
}

#[test]
fn many_refs_at_once() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), setup);
    let [one, two] = commits(&oracle);
    let many = |line: &dyn Fn(usize) -> String| (0..1500).map(line).collect::<String>();
    let create = many(&|number| format!("create refs/heads/many/{}/{number} {one}\n", number % 7));
    talk(&oracle, &shim, &[], create.as_bytes());
    oracle.both(|repo| drop(repo.git(&["-c", "core.hooksPath=/dev/null", "pack-refs", "--all"])));
    let update = many(&|number| format!("update refs/heads/many/{}/{number} {two} {one}\n", number % 7));
    talk(&oracle, &shim, &["-m", "moved"], update.as_bytes());
    let delete = many(&|number| format!("delete refs/heads/many/{}/{number} {two}\n", number % 7));
    talk(&oracle, &shim, &[], delete.as_bytes());
}

/// Sessions of random commands about a few refs.
#[test]
fn random_conversations() {
    const NAMES: [&str; 12] = [
        "HEAD",
        "refs/heads/main",
        "refs/heads/side",
        "refs/heads/side/below",
        "refs/heads/dir",
        "refs/heads/dir/deep",
        "refs/heads/loose",
        "refs/heads/link",
        "refs/heads/links",
        "refs/heads/dangling",
        "refs/tags/two",
        "refs/heads/broken",
    ];
    let shim = Shim::new();
    for seed in 0..if crate::full() { 60 } else { 3 } {
        let mut random = Random::new(seed);
        let oracle = Oracle::new(&shim.program(), setup);
        let [one, two] = commits(&oracle);
        for round in 0..20 {
            let mut text = String::new();
            for _ in 0..1 + random.below(4) {
                let mut pick = |from: &[&str]| from[random.below(from.len())].to_owned();
                let (name, target) = (pick(&NAMES), pick(&NAMES[1..]));
                let (new, old) = (pick(&[&one, &two]), pick(&[&one, &two, ZEROS]));
                text += &pick(&["", "", "option no-deref\n"]);
                let verb = pick(&["u", "u", "uo", "c", "d", "d", "do", "v", "su", "sc", "sd", "sv"]);
                // Without HEAD the repository would be invalid.
                let name = if verb.contains('d') && name == "HEAD" { target.clone() } else { name };
                text += &match verb.as_str() {
                    "u" => format!("update {name} {new}\n"),
                    "uo" => format!("update {name} {new} {old}\n"),
                    "c" => format!("create {name} {new}\n"),
                    "d" => format!("delete {name}\n"),
                    "do" => format!("delete {name} {new}\n"),
                    "v" => format!("verify {name} {old}\n"),
                    "su" => format!("symref-update {name} {target}\n"),
                    "sc" => format!("option no-deref\nsymref-create {name} {target}\n"),
                    "sd" => format!("option no-deref\nsymref-delete {name}\n"),
                    _ => format!("option no-deref\nsymref-verify {name} {target}\n"),
                };
            }
            let options: &[&str] =
                if random.below(2) == 0 { &["-m", "random"] } else { &["--batch-updates"] };
            let runs = both(&oracle, &shim, options, text.as_bytes());
            // Git searches the names that come from symbolic refs in an unsorted list. It may
            // overlook one, or report another one of two conflicting names.
            let is_odd = |part| runs[1].stderr.contains_str(part);
            if is_odd("at the same time") || is_odd("including one via") {
                break;
            }
            same(&oracle, &shim, &format!("{seed} {options:?} {text:?}"), runs);
            if round % 7 == 6 {
                oracle.both(|repo| drop(repo.try_git(&["pack-refs", "--all"])));
            }
        }
    }
}
