//! The branch and its upstream, in the formats for scripts: `##` of the short format, `# branch.*`
//! of porcelain version 2.

use bstr::ByteSlice as _;
use repo::Head;
use sapwood::{
    status::{Comparison, Upstream},
    tracking::Relation,
};

use super::report::{Slot, StatusReport};
use crate::term::{console::text, failure::Failure};

impl StatusReport<'_> {
    /// Appends `## main...origin/main [ahead 1]`.
    pub(super) fn short_branch(&self, out: &mut Vec<u8>) {
        let mut paint = |slot, text: &[u8]| self.palette.paint(out, Some(slot), text);
        paint(Slot::Header, b"## ");
        if self.found.head == Head::Unresolvable {
            // The line ends without a newline, as in Git.
            return;
        }
        if self.found.is_initial {
            paint(Slot::Header, b"No commits yet on ");
        }
        match self.found.head.branch() {
            None => paint(Slot::NoBranch, b"HEAD (no branch)"),
            Some(branch) => {
                paint(Slot::LocalBranch, repo::branch_name(branch));
                if let Comparison::Upstream(upstream) = &self.found.comparison {
                    short_upstream(&mut paint, upstream);
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
        let upstream = match &self.found.head {
            Head::Branch { name, .. } | Head::Unborn { name } => {
                // Git has no name for a HEAD outside `refs/heads/`.
                line("head", name.strip_prefix(b"refs/heads/").unwrap_or(b"(null)"));
                match &self.found.comparison {
                    Comparison::Upstream(upstream) => upstream,
                    Comparison::Nothing | Comparison::Followed(..) => return Ok(()),
                }
            }
            Head::Detached { .. } => {
                line("head", b"(detached)");
                let branch = text!("refs/heads/", self.found.detached_name());
                detached = Upstream::find(self.repo, branch.as_bstr(), self.request.ahead_behind)?;
                &detached
            }
            Head::Unresolvable => {
                line("head", b"(unknown)");
                return Ok(());
            }
        };
        let counts = |ahead: &str, behind: &str| format!("+{ahead} -{behind}");
        let Upstream::Is(upstream, relation) = upstream else { return Ok(()) };
        let counts = match relation {
            Relation::Gone => None,
            Relation::Same => Some(counts("0", "0")),
            Relation::Different => Some(counts("?", "?")),
            Relation::Diverged(ahead, behind) => Some(counts(&ahead.to_string(), &behind.to_string())),
        };
        line("upstream", &upstream.short);
        if let Some(counts) = counts {
            line("ab", counts.as_bytes());
        }
        Ok(())
    }
}

/// Appends `...origin/main [ahead 1]`.
fn short_upstream(paint: &mut dyn FnMut(Slot, &[u8]), upstream: &Upstream) {
    let Upstream::Is(upstream, relation) = upstream else { return };
    paint(Slot::Header, b"...");
    paint(Slot::RemoteBranch, &upstream.short);
    if *relation == Relation::Same {
        return;
    }
    paint(Slot::Header, b" [");
    match *relation {
        Relation::Same => {}
        Relation::Gone => paint(Slot::Header, b"gone"),
        Relation::Different => paint(Slot::Header, b"different"),
        Relation::Diverged(ahead, behind) => {
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
