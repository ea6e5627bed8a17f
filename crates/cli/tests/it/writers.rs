//! Many writers in one repository: each adds and commits in its own worktree, while packs are
//! folded, `git gc` and `git maintenance` run, and programs are killed at random times. Every
//! acknowledged commit stays reachable, Git finds no fault, and the message of each blocked command
//! names the lock that a kill has left, with the way to remove it.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read as _,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use bstr::{BStr, BString, ByteSlice as _};
use testkit::{Repo, Sandbox, wait_for_group};

use crate::{SAPWOOD, full, power::verify::empty_files, random::Random, seen::names};

/// The time limit of one command, which takes less than a second on an idle machine.
const LIMIT: Duration = Duration::from_secs(300);

/// The number of attempts for a command. Others may hold the locks of refs for a moment.
const TRIES: usize = 200;

/// The amount of work.
struct Plan {
    writers: usize,
    /// The writers end after this number of commits, or after this time.
    commits: usize,
    time: Duration,
}

/// The result of one program.
enum Exit {
    Ended { code: i32, stderr: BString },
    Killed,
}

/// The state that all threads share.
struct World<'s> {
    repo: Repo<'s>,
    sandbox: &'s Sandbox,
    until: Instant,
    /// Held for reading while a program runs.
    running: RwLock<()>,
    /// Allows one `git gc` or `git maintenance` at a time. They hold different locks of Git. Each
    /// counts a temporary pack of the other (`.tmp-<pid>-pack-*.idx`) as a pack and drops its own
    /// copies of the objects in it, which are lost if the other fails.
    repacking: Mutex<()>,
    /// The writers are done.
    ends: AtomicBool,
    kills: AtomicUsize,
    /// The number of removals of each lock, after a message suggested that.
    removed: Mutex<BTreeMap<String, usize>>,
    /// Commits that were reported as done, by branch.
    acknowledged: Mutex<BTreeMap<String, Vec<BString>>>,
}

#[test]
fn many_writers_lose_nothing() {
    let plan = if full() {
        Plan { writers: 50, commits: usize::MAX, time: Duration::from_secs(120) }
    } else {
        // The number of commits is the limit, not the time.
        Plan { writers: 8, commits: 4, time: LIMIT }
    };
    let sandbox = Sandbox::new();
    let repo = prepare(&sandbox, plan.writers);
    let world = World {
        repo,
        sandbox: &sandbox,
        until: Instant::now() + plan.time,
        running: RwLock::default(),
        repacking: Mutex::default(),
        ends: AtomicBool::new(false),
        kills: AtomicUsize::new(0),
        removed: Mutex::default(),
        acknowledged: Mutex::default(),
    };
    thread::scope(|scope| {
        let writers: Vec<_> = (0..plan.writers)
            .map(|number| {
                let (world, plan) = (&world, &plan);
                scope.spawn(move || write(world, plan, number))
            })
            .collect();
        let others = [
            scope.spawn(|| fold(&world)),
            scope.spawn(|| maintain(&world, 1001, &["gc", "-q"])),
            scope.spawn(|| {
                maintain(&world, 1002, &["-c", "gc.auto=1", "maintenance", "run", "--auto", "--quiet"]);
            }),
        ];
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        // Set this even if a writer has failed, so that the others end.
        world.ends.store(true, Ordering::Release);
        let others = others.map(|other| other.join());
        assert!(results.iter().chain(&others).all(Result::is_ok), "a thread has failed");
    });
    verify(&world);
}

fn git(repo: &Repo<'_>) -> PathBuf {
    repo.git_command().get_program().into()
}

/// Creates a repository with a worktree for each writer.
fn prepare(sandbox: &Sandbox, writers: usize) -> Repo<'_> {
    let repo = sandbox.init("repo");
    // Commits start no maintenance, because background processes would outlive the test.
    for (key, value) in [("maintenance.auto", "false"), ("gc.autoDetach", "false"), ("gc.auto", "0")] {
        repo.git(&["config", key, value]);
    }
    for number in 0..40 {
        repo.write(format!("dir{}/file{number}", number % 4), format!("{number}\n"));
    }
    repo.commit("base");
    for number in 0..writers {
        let (branch, place) = (format!("w{number}"), format!("../w{number}"));
        repo.git(&["worktree", "add", "-q", "-b", &branch, &place]);
    }
    repo
}

impl<'s> World<'s> {
    /// Runs a program, and kills it with all its children after `delay`, if given.
    fn run(&self, place: &Repo<'_>, program: &Path, args: &[String], delay: Option<Duration>) -> Exit {
        let _running = self.running.read().unwrap_or_else(PoisonError::into_inner);
        let mut command: Command = place.command(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().expect("the program can be run");
        let mut stderr = child.stderr.take().expect("piped");
        let reader = thread::spawn(move || {
            let mut text = Vec::new();
            stderr.read_to_end(&mut text).map(|_| text)
        });
        let until = Instant::now() + delay.unwrap_or(LIMIT);
        let in_time = wait_for_group(&mut child, until, &AtomicBool::new(false)).expect("our child");
        assert!(in_time || delay.is_some(), "{args:?} does not end");
        let status = child.wait().expect("it has ended");
        let stderr = reader.join().expect("it does not panic").expect("a pipe");
        match status.code() {
            Some(code) => Exit::Ended { code, stderr: stderr.into() },
            None => {
                self.kills.fetch_add(1, Ordering::Relaxed);
                Exit::Killed
            }
        }
    }

    /// Runs a program until it succeeds or is killed. Removes a lock that a kill has left, as the
    /// message suggests. Returns true if it succeeded.
    fn insist(&self, place: &Repo<'_>, program: &Path, args: &[String], delay: Option<Duration>) -> bool {
        let mut last = BString::default();
        for _ in 0..TRIES {
            match self.run(place, program, args, delay) {
                Exit::Killed => return false,
                Exit::Ended { code: 0, .. } => return true,
                Exit::Ended { code, stderr } => {
                    let lock = named_lock(&stderr);
                    let lock = lock.unwrap_or_else(|| panic!("{args:?}: exit {code}: {stderr}"));
                    self.remove_if_stale(&lock, place);
                    last = stderr;
                }
            }
        }
        panic!("{args:?} never succeeds: {last}");
    }

    /// Removes a lock whose owner was killed. The index of a worktree has one writer, which runs no
    /// other program now. Any other lock is stale if it exists while no program runs.
    fn remove_if_stale(&self, lock: &Path, place: &Repo<'_>) {
        let parent = lock.parent().and_then(Path::file_name);
        let is_own = lock.ends_with("index.lock") && parent == place.path.file_name();
        let nobody = (!is_own).then(|| self.running.write().unwrap_or_else(PoisonError::into_inner));
        if std::fs::remove_file(lock).is_ok() {
            let kind = lock.file_name().expect("a lock").to_string_lossy().into_owned();
            let mut removed = self.removed.lock().unwrap_or_else(PoisonError::into_inner);
            *removed.entry(kind).or_default() += 1;
        }
        drop(nobody);
    }
}

/// Returns the lock that a message names. The message must also state that the lock may be stale.
fn named_lock(stderr: &BString) -> Option<PathBuf> {
    let text = stderr.to_str().expect("text");
    let (_, rest) = text.split_once("Unable to create '")?;
    let (path, _) = rest.split_once("': File exists.")?;
    assert!(text.contains("stale"), "{text}");
    Some(path.into())
}

/// Returns a time within the usual duration of a command, in one case of three.
fn moment(random: &mut Random) -> Option<Duration> {
    (random.below(3) == 0).then(|| Duration::from_micros(random.next() % 40_000))
}

fn words(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

/// Adds and commits repeatedly.
fn write(world: &World<'_>, plan: &Plan, number: usize) {
    let name = format!("w{number}");
    let place = world.sandbox.repo(&name);
    let mut random = Random::new(number as u64);
    for round in 0..plan.commits {
        if Instant::now() >= world.until {
            return;
        }
        let message = format!("{name} {round}");
        place.write(format!("own/{name}/{round}"), format!("{message}\n"));
        place.write(
            format!("dir{}/file{}", number % 4, number % 4 + 4 * (round % 10)),
            format!("{message}\n"),
        );
        for (what, args) in
            [("add", words(&["add", "-A"])), ("commit", words(&["commit", "-q", "-m", &message]))]
        {
            let killed = !world.insist(&place, Path::new(SAPWOOD), &args, moment(&mut random));
            // The program may have been killed after its last change.
            let is_done = || place.git(&["log", "-1", "--format=%s"]).stdout.trim_end() == message.as_bytes();
            if killed && !(what == "commit" && is_done()) {
                assert!(world.insist(&place, Path::new(SAPWOOD), &args, None), "nobody kills it");
            }
        }
        let commit = place.git(&["rev-parse", "HEAD"]).stdout.trim_end().into();
        let mut acknowledged = world.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        acknowledged.entry(name.clone()).or_default().push(commit);
    }
}

/// Writes packs and folds them.
fn fold(world: &World<'_>) {
    let mut random = Random::new(1000);
    for round in 0.. {
        if world.ends.load(Ordering::Acquire) {
            return;
        }
        for number in 0..3 {
            world.repo.write(format!("fold/{number}"), format!("{round} {number}\n"));
        }
        let args = ["-c", "sapwood.packOnAdd=1", "-c", "sapwood.foldPacks=3", "add", "fold"];
        world.insist(&world.repo, Path::new(SAPWOOD), &words(&args), moment(&mut random));
    }
}

/// Runs Git's own maintenance, which may fail when it conflicts with other programs.
fn maintain(world: &World<'_>, seed: u64, args: &[&str]) {
    let mut random = Random::new(seed);
    let git = git(&world.repo);
    let (mut runs, mut failures) = (0, 0);
    while !world.ends.load(Ordering::Acquire) {
        let delay = moment(&mut random).map(|delay| delay * 10);
        let alone = world.repacking.lock().unwrap_or_else(PoisonError::into_inner);
        let ran = world.run(&world.repo, &git, &words(args), delay);
        drop(alone);
        match ran {
            Exit::Ended { code: 0, .. } => {}
            Exit::Killed => {}
            Exit::Ended { stderr, .. } => {
                failures += 1;
                if let Some(lock) = named_lock(&stderr) {
                    world.remove_if_stale(&lock, &world.repo);
                }
            }
        }
        runs += 1;
        thread::sleep(Duration::from_millis(50));
    }
    println!("git {}: {runs} runs, {failures} failed", args.join(" "));
}

/// Checks everything after all threads have ended.
fn verify(world: &World<'_>) {
    let repo = &world.repo;
    let removed = world.removed.lock().unwrap_or_else(PoisonError::into_inner);
    println!("{} kills; locks removed: {removed:?}", world.kills.load(Ordering::Relaxed));
    let left: Vec<BString> = locks(repo);
    for lock in &left {
        let path = repo.join([b".git/", lock.as_slice()].concat());
        let run = ask_about(world, lock);
        // Git's message about its maintenance names the file without the suffix.
        let named = run.contains_str(lock) || run.contains_str(lock.strip_suffix(b".lock").unwrap_or(lock));
        assert!(named, "{lock} is not named: {run}");
        std::fs::remove_file(path).expect("it was seen");
    }
    println!("locks left at the end: {left:?}");
    let empty = empty_files(&repo.join(".git"));
    assert!(empty.is_empty(), "{empty:?}");
    let fsck = repo.try_git(&["fsck", "--strict", "--no-dangling", "--no-progress"]);
    assert_eq!((fsck.code, fsck.stderr.as_bstr()), (0, BStr::new("")), "fsck: {}", fsck.stdout);
    let acknowledged = world.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
    let mut commits = 0;
    for (branch, reported) in acknowledged.iter() {
        let reachable = repo.git(&["rev-list", branch]).stdout;
        let reachable: BTreeSet<&[u8]> = reachable.lines().collect();
        for commit in reported {
            assert!(reachable.contains(commit.as_slice()), "{branch}: {commit} was reported and is lost");
        }
        commits += reported.len();
        let status = world.sandbox.repo(branch).git(&["status", "--porcelain"]);
        assert!(full() || status.stdout.is_empty(), "{branch}: {}", status.stdout);
    }
    println!("{commits} commits on {} branches", acknowledged.len());
}

fn locks(repo: &Repo<'_>) -> Vec<BString> {
    names(&repo.join(".git")).into_iter().filter(|name| name.ends_with(b".lock")).collect()
}

/// Runs the command that a lock blocks, and returns its message.
fn ask_about(world: &World<'_>, lock: &BString) -> BString {
    let text = lock.to_str().expect("plain names");
    let worktree = text.strip_prefix("worktrees/").and_then(|rest| rest.split('/').next());
    let branch = text.strip_prefix("refs/heads/").and_then(|rest| rest.strip_suffix(".lock"));
    let (place, program, args): (&str, PathBuf, &[&str]) = match (text, worktree, branch) {
        (_, Some(name), _) if text.ends_with("/index.lock") => (name, SAPWOOD.into(), &["add", "-A"]),
        (_, Some(name), _) | (_, _, Some(name)) if name != "main" => {
            (name, SAPWOOD.into(), &["commit", "-q", "--allow-empty", "-m", "more"])
        }
        ("index.lock", ..) => ("repo", SAPWOOD.into(), &["add", "-A"]),
        ("packed-refs.lock", ..) => ("repo", git(&world.repo), &["pack-refs", "--all"]),
        ("gc.pid.lock", ..) => ("repo", git(&world.repo), &["gc"]),
        ("objects/maintenance.lock", ..) => {
            ("repo", git(&world.repo), &["maintenance", "run", "--no-quiet", "--task=gc"])
        }
        _ if text.contains("multi-pack-index") => ("repo", git(&world.repo), &["multi-pack-index", "write"]),
        _ if text.contains("commit-graph") => ("repo", git(&world.repo), &["commit-graph", "write"]),
        _ => ("repo", git(&world.repo), &["reflog", "expire", "--all", "--expire=never"]),
    };
    world.sandbox.repo(place).run(&program, args).stderr
}
