//! Makes a workspace for each of many agents, lets each agent work and commit, and prints the
//! directories: `agents <repository> [<number>]`.

#![expect(clippy::print_stdout, reason = "a program prints its result")]
#![expect(clippy::disallowed_methods, reason = "an agent writes files as any program does")]

use std::{collections::HashMap, error::Error, ffi::OsString, fs, path::Path};

use sapwood::{Repository, Silent, add, commit, workspace::create};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (dir, number) = match args.as_slice() {
        [dir] => (dir, 50),
        [dir, number] => (dir, number.parse()?),
        _ => return Err("usage: agents <repository> [<number>]".into()),
    };
    let environment: HashMap<OsString, OsString> = std::env::vars_os().collect();
    let repository = Repository::open(Path::new(dir), environment.clone())?;
    for number in 1..=number {
        let name = format!("agent-{number}");
        let request = create::Request { name: name.as_str().into(), ..create::Request::default() };
        let workspace = create::plan(&repository, request)?.run(&Silent)?;
        work(&name, &Repository::open(&workspace.path, environment.clone())?)?;
        println!("{}", workspace.path.display());
    }
    Ok(())
}

/// Changes a file, and commits it.
fn work(name: &str, workspace: &Repository) -> Result<(), Box<dyn Error>> {
    let notes = workspace.worktree().ok_or("it has files")?.join("notes.txt");
    fs::write(notes, format!("{name} was here\n"))?;
    add::plan(workspace, add::Request::default())?.run(&Silent)?;
    commit::plan(workspace, commit::Request::staged(format!("work of {name}")))?.run(&Silent)?;
    Ok(())
}
