//! The measured programs, their versions, and a failure of Git that ends by itself.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{Error, build, corpus, measure::must, record::Versions};

/// The options that select the programs.
#[derive(clap::Args)]
pub(crate) struct ProgramOptions {
    #[command(flatten)]
    pub(crate) pair: Pair,
    /// The gix binary (gitoxide); gix is left out if this does not run.
    #[arg(long, default_value = "gix")]
    pub(crate) gix: PathBuf,
}

/// sapwood and Git, where gix has no command to compare with.
#[derive(clap::Args)]
pub(crate) struct Pair {
    /// The sapwood binary; by default the one in the directory of this program.
    #[arg(long)]
    sapwood: Option<PathBuf>,
    /// The git binary. Servers run the `git` in `PATH`, or the one that `SAPWOOD_TEST_GIT` names.
    #[arg(long, default_value = "git")]
    pub(crate) git: PathBuf,
}

impl ProgramOptions {
    /// Finds these programs.
    pub(crate) fn find(&self) -> Result<Programs, Error> {
        Programs::find(&self.pair.git, self.pair.sapwood.as_deref(), Some(&self.gix))
    }
}

impl Pair {
    /// Finds these programs.
    pub(crate) fn find(&self) -> Result<Programs, Error> {
        Programs::find(&self.git, self.sapwood.as_deref(), None)
    }
}

/// The paths of sapwood and gix, and the versions of all programs.
pub(crate) struct Programs {
    pub(crate) sapwood: PathBuf,
    /// `None` if gix does not run.
    pub(crate) gix: Option<PathBuf>,
    pub(crate) versions: Versions,
}

impl Programs {
    /// Finds the programs. `sapwood` is by default the one in the directory of this program. A gix
    /// that does not run is left out.
    pub(crate) fn find(git: &Path, sapwood: Option<&Path>, gix: Option<&Path>) -> Result<Programs, Error> {
        let is_beside = sapwood.is_none();
        let me = std::env::current_exe().map_err(|error| Error::Setup(error.to_string()))?;
        let sapwood = sapwood.map_or_else(|| me.with_file_name("sapwood"), Path::to_owned);
        let sapwood = fs::canonicalize(&sapwood).map_err(|error| {
            Error::Setup(format!("{}: {error}; `cargo build --release` makes it", sapwood.display()))
        })?;
        let sapwood = if is_beside { installed(&sapwood)? } else { sapwood };
        let mut versions = Versions::from([("git".to_owned(), version(git)?)]);
        let said = said_version(&sapwood)?;
        let commit = match build::commit(&said) {
            Some(commit) => Some(commit.to_owned()),
            None => is_beside.then(commit).flatten(),
        };
        let commit = commit.map_or_else(String::new, |commit| format!(", commit {commit}"));
        versions.insert("sapwood".into(), version(&sapwood)? + &commit);
        let gix = gix.and_then(|gix| {
            versions.insert("gix".into(), version(gix).ok()?);
            Some(gix.to_owned())
        });
        Ok(Programs { sapwood, gix, versions })
    }
}

/// Copies a built program, as an installation does. The linker writes its file through a map, so
/// the page cache has it in single pages, and a start takes up to 0.1 ms longer than that of a
/// program that was installed, as Git was.
fn installed(built: &Path) -> Result<PathBuf, Error> {
    let program = corpus::absolute(&corpus::directory().join("bin"))?.join("sapwood");
    let failed = |source| Error::Io { what: "cannot copy the program to", path: program.clone(), source };
    // A process may still execute the old file.
    let _ = fs::remove_file(&program);
    fs::copy(built, &program).map_err(failed)?;
    Ok(program)
}

/// Returns the path of a program. A name is searched for in PATH, so that a call with another PATH
/// starts the same program.
pub(crate) fn located(program: &Path) -> Result<PathBuf, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = if program.components().count() == 1 {
        std::env::split_paths(&path).map(|dir| dir.join(program)).find(|path| path.is_file())
    } else {
        fs::canonicalize(program).ok()
    };
    found.ok_or_else(|| Error::Setup(format!("there is no program '{}'", program.display())))
}

/// Returns the answer to `--version`.
pub(crate) fn said_version(program: &Path) -> Result<String, Error> {
    let text = must(program, &["--version"], Path::new("/"))?;
    Ok(String::from_utf8_lossy(&text).trim().to_owned())
}

fn version(program: &Path) -> Result<String, Error> {
    let text = must(program, &["--version"], Path::new("/"))?;
    let text = String::from_utf8_lossy(&text);
    // The parentheses hold the commit and the target.
    Ok(text.split(" (").next().unwrap_or_default().trim().to_owned())
}

/// Returns the commit of the sources that this program was built from, with `-dirty` if they were
/// changed. A sapwood in the same directory is assumed to be from the same build, because the
/// `justfile` builds both.
fn commit() -> Option<String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text =
        must(Path::new("git"), &["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"], sources);
    Some(String::from_utf8_lossy(&text.ok()?).trim().to_owned())
}

/// Returns true if Git failed because another process was just creating a worktree. Git creates the
/// file `commondir` before it writes the content, and each Git that lists the worktrees in between
/// ends with this error.
pub(crate) fn saw_unfinished_worktree(said: &str) -> bool {
    said.contains("fatal: failed to read ") && said.contains("commondir: Success")
}
