//! A rebase by the real Git, with the commits that `git pull` passes to it.

use std::process::Stdio;

use bstr::{BStr, BString, ByteSlice as _};
use engine::fetch::{remote::Remote, submodules};
use sapwood::ObjectId;

use super::options::{Rebase, Request};
use crate::{
    commands::nested,
    session::{Session, real_git},
    term::{console, failure::Failure, text::os_error},
};

/// The commits of a rebase.
pub(super) struct Target {
    current: ObjectId,
    onto: ObjectId,
    upstream: ObjectId,
}

impl Target {
    /// `fork` is the result of [`fork_point`].
    pub(super) fn new(
        session: Session<'_>,
        current: ObjectId,
        theirs: ObjectId,
        fork: Option<ObjectId>,
    ) -> Result<Target, Failure> {
        let upstream = match fork {
            Some(fork) => {
                let commits = [current, theirs, fork].map(|oid| oid.to_string());
                let args = ["merge-base", "--octopus", &commits[0], &commits[1], &commits[2]];
                let base = first_oid(session, &args)?;
                if base == Some(fork) { theirs } else { fork }
            }
            None => theirs,
        };
        Ok(Target { current, onto: theirs, upstream })
    }

    /// Runs the rebase. Returns its exit code.
    pub(super) fn run(&self, session: Session<'_>, request: &Request, how: Rebase) -> Result<u8, Failure> {
        if Request::is(&request.verify_signatures, "--verify-signatures") {
            console::warning("ignoring --verify-signatures for rebase");
        }
        let mut args = request.for_rebase(how);
        args.extend(["--onto".into(), self.onto.to_string().into(), self.upstream.to_string().into()]);
        nested::by_git(session.invocation, "rebase", &args)
    }

    /// Returns an error if local commits change submodules: a rebase would replace these commits
    /// and update the submodules.
    pub(super) fn refuse_changed_submodules(&self, session: Session<'_>) -> Result<(), Failure> {
        let changed = submodules::changed(session.repository, &[self.current], &[self.upstream])?;
        match changed.as_slice() {
            [] => Ok(()),
            _ => Err(Failure::fatal("cannot rebase with locally recorded submodule modifications")),
        }
    }
}

/// Returns the fork point of the current branch and its upstream, by the reflog of the
/// remote-tracking branch.
pub(super) fn fork_point(
    session: Session<'_>,
    repository: Option<&BStr>,
    refspec: Option<&BStr>,
) -> Result<Option<ObjectId>, Failure> {
    let repo = session.repository;
    let head = repo.head()?;
    let Some(branch) = head.branch() else { return Ok(None) };
    let tracking = match (repository, refspec) {
        (Some(repository), Some(refspec)) => tracking_branch(repository, refspec),
        _ => {
            let name = repository.map_or_else(|| Remote::default_name(repo), |name| Ok(name.to_owned()))?;
            let is_ours = repo.remote_of(branch) == name;
            if is_ours { repo.require_upstream(branch).ok() } else { None }
        }
    };
    let Some(tracking) = tracking else { return Ok(None) };
    let short = branch.strip_prefix(b"refs/heads/").unwrap_or(branch);
    let (tracking, short) = (tracking.to_str_lossy(), short.to_str_lossy());
    first_oid(session, &["merge-base", "--fork-point", &tracking, &short])
}

/// Derives the remote-tracking branch of a refspec, as Git does.
fn tracking_branch(remote: &BStr, refspec: &BStr) -> Option<BString> {
    let refspec = refspec.strip_prefix(b"+").unwrap_or(refspec);
    let source = refspec.split_once_str(":").map_or(refspec, |(source, _)| source);
    let source: &[u8] = match source {
        b"" | b"HEAD" => b"HEAD",
        _ => match source.strip_prefix(b"heads/").or_else(|| source.strip_prefix(b"refs/heads/")) {
            Some(name) => name,
            None if [&b"refs/"[..], b"tags/", b"remotes/"].iter().any(|lead| source.starts_with(lead)) => {
                return None;
            }
            None => source,
        },
    };
    let lead = if remote == "." { "refs/heads/".into() } else { format!("refs/remotes/{remote}/") };
    (!source.is_empty()).then(|| [lead.as_bytes(), source].concat().into())
}

/// Returns the object in the first line of a command of the real Git; `None` if it fails or Git is
/// missing.
fn first_oid(session: Session<'_>, args: &[&str]) -> Result<Option<ObjectId>, Failure> {
    let text = output(session, args)?;
    let line = text.lines().next().unwrap_or_default();
    Ok(ObjectId::from_hex(session.repository.hash(), line))
}

fn output(session: Session<'_>, args: &[&str]) -> Result<Vec<u8>, Failure> {
    let Some(mut git) = real_git::command(session.invocation) else { return Ok(Vec::new()) };
    let run = git.args(args).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let done = run.map_err(|error| Failure::fatal(format!("cannot run git: {}", os_error(&error))))?;
    Ok(if done.status.success() { done.stdout } else { Vec::new() })
}
