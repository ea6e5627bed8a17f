//! An object store, a worktree, and plans built from entries.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::AtomicBool,
};

use bstr::ByteSlice;
use engine::checkout::Cleared;
use engine::checkout::{
    Attributes, ExecuteOptions, Outcome, Plan, Premise, Removal, Report, Workers, Write, execute,
};
use format::{
    HashKind, Mode, ObjectId,
    index::{Flags, Index, NewEntry, Stage, Stat},
};
use repo::{OpenOptions, Repository};
use testkit::Sandbox;

/// An entry of the target.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item<'a> {
    File(&'a str),
    Executable(&'a str),
    Link(&'a str),
    Submodule,
    /// A file whose blob is missing.
    MissingBlob,
}

/// An object store and a worktree.
pub(crate) struct Fixture {
    /// Dropped before the sandbox, which cannot be removed while a file system is mounted in it.
    mount: Option<Mount>,
    sandbox: Sandbox,
    pub worktree: PathBuf,
    pub workers: usize,
    pub symlinks: bool,
    pub big_file_threshold: u64,
    /// The current directory of the command, below the worktree.
    pub cwd: &'static str,
}

impl Fixture {
    pub(crate) fn new(workers: usize) -> Fixture {
        let sandbox = Sandbox::new();
        sandbox.init("store");
        let worktree = sandbox.path().join("worktree");
        fs::create_dir(&worktree).expect("a worktree");
        let big_file_threshold = 512 << 20;
        Fixture { mount: None, sandbox, worktree, workers, symlinks: true, big_file_threshold, cwd: "" }
    }

    /// Creates a fixture whose worktree is on another file system. Returns `None` if that file
    /// system cannot be mounted.
    pub(crate) fn on(mount: fn(&Sandbox) -> Option<Mount>, workers: usize) -> Option<Fixture> {
        let mut fixture = Fixture::new(workers);
        let mount = mount(&fixture.sandbox)?;
        fixture.worktree = mount.path.join("worktree");
        fs::create_dir(&fixture.worktree).expect("a worktree");
        fixture.mount = Some(mount);
        Some(fixture)
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.worktree.join(path)
    }

    /// Writes a file into the worktree.
    pub(crate) fn put(&self, path: &str, content: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("in the worktree")).expect("directories");
        fs::write(path, content).expect("a file");
    }

    /// Sets a configuration variable of the repository.
    pub(crate) fn config(&self, key: &str, value: &str) {
        self.sandbox.repo("store").git(&["config", key, value]);
    }

    /// Returns the premise for the current file.
    pub(crate) fn unchanged(&self, path: &str) -> Premise {
        let root = sys::Dir::open(&self.worktree).expect("the worktree");
        Premise::Unchanged(Box::new(root.stat(path.as_bytes()).expect("can be asked").expect("is there")))
    }

    /// Builds a plan that writes these entries, sorted.
    pub(crate) fn writes(&self, entries: &[(&str, Item<'_>, Premise)]) -> Plan {
        let mut entries = entries.to_vec();
        entries.sort_by_key(|(path, ..)| path.as_bytes());
        let store = self.sandbox.repo("store");
        let mut names = Vec::new();
        for (number, (_, item, _)) in entries.iter().enumerate() {
            if let Item::File(content) | Item::Executable(content) | Item::Link(content) = item {
                let name = format!("blobs/{number}");
                store.write(&name, content);
                names.push(name);
            }
        }
        let mut oids = Vec::new();
        for names in names.chunks(500) {
            let args =
                ["hash-object", "-w", "--no-filters"].into_iter().chain(names.iter().map(String::as_str));
            let run = store.git(&args.collect::<Vec<_>>());
            oids.extend(run.stdout.lines().filter_map(|hex| ObjectId::from_hex(HashKind::Sha1, hex)));
        }
        let mut oids = oids.into_iter();
        let nowhere = ObjectId::from_bytes(HashKind::Sha1, &[0x11; 20]).expect("20 bytes");
        let mut index = Index::empty(HashKind::Sha1);
        for (path, item, _) in &entries {
            let (mode, oid) = match item {
                Item::File(_) => (Mode::FILE, oids.next()),
                Item::Executable(_) => (Mode::EXECUTABLE, oids.next()),
                Item::Link(_) => (Mode::SYMLINK, oids.next()),
                Item::Submodule => (Mode::GITLINK, Some(nowhere)),
                Item::MissingBlob => (Mode::FILE, Some(nowhere)),
            };
            let oid = oid.expect("one for each content");
            let entry =
                NewEntry { stat: Stat::default(), oid, mode, flags: Flags::empty(), stage: Stage::Normal };
            index.push(path.as_bytes().as_bstr(), entry);
        }
        let writes = entries
            .iter()
            .enumerate()
            .map(|(entry, (_, _, premise))| Write { entry, premise: premise.clone() });
        Plan { writes: writes.collect(), removals: Vec::new(), warnings: Vec::new(), index }
    }

    /// Builds a plan that removes these paths, sorted.
    pub(crate) fn removals(&self, paths: &[(&str, Premise)]) -> Plan {
        let mut plan = self.writes(&[]);
        let mut paths = paths.to_vec();
        paths.sort_by_key(|(path, _)| path.as_bytes());
        plan.removals = paths
            .into_iter()
            .map(|(path, premise)| Removal {
                path: (*path).into(),
                gitlink: premise == Premise::Directory,
                premise: premise.clone(),
            })
            .collect();
        plan
    }

    pub(crate) fn repository(&self) -> Repository {
        let store = self.sandbox.repo("store");
        let command = store.command(Path::new("git"));
        let env = command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        let options = OpenOptions {
            cwd: self.path(self.cwd),
            git_dir: Some(store.path.join(".git")),
            work_tree: Some(self.worktree.clone()),
            env: env.collect(),
            ..OpenOptions::default()
        };
        Repository::open(&options).expect("a repository")
    }

    pub(crate) fn execute(&self, plan: &Plan) -> Report {
        self.execute_until(plan, usize::MAX)
    }

    /// Executes a plan, and interrupts it after this number of steps.
    pub(crate) fn execute_until(&self, plan: &Plan, steps: usize) -> Report {
        let interrupt = AtomicBool::new(false);
        let progress = |done, _total| {
            if done >= steps {
                interrupt.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        };
        let options = ExecuteOptions {
            workers: Workers::Fixed(self.workers),
            threshold: 0,
            interrupt: &interrupt,
            progress: &progress,
            filtering: &|_, _, _| {},
            big_file_threshold: self.big_file_threshold,
            symlinks: self.symlinks,
            links: engine::checkout::Links::GiveWay,
            metadata: Default::default(),
            delays: repo::convert::Delays::Offered,
            attributes: Attributes::OfIndex,
            original_cwd: (!self.cwd.is_empty()).then(|| self.cwd.into()),
        };
        let root = sys::Dir::open(&self.worktree).expect("the worktree");
        let repo = self.repository();
        let cleared =
            Cleared::new(&repo, &self.worktree, &root, plan, b"").expect("outside of the repository");
        let report = execute(&repo, cleared, &options).expect("attributes can be read");
        // The cause of a failed outcome, which its kind does not show.
        for outcome in report.writes.iter().chain(&report.removals) {
            if let Outcome::Failed(error) | Outcome::Undeleted(error) = outcome {
                eprintln!("{error:?}");
            }
        }
        report
    }

    /// Executes a plan, checks that it completes, and returns the content of the worktree.
    pub(crate) fn complete(&self, plan: &Plan) -> BTreeMap<String, String> {
        let report = self.execute(plan);
        let wrong =
            |outcome: &&Outcome| !matches!(outcome, Outcome::Written(_) | Outcome::Removed | Outcome::Kept);
        let wrong: Vec<_> = report.writes.iter().chain(&report.removals).filter(wrong).take(5).collect();
        assert!(report.is_complete() && wrong.is_empty(), "{wrong:?}");
        self.tree()
    }

    /// Returns the content of the worktree: files as their content, executable ones with the prefix
    /// `x `, links as `-> target`, empty directories as `/`.
    pub(crate) fn tree(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        add_entries(&self.worktree, &self.worktree, &mut found);
        found
    }
}

fn add_entries(root: &Path, dir: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.strip_prefix(root).expect("below the root").to_string_lossy().into_owned();
        let stat = match path.symlink_metadata() {
            // On a file system that releases removed files with a delay, a file may vanish between
            // the listing and this stat.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            stat => stat.expect("is there"),
        };
        if stat.is_dir() {
            if fs::read_dir(&path).expect("a directory").next().is_none() {
                found.insert(name, "/".into());
            } else {
                add_entries(root, &path, found);
            }
        } else if stat.is_symlink() {
            let target = fs::read_link(&path).expect("a link");
            found.insert(name, format!("-> {}", target.display()));
        } else {
            let content = fs::read(&path).expect("a file").to_str_lossy().into_owned();
            let executable = if stat.permissions().mode() & 0o100 != 0 { "x " } else { "" };
            found.insert(name, format!("{executable}{content}"));
        }
    }
}

/// Builds a tree in the form of [`Fixture::tree`].
pub(crate) fn tree(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|&(path, content)| (path.into(), content.into())).collect()
}

/// Returns the outcomes without their details.
pub(crate) fn kinds(outcomes: &[Outcome]) -> Vec<&'static str> {
    let kind = |outcome: &Outcome| match outcome {
        Outcome::Written(_) => "written",
        Outcome::Removed => "removed",
        Outcome::Kept => "kept",
        Outcome::Collided(Some(_)) => "collided, here",
        Outcome::Collided(None) => "collided, gone",
        Outcome::Stale => "stale",
        Outcome::Failed(_) => "failed",
        Outcome::Undeleted(_) => "left",
        Outcome::Skipped => "skipped",
    };
    outcomes.iter().map(kind).collect()
}

/// A file system that is mounted for a test and unmounted on drop.
pub(crate) struct Mount {
    pub path: PathBuf,
}

impl Mount {
    /// Runs a mount command with the mount point added. Prints a message and returns `None` if that
    /// is impossible.
    pub(crate) fn new(program: &str, args: &[&OsStr], point: PathBuf) -> Option<Mount> {
        fs::create_dir(&point).expect("a mount point");
        let run = Command::new(program).args(args).arg(&point).output();
        match run {
            Ok(output) if output.status.success() => Some(Mount { path: point }),
            other => {
                eprintln!("SKIPPED: {program} {args:?} is impossible here: {other:?}");
                None
            }
        }
    }

    /// Mounts a tmpfs of this size.
    pub(crate) fn tmpfs(sandbox: &Sandbox, size: &str) -> Option<Mount> {
        let options = format!("size={size}");
        let args = ["-t", "tmpfs", "-o", &options, "tmpfs"].map(OsStr::new);
        Mount::new("mount", &args, sandbox.path().join("mounted"))
    }

    /// Mounts an XFS.
    pub(crate) fn xfs(sandbox: &Sandbox) -> Option<Mount> {
        if !testkit::has_program("mkfs.xfs") {
            return None;
        }
        let image = sandbox.path().join("image");
        fs::File::create(&image).and_then(|file| file.set_len(512 << 20)).expect("an image");
        match Command::new("mkfs.xfs").arg("-q").arg(&image).output() {
            Ok(output) if output.status.success() => {}
            other => {
                eprintln!("SKIPPED: mkfs.xfs is impossible here: {other:?}");
                return None;
            }
        }
        let args = [OsStr::new("-o"), OsStr::new("loop"), image.as_os_str()];
        Mount::new("mount", &args, sandbox.path().join("mounted"))
    }

    /// Mounts a case-insensitive file system.
    pub(crate) fn ignoring_case(sandbox: &Sandbox) -> Option<Mount> {
        if !testkit::has_program("mkntfs") || !testkit::has_program("lowntfs-3g") {
            return None;
        }
        let image = sandbox.path().join("image");
        fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("an image");
        match Command::new("mkntfs").args(["-F", "-Q"]).arg(&image).output() {
            Ok(output) if output.status.success() => {}
            other => {
                eprintln!("SKIPPED: mkntfs is impossible here: {other:?}");
                return None;
            }
        }
        let args =
            [OsStr::new("-o"), OsStr::new("ignore_case"), OsStr::from_bytes(image.as_os_str().as_bytes())];
        Mount::new("lowntfs-3g", &args, sandbox.path().join("mounted"))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}
