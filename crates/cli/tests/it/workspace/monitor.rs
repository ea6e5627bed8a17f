//! The upper layer as a monitor: after every kind of change, `status` with the monitor and the
//! untracked cache equals a status that examines everything.
//!
//! Git and sapwood alternate. Some commands in between examine no untracked file: they store a new
//! token while the untracked cache in the index is out of date.

use std::{fs, path::PathBuf, process::Command};

use super::create::Place;
use crate::SAPWOOD;

/// One step each. Each step builds on the previous ones.
const CHANGES: &[&str] = &[
    ":",
    "echo x >>a/one",
    "rm a/two",
    "echo new >a/new",
    "mkdir n; echo n >n/n",
    "echo m >n/m; rm n/n",
    "mkdir n/k; echo >n/k/x",
    "rm -r n",
    "echo >x.o",
    "mkdir target; echo >target/1",
    "echo >target/2",
    "echo '!*.o' >a/.gitignore; echo >a/z.o",
    "rm a/.gitignore",
    "echo >a/ig1",
    "mv d dd",
    "echo >dd/new",
    "mv dd d",
    "rm -r e",
    "mkdir e; echo q >e/q",
    "rm -r e; echo e >e",
    "rm e; mkdir -p e/f; echo one >e/f/one",
    "ln -sf one link",
    "rm link; echo f >link",
    "chmod +x one",
    "chmod -x one",
    "mkfifo pipe",
    "rm pipe; mkdir pipe",
    "mkdir -p deep/d/d/d/d/d; echo >deep/d/d/d/d/d/x",
    "mv deep moved",
    "mv moved/d moved/e",
    "rm -r moved",
    "mkdir sub; git -C sub init -q; echo >sub/f",
    "git -C sub add f; git -C sub commit -qm x",
    "rm -rf sub/.git",
    "rm -rf sub",
    "git add -A",
    "git reset -q --hard",
    "git switch -q two",
    "git switch -q work",
    "git checkout -q two -- .",
    "git stash -q -u",
    "git stash pop -q",
    "git reset -q --hard; git clean -fdxq",
    "rm -r a/b; mkdir a/b; echo >a/b/z",
    "rm -r a/b; git checkout -q a/b",
    "rm -r a; mkdir a; echo >a/x",
    "rm -r a; git checkout -q a",
    "mkdir -p t/target; echo >t/target/x; echo >t/y; git add -f t/target/x",
    "echo y >>t/target/x",
    "rm -r t",
    "git rm -qr --cached t",
    "mkdir 'w\\q'; echo >'w\\q/1'",
    "echo >'w\\q/2'",
    "rm 'w\\q/1'",
    "rm -r 'w\\q'",
    "echo >'a/x\\y'",
    "rm 'a/x\\y'",
    "mkdir empty",
    "rmdir empty",
    "echo x/ >.gitignore; mkdir x; echo >x/1; mkdir x/2; echo >x/2/3",
    "echo >.gitignore",
    "rm -r x; git checkout -q .gitignore",
    "touch one",
    "cp -p one other; mv other one",
    "truncate -s0 two",
    "git mv a aa",
    "git commit -qam x",
    "mv aa/b bb; echo >bb/c/new",
    "git reset -q --hard main; git clean -fdxq",
];

/// A script that prints nothing if all results are equal. `$1` is the option of `status`.
pub(super) const COMPARE: &str = r#"
dir=$(git rev-parse --absolute-git-dir)
cp "$dir/index" "$dir/copy"
GIT_INDEX_FILE="$dir/copy" git --no-optional-locks -c core.fsmonitor=false -c core.untrackedCache=false \
    status --porcelain $1 >"$dir/want"
$2 status --porcelain $1 >"$dir/got" 2>&1
diff "$dir/want" "$dir/got" || true
"#;

pub(super) struct Watched {
    pub(super) place: Place,
    path: String,
}

impl Watched {
    pub(super) fn new(backend: &str) -> Watched {
        let place = Place::new();
        let repo = place.repo();
        for dir in ["", "a/", "a/b/", "a/b/c/", "d/", "e/f/"] {
            for name in ["one", "two"] {
                repo.write(format!("{dir}{name}"), format!("{dir}{name}\n"));
            }
        }
        repo.write(".gitignore", "*.o\ntarget/\n");
        repo.write("a/.gitignore", "ig*\n");
        repo.commit("base");
        repo.git(&["branch", "two"]);
        repo.git(&["switch", "-q", "two"]);
        repo.write("g/h/new", "4\n");
        repo.remove("d/one");
        repo.commit("two");
        repo.git(&["switch", "-q", "main"]);
        if backend == "unionfs" {
            place.done_with_unionfs(&["create", "w", "-b", "work", "--backend", "fuse"]);
        } else {
            place.done(&["create", "w", "-b", "work", "--backend", backend]);
        }
        // The scripts call Git by its plain name.
        let bin = place.sandbox.path().join("bin");
        fs::create_dir(&bin).expect("created");
        let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned());
        testkit::write_program(&bin.join("git"), format!("#!/bin/sh\nexec {git} \"$@\"\n"));
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("set"));
        Watched { place, path }
    }

    /// Runs a script in the root of the workspace.
    pub(super) fn inside(&self, script: &str, args: &[&str]) -> String {
        let script = format!("PATH='{}'; {script}", self.path);
        self.place.done(&[&["exec", "w", "--", "sh", "-ec", &script, "sh"], args].concat())
    }

    /// Runs `change`, and compares the results.
    pub(super) fn compare(&self, untracked: &str, tool: &str, change: &str) {
        let difference = self.inside(&format!("top=$PWD; {change}\n{COMPARE}"), &[untracked, tool]);
        assert_eq!(difference, "", "{tool} status {untracked} after {change}");
    }

    fn state(&self) -> PathBuf {
        self.place.repo().join(".git/sapwood/workspaces/w")
    }
}

#[test]
fn every_kind_of_change_is_reported() {
    let rounds = [
        ("image", "-unormal"),
        ("overlay", "-uall"),
        ("overlay", "-unormal"),
        ("overlay-user", "-uall"),
        ("fuse", "-uall"),
        ("unionfs", "-unormal"),
    ];
    for (round, (backend, untracked)) in rounds.into_iter().enumerate() {
        let watched = Watched::new(backend);
        watched.inside("git config --worktree status.showUntrackedFiles ${1#-u}", &[untracked]);
        // In directories that were moved and created again, fuse-overlayfs shows deleted files
        // again.
        let steps = if backend == "fuse" { 14 } else { CHANGES.len() };
        for (number, change) in CHANGES[..steps].iter().enumerate() {
            let between = match (number + round) % 5 {
                0 => "git status --porcelain -uno >/dev/null",
                3 => "git diff --stat >/dev/null",
                _ => ":",
            };
            let tools = ["git", SAPWOOD];
            let first = (number / 2 + round) % 2;
            let change =
                format!("{{ {change}; }} >/dev/null 2>&1 || echo failed: $?; cd \"$top\"; {between}");
            watched.compare(untracked, tools[first], &change);
            if number % 3 == 0 {
                watched.compare(untracked, tools[1 - first], ":");
            }
        }
        let stored = fs::read_dir(watched.state().join("snapshots")).expect("snapshots").count();
        assert!(stored <= 64, "{stored} snapshots");
    }
}

/// A file that counts as unchanged under one setting may be changed under the next.
#[test]
fn changed_settings_are_noticed() {
    let old = "touch -d 2001-01-01";
    // Stock builds of Git compare whole seconds.
    let write = |name: &str, text: &str| format!("sleep 1.1; printf '{text}' >{name}; {old} {name}");
    let watched = Watched::new("overlay");
    let set = |pair: &str| format!("git config --worktree {pair}");
    for change in [
        set("core.fileMode false"),
        "chmod +x one".to_owned(),
        set("core.fileMode true"),
        format!("{old} two a/one"),
        set("core.trustctime false"),
        write("two", "TWO\\n"),
        set("core.trustctime true"),
        set("core.checkStat minimal"),
        write("a/one", "a/ONE\\n"),
        set("core.checkStat default"),
        set("core.symlinks false"),
        "rm link; printf dir/deep >link".to_owned(),
        set("core.symlinks true"),
        set("core.fileMode false"),
        set("core.fileMode true"),
    ] {
        for tool in ["git", SAPWOOD] {
            watched.compare("-unormal", tool, &change);
            // The next change is made after both have stored a token.
            watched.compare("-unormal", tool, ":");
        }
    }
    let last = watched.inside("git status --porcelain; git -c core.fileMode=false status --porcelain", &[]);
    for line in [" M one\n", " M two\n", " M a/one\n", " T link\n"] {
        assert!(last.contains(line), "{last}");
    }
    assert_eq!(last.matches(" M one\n").count(), 1, "a setting of the command line counts: {last}");
}

#[test]
fn random_changes_are_reported() {
    let watched = Watched::new("overlay");
    let mut seed: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut random = |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    let places = [
        "a", "a/b", "a/b/c", "d", "e", "e/f", "n", "n/n", "target", "a/n", "one", "a/one", "a/b/two", "n/x",
        "x.o", "a/n/y",
    ];
    let place = |random: &mut dyn FnMut(u64) -> u64| places[random(places.len() as u64) as usize];
    for step in 0..150 {
        let (one, two) = (place(&mut random), place(&mut random));
        let change = match random(9) {
            0 => format!("rm -rf {one}"),
            1 => format!("mv {one} {two}"),
            2 => format!("mkdir -p {one}"),
            3 => format!("rm -rf {one}; mkdir -p {one}; echo {step} >{one}/new"),
            4 => format!("git checkout -q {one}"),
            5 => format!("git add -A {one}"),
            6 => "git stash -q -u".to_owned(),
            7 => format!("echo {step} >>{one}; echo {step} >>{two}"),
            _ => format!("mkdir -p $(dirname {one}); cp -r a/b {one}"),
        };
        let between = if random(3) == 0 { "git status --porcelain -uno >/dev/null" } else { ":" };
        let tool = if random(2) == 0 { "git" } else { SAPWOOD };
        let change = format!("{{ {change}; }} >/dev/null 2>&1 || :; {between} # step {step}");
        watched.compare("-uall", tool, &change);
    }
}

#[test]
fn a_forgotten_or_torn_snapshot_costs_a_full_examination_only() {
    let watched = Watched::new("overlay");
    let steps =
        ["rm -r \"$0\"", "for file in \"$0\"/*; do echo torn >$file; done", "rm -r \"$0\"; echo >\"$0\""];
    for (number, damage) in steps.iter().enumerate() {
        watched.inside(&format!("mkdir d/n{number}; echo >d/n{number}/f; rm -f a/one; git status"), &[]);
        let snapshots = watched.state().join("snapshots");
        let damage = damage.replace("$0", snapshots.to_str().expect("a plain name"));
        watched.inside(&damage, &[]);
        watched.inside(&format!("echo >d/n{number}/g; echo >>one"), &[]);
        // Git stores the new token, and trusts its untracked cache from then on.
        watched.inside("git status --porcelain -uno; git diff --stat", &[]);
        for tool in ["git", SAPWOOD, "git"] {
            watched.compare("-uall", tool, ":");
            watched.compare("-unormal", tool, ":");
        }
    }
}

/// Returns the messages and the status of both programs. They are not started by `workspace exec`,
/// which would mount a workspace that is not mounted as recorded.
fn both(watched: &Watched) -> [String; 2] {
    let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned());
    [git.as_str(), SAPWOOD].map(|tool| {
        let run = watched.place.workspace("w").run(tool.as_ref(), &["status", "--porcelain"]);
        format!("{}{}", run.stderr, run.stdout)
    })
}

#[test]
fn a_workspace_that_is_not_as_recorded_is_examined_and_named() {
    let watched = Watched::new("overlay");
    watched.inside("echo >>one; git status", &[]);
    let record = watched.state().join("record");
    let before = fs::read_to_string(&record).expect("a record");
    let examined = |message: &str| {
        for said in both(&watched) {
            assert!(said.contains(message) && said.contains("every file is examined"), "{said}");
            assert!(said.ends_with(" M one\n"), "{said}");
        }
    };
    // A record that names another upper layer, as if this one had been mounted manually.
    let other = watched.place.sandbox.path().join("elsewhere");
    fs::create_dir_all(other.join("upper")).expect("created");
    let elsewhere = format!("{before}\tplace = {}\n", other.display());
    fs::write(&record, elsewhere).expect("written");
    examined("with another upper layer");
    let layered = format!("{before}\tlayer = {}\n", other.display());
    fs::write(&record, layered).expect("written");
    examined("is not the recorded workspace but an overlay on ");
    let gone = before.replace("\tbase = ", "\tbase = 0");
    assert_ne!(gone, before);
    fs::write(&record, gone).expect("written");
    examined("of the workspace is gone");
    fs::write(&record, "no record").expect("written");
    for said in both(&watched) {
        assert!(said.contains(record.to_str().expect("plain")) && said.ends_with(" M one\n"), "{said}");
    }
    fs::write(&record, before).expect("written");
    assert_eq!(both(&watched), [" M one\n", " M one\n"]);
    watched.compare("-uall", "git", ":");
}

#[test]
fn an_upper_layer_that_cannot_be_read_is_named() {
    let watched = Watched::new("overlay");
    watched.inside("echo >>one; mkdir d/new; echo >d/new/f; git status", &[]);
    let upper = watched.state().join("upper");
    let moved = watched.state().join("moved");
    fs::rename(&upper, &moved).expect("renamed");
    for said in both(&watched) {
        assert!(said.contains("warning: ") && said.ends_with(" M one\n?? d/new/\n"), "{said}");
    }
    fs::rename(&moved, &upper).expect("renamed");
    assert_eq!(both(&watched), [" M one\n?? d/new/\n"; 2]);
}

/// Git 2.32 to 2.42 would name files as deleted.
#[test]
fn a_git_that_misreads_answers_examines_every_file() {
    /// The length of the answer "everything may have changed".
    const EVERYTHING: usize = "sapwood-1..none.unlisted\0/".len();
    let git = "/usr/bin/git";
    let version = Command::new(git).arg("version").output().map(|output| output.stdout).unwrap_or_default();
    let minor =
        String::from_utf8_lossy(&version).split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
    if !minor.is_some_and(|minor| (32..43).contains(&minor)) {
        println!("skipped: '{git}' is none of the versions 2.32 to 2.42");
        return;
    }
    let watched = Watched::new("overlay");
    let answered = |git: &str| {
        let script =
            "rm -f ../perf; GIT_TRACE2_PERF=$PWD/../perf $1 status >/dev/null; cat ../perf; rm ../perf";
        let trace = watched.inside(script, &[git]);
        let line = trace.lines().find(|line| line.contains("query/response-length")).expect("an answer");
        line.rsplit_once(':').expect("a number").1.trim().parse::<usize>().expect("a number")
    };
    for _ in 0..2 {
        answered("git");
        assert_ne!(answered("git"), EVERYTHING);
        assert_eq!(answered(git), EVERYTHING);
    }
}

#[test]
fn a_status_looks_at_changes_only() {
    testkit::need_program("strace");
    for backend in ["overlay", "unionfs"] {
        costs_changes(backend);
    }
}

fn costs_changes(backend: &str) {
    let watched = Watched::new(backend);
    let calls = |tool: &str| {
        let script =
            "strace -f -o ../calls -e trace=newfstatat,lstat,statx,openat,openat2 $1 status >/dev/null
                      grep -v '\"/proc\\|\"/etc\\|\"/usr\\|\"/lib\\|ENOENT' ../calls | grep -c '(' || true";
        watched.inside("$1 status; sleep 0.1; $1 status; $1 status", &[tool]);
        watched.inside(script, &[tool]).trim().parse::<usize>().expect("a number")
    };
    for tool in ["git", SAPWOOD] {
        watched.inside("git reset -q --hard; git clean -fdq; for n in $(seq 300); do mkdir -p big$n; echo $n $1 >big$n/f; done; git add .; git commit -qm many", &[tool]);
        // The files of a commit are in the upper layer: they are listed, but not by Git.
        let before = calls(tool);
        watched.inside("for n in $(seq 10); do echo >>big$n/f; done", &[]);
        let after = calls(tool);
        assert!(after < before + 10 * 12, "{tool}: {before}, {after}");
    }
}
