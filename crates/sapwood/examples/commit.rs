//! Commits all changes of a worktree, new files too: `commit <directory> <message>`.

#![expect(clippy::print_stdout, reason = "a program prints its result")]

use std::path::PathBuf;

use sapwood::{Events, Notice, Repository, add, commit};

/// Prints notices, such as that of a hook which cannot be run.
struct Print;

impl Events for Print {
    fn notice(&self, notice: Notice) {
        println!("{:?}: {notice}", notice.level());
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let dir = args.next().map(PathBuf::from).ok_or("commit <directory> <message>")?;
    let message = args.next().ok_or("commit <directory> <message>")?.into_encoded_bytes();
    let repository = Repository::open(&dir, std::env::vars_os().collect())?;
    add::plan(&repository, add::Request::default())?.run(&Print)?;
    let report = commit::plan(&repository, commit::Request::staged(message))?.run(&Print)?;
    println!("{}", report.commit);
    Ok(())
}
