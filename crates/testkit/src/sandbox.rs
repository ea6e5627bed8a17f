//! A temporary directory that is isolated from the user's machine: own home, no system or global
//! configuration, a fixed clock and identity, plain messages.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use bstr::{BString, ByteSlice as _};
use tempfile::TempDir;

/// A directory that is deleted when the value is dropped.
pub struct Sandbox {
    root: TempDir,
    git: PathBuf,
}

impl Default for Sandbox {
    fn default() -> Self {
        Sandbox::new()
    }
}

impl Sandbox {
    /// Creates an empty sandbox. Git is the program in `SAPWOOD_TEST_GIT`, or the one in `PATH`.
    pub fn new() -> Sandbox {
        let root = tempfile::Builder::new().prefix("sapwood-").tempdir().expect("a temporary directory");
        fs::create_dir(root.path().join("home")).expect("an empty sandbox");
        let git = std::env::var_os("SAPWOOD_TEST_GIT").map_or_else(|| "git".into(), PathBuf::from);
        Sandbox { root, git }
    }

    /// Returns the directory, without symbolic links in its path.
    pub fn path(&self) -> PathBuf {
        self.root.path().canonicalize().expect("the sandbox exists")
    }

    /// Creates a repository `name` with branch `main` and no commit.
    pub fn init(&self, name: &str) -> Repo<'_> {
        let repo = self.repo(name);
        fs::create_dir_all(&repo.path).expect("a new directory");
        repo.git(&["init", "-q", "-b", "main"]);
        repo
    }

    /// Returns the directory `name` of the sandbox, to run commands in it.
    pub fn repo(&self, name: &str) -> Repo<'_> {
        Repo { sandbox: self, path: self.path().join(name) }
    }

    /// Returns Git's version as (major, minor).
    pub fn git_version(&self) -> (u32, u32) {
        let text = self.repo("").git(&["version"]);
        let digits: Vec<u32> = text
            .stdout
            .to_str_lossy()
            .split(|letter: char| !letter.is_ascii_digit())
            .filter_map(|number| number.parse().ok())
            .collect();
        (digits[0], digits[1])
    }
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Exit code; 128 + n if signal n ended the command.
    pub code: i32,
    /// Standard output.
    pub stdout: BString,
    /// Standard error.
    pub stderr: BString,
}

/// A directory in a sandbox, usually a repository's worktree.
#[derive(Clone)]
pub struct Repo<'a> {
    sandbox: &'a Sandbox,
    /// Absolute.
    pub path: PathBuf,
}

impl Repo<'_> {
    /// Runs Git here; it must succeed.
    pub fn git(&self, args: &[&str]) -> Run {
        let run = self.try_git(args);
        assert_eq!(run.code, 0, "git {args:?} failed: {}", run.stderr);
        run
    }

    /// Runs Git here.
    pub fn try_git(&self, args: &[&str]) -> Run {
        self.run(&self.sandbox.git.clone(), args)
    }

    /// Runs any program here.
    pub fn run(&self, program: &Path, args: &[&str]) -> Run {
        let args: Vec<&OsStr> = args.iter().map(|arg| OsStr::new(*arg)).collect();
        let output = self.command(program).args(args).output().expect("the program can be run");
        let code = output.status.code().unwrap_or_else(|| {
            use std::os::unix::process::ExitStatusExt as _;
            128 + output.status.signal().unwrap_or(0)
        });
        Run { code, stdout: output.stdout.into(), stderr: output.stderr.into() }
    }

    /// Returns a Git command with the sandbox's environment and this working directory.
    pub fn git_command(&self) -> Command {
        self.command(&self.sandbox.git)
    }

    /// Returns a command with the sandbox's environment and this working directory.
    pub fn command(&self, program: &Path) -> Command {
        let home = self.sandbox.path().join("home");
        let mut command = Command::new(program);
        command.current_dir(&self.path).env_clear();
        for name in ["LD_LIBRARY_PATH", "TMPDIR", "SAPWOOD_TEST_CHECKOUT_WORKERS"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        // The oracle's directory comes first: every program that runs Git or looks for its
        // templates finds the oracle.
        let path = std::env::var_os("PATH").unwrap_or_default();
        let oracle = self.sandbox.git.parent().filter(|dir| dir.is_absolute()).map(Path::to_owned);
        let dirs = oracle.into_iter().chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(dirs).expect("taken from a PATH"));
        command
            .env("HOME", &home)
            .env("XDG_CONFIG_HOME", home.join(".config"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CEILING_DIRECTORIES", self.sandbox.path())
            .env("GIT_AUTHOR_NAME", "A U Thor")
            .env("GIT_AUTHOR_EMAIL", "author@example.com")
            .env("GIT_AUTHOR_DATE", "1112911993 -0700")
            .env("GIT_COMMITTER_NAME", "C O Mitter")
            .env("GIT_COMMITTER_EMAIL", "committer@example.com")
            .env("GIT_COMMITTER_DATE", "1112911993 -0700")
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            // `git reset --hard` shows progress without a terminal, once it takes long enough.
            .env("GIT_PROGRESS_DELAY", "3600")
            // A commit waits for its maintenance, which would otherwise run in the background
            // during the test.
            .env("GIT_TEST_MAINT_AUTO_DETACH", "false")
            .env("TERM", "dumb");
        command
    }

    /// Like [`Repo::command`], for a program that gets signals. They have their default action,
    /// even if this process ignores them: a shell ignores SIGINT and SIGQUIT in its background
    /// jobs, and `nohup` ignores SIGHUP.
    pub fn interruptible(&self, program: &Path) -> Command {
        let mut command = self.command("env".as_ref());
        command.arg("--default-signal=HUP,INT,QUIT").arg(program);
        command
    }

    /// Writes a file, and creates its directories.
    pub fn write(&self, path: impl AsRef<[u8]>, content: impl AsRef<[u8]>) {
        let path = self.join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("directories can be made");
        fs::write(&path, content).expect("the file can be written");
    }

    /// Writes an executable file.
    pub fn write_executable(&self, path: impl AsRef<[u8]>, content: impl AsRef<[u8]>) {
        let path = self.join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("directories can be made");
        crate::write_program(&path, content);
    }

    /// Creates a symbolic link.
    pub fn symlink(&self, target: &str, path: impl AsRef<[u8]>) {
        let path = self.join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("directories can be made");
        std::os::unix::fs::symlink(target, path).expect("the link can be made");
    }

    /// Reads a file.
    pub fn read(&self, path: impl AsRef<[u8]>) -> BString {
        fs::read(self.join(path)).expect("the file exists").into()
    }

    /// Removes a file, a link, or a directory with its content.
    pub fn remove(&self, path: impl AsRef<[u8]>) {
        let path = self.join(path);
        match path.symlink_metadata() {
            Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
            _ => fs::remove_file(path),
        }
        .expect("the path can be removed");
    }

    /// Returns true if the path exists.
    pub fn exists(&self, path: impl AsRef<[u8]>) -> bool {
        self.join(path).symlink_metadata().is_ok()
    }

    /// Adds everything and commits.
    pub fn commit(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
    }

    /// Returns the path of an entry below the directory.
    pub fn join(&self, path: impl AsRef<[u8]>) -> PathBuf {
        self.path.join(OsStr::from_bytes(path.as_ref()))
    }
}
