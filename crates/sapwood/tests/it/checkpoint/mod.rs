//! Checkpoints, undo, redo and forks as operations. Git looks at the result.

mod damaged;
mod expiry;
mod forks;
mod limits;
mod model;
mod random;
mod refused;
mod series;
mod states;
mod watched;

use sapwood::{
    Silent,
    checkpoint::{
        self,
        undo::{self, Goal},
    },
};
use testkit::{Repo, Sandbox};

use crate::open;

const NONE_LEFT: &str = "nothing to undo: 1 back is asked for, and 0 are there";

/// A repository with two files and a commit.
fn committed(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.init("repo");
    repo.write(".gitignore", "*.o\n");
    repo.write("a", "1\n");
    repo.write("dir/b", "2\n");
    repo.commit("one");
    repo
}

fn checkpoint(repo: &Repo<'_>, label: &str) -> checkpoint::Report {
    let request = checkpoint::Request { label: label.into(), ..checkpoint::Request::default() };
    checkpoint::plan(&open(repo), request).expect("a plan").run(&Silent).expect("a checkpoint")
}

/// Restores an entry; an error is its text.
fn travel(repo: &Repo<'_>, goal: Goal, head: bool) -> Result<undo::Report, String> {
    let repository = open(repo);
    let request = undo::Request { goal, head, ..undo::Request::default() };
    let plan = undo::plan(&repository, request).map_err(|error| error.to_string())?;
    plan.run(&Silent).map_err(|error| error.to_string())
}

fn undo(repo: &Repo<'_>) -> undo::Report {
    travel(repo, Goal::Back(1), false).expect("an undo")
}

fn redo(repo: &Repo<'_>) -> undo::Report {
    travel(repo, Goal::Forward(1), false).expect("a redo")
}

fn status(repo: &Repo<'_>) -> String {
    repo.git(&["status", "--porcelain", "-uall"]).stdout.to_string()
}
