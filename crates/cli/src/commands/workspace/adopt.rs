//! `workspace adopt`: a union that the user mounted reports the changes of its worktree.
//!
//! Order: the record; the configuration of the worktree; one status, which examines every file and
//! stores the first token. A kill in between leaves a worktree in which every file is examined.

use std::process::{Command, Stdio};

use bstr::BString;
use engine::workspace::{record, union::Union};
use repo::{OpenOptions, Repository};
use sapwood::workspace::monitor::{self, Remote};

use super::{
    context,
    request::{ADOPT, Request},
};
use crate::{
    session::{invocation::Invocation, settings::Settings},
    term::{
        console::{self, text},
        failure::Failure,
        files,
    },
};

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let words = ADOPT.parse(args)?.store(&mut request)?;
    let [dir] = words.as_slice() else { return Err(Failure::fatal("name the directory of one union")) };
    let union = Union::mounted_at(&run.path(dir)?)?;
    let repo = Repository::open(&OpenOptions { cwd: union.dir.clone(), ..run.outside() })?;
    let is_top = repo.work_tree().and_then(|top| files::canonical(top).ok()).as_ref() == Some(&union.dir);
    if !is_top {
        return Err(Failure::fatal(format!("'{}' is not the top of a worktree", union.dir.display())));
    }
    if record::of_git_dir(repo.common_dir(), repo.git_dir())?.is_some() {
        return Err(Failure::fatal(format!("'{}' is a workspace already", union.dir.display())));
    }
    let settings = Settings::read(&repo)?;
    union.adopt(repo.git_dir(), &settings.fsync)?;
    sapwood::worktree_config::begin(&repo, &settings)?;
    let remote = if union.is_fuse() { Remote::Fuse } else { Remote::No };
    monitor::configure(repo.git_dir(), &settings, &context::this_program()?, remote)?;
    let mut status = Command::new(context::this_program()?);
    status.current_dir(&union.dir).arg("status").stdin(Stdio::null()).stdout(Stdio::null());
    let examined =
        status.status().map_err(|error| Failure::fatal(format!("cannot run 'status': {error}")))?;
    if !request.quiet {
        let name = |path: &std::path::Path| path.as_os_str().as_encoded_bytes().to_vec();
        console::out(text!(
            "'",
            name(&union.dir),
            "' reports changes from its layer '",
            name(&union.upper),
            "'"
        ));
    }
    Ok(u8::from(!examined.success()))
}
