//! `workspace hook`: the hooks with which coding agents create and remove their worktrees.
//!
//! Commands of this program do the work. The directory of a new workspace is the only thing on
//! standard output, because the agent reads it.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use bstr::BString;
use sapwood::workspace::places;
use serde_json::Value;

use super::request::{HOOK, Request};
use crate::{
    commands::checkpoint::hook::read_document,
    session::{invocation::Invocation, reexec},
    term::failure::Failure,
};

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let words = HOOK.parse(args)?.store(&mut Request::default())?;
    let act = match &words[..] {
        [word] if word == "create" => create,
        [word] if word == "remove" => remove,
        _ => return Err(Failure::fatal("name the hook: create or remove")),
    };
    act(run, &read_document(run)?)
}

fn create(run: &Invocation, document: &Value) -> Result<u8, Failure> {
    let given = field(document, "name")?;
    // A name is part of a path and of a branch.
    let name: String = given.chars().map(|letter| if letter == '/' { '-' } else { letter }).collect();
    let name = name.trim_start_matches('-');
    let cwd = document.get("cwd").and_then(Value::as_str).map(Path::new);
    let dir = cwd.filter(|dir| dir.is_absolute() && dir.is_dir()).unwrap_or(&run.cwd);
    let known = run.look_for_repository_at(dir)?.map(|repo| repo.real_common_dir());
    let known = known.is_some_and(|common| common.join("sapwood/workspaces").join(name).is_dir());
    if !known {
        let mut command = sapwood(run, dir, &["create", "--quiet", name]);
        command.stdout(std::io::stderr());
        match reexec::run(run, command)? {
            0 => {}
            code => return Err(Failure::Reported(code)),
        }
    }
    reexec::run(run, sapwood(run, dir, &["dir", name]))
}

fn remove(run: &Invocation, document: &Value) -> Result<u8, Failure> {
    let path = PathBuf::from(field(document, "worktree_path")?);
    let repo = run.look_for_repository_at(&path)?;
    // A directory in a workspace is found too, and is not the workspace.
    let is_linked = |repo: &repo::Repository| repo.git_dir() != repo.common_dir();
    let Some(repo) = repo.filter(|repo| is_linked(repo) && places::is_top(repo, &path)) else {
        return Err(Failure::error(format!("'{}' is no workspace", path.display())));
    };
    let (common, name) = (repo.real_common_dir(), repo.git_dir().file_name().map(ToOwned::to_owned));
    drop(repo);
    let mut command = sapwood(run, &common, &["remove"]);
    command.args(name).stdout(std::io::stderr());
    reexec::run(run, command)
}

fn field<'a>(document: &'a Value, name: &str) -> Result<&'a str, Failure> {
    let value = document.get(name).and_then(Value::as_str).filter(|value| !value.is_empty());
    value.ok_or_else(|| Failure::error(format!("the document on standard input has no field '{name}'")))
}

/// Returns a subcommand of `workspace`, run in a directory.
fn sapwood(run: &Invocation, dir: &Path, args: &[&str]) -> Command {
    let mut command = reexec::as_sapwood(run);
    command.current_dir(dir).arg("workspace").args(args).stdin(Stdio::null());
    command
}
