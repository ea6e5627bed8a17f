//! Prints the paths of a worktree that differ, and untracked paths: `status [<directory>]`.

#![expect(clippy::print_stdout, reason = "a program prints its result")]

use std::path::PathBuf;

use sapwood::{Repository, Silent, status};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    let repository = Repository::open(&dir, std::env::vars_os().collect())?;
    let status = status::plan(&repository, status::Request::default())?.run(&Silent)?;
    for (path, change) in &status.changes {
        println!("{path}: index {:?}, worktree {:?}", change.index, change.worktree);
    }
    for path in &status.untracked {
        println!("{path}: untracked");
    }
    Ok(())
}
