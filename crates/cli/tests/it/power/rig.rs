//! A repository on a disk whose power is cut.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
};

use bstr::{BString, ByteSlice as _};
use testkit::{
    Repo, Sandbox,
    weather::{Counts, Fault, Journal, Mount, Nth, Operation, Profile, Struck, Survivors},
};

use super::scenarios::{Input, Scenario, Step, Stored};
use crate::{
    SAPWOOD,
    seen::{Node, names, refs, tree},
};

/// The time limit in seconds of one command, which takes less than one.
const SECONDS: &str = "120";

/// The program that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Git,
    /// Sapwood with this number of workers.
    Sapwood(usize),
}

/// The state of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// `git ls-files --stage`.
    pub(crate) index: BString,
    /// HEAD and all refs.
    pub(crate) refs: BTreeMap<BString, BString>,
    /// Reflogs by path.
    pub(crate) logs: BTreeMap<BString, BString>,
    /// The files of the user.
    pub(crate) files: BTreeMap<BString, Node>,
    /// The names of all objects.
    pub(crate) objects: BTreeSet<BString>,
    /// The names of packs and of files about objects, if they must equal Git's.
    pub(crate) stored: BTreeSet<BString>,
}

impl State {
    pub(crate) fn of(repo: &Repo<'_>, stored: Stored) -> Result<State, String> {
        let listed = repo.try_git(&["ls-files", "--stage"]);
        if listed.code != 0 {
            return Err(format!("the index cannot be read: {}", listed.stderr));
        }
        let git_dir = repo.join(".git");
        let logs = tree(&git_dir.join("logs"), true).into_iter().filter_map(|(path, node)| match node {
            Node::File { content, .. } => Some((path, content)),
            Node::Link(_) => None,
        });
        let (logs, files) = (logs.collect(), tree(&repo.path, false));
        let all = repo.try_git(&["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]).stdout;
        let objects = all.lines().map(Into::into).collect();
        let stored = match stored {
            Stored::AsGit => names(&git_dir.join("objects")).into_iter().filter(is_about_objects).collect(),
            Stored::Freely => BTreeSet::new(),
        };
        Ok(State { index: listed.stdout, refs: refs(&git_dir), logs, files, objects, stored })
    }
}

/// Returns true for the path of a pack, or of another file about many objects.
fn is_about_objects(path: &BString) -> bool {
    let is_temporary = path.ends_with(b".lock") || path.contains_str("tmp_");
    (path.starts_with(b"pack/") || path.starts_with(b"info/")) && !is_temporary
}

/// A scenario, and the states that Git reaches in it without a power cut.
pub(crate) struct World {
    sandbox: Sandbox,
    pub(crate) scenario: &'static Scenario,
    /// The state before the first command and after each.
    pub(crate) states: Vec<State>,
    /// All names that ever occur in the Git directory.
    pub(crate) names: BTreeSet<BString>,
}

/// A disk with a copy of the repository.
pub(crate) struct Stage<'w> {
    world: &'w World,
    name: String,
    pub(crate) mount: Mount,
}

/// The result of one command.
pub(crate) struct RunResult {
    pub(crate) code: i32,
    pub(crate) stderr: BString,
    pub(crate) struck: Vec<Struck>,
    pub(crate) counts: Counts,
}

/// The result of a power cut.
pub(crate) struct Found<'w> {
    world: &'w World,
    place: PathBuf,
    pub(crate) repo: Repo<'w>,
    /// The number of commands that had reported success.
    pub(crate) done: usize,
    /// Set if a command failed before the power cut, or without one.
    pub(crate) failed: Option<String>,
}

impl World {
    pub(crate) fn new(scenario: &'static Scenario) -> World {
        let sandbox = Sandbox::new();
        (scenario.prepare)(&sandbox.init("template"));
        let mut world = World { sandbox, scenario, states: Vec::new(), names: BTreeSet::new() };
        world.copy("undisturbed");
        let repo = world.sandbox.repo("undisturbed");
        let git_dir = repo.join(".git");
        world.states.push(State::of(&repo, scenario.stored).expect("a repository"));
        world.names.extend(names(&git_dir));
        for step in scenario.steps {
            let (code, stderr) = run(&repo, Program::Git, step);
            assert_eq!(code, 0, "git {:?}: {stderr}", step.args);
            world.states.push(State::of(&repo, scenario.stored).expect("a repository"));
            world.names.extend(names(&git_dir));
        }
        world
    }

    fn copy(&self, name: &str) {
        let place = self.sandbox.path().join(name);
        fs::create_dir_all(place.parent().expect("below the sandbox")).expect("a directory");
        let from = self.sandbox.path().join("template");
        let copied = Command::new("cp").arg("-a").arg(from).arg(&place).status();
        assert!(copied.expect("cp can be run").success());
        self.sandbox.repo(name).git(&["update-index", "-q", "--refresh"]);
    }

    fn mount(&self, name: &str, profile: &Profile) -> Mount {
        self.copy(&format!("{name}/backing"));
        let at = |end: &str| self.sandbox.path().join(name).join(end);
        Mount::over(profile, &at("backing"), &at("disk")).expect("a disk")
    }

    /// Runs all commands on a disk and returns how many of each operation they needed.
    pub(crate) fn counts(&self, program: Program) -> Counts {
        let mount = self.mount("counted", &Profile::power(Journal::Strict));
        let earlier = mount.counts();
        let (done, failed) = self.run_all("counted", program, &mount);
        assert_eq!((done, failed), (self.scenario.steps.len(), None), "{}", self.scenario.name);
        let counts = mount.counts().since(&earlier);
        drop(mount);
        let reached =
            State::of(&self.sandbox.repo("counted/backing"), self.scenario.stored).expect("a repository");
        assert_eq!(Some(&reached), self.states.last(), "{}: not Git's result", self.scenario.name);
        counts
    }

    /// Returns a disk with the repository in the state before the first command.
    pub(crate) fn stage(&self, name: &str, profile: &Profile) -> Stage<'_> {
        Stage { world: self, name: name.to_owned(), mount: self.mount(name, profile) }
    }

    /// Returns the number of commands that succeeded, and the failure of a command without a power
    /// cut.
    fn run_all(&self, name: &str, program: Program, mount: &Mount) -> (usize, Option<String>) {
        let repo = self.sandbox.repo(&format!("{name}/disk"));
        for (done, step) in self.scenario.steps.iter().enumerate() {
            let (code, stderr) = run(&repo, program, step);
            if code != 0 {
                let failed = (!mount.is_cut()).then(|| format!("{:?}: exit {code}: {stderr}", step.args));
                return (done, failed);
            }
        }
        (self.scenario.steps.len(), None)
    }

    /// Runs the commands, cuts the power before an operation or at the end, and returns the
    /// remaining content of the disk.
    pub(crate) fn cut(
        &self,
        name: &str,
        program: Program,
        journal: Journal,
        at: Option<(Operation, u64)>,
        lucky: bool,
    ) -> Found<'_> {
        let mount = self.mount(name, &Profile::power(journal));
        if let Some((operation, nth)) = at {
            mount.set_faults(vec![Fault::cut(operation).nth(Nth::From(nth))]);
        }
        let (done, failed) = self.run_all(name, program, &mount);
        let seed = at.map_or(0, |(_, nth)| nth);
        let survivors = if lucky { Survivors::Some { seed } } else { Survivors::None };
        let mount = mount.pull_plug(survivors).expect("the disk is made anew");
        mount.end().expect("nobody is left");
        let place = self.sandbox.path().join(name);
        let repo = self.sandbox.repo(&format!("{name}/backing"));
        Found { world: self, place, repo, done, failed }
    }
}

impl Stage<'_> {
    /// Runs the first command with these faults, and removes them afterwards.
    pub(crate) fn run(&self, program: Program, faults: Vec<Fault>) -> RunResult {
        let earlier = self.mount.counts();
        self.mount.set_faults(faults);
        let repo = self.world.sandbox.repo(&format!("{}/disk", self.name));
        let (code, stderr) = run(&repo, program, &self.world.scenario.steps[0]);
        let struck = self.mount.struck();
        self.mount.set_faults(Vec::new());
        RunResult { code, stderr, struck, counts: self.mount.counts().since(&earlier) }
    }

    /// Returns the repository, without faults.
    pub(crate) fn repo(&self) -> Repo<'_> {
        self.world.sandbox.repo(&format!("{}/backing", self.name))
    }

    pub(crate) fn remove(self) {
        let place = self.world.sandbox.path().join(&self.name);
        drop(self.mount);
        fs::remove_dir_all(place).expect("nothing is mounted there any more");
    }
}

impl Found<'_> {
    /// Runs the command again that the power cut has interrupted.
    pub(crate) fn run_again(&self, program: Program) -> (i32, BString) {
        run(&self.repo, program, &self.world.scenario.steps[self.done])
    }

    pub(crate) fn remove(self) {
        fs::remove_dir_all(&self.place).expect("nothing is mounted there any more");
    }
}

fn run(repo: &Repo<'_>, program: Program, step: &Step) -> (i32, BString) {
    let git = repo.git_command();
    let binary = match program {
        Program::Git => git.get_program(),
        Program::Sapwood(_) => SAPWOOD.as_ref(),
    };
    // The process that starts the program must not touch the disk, so the program changes the
    // directory itself.
    let mut command = repo.command("timeout".as_ref());
    command.current_dir("/").args(["--signal=KILL", SECONDS]).arg(binary).arg("-C").arg(&repo.path);
    let (stdin, text) = match step.input {
        Input::Text(text) => (Stdio::piped(), text),
        Input::File(path) => (fs::File::open(repo.join(path)).expect("it was made").into(), ""),
    };
    command.args(step.args).stdin(stdin).stdout(Stdio::null()).stderr(Stdio::piped());
    if let Program::Sapwood(workers) = program {
        command.env("SAPWOOD_TEST_CHECKOUT_WORKERS", workers.to_string());
    }
    let mut child = command.spawn().expect("the program can be run");
    if let Some(mut input) = child.stdin.take() {
        // A program that fails early does not read its input.
        let _ = input.write_all(text.as_bytes());
    }
    let output = child.wait_with_output().expect("our child");
    (output.status.code().unwrap_or(255), output.stderr.into())
}
