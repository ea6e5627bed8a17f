//! The branch and what it is compared with, in the formats for scripts: `##` of the short one, `# branch.*` of porcelain version 2.

use bstr::{BStr, BString, ByteSlice as _};
use repo::{Head, Tracking};

use super::{Answer, Slot};
use crate::{console::text, failure::Failure, text::tracking::AheadBehind};

/// How a branch and its upstream stand to each other.
enum Standing {
    /// There is no upstream.
    Alone,
    /// It is configured, and not there; or the branch is not.
    Gone(Tracking),
    Same(Tracking),
    /// Different, that is all.
    Different(Tracking),
    Apart(Tracking, usize, usize),
}

impl Answer<'_> {
    /// Of a branch by its full name.
    fn upstream(&self, branch: &BStr) -> Result<Standing, Failure> {
        let Some(upstream) = self.repo.upstream_of(branch)? else { return Ok(Standing::Alone) };
        let ours = match self.repo.find_ref(branch)? {
            Some(oid) => self.repo.peel_to_commit(oid)?,
            None => None,
        };
        let (Some(ours), Some(theirs)) = (ours, upstream.oid) else { return Ok(Standing::Gone(upstream)) };
        if ours == theirs {
            return Ok(Standing::Same(upstream));
        }
        match self.request.ahead_behind {
            AheadBehind::Quick => Ok(Standing::Different(upstream)),
            AheadBehind::Full => {
                let (ahead, behind) = self.repo.ahead_behind(ours, theirs)?;
                Ok(Standing::Apart(upstream, ahead, behind))
            }
        }
    }

    /// `## main...origin/main [ahead 1]`
    pub(super) fn short_branch(&self, out: &mut Vec<u8>) -> Result<(), Failure> {
        let mut paint = |slot, text: &[u8]| self.palette.paint(out, Some(slot), text);
        paint(Slot::Header, b"## ");
        if self.found.head == Head::Nowhere {
            // Not even a line's end.
            return Ok(());
        }
        if self.found.is_initial() {
            paint(Slot::Header, b"No commits yet on ");
        }
        match self.found.head.branch() {
            None => paint(Slot::NoBranch, b"HEAD (no branch)"),
            Some(branch) => {
                paint(Slot::LocalBranch, repo::branch_name(branch));
                let standing = self.upstream(branch)?;
                let upstream = match &standing {
                    Standing::Alone => None,
                    Standing::Gone(upstream)
                    | Standing::Same(upstream)
                    | Standing::Different(upstream)
                    | Standing::Apart(upstream, ..) => Some(upstream),
                };
                if let Some(upstream) = upstream {
                    paint(Slot::Header, b"...");
                    paint(Slot::RemoteBranch, &upstream.short);
                }
                if !matches!(standing, Standing::Alone | Standing::Same(_)) {
                    paint(Slot::Header, b" [");
                    match standing {
                        Standing::Alone | Standing::Same(_) => {}
                        Standing::Gone(_) => paint(Slot::Header, b"gone"),
                        Standing::Different(_) => paint(Slot::Header, b"different"),
                        Standing::Apart(_, ahead, behind) => {
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
            }
        }
        out.extend_from_slice(self.end().as_bytes());
        Ok(())
    }

    /// The lines `# branch.*`.
    pub(super) fn porcelain_branch(&self, out: &mut Vec<u8>) -> Result<(), Failure> {
        let end = self.end();
        let mut line = |name: &str, value: &[u8]| {
            out.extend_from_slice(&text!("# branch.", name, " ", value, end));
        };
        match self.found.head.oid() {
            Some(oid) => line("oid", oid.to_string().as_bytes()),
            None => line("oid", b"(initial)"),
        }
        let branch: BString = match &self.found.head {
            Head::Branch { name, .. } | Head::Unborn { name } => {
                // What is no branch has no name for Git.
                line("head", name.strip_prefix(b"refs/heads/").unwrap_or(b"(null)"));
                name.clone()
            }
            Head::Detached { .. } => {
                line("head", b"(detached)");
                text!("refs/heads/", self.detached_name())
            }
            Head::Nowhere => {
                line("head", b"(unknown)");
                return Ok(());
            }
        };
        let counts = |ahead: &str, behind: &str| format!("+{ahead} -{behind}");
        let (upstream, counts) = match self.upstream(branch.as_bstr())? {
            Standing::Alone => return Ok(()),
            Standing::Gone(upstream) => (upstream, None),
            Standing::Same(upstream) => (upstream, Some(counts("0", "0"))),
            Standing::Different(upstream) => (upstream, Some(counts("?", "?"))),
            Standing::Apart(upstream, ahead, behind) => {
                (upstream, Some(counts(&ahead.to_string(), &behind.to_string())))
            }
        };
        line("upstream", &upstream.short);
        if let Some(counts) = counts {
            line("ab", counts.as_bytes());
        }
        Ok(())
    }

    /// What HEAD, detached, is said to be at: what is rebased onto, or what was checked out.
    pub(super) fn detached_name(&self) -> &BStr {
        let detached = || self.found.detached.as_ref().map(|detached| &detached.name);
        let name = match &self.found.standing.rebase {
            Some(rebase) => rebase.onto.as_ref(),
            None => detached(),
        };
        name.map_or(BStr::new(""), |name| name.as_bstr())
    }
}
