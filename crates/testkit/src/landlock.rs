//! Commands under Landlock, the sandbox that the kernel gives every process.

use std::{
    io,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
};

use landlock::{
    ABI, Access as _, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreated,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus,
};

/// The newest rules that the tests know.
const NEWEST: ABI = ABI::V5;

/// Returns true if the kernel obeys rules.
pub fn is_enforced() -> bool {
    let probe = || Ok::<_, RulesetError>(ruleset(&[], &[])?.restrict_self()?.ruleset);
    // The rules stay with the thread.
    let status = thread::scope(|scope| scope.spawn(probe).join());
    matches!(status, Ok(Ok(RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced)))
}

/// Runs a command that may read only files below `read`, and change only files below `write`.
pub fn output(command: &mut Command, read: &[PathBuf], write: &[PathBuf]) -> io::Result<Output> {
    thread::scope(|scope| {
        let run = scope.spawn(|| {
            // A thread keeps the rules, and its children inherit them.
            let restricted = ruleset(read, write).and_then(RulesetCreated::restrict_self);
            restricted.map_err(io::Error::other)?;
            command.output()
        });
        run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn ruleset(read: &[PathBuf], write: &[PathBuf]) -> Result<RulesetCreated, RulesetError> {
    let mut rules = Ruleset::default().handle_access(AccessFs::from_all(NEWEST))?.create()?;
    for (paths, access) in [(read, AccessFs::from_read(NEWEST)), (write, AccessFs::from_all(NEWEST))] {
        for path in paths {
            let opened = PathFd::new::<&Path>(path).expect("a path of the test");
            // A file has fewer rights than a directory.
            let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
            rules = rules.add_rule(PathBeneath::new(opened, access))?;
        }
    }
    Ok(rules)
}
