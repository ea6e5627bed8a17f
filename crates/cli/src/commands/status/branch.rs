//! The branch and its upstream, in the formats for scripts: `##` of the short format, `# branch.*`
//! of porcelain version 2.

use std::time::{Duration, Instant};

use bstr::{BStr, ByteSlice as _};
use repo::{Head, Repository, Tracking};

use super::{
    options::{Format, Request},
    report::{Slot, StatusReport},
};
use crate::{
    session::{
        settings::Settings,
        tracking::{self, AheadBehind, TrackingReport},
    },
    term::{console::text, failure::Failure},
};

/// The comparison of HEAD's branch with its upstream.
#[derive(Debug)]
pub(super) enum Comparison {
    /// There is no branch, or the output does not include it.
    Nothing,
    /// The text for the long format, and the time spent on the comparison.
    Words(TrackingReport, Duration),
    /// The numbers for the short formats.
    Upstream(UpstreamRelation),
}

impl Comparison {
    pub(super) fn find(
        repo: &Repository,
        settings: &Settings,
        request: &Request,
        head: &Head,
    ) -> Result<Comparison, Failure> {
        let Some(branch) = head.branch() else { return Ok(Comparison::Nothing) };
        match request.format {
            Format::Long if head.oid().is_some() && branch.starts_with(b"refs/heads/") => {
                let began = Instant::now();
                let said = tracking::compare(repo, settings, branch, request.ahead_behind)?;
                Ok(Comparison::Words(said, began.elapsed()))
            }
            Format::Short | Format::Porcelain | Format::PorcelainV2 if request.branch => {
                UpstreamRelation::find(repo, request, branch).map(Comparison::Upstream)
            }
            _ => Ok(Comparison::Nothing),
        }
    }

    /// Limits the reported time to `waited`, the time that the command was blocked.
    pub(super) fn within(self, waited: Duration) -> Comparison {
        match self {
            Comparison::Words(said, took) => Comparison::Words(said, took.min(waited)),
            other => other,
        }
    }
}

/// The relation between a branch and its upstream.
#[derive(Debug)]
pub(super) enum UpstreamRelation {
    /// The branch has no upstream.
    NoUpstream,
    /// The upstream is configured but missing, or the branch has no commit.
    Gone(Tracking),
    Same(Tracking),
    /// Branch and upstream differ; the commits were not counted.
    Different(Tracking),
    Diverged(Tracking, usize, usize),
}

impl UpstreamRelation {
    /// Finds the upstream of a branch (full name) and compares the two.
    fn find(repo: &Repository, request: &Request, branch: &BStr) -> Result<UpstreamRelation, Failure> {
        let Some(upstream) = repo.upstream_of(branch)? else { return Ok(UpstreamRelation::NoUpstream) };
        let ours = match repo.find_ref(branch)? {
            Some(oid) => repo.commit_if_there(oid)?,
            None => None,
        };
        let (Some(ours), Some(theirs)) = (ours, upstream.oid) else {
            return Ok(UpstreamRelation::Gone(upstream));
        };
        if ours == theirs {
            return Ok(UpstreamRelation::Same(upstream));
        }
        match request.ahead_behind {
            AheadBehind::Quick => Ok(UpstreamRelation::Different(upstream)),
            AheadBehind::Full => {
                let (ahead, behind) = repo.ahead_behind(ours, theirs)?;
                Ok(UpstreamRelation::Diverged(upstream, ahead, behind))
            }
        }
    }
}

impl StatusReport<'_> {
    /// Appends `## main...origin/main [ahead 1]`.
    pub(super) fn short_branch(&self, out: &mut Vec<u8>) {
        let mut paint = |slot, text: &[u8]| self.palette.paint(out, Some(slot), text);
        paint(Slot::Header, b"## ");
        if self.found.head == Head::Unresolvable {
            // The line ends without a newline, as in Git.
            return;
        }
        if self.found.is_initial() {
            paint(Slot::Header, b"No commits yet on ");
        }
        match self.found.head.branch() {
            None => paint(Slot::NoBranch, b"HEAD (no branch)"),
            Some(branch) => {
                paint(Slot::LocalBranch, repo::branch_name(branch));
                if let Comparison::Upstream(relation) = &self.found.comparison {
                    short_upstream(&mut paint, relation);
                }
            }
        }
        out.extend_from_slice(self.end().as_bytes());
    }

    /// Appends the lines `# branch.*`.
    pub(super) fn porcelain_branch(&self, out: &mut Vec<u8>) -> Result<(), Failure> {
        let end = self.end();
        let mut line = |name: &str, value: &[u8]| {
            out.extend_from_slice(&text!("# branch.", name, " ", value, end));
        };
        match self.found.head.oid() {
            Some(oid) => line("oid", oid.to_string().as_bytes()),
            None => line("oid", b"(initial)"),
        }
        let detached;
        let relation = match &self.found.head {
            Head::Branch { name, .. } | Head::Unborn { name } => {
                // Git has no name for a HEAD outside `refs/heads/`.
                line("head", name.strip_prefix(b"refs/heads/").unwrap_or(b"(null)"));
                match &self.found.comparison {
                    Comparison::Upstream(relation) => relation,
                    Comparison::Nothing | Comparison::Words(..) => return Ok(()),
                }
            }
            Head::Detached { .. } => {
                line("head", b"(detached)");
                let branch = text!("refs/heads/", self.detached_name());
                detached = UpstreamRelation::find(self.repo, self.request, branch.as_bstr())?;
                &detached
            }
            Head::Unresolvable => {
                line("head", b"(unknown)");
                return Ok(());
            }
        };
        let counts = |ahead: &str, behind: &str| format!("+{ahead} -{behind}");
        let (upstream, counts) = match relation {
            UpstreamRelation::NoUpstream => return Ok(()),
            UpstreamRelation::Gone(upstream) => (upstream, None),
            UpstreamRelation::Same(upstream) => (upstream, Some(counts("0", "0"))),
            UpstreamRelation::Different(upstream) => (upstream, Some(counts("?", "?"))),
            UpstreamRelation::Diverged(upstream, ahead, behind) => {
                (upstream, Some(counts(&ahead.to_string(), &behind.to_string())))
            }
        };
        line("upstream", &upstream.short);
        if let Some(counts) = counts {
            line("ab", counts.as_bytes());
        }
        Ok(())
    }

    /// Returns the name for a detached HEAD: the target of the rebase, or the commit that was
    /// checked out.
    pub(super) fn detached_name(&self) -> &BStr {
        let detached = || self.found.detached.as_ref().map(|detached| &detached.name);
        let name = match &self.found.operations.rebase {
            Some(rebase) => rebase.onto.as_ref(),
            None => detached(),
        };
        name.map_or(BStr::new(""), |name| name.as_bstr())
    }
}

/// Appends `...origin/main [ahead 1]`.
fn short_upstream(paint: &mut dyn FnMut(Slot, &[u8]), relation: &UpstreamRelation) {
    let upstream = match relation {
        UpstreamRelation::NoUpstream => return,
        UpstreamRelation::Gone(upstream)
        | UpstreamRelation::Same(upstream)
        | UpstreamRelation::Different(upstream)
        | UpstreamRelation::Diverged(upstream, ..) => upstream,
    };
    paint(Slot::Header, b"...");
    paint(Slot::RemoteBranch, &upstream.short);
    if matches!(relation, UpstreamRelation::Same(_)) {
        return;
    }
    paint(Slot::Header, b" [");
    match *relation {
        UpstreamRelation::NoUpstream | UpstreamRelation::Same(_) => {}
        UpstreamRelation::Gone(_) => paint(Slot::Header, b"gone"),
        UpstreamRelation::Different(_) => paint(Slot::Header, b"different"),
        UpstreamRelation::Diverged(_, ahead, behind) => {
            if ahead > 0 {
                paint(Slot::Header, b"ahead ");
                paint(Slot::LocalBranch, ahead.to_string().as_bytes());
            }
            if behind > 0 || ahead == 0 {
                paint(Slot::Header, if ahead > 0 { b", behind " } else { b"behind " });
                paint(Slot::RemoteBranch, behind.to_string().as_bytes());
            }
        }
    }
    paint(Slot::Header, b"]");
}
