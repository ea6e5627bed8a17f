//! The fixture of one command on a disk with faults: the repository before the run, the operations
//! that failed, and the state afterwards.
//!
//! Git creates the repository once. It is copied for each case to a directory, which is then
//! mounted through the faulty disk. The state afterwards is read from that directory directly, so
//! that reading it meets no fault.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command as Process,
};

use bstr::{BString, ByteSlice as _};
use testkit::{
    Repo, Run, Sandbox,
    weather::{Counts, Fault, Mount, Profile, Struck},
};

use crate::{
    SAPWOOD,
    seen::{Node, names, refs, tree},
};

/// The time limit in seconds. The slowest run takes a second or two on an idle machine.
const SECONDS: &str = "180";

/// The command that is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Command {
    Clone,
    CloneCopying,
    CloneBundle,
    Checkout,
    Paths,
    Switch,
    Reset,
}

impl Command {
    pub(super) const ALL: [Command; 7] = [
        Command::Clone,
        Command::CloneCopying,
        Command::CloneBundle,
        Command::Checkout,
        Command::Paths,
        Command::Switch,
        Command::Reset,
    ];

    pub(super) fn args(self) -> &'static [&'static str] {
        match self {
            Command::Clone => &["clone", "repo", "copy"],
            Command::CloneCopying => &["clone", "--no-hardlinks", "repo", "copy"],
            Command::CloneBundle => &["clone", "repo.bundle", "copy"],
            Command::Checkout => &["checkout", "topic"],
            Command::Paths => &["checkout", "--", "."],
            Command::Switch => &["switch", "topic"],
            Command::Reset => &["reset", "--hard", "topic"],
        }
    }

    pub(super) fn is_clone(self) -> bool {
        matches!(self, Command::Clone | Command::CloneCopying | Command::CloneBundle)
    }

    /// Returns the directory of the run, relative to the root of the disk.
    fn place(self) -> &'static str {
        if self.is_clone() { "" } else { "repo" }
    }

    /// Returns the repository that the command changes.
    pub(super) fn target(self) -> &'static str {
        if self.is_clone() { "copy" } else { "repo" }
    }

    /// Makes local changes that the command overwrites.
    fn prepare(self, repo: &Path) {
        let write = |path: &str| fs::write(repo.join(path), "changed\n").expect("a copy");
        match self {
            Command::Paths => {
                for gone in ["both/0", "both/2", "link", "run"] {
                    fs::remove_file(repo.join(gone)).expect("a copy");
                }
                fs::remove_dir_all(repo.join("old")).expect("a copy");
                write("both/1");
                write("both/deep/1");
            }
            Command::Reset => write("both/1"),
            _ => {}
        }
    }
}

/// The program that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Program {
    Git,
    /// Sapwood with this number of workers.
    Sapwood(usize),
}

/// The state of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RepositoryState {
    pub(super) worktree: BTreeMap<BString, Node>,
    /// Names in the Git directory.
    pub(super) git_dir: BTreeSet<BString>,
    /// `git ls-files --stage`, by path.
    pub(super) index: BTreeMap<BString, BString>,
    /// The content of HEAD, and refs by name.
    pub(super) refs: BTreeMap<BString, BString>,
}

/// Data shared by all cases.
pub(super) struct World {
    sandbox: Sandbox,
    /// The state before each command, and the state after Git has run it without faults.
    pub(super) before: BTreeMap<Command, RepositoryState>,
    pub(super) after: BTreeMap<Command, RepositoryState>,
    pub(super) blobs: BTreeMap<BString, BString>,
}

/// The result of one run.
pub(super) struct RunResult {
    pub(super) run: Run,
    pub(super) struck: Vec<Struck>,
    pub(super) counts: Counts,
}

/// A disk with a copy of the repository.
pub(super) struct Stage<'w> {
    world: &'w World,
    command: Command,
    name: String,
    mount: Mount,
}

impl World {
    pub(super) fn new() -> World {
        let sandbox = Sandbox::new();
        template(&sandbox);
        let blobs = blobs(&sandbox.repo("template/repo"));
        let mut world = World { sandbox, before: BTreeMap::new(), after: BTreeMap::new(), blobs };
        for command in Command::ALL {
            let name = format!("undisturbed/{command:?}");
            world.copy(&name, command);
            let target = world.sandbox.repo(&format!("{name}/{}", command.target()));
            let before = if command.is_clone() { RepositoryState::default() } else { see(&target) };
            let run = world.sandbox.repo(&format!("{name}/{}", command.place())).git(command.args());
            assert_eq!(run.code, 0);
            world.before.insert(command, before);
            world.after.insert(command, see(&target));
        }
        world
    }

    /// Creates a copy at `name` in the state before the command. The index has the stat data of the
    /// files.
    fn copy(&self, name: &str, command: Command) {
        let place = self.sandbox.path().join(name);
        fs::create_dir_all(place.parent().expect("below the sandbox")).expect("a directory");
        let from = self.sandbox.path().join("template");
        let copied = Process::new("cp").arg("-a").arg(from).arg(&place).status();
        assert!(copied.expect("cp can be run").success());
        let repo = self.sandbox.repo(&format!("{name}/repo"));
        repo.git(&["update-index", "-q", "--refresh"]);
        command.prepare(&repo.path);
    }

    /// Returns the source of the content of `both/1`: a loose object, or a pack.
    pub(super) fn path_of(&self, what: &str) -> String {
        let git_dir = self.sandbox.path().join("template/repo/.git");
        let ends = match what {
            "BLOB" => {
                let entry = self.after[&Command::Switch].index[&BString::from("both/1")].to_string();
                let oid = entry.split(' ').nth(1).expect("mode, id, stage").to_owned();
                return format!("repo/.git/objects/{}/{}", &oid[..2], &oid[2..]);
            }
            "PACK" => ".pack",
            _ => ".idx",
        };
        let found = names(&git_dir).into_iter().find(|name| name.ends_with_str(ends));
        format!("repo/.git/{}", found.expect("objects were packed"))
    }

    /// Returns a disk without faults for the case `name`.
    pub(super) fn stage(&self, name: &str, command: Command) -> Stage<'_> {
        let backing = format!("{name}/backing");
        self.copy(&backing, command);
        let at = |dir: &str| self.sandbox.path().join(dir);
        let mount =
            Mount::over(&Profile::bare(), &at(&backing), &at(&format!("{name}/disk"))).expect("a disk");
        Stage { world: self, command, name: name.to_owned(), mount }
    }
}

impl Stage<'_> {
    /// Runs the command with these faults, and removes them afterwards.
    pub(super) fn run(&self, program: Program, faults: Vec<Fault>) -> RunResult {
        self.run_as(program, self.command.args(), faults, None)
    }

    /// Runs the command without faults and with `-f`.
    pub(super) fn run_forced(&self, program: Program) -> RunResult {
        let (name, rest) = self.command.args().split_first().expect("a command");
        self.run_as(program, &[&[*name, "-f"], rest].concat(), Vec::new(), None)
    }

    /// Runs the command with a limit on file descriptors.
    pub(super) fn run_limited(&self, program: Program, descriptors: u64) -> RunResult {
        self.run_as(program, self.command.args(), Vec::new(), Some(descriptors))
    }

    fn run_as(
        &self,
        program: Program,
        args: &[&str],
        faults: Vec<Fault>,
        descriptors: Option<u64>,
    ) -> RunResult {
        // The process that starts the program must not touch the disk, so the program changes the
        // directory itself.
        let place = self.world.sandbox.repo(&format!("{}/disk/{}", self.name, self.command.place()));
        let git = place.git_command().get_program().to_owned();
        let binary = match program {
            Program::Git => PathBuf::from(git),
            Program::Sapwood(_) => PathBuf::from(SAPWOOD),
        };
        let mut command = place.command("timeout".as_ref());
        command.current_dir("/").args(["--signal=KILL", SECONDS]);
        if let Some(limit) = descriptors {
            command.args(["sh", "-c", "ulimit -n \"$0\" && exec \"$@\""]).arg(limit.to_string());
        }
        command.arg(binary).arg("-C").arg(&place.path).args(args);
        if let Program::Sapwood(workers) = program {
            command.env("SAPWOOD_TEST_CHECKOUT_WORKERS", workers.to_string());
        }
        let earlier = self.mount.counts();
        self.mount.set_faults(faults);
        let output = command.output().expect("the program can be run");
        let struck = self.mount.struck();
        self.mount.set_faults(Vec::new());
        let code = output.status.code().unwrap_or_else(|| {
            use std::os::unix::process::ExitStatusExt as _;
            128 + output.status.signal().unwrap_or(0)
        });
        let run = Run { code, stdout: output.stdout.into(), stderr: output.stderr.into() };
        RunResult { run, struck, counts: self.mount.counts().since(&earlier) }
    }

    /// Returns the repository that the command changed, without faults.
    pub(super) fn target(&self) -> Repo<'_> {
        self.world.sandbox.repo(&format!("{}/backing/{}", self.name, self.command.target()))
    }

    pub(super) fn see(&self) -> RepositoryState {
        see(&self.target())
    }

    /// Returns true if the source of the clone is unchanged.
    pub(super) fn source_is_untouched(&self) -> bool {
        let source = self.world.sandbox.repo(&format!("{}/backing/repo", self.name));
        let template = self.world.sandbox.repo("template/repo");
        tree(&source.path, false) == tree(&template.path, false)
            && names(&source.join(".git")) == names(&template.join(".git"))
    }

    /// Unmounts the disk and removes the copy.
    pub(super) fn remove(self) {
        let place = self.world.sandbox.path().join(&self.name);
        drop(self.mount);
        fs::remove_dir_all(place).expect("nothing is mounted there any more");
    }
}

/// Creates two branches that differ in content, mode, kind and path, packed and loose objects, and
/// the user's files.
fn template(sandbox: &Sandbox) {
    let repo = sandbox.init("template/repo");
    for (key, value) in [("core.bigFileThreshold", "100k"), ("core.fsync", "all")] {
        repo.git(&["config", key, value]);
    }
    repo.write(".gitignore", "*.ignored\n");
    repo.write(".gitattributes", "*.crlf eol=crlf\n");
    for number in 0..4 {
        repo.write(format!("both/{number}"), format!("{number}\n").repeat(50));
        repo.write(format!("both/deep/{number}"), format!("deep {number}\n").repeat(300));
        repo.write(format!("old/{number}"), format!("old {number}\n"));
        repo.write(format!("same/{number}"), format!("same {number}\n"));
    }
    repo.write("same/0.crlf", "one\ntwo\n");
    repo.write_executable("run", "#!/bin/sh\n");
    repo.symlink("both", "link");
    repo.write("file-to-dir", "a file\n");
    repo.write("dir-to-file/one", "one\n");
    repo.commit("one");
    repo.git(&["branch", "topic"]);
    repo.git(&["switch", "-q", "topic"]);
    repo.git(&["repack", "-adq"]);
    repo.git(&["pack-refs", "--all"]);
    for number in 0..4 {
        repo.write(format!("both/{number}"), format!("{number}, and more\n").repeat(70));
        repo.write(format!("both/deep/{number}"), format!("deeper {number}\n").repeat(400));
        repo.remove(format!("old/{number}"));
        repo.write(format!("new/{number}/file"), format!("new {number}\n"));
    }
    repo.write("both/0.crlf", "one\ntwo\nthree\n");
    // Large enough to be streamed, and to need more than one read or write.
    let big: Vec<u8> =
        (0..60_000_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    repo.write("both/big", big);
    fs::set_permissions(repo.join("run"), fs::Permissions::from_mode(0o644)).expect("there");
    repo.remove("link");
    repo.symlink("new/0", "link");
    repo.symlink("new/1", "second-link");
    repo.remove("file-to-dir");
    repo.write("file-to-dir/one", "one\n");
    repo.remove("dir-to-file");
    repo.write("dir-to-file", "a file\n");
    repo.commit("two");
    repo.git(&["switch", "-q", "main"]);
    repo.write("users", "the user's\n");
    repo.write("same/users", "the user's\n");
    repo.write("old/users.ignored", "the user's\n");
    // Makes the files older than the index.
    let files = tree(&repo.path, false).into_keys().map(|path| repo.join(path));
    let aged = Process::new("touch").args(["-h", "-d@1100000000"]).args(files).status();
    assert!(aged.expect("touch can be run").success());
    repo.git(&["update-index", "-q", "--refresh"]);
    repo.git(&["bundle", "create", "-q", "../repo.bundle", "HEAD", "main", "topic"]);
}

/// Returns all blobs by name.
fn blobs(repo: &Repo<'_>) -> BTreeMap<BString, BString> {
    let all = repo.git(&["cat-file", "--batch-all-objects", "--batch"]).stdout;
    let (mut rest, mut blobs) = (all.as_slice(), BTreeMap::new());
    while let Some((line, behind)) = rest.split_once_str("\n") {
        let words: Vec<&str> = line.to_str().expect("text").split(' ').collect();
        let size: usize = words[2].parse().expect("a number");
        if words[1] == "blob" {
            blobs.insert(words[0].into(), behind[..size].into());
        }
        rest = &behind[size + 1..];
    }
    blobs
}

fn see(repo: &Repo<'_>) -> RepositoryState {
    let git_dir = repo.join(".git");
    if !git_dir.exists() {
        return RepositoryState { worktree: tree(&repo.path, false), ..RepositoryState::default() };
    }
    let listed = repo.try_git(&["ls-files", "--stage", "-z"]);
    assert_eq!(listed.code, 0, "the index cannot be read: {}", listed.stderr);
    let lines = listed.stdout.split(|byte| *byte == 0).filter_map(|line| line.split_once_str("\t"));
    RepositoryState {
        worktree: tree(&repo.path, false),
        git_dir: names(&git_dir),
        index: lines.map(|(content, path)| (path.into(), content.into())).collect(),
        refs: refs(&git_dir),
    }
}
