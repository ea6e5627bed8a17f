//! Servers that lie, disconnect, or send garbage: a clone and a fetch from each.
//!
//! Each case is one fault in an otherwise valid dialogue (`cases.rs`, `packs.rs`). The exit code is
//! Git's, the message names the cause, and nothing is left: no directory of a clone, and in a
//! fetched repository no changed ref, no lock, no temporary file, no object. Only a valid pack with
//! an incomplete history stays, as in Git. The whole table also runs with Git, to compare the exit
//! codes.

mod cases;
mod pack;
mod packs;
mod resumed;

use std::{
    fmt, fs,
    path::Path,
    process::{Command, Stdio},
    sync::atomic::AtomicBool,
    time::{Duration, Instant},
};

use bstr::ByteSlice as _;
use testkit::{
    Repo, Run, Sandbox,
    servers::{
        Scripted,
        scripted::{Carrier, Question, Reply, Then, packet},
    },
    wait_for_group,
};

use crate::{SAPWOOD, bounded, full};

/// The time limit for a program to detect a fault.
const LIMIT: Duration = Duration::from_secs(60);

/// The responses of a server.
#[derive(Clone)]
struct Dialogue {
    greeting: Reply,
    refs: Reply,
    pack: Reply,
}

/// A history of two commits on the server. The client's repository has the first one.
struct World {
    first: String,
    second: String,
    /// The pack of both commits, and the pack without the blob of the second one.
    whole: Vec<u8>,
    without_blob: Vec<u8>,
}

/// A fault.
struct Case {
    name: &'static str,
    /// Introduces the fault into the valid dialogue.
    fault: fn(&mut Dialogue, &World),
    /// Part of the message; alternatives are separated by `|`. Git's fetch checks the header of a
    /// pack before `index-pack` does.
    says: &'static str,
}

/// The operation to run a case with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Clone,
    Fetch,
}

struct Trial<'a> {
    case: &'a Case,
    operation: Operation,
}

impl fmt::Display for Trial<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}: {}", self.operation, self.case.name)
    }
}

fn reply(bytes: Vec<u8>) -> Reply {
    Reply { bytes, ..Reply::default() }
}

impl World {
    fn new() -> World {
        let sandbox = Sandbox::new();
        let repo = sandbox.init("source");
        repo.write("file", "one\n");
        repo.commit("one");
        repo.write("file", "two, which is new\n");
        repo.commit("two");
        let name =
            |revision: &str| repo.git(&["rev-parse", revision]).stdout.trim_end().to_str_lossy().into_owned();
        let blob = name("HEAD:file");
        World {
            first: name("HEAD~1"),
            second: name("HEAD"),
            whole: packed(&repo, "HEAD\n", ""),
            without_blob: packed(&repo, "HEAD\n", &blob),
        }
    }

    fn dialogue(&self) -> Dialogue {
        let head = &self.second;
        let greeting = ["version 2\n", "agent=git/other\n", "ls-refs=unborn\n", "fetch=shallow\n"];
        let refs =
            [format!("{head} HEAD symref-target:refs/heads/main\n"), format!("{head} refs/heads/main\n")];
        Dialogue {
            greeting: reply(packets(&greeting)),
            refs: reply(packets(&refs)),
            pack: reply(pack::section(&self.whole)),
        }
    }
}

/// Returns packets, and a flush packet.
fn packets<T: AsRef<[u8]>>(payloads: &[T]) -> Vec<u8> {
    payloads.iter().flat_map(packet).chain(*b"0000").collect()
}

/// Returns a pack of all objects of `revisions`, without the object `except`.
fn packed(repo: &Repo<'_>, revisions: &str, except: &str) -> Vec<u8> {
    let script = format!(
        "printf '%s' '{revisions}' | git rev-list --objects --stdin | cut -d' ' -f1 | grep -vx '{except}' | \
         git pack-objects -q --stdout"
    );
    let made = repo.command("sh".as_ref()).args(["-c", &script]).output().expect("a shell");
    assert!(made.stdout.starts_with(b"PACK"), "{}", made.stderr.as_bstr());
    made.stdout
}

fn contains(request: &[u8], words: &str) -> bool {
    request.windows(words.len()).any(|window| window == words.as_bytes())
}

/// Runs a program, and kills it at the time limit.
fn run(mut command: Command, out: &Path) -> Run {
    use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
    let file = |name: &str| fs::File::create(out.join(name)).expect("a directory of ours");
    command.stdin(Stdio::null()).stdout(file("stdout")).stderr(file("stderr")).process_group(0);
    let mut child = command.spawn().expect("the program can be run");
    let in_time = wait_for_group(&mut child, Instant::now() + LIMIT, &AtomicBool::new(false));
    let status = child.wait().expect("it was waited for");
    let read = |name: &str| fs::read(out.join(name)).expect("just written").into();
    let run = Run {
        code: status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
        stdout: read("stdout"),
        stderr: read("stderr"),
    };
    assert!(in_time.expect("a child"), "it waits for ever, and said {}", run.stderr);
    run
}

/// Returns everything below the Git directory, except packs and FETCH_HEAD: Git's failed fetch
/// leaves them.
fn state(repo: &Repo<'_>) -> Vec<(String, Vec<u8>)> {
    let files = crate::clone::tree(&repo.join(".git"));
    let is_pack = |name: &str| name.starts_with("objects/pack/pack-") && !name.ends_with(".keep");
    let kept = files.into_iter().filter(|(name, _)| name != "FETCH_HEAD" && !is_pack(&name.to_str_lossy()));
    kept.map(|(name, (mode, content))| (format!("{mode:o} {name}"), content.into())).collect()
}

/// Runs a case with one program, and checks that nothing is left.
fn attempt(world: &World, trial: &Trial<'_>, program: &Path) -> Run {
    let mut dialogue = world.dialogue();
    (trial.case.fault)(&mut dialogue, world);
    let server = Scripted::start(Carrier::Git, move |question, request| match question {
        Question::Greeting => dialogue.greeting.clone(),
        Question::Refs => dialogue.refs.clone(),
        Question::Pack => dialogue.pack.clone(),
        Question::Haves if contains(request, "command=fetch") => {
            reply(packets(&["acknowledgments\n", "NAK\n"]))
        }
        Question::Haves => {
            if contains(request, "have ") {
                reply(packet("NAK\n"))
            } else {
                Reply::default()
            }
        }
        Question::Other => Reply { then: Then::HangUp, ..Reply::default() },
    });
    let sandbox = Sandbox::new();
    let here = sandbox.init("repo");
    here.write("file", "one\n");
    here.commit("one");
    assert_eq!(here.git(&["rev-parse", "HEAD"]).stdout.trim_end(), world.first.as_bytes());
    here.git(&["config", "remote.origin.url", &server.url()]);
    here.git(&["config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"]);
    // Keep packs as packs, so that the messages are those of a clone.
    here.git(&["config", "fetch.unpackLimit", "1"]);
    let before = state(&here);
    let (dir, mut args) = match trial.operation {
        Operation::Clone => (sandbox.repo(""), vec!["clone"]),
        Operation::Fetch => (here.clone(), vec!["fetch", "origin"]),
    };
    let url = server.url();
    if trial.operation == Operation::Clone {
        args.extend([&*url, "copy"]);
    }
    let mut command = dir.command(program);
    command.args(&args);
    let run = run(command, &sandbox.path());
    if program == Path::new(SAPWOOD) {
        assert!(!sandbox.repo("").exists("copy"), "{trial}: the clone stays, and says {}", run.stderr);
        let after = state(&here);
        let names =
            |state: &[(String, Vec<u8>)]| state.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&before), names(&after), "{trial}: files, with {}", run.stderr);
        assert!(before == after, "{trial}: contents");
        here.git(&["fsck"]);
    }
    run
}

fn check(world: &World, trial: &Trial<'_>) {
    let ours = attempt(world, trial, Path::new(SAPWOOD));
    let said = ours.stderr.to_string();
    let names_it = trial.case.says.split('|').any(|words| said.contains(words));
    assert!(names_it, "{trial}: says {said}, not {}", trial.case.says);
    assert!([1, 128].contains(&ours.code), "{trial}: {}: {said}", ours.code);
    if full() {
        let git = std::env::var_os("SAPWOOD_TEST_GIT").unwrap_or_else(|| "git".into());
        let theirs = attempt(world, trial, Path::new(&git));
        println!("{trial}: {}\n{}", theirs.code, theirs.stderr);
        assert_eq!(theirs.code, ours.code, "{trial}: git said {}, ours {said}", theirs.stderr);
    }
}

fn check_all(cases: &[Case], slice: usize) {
    let world = World::new();
    let trials = cases
        .iter()
        .flat_map(|case| [Operation::Clone, Operation::Fetch].map(|operation| Trial { case, operation }));
    bounded(trials.collect(), slice, |trial| check(&world, trial));
}

#[test]
fn hostile_servers_break_the_dialogue() {
    check_all(cases::CASES, cases::CASES.len() * 2);
}

#[test]
fn hostile_servers_send_bad_packs() {
    check_all(packs::CASES, packs::CASES.len() * 2);
}
