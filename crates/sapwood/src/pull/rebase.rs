//! The commits of a rebase after a fetch, which the real Git helps to find.

use std::process::Stdio;

use bstr::{BStr, BString, ByteSlice as _};
use engine::fetch::{remote::Remote, submodules};
use format::ObjectId;

use crate::{Context, Error};

/// The commits of a rebase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The commit that HEAD has.
    pub current: ObjectId,
    /// The commit that the commits of HEAD are put onto.
    pub onto: ObjectId,
    /// The commit that those commits begin after.
    pub upstream: ObjectId,
}

impl Target {
    /// Finds them. `fork` is the result of [`fork_point`].
    pub fn find(
        context: Context<'_>,
        current: ObjectId,
        theirs: ObjectId,
        fork: Option<ObjectId>,
    ) -> Result<Target, Error> {
        let upstream = match fork {
            Some(fork) => {
                let commits = [current, theirs, fork].map(|oid| oid.to_string());
                let args = ["merge-base", "--octopus", &commits[0], &commits[1], &commits[2]];
                let base = first_oid(context, &args)?;
                if base == Some(fork) { theirs } else { fork }
            }
            None => theirs,
        };
        Ok(Target { current, onto: theirs, upstream })
    }

    /// Returns an error if local commits change submodules: a rebase would replace these commits
    /// and update the submodules.
    pub fn refuse_changed_submodules(&self, repo: &repo::Repository) -> Result<(), Error> {
        let changed = submodules::changed(repo, &[self.current], &[self.upstream])?;
        match changed.as_slice() {
            [] => Ok(()),
            _ => Err(Error::failed("cannot rebase with locally recorded submodule modifications")),
        }
    }
}

/// Returns the fork point of the current branch and its upstream, by the reflog of the
/// remote-tracking branch. `None` without a real Git.
pub fn fork_point(
    context: Context<'_>,
    repository: Option<&BStr>,
    refspec: Option<&BStr>,
) -> Result<Option<ObjectId>, Error> {
    let repo = context.repo;
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
    first_oid(context, &["merge-base", "--fork-point", &tracking, &short])
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
fn first_oid(context: Context<'_>, args: &[&str]) -> Result<Option<ObjectId>, Error> {
    let Some(mut git) = context.events.git() else { return Ok(None) };
    let run = git.args(args).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let done = run.map_err(|error| Error::failed(format!("cannot run git: {}", sys::reason(&error))))?;
    let line = done.stdout.lines().next().filter(|_| done.status.success());
    Ok(line.and_then(|line| ObjectId::from_hex(context.repo.hash(), line)))
}
