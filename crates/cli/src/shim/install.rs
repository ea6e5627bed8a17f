//! `sapwood shim install`, `status` and `remove`: a link called `git`, and the shell line that puts
//! its directory first on PATH.
//!
//! The line goes to standard output and everything else to standard error, so `eval "$(sapwood shim
//! install)"` enables the shim for one shell. Only links to sapwood are replaced or removed.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BString, ByteSlice as _};
use sys::by_path;

use crate::{
    commands::record::{Command, Group},
    git::{self, Find},
    session::invocation::Invocation,
    term::{
        args::{Grammar, Opt, Set, Table},
        console::{self, text},
        failure::Failure,
    },
};

/// The record of `shim`.
pub(super) const COMMAND: Command = Command {
    name: "shim",
    summary: "Put a `git` first on PATH that is sapwood where it can be",
    about: "Makes a link called `git` that is sapwood, and prints the line that puts its directory first on \
            PATH: `eval \"$(sapwood shim install)\"` switches it on in one shell. Add the line to \
            `~/.profile` for all shells. `--repository` puts the link into the Git directory of this \
            repository.\n\n\
            Called as `git`, sapwood runs a command itself where it does exactly what Git does, and becomes \
            the real Git for all others. `SAPWOOD_SHIM=off` switches it off, `SAPWOOD_SHIM_LOG=<file>` logs \
            each call. `sapwood shim status` shows which program is `git`.",
    group: Group::Own,
    syntax: &TABLE,
    run,
    ..Command::BASE
};

#[derive(Default)]
struct Request {
    in_repository: bool,
}

const TABLE: Table<Set<Request>> = Table {
    usage: &[
        "sapwood shim install [--repository] [<dir>]",
        "sapwood shim status",
        "sapwood shim remove [--repository] [<dir>]",
    ],
    options: &[
        Opt::flag("--repository", "in the Git directory of this repository", field!(in_repository)).only()
    ],
    grammar: Grammar::Mixed,
};

/// Runs `sapwood shim`. Returns the exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let rest = TABLE.parse(args)?.store(&mut request)?;
    let in_repository = request.in_repository;
    let words: Vec<&[u8]> = rest.iter().map(|word| word.as_bytes()).collect();
    match words[..] {
        [b"install"] => install(run, &place(run, in_repository, None)?),
        [b"install", dir] => install(run, &place(run, in_repository, Some(dir))?),
        [b"status"] if !in_repository => status(run),
        [b"remove"] => remove(&place(run, in_repository, None)?),
        [b"remove", dir] => remove(&place(run, in_repository, Some(dir))?),
        _ => {
            console::eprint_raw(TABLE.help().as_bytes());
            Ok(129)
        }
    }
}

/// Returns the directory for the link.
fn place(run: &Invocation, in_repository: bool, dir: Option<&[u8]>) -> Result<PathBuf, Failure> {
    match (in_repository, dir) {
        (true, Some(_)) => Err(Failure::fatal("'--repository' cannot be used with a directory")),
        (true, None) => Ok(run.open()?.common_dir().join("sapwood")),
        (false, Some(dir)) => run.path(dir),
        (false, None) => default_place(run)
            .ok_or_else(|| Failure::fatal("neither XDG_DATA_HOME nor HOME is set: name a directory")),
    }
}

pub(super) fn default_place(run: &Invocation) -> Option<PathBuf> {
    let variable = |name| run.env.get(OsStr::new(name)).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = variable("XDG_DATA_HOME").or_else(|| Some(variable("HOME")?.join(".local/share")))?;
    Some(data.join("sapwood/bin"))
}

fn install(run: &Invocation, dir: &Path) -> Result<u8, Failure> {
    let failed = |what: &str, path: &Path, error: &std::io::Error| {
        Failure::fatal(format!("cannot {what} '{}': {}", path.display(), crate::term::text::os_error(error)))
    };
    let program = Path::new("/proc/self/exe");
    let program = by_path::canonical(program).map_err(|error| failed("find", program, &error))?;
    by_path::create_dir_all(dir).map_err(|error| failed("make", dir, &error))?;
    let link = dir.join("git");
    if !matches!(by_path::stat(&link), Ok(None)) && !is_ours(&link) {
        return Err(Failure::fatal(format!("'{}' is there and not sapwood's", link.display())));
    }
    // An old link stays in place until the rename replaces it.
    let new = dir.join(format!(".git-{}", std::process::id()));
    by_path::symlink(&program, &new).map_err(|error| failed("make", &new, &error))?;
    by_path::rename(&new, &link).map_err(|error| {
        let _ = by_path::remove_file(&new);
        failed("make", &link, &error)
    })?;
    console::eprint_line(format!(
        "'{}' is sapwood now.\nThis line, for the shell's start-up file, an .envrc, or `eval`, puts it first:",
        link.display()
    ));
    console::out(shell_line(run, dir));
    Ok(0)
}

/// Returns the line that puts `dir` first on PATH, in the syntax of the user's shell.
fn shell_line(run: &Invocation, dir: &Path) -> BString {
    let dir = text!("'", dir.as_os_str().as_bytes().replace("'", "'\\''"), "'");
    let shell =
        run.env.get(OsStr::new("SHELL")).map(|shell| Path::new(shell).file_name().unwrap_or_default());
    match shell.map(OsStr::as_bytes) {
        Some(b"fish") => text!("set -gx PATH ", dir, " $PATH"),
        Some(b"csh" | b"tcsh") => text!("setenv PATH ", dir, ":\"$PATH\""),
        _ => text!("export PATH=", dir, ":\"$PATH\""),
    }
}

fn remove(dir: &Path) -> Result<u8, Failure> {
    let link = dir.join("git");
    if !is_ours(&link) {
        return Err(Failure::fatal(format!("'{}' is not sapwood's, or not there", link.display())));
    }
    by_path::remove_file(&link).map_err(|error| {
        Failure::fatal(format!("cannot remove '{}': {}", link.display(), crate::term::text::os_error(&error)))
    })?;
    // The removal fails, as intended, if the directory has other entries.
    let _ = by_path::remove_dir(dir);
    console::eprint_line(format!("'{}' is gone. Running shells may need `hash -r`.", link.display()));
    Ok(0)
}

/// Returns true for a link to this program, or to a file called `sapwood` that may no longer exist.
fn is_ours(link: &Path) -> bool {
    let Ok(Some(target)) = by_path::read_link(link) else { return false };
    target.file_name() == Some(OsStr::new("sapwood")) || is_this_program(link)
}

pub(super) fn is_this_program(path: &Path) -> bool {
    let identity = |path: &Path| {
        let stat = by_path::stat_followed(path).ok().flatten();
        stat.map(|stat| (stat.dev, stat.ino))
    };
    identity(path).is_some_and(|found| Some(found) == identity(Path::new("/proc/self/exe")))
}

/// Returns the `git` that PATH finds first.
pub(super) fn first_git(run: &Invocation) -> Option<PathBuf> {
    let path = run.env.get(OsStr::new("PATH"))?;
    let programs = std::env::split_paths(path).map(|dir| run.cwd.join(dir).join("git"));
    programs.into_iter().find(|path| git::identity(path).is_some())
}

/// Prints the state of the shim. The exit code is 0 if `git` is sapwood.
fn status(run: &Invocation) -> Result<u8, Failure> {
    let first = first_git(run);
    let active = first.as_deref().is_some_and(is_this_program);
    match &first {
        Some(git) if active => console::out(format!("git       {} (sapwood)", git.display())),
        Some(git) => console::out(format!("git       {} (not this sapwood)", git.display())),
        None => console::out("git       not in PATH"),
    }
    match (Find { env: &run.env, cwd: &run.cwd }).git() {
        Ok(git) => console::out(format!("real git  {}", git.path.display())),
        Err(error) => console::out(format!("real git  {error}")),
    }
    let variable = |name| run.variable(name).filter(|value| !value.is_empty());
    console::out(text!("switch    ", variable("SAPWOOD_SHIM").unwrap_or(b"on")));
    console::out(text!("log       ", variable("SAPWOOD_SHIM_LOG").unwrap_or(b"none")));
    Ok(u8::from(!active))
}
