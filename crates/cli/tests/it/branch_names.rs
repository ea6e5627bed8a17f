//! Arguments that name a branch: every command with every word, compared with Git. Messages, exit
//! code, refs, reflogs and configuration must be equal, in the repository and in the worktrees
//! created.

use std::{collections::BTreeMap, fmt, fs, path::Path, process::Stdio};

use bstr::{BString, ByteSlice as _};
use testkit::{Repo, Run, Sandbox};

use crate::{
    bounded,
    shim::{Shim, finished},
};

/// Command lines; `{}` stands for the word.
const COMMANDS: &[&str] = &[
    "checkout {}",
    "checkout {} --",
    "checkout {} a",
    "checkout -b {}",
    "checkout -B {}",
    "checkout --orphan {}",
    "checkout --detach {}",
    "checkout -t {}",
    "checkout -b new {}",
    "checkout -B topic {}",
    "checkout -b {} topic",
    "switch {}",
    "switch -c {}",
    "switch -C {}",
    "switch -d {}",
    "switch --orphan {}",
    "switch -c new {}",
    "switch -C topic {}",
    "switch -c new -t {}",
    "worktree add ../new {}",
    "worktree add -b {} ../new",
    "worktree add -B {} ../new",
    "worktree add -B {} ../new topic",
    "worktree add --detach ../new {}",
    "worktree add -b new ../new {}",
    "worktree add --orphan -b {} ../new",
    "worktree add --guess-remote ../{}",
    "reset {}",
    "reset --hard {}",
    "restore --source={} a",
];

const WORDS: &[&str] = &[
    "@",
    "-",
    "@{-1}",
    "@{-2}",
    "@{-9}",
    "@{u}",
    "@{push}",
    "main@{u}",
    "topic@{upstream}",
    "topic@{push}",
    "@{-1}@{u}",
    "@{-1}x",
    "@{0}",
    "@@{u}",
    "HEAD",
    "ORIG_HEAD",
    "FETCH_HEAD",
    "main",
    "topic",
    "was",
    "heads/topic",
    "heads/main",
    "refs/heads/topic",
    "refs/heads/main",
    "a",
    "a/b",
    "feature",
    "origin/feature",
    "remotes/origin/feature",
    "refs/remotes/origin/feature",
    "origin",
    "v1",
    "tags/v1",
    "topic.lock",
    "a..b",
    "MAIN",
    "n\u{e4}me",
    "topic~1",
    "-x",
];

/// The branch of HEAD, and the branch before it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    /// `main`, after `was`.
    Branch,
    /// `main`, after the branch `@`.
    Returned,
    /// A detached commit, after `topic`.
    Detached,
}

struct Case {
    at: At,
    command: &'static str,
    word: &'static str,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.command.replace("{}", self.word), self.at)
    }
}

fn prepare(place: &Repo<'_>, at: At) {
    place.git(&["init", "-q", "-b", "main", "upstream"]);
    place.git(&["init", "-q", "-b", "main", "repo"]);
    let script = "\
        set -e\n\
        cd upstream; echo up >up; git add .; git commit -qm up; git branch feature; git branch a/b; cd ../repo\n\
        echo one >a; git add .; git commit -qm one; echo two >a; git commit -qam two; git branch topic HEAD~1\n\
        git tag v1 topic; git branch was topic; git branch n\u{e4}me topic\n\
        for name in @ heads/main refs/heads/topic a; do git update-ref refs/heads/$name topic; done\n\
        git remote add origin ../upstream; git fetch -q; git branch -q --set-upstream-to=origin/main main\n\
        git branch -q --set-upstream-to=main topic\n\
        git remote set-head origin main >/dev/null\n";
    let moves = match at {
        At::Branch => "git switch -q topic; git switch -q was; git switch -q main",
        At::Returned => {
            "git symbolic-ref -m 'checkout: moving from main to @' HEAD refs/heads/@\n\
             git symbolic-ref -m 'checkout: moving from @ to main' HEAD refs/heads/main"
        }
        At::Detached => "git switch -q topic; git switch -qd main",
    };
    let run = finished(place.command("sh".as_ref()).args(["-c", &format!("{script}{moves}")]));
    assert_eq!(run.code, 0, "{}", run.stderr);
}

/// Returns the contents of all files of refs, reflogs and configuration.
fn state(place: &Path) -> BTreeMap<String, BString> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![place.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("listed") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(place).expect("below").display().to_string();
            if path.is_dir() {
                if !name.ends_with(".git/objects") && !name.ends_with(".git/hooks") {
                    dirs.push(path);
                }
            } else if !name.ends_with("/index") {
                let content = fs::read(&path).expect("read");
                found.insert(name, content.replace(place.as_os_str().as_encoded_bytes(), "<place>").into());
            }
        }
    }
    found
}

fn run(place: &Repo<'_>, repo: &Repo<'_>, program: &str, case: &Case) -> (Run, BTreeMap<String, BString>) {
    let line = case.command.replace("{}", case.word);
    let mut command = repo.command(program.as_ref());
    command.stdin(Stdio::null()).args(line.split(' '));
    let run = finished(&mut command);
    let plain = |text: BString| {
        let text = text.replace(place.path.as_os_str().as_encoded_bytes(), "<place>");
        text.replace("sapwood", "git").into()
    };
    let run = Run { code: run.code, stdout: plain(run.stdout), stderr: plain(run.stderr) };
    (run, state(&place.path))
}

/// Returns true if sapwood knowingly differs from Git for this case; see docs/differences.md.
///
/// - Git reads a start point that resolves to the branch `@` through `@{-1}` as HEAD.
/// - Git reads a branch called ORIG_HEAD as the previous value of HEAD.
/// - Git does not find a new worktree called `@`.
fn is_left_out(case: &Case) -> bool {
    let is_start = ["-b new", "-B topic", "-c new", "-C topic"].iter().any(|new| case.command.contains(new));
    let adds = case.command.starts_with("worktree add");
    case.at == At::Returned && is_start && matches!(case.word, "-" | "@{-1}")
        || adds && case.word == "ORIG_HEAD"
        || case.command.ends_with("../{}") && case.word == "@"
}

const STATES: [At; 3] = [At::Branch, At::Returned, At::Detached];

#[test]
fn resolves_words_that_were_once_misread() {
    let mut cases = Vec::new();
    for (command, word) in [
        ("checkout -b {}", "@"),
        ("checkout {}", "topic@{push}"),
        ("switch -C {}", "@{-1}"),
        ("switch -c {}", "@@{u}"),
        ("worktree add ../new {}", "@"),
        ("worktree add -B {} ../new", "@"),
        ("worktree add -b {} ../new", "@{-1}"),
        ("worktree add -b {} ../new", "@{-1}x"),
        ("worktree add -B {} ../new", "-"),
        ("worktree add --orphan -b {} ../new", "a..b"),
        ("reset {}", "-"),
        ("restore --source={} a", "-"),
    ] {
        cases.extend(STATES.iter().map(|&at| Case { at, command, word }));
    }
    let slice = cases.len();
    compare(cases, slice);
}

#[test]
fn resolves_every_word_in_every_command_as_git_does() {
    let mut cases = Vec::new();
    for at in STATES {
        for command in COMMANDS {
            cases.extend(WORDS.iter().map(|word| Case { at, command, word }));
        }
    }
    cases.retain(|case| !is_left_out(case));
    compare(cases, 60);
}

/// Runs `slice` of the cases, each in its own copies of the repository.
fn compare(cases: Vec<Case>, slice: usize) {
    let bases = Sandbox::new();
    let place = |at: At| bases.repo(&format!("{at:?}"));
    for at in STATES {
        fs::create_dir(place(at).path).expect("made");
        prepare(&place(at), at);
    }
    bounded(cases, slice, |case| {
        let sandbox = Sandbox::new();
        let shim = Shim::new();
        let ours = shim.program();
        let [theirs, ours] = [("git", "git"), ("our", ours.as_str())].map(|(side, program)| {
            let copy = sandbox.repo(side);
            let copied = std::process::Command::new("cp")
                .arg("-a")
                .args([place(case.at).path, copy.path.clone()])
                .status()
                .expect("cp can be run");
            assert!(copied.success(), "copied");
            run(&copy, &sandbox.repo(&format!("{side}/repo")), program, case)
        });
        assert_eq!(theirs.0, ours.0, "{case}: git left, ours right");
        for name in theirs.1.keys().chain(ours.1.keys()) {
            let (theirs, ours) = (theirs.1.get(name), ours.1.get(name));
            assert_eq!(theirs, ours, "{case}: {name}: git left, ours right");
        }
    });
}
