//! The real Git: finding it, and replacing this process by it.
//!
//! Search order: `SAPWOOD_GIT`; then the first `git` in PATH behind the last directory in which
//! PATH has this program under any link. No setting names the real Git: every call that is handed
//! over would have to read the configuration. The search always goes forward from this program's
//! own place, so two shims on one PATH hand over in PATH's order and cannot loop. Where that is not
//! certain (the user named the path, this program is not on PATH, or the program found is a script
//! or another program's link), the step is counted in `SAPWOOD_SHIM_STEPS`. After [`MOST_STEPS`]
//! nested or consecutive steps the search counts as a loop.

use std::{
    ffi::{OsStr, OsString},
    io::Read as _,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use bstr::ByteSlice as _;
use repo::Env;
use sys::{FileType, by_path};

use crate::term::failure::Failure;

pub(crate) mod builtins;

/// Counts the uncertain steps that led to this process.
const STEPS: &str = "SAPWOOD_SHIM_STEPS";

/// The step limit. Legitimate nesting (a wrapper in a hook in an alias in a wrapper) stays below
/// it.
const MOST_STEPS: u32 = 64;

/// The search path if PATH is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Why no real Git was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    #[error("sapwood cannot find the git it stands before: no other 'git' in PATH (set SAPWOOD_GIT)")]
    NotFound,
    #[error("SAPWOOD_GIT names '{}', which is not a program other than sapwood", .0.display())]
    NotAProgram(PathBuf),
    #[error("what is found as git leads back to sapwood (set SAPWOOD_GIT to the real one)")]
    Circle,
}

/// Where to search.
pub(crate) struct Find<'a> {
    pub(crate) env: &'a Env,
    /// The base of relative names on PATH.
    pub(crate) cwd: &'a Path,
}

/// A Git that is not this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RealGit {
    /// The path of its program.
    pub(crate) path: PathBuf,
    /// The number of this step if the program may call this one again; `None` if it cannot.
    step: Option<u32>,
}

impl Find<'_> {
    /// Finds the real Git.
    pub(crate) fn git(&self) -> Result<RealGit, Error> {
        let (path, certain) = self.next()?;
        let step = if certain { None } else { Some(self.step().ok_or(Error::Circle)?) };
        Ok(RealGit { path, step })
    }

    /// Returns the number of the next uncertain step; `None` at the limit.
    fn step(&self) -> Option<u32> {
        let taken = self.env.get(OsStr::new(STEPS)).and_then(|steps| steps.to_str()?.parse().ok());
        let taken: u32 = taken.unwrap_or_default();
        (taken < MOST_STEPS).then_some(taken + 1)
    }

    /// Returns the path, and true if that program certainly does not call this one again.
    fn next(&self) -> Result<(PathBuf, bool), Error> {
        let me = by_path::stat_followed(Path::new("/proc/self/exe"));
        let me = me.ok().flatten().map(|stat| (stat.dev, stat.ino));
        if let Some(path) = self.env.get(OsStr::new("SAPWOOD_GIT")).filter(|path| !path.is_empty()) {
            let path = PathBuf::from(path);
            return match identity(&path) {
                Some(found) if Some(found) != me => Ok((path, false)),
                _ => Err(Error::NotAProgram(path)),
            };
        }
        self.on_path(me).ok_or(Error::NotFound)
    }

    fn on_path(&self, me: Option<(u64, u64)>) -> Option<(PathBuf, bool)> {
        let path = self.env.get(OsStr::new("PATH")).map_or(OsStr::new(DEFAULT_PATH), OsString::as_os_str);
        let programs = std::env::split_paths(path).map(|dir| self.cwd.join(dir).join("git"));
        let programs: Vec<_> = programs.filter_map(|path| Some((identity(&path)?, path))).collect();
        // Take the last match: only from there on does each step lead further down PATH.
        let mine = programs.iter().rposition(|(found, _)| Some(*found) == me);
        if let Some((_, path)) = programs.get(mine.map_or(programs.len(), |mine| mine + 1)) {
            return Some((path.clone(), !may_call_others(path)));
        }
        let other = programs.into_iter().find(|(found, _)| Some(*found) != me);
        other.map(|(_, path)| (path, false))
    }
}

/// Returns device and inode of a program; `None` if the path is not an executable file.
pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    let stat = by_path::stat_followed(path).ok().flatten()?;
    (stat.file_type == FileType::File && stat.mode & 0o111 != 0).then_some((stat.dev, stat.ino))
}

/// Returns true for a script, or a program that behaves according to the name it is called by (as
/// tool version managers do): it may search for a `git` of its own.
fn may_call_others(path: &Path) -> bool {
    let mut start = [0; 2];
    let read = by_path::open(path).and_then(|mut file| file.read_exact(&mut start));
    if read.is_err() || &start == b"#!" {
        return true;
    }
    match by_path::stat(path) {
        Ok(Some(stat)) if stat.file_type != FileType::Symlink => false,
        _ => by_path::canonical(path).map_or(true, |program| program.file_name() != path.file_name()),
    }
}

impl RealGit {
    /// Returns the directory of Git's own programs, such as `git-submodule`.
    pub(crate) fn exec_path(&self, env: &Env) -> Option<PathBuf> {
        if let Some(path) = env.get(OsStr::new("GIT_EXEC_PATH")).filter(|path| !path.is_empty()) {
            return Some(path.into());
        }
        let program = by_path::canonical(&self.path).ok()?;
        let dir = program.parent()?;
        // Without links in the path, the parent is the directory above.
        let above = dir.parent().unwrap_or(dir);
        let candidates = [dir.to_owned(), above.join("libexec/git-core"), above.join("lib/git-core")];
        candidates.into_iter().find(|dir| identity(&dir.join("git-submodule")).is_some())
    }

    /// Returns PATH for programs that Git would start: Git's own directory comes first.
    pub(crate) fn path_for_children(&self, env: &Env) -> Option<OsString> {
        let mut path = self.exec_path(env)?.into_os_string();
        path.push(":");
        path.push(env.get(OsStr::new("PATH")).map_or(OsStr::new(DEFAULT_PATH), OsString::as_os_str));
        Some(path)
    }

    /// Returns a command that runs the real Git as a child process with this environment.
    pub(crate) fn command(&self, env: &Env) -> Command {
        let mut command = Command::new(&self.path);
        command.env_clear().envs(env);
        if let Some(step) = self.step {
            command.env(STEPS, step.to_string());
        }
        command
    }

    /// Replaces this process by the real Git. Only returns if that fails.
    pub(crate) fn exec(&self, name: &OsStr, argv: &[OsString], env: &Env) -> Failure {
        let mut argv = argv.to_vec();
        let given = argv.first().cloned().unwrap_or_default();
        let mut program = self.path.clone();
        if name.as_bytes().starts_with(b"git-") {
            // Git may have a program of this name; otherwise Git resolves the name itself.
            let own = self.exec_path(env).map(|dir| dir.join(name)).filter(|path| identity(path).is_some());
            program = own.unwrap_or(program);
        } else if given.as_bytes().contains_str("/") {
            // Git may search for its own files relative to the path in `argv[0]`.
            argv = std::iter::once(program.clone().into()).chain(argv.into_iter().skip(1)).collect();
        }
        let step = self.step.map(|step| OsString::from(step.to_string()));
        let step = step.as_ref().map(|step| (OsStr::new(STEPS), step.as_os_str()));
        let error = sys::exec(program.as_os_str(), &argv, step);
        Failure::fatal(format!(
            "cannot exec '{}': {}",
            program.display(),
            crate::term::text::os_error(&error)
        ))
    }
}
