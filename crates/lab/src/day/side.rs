//! One side of the day: a copy of the repository and the `git` that works in it.

use std::{
    collections::BTreeMap,
    fs, io,
    io::Write as _,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _, fs::symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use super::script::Act;
use crate::{
    Error,
    measure::{hermetic, must},
    programs::saw_unfinished_worktree,
    rig::{FileSystem, Volume},
};

/// A call that fails more often than this has another cause than a worktree that is being created.
const MOST_REPEATS: usize = 100;

/// The empty directory of one side.
pub(super) struct Root {
    path: PathBuf,
    /// The file system that it is on, if it has its own.
    volume: Option<Volume>,
}

impl Root {
    /// Creates the directory below `scratch`, on a new file system if that is wanted.
    pub(super) fn make(name: &str, scratch: &Path, on: Option<FileSystem>) -> Result<Root, Error> {
        let dir = scratch.join(name);
        let volume = on.map(|file_system| Volume::fresh(file_system, &dir)).transpose()?;
        let path = volume.as_ref().map_or(dir, |volume| volume.path().join(name));
        Ok(Root { path, volume })
    }
}

/// The directory of one side and the search path on which it finds `git`.
pub(super) struct Side {
    pub(super) name: &'static str,
    root: PathBuf,
    /// Unmounted when the side is dropped.
    _volume: Option<Volume>,
    path: std::ffi::OsString,
}

/// The result of one call of Git.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) line: Vec<String>,
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
    /// Wall time in seconds.
    pub(super) wall: f64,
}

/// The final state of a side: contents by name.
pub(super) type State = BTreeMap<String, Vec<u8>>;

impl Side {
    /// Creates the copy. `first` is a program that is found in PATH as `git` before the real one.
    pub(super) fn make(
        name: &'static str,
        root: Root,
        source: &Path,
        git: &Path,
        first: Option<&Path>,
    ) -> Result<Side, Error> {
        let Root { path: root, volume } = root;
        let _ = fs::remove_dir_all(&root);
        let bin = root.join("bin");
        io_of("cannot create", &bin, fs::create_dir_all(&bin))?;
        if let Some(sapwood) = first {
            io_of("cannot link", &bin, symlink(sapwood, bin.join("git")))?;
        }
        let real = git.parent().map(Path::to_owned).unwrap_or_default();
        let dirs = [bin, real].into_iter().filter(|dir| !dir.as_os_str().is_empty());
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(dirs.chain(std::env::split_paths(&inherited)))
            .map_err(|error| Error::Setup(error.to_string()))?;
        let side = Side { name, root, _volume: volume, path };
        let source = source.display().to_string();
        must(git, &["clone", "-q", "--shared", "--no-checkout", "--template=", &source, "repo"], &side.root)?;
        let repo = side.repo();
        let run = |args: &[&str]| must(git, args, &repo);
        for (key, value) in [("gc.auto", "0"), ("maintenance.auto", "false"), ("user.name", "lab")] {
            run(&["config", key, value])?;
        }
        run(&[
            "fetch",
            "-q",
            "origin",
            "refs/lab/*:refs/heads/*",
            "refs/heads/lab:refs/remotes/origin/main",
        ])?;
        run(&["checkout", "-q", "-B", "main", "--no-track", "refs/remotes/origin/main"])?;
        run(&["branch", "-q", "-D", "lab"])?;
        Ok(side)
    }

    pub(super) fn repo(&self) -> PathBuf {
        self.root.join("repo")
    }

    fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    /// Performs one act. `clock` is added to the dates that Git records, in seconds.
    pub(super) fn act(&self, act: &Act, clock: usize) -> Result<Option<Call>, Error> {
        let repo = self.repo();
        match act {
            Act::Git(line) => return self.git(line, clock).map(Some),
            Act::Edit(file) => {
                let path = repo.join(file);
                let opened = fs::OpenOptions::new().append(true).open(&path);
                io_of("cannot edit", &path, opened.and_then(|mut file| writeln!(file, "edited at {clock}")))?;
            }
            Act::Litter(file) => {
                let path = repo.join(file);
                io_of("cannot write", &path, fs::write(&path, "litter\n"))?;
            }
            Act::Remove(dir) => {
                let path = repo.join(dir);
                io_of("cannot remove", &path, fs::remove_dir_all(&path))?;
            }
        }
        Ok(None)
    }

    /// Runs Git, and again if another worktree that is being created makes it fail.
    fn git(&self, line: &[String], clock: usize) -> Result<Call, Error> {
        let mut call = self.call(line, clock)?;
        for _ in 0..MOST_REPEATS {
            if !saw_unfinished_worktree(&call.stderr) {
                break;
            }
            if let Some(at) = line.iter().position(|word| word == "-b") {
                // The failed call may have created the branch.
                let branch = ["branch", "-q", "-D", &line[at + 1]].map(str::to_owned);
                self.call(&branch, clock)?;
            }
            call = self.call(line, clock)?;
        }
        Ok(call)
    }

    fn call(&self, line: &[String], clock: usize) -> Result<Call, Error> {
        let date = format!("{} +0000", 1_700_000_000 + clock);
        let mut command = Command::new("git");
        hermetic(&mut command)
            .args(line)
            .current_dir(self.repo())
            .stdin(Stdio::null())
            .env("PATH", &self.path)
            .env("SAPWOOD_SHIM_LOG", self.log())
            .env("GIT_PROGRESS_DELAY", "3600")
            .env("LC_ALL", "C")
            .env("GIT_AUTHOR_DATE", &date)
            .env("GIT_COMMITTER_DATE", &date);
        let start = Instant::now();
        let output = command.output();
        let wall = start.elapsed().as_secs_f64();
        let output =
            output.map_err(|error| Error::Command { command: line.join(" "), detail: error.to_string() })?;
        let root = self.root.display().to_string();
        let plain = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&root, "<side>");
        let stderr = plain(&output.stderr);
        if stderr.contains("No space left on device") {
            let message = "the file system is full: fewer agents or a smaller tree are needed";
            return Err(Error::Setup(format!("{root}: {message}")));
        }
        Ok(Call {
            line: line.to_vec(),
            code: output.status.code(),
            stdout: plain(&output.stdout),
            stderr,
            wall,
        })
    }

    /// Counts the calls of each command in the shim's log so far, and how many of them were native.
    pub(super) fn native(&self) -> BTreeMap<String, (usize, usize)> {
        let mut commands = BTreeMap::new();
        for line in fs::read_to_string(self.log()).unwrap_or_default().lines() {
            let Ok(line) = serde_json::from_str::<serde_json::Value>(line) else { continue };
            let command = line["command"].as_str().unwrap_or_default().to_owned();
            let entry: &mut (usize, usize) = commands.entry(command).or_default();
            entry.0 += 1;
            entry.1 += usize::from(line["outcome"] == "native");
        }
        commands
    }

    /// Collects the final state: HEAD, refs, index, worktree, reflogs, configuration, and the names
    /// of the entries next to the repository.
    pub(super) fn state(&self, git: &Path) -> Result<State, Error> {
        let repo = self.repo();
        let mut state = State::new();
        for (name, args) in [
            ("refs", &["for-each-ref"][..]),
            ("index", &["ls-files", "--stage", "-t", "-v"]),
            ("status", &["--no-optional-locks", "status", "--porcelain=v2", "--branch", "--ignored"]),
            ("worktrees", &["worktree", "list", "--porcelain"]),
        ] {
            state.insert(name.into(), must(git, args, &repo)?);
        }
        for name in ["HEAD", "ORIG_HEAD", "config", "packed-refs"] {
            state.insert(name.into(), fs::read(repo.join(".git").join(name)).unwrap_or_default());
        }
        collect(&repo, &repo.join(".git/logs"), &mut state)?;
        collect(&repo, &repo, &mut state)?;
        for entry in io_of("cannot list", &self.root, fs::read_dir(&self.root))?.flatten() {
            state.insert(format!("beside/{}", entry.file_name().display()), Vec::new());
        }
        state.remove("beside/log");
        let root = self.root.display().to_string();
        for value in state.values_mut() {
            if let Ok(text) = std::str::from_utf8(value)
                && text.contains(&root)
            {
                *value = text.replace(&root, "<side>").into_bytes();
            }
        }
        Ok(state)
    }
}

fn collect(root: &Path, dir: &Path, state: &mut State) -> Result<(), Error> {
    for entry in io_of("cannot list", dir, fs::read_dir(dir))? {
        let path = io_of("cannot list", dir, entry)?.path();
        if path == root.join(".git") {
            continue;
        }
        let name = String::from_utf8_lossy(path.strip_prefix(root).expect("below").as_os_str().as_bytes());
        let meta = io_of("cannot look at", &path, path.symlink_metadata())?;
        let mut value = format!("{:o} ", meta.permissions().mode()).into_bytes();
        if meta.is_symlink() {
            let target = io_of("cannot read", &path, fs::read_link(&path))?;
            value.extend_from_slice(target.as_os_str().as_bytes());
        } else if meta.is_file() {
            value.extend(io_of("cannot read", &path, fs::read(&path))?);
        } else {
            collect(root, &path, state)?;
        }
        state.insert(name.into_owned(), value);
    }
    Ok(())
}

fn io_of<T>(what: &'static str, path: &Path, result: io::Result<T>) -> Result<T, Error> {
    result.map_err(|source| Error::Io { what, path: path.to_owned(), source })
}
