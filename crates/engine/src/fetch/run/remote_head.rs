//! The local record of the remote's HEAD.

use bstr::{BString, ByteSlice};
use format::ObjectId;
use repo::{keys, wire::Advertisement};
use store::refs::{Edit, Failures, Follow, New, Stage};

use super::{
    super::{Error, Event, OurHead, remote::FollowHead},
    Fetch,
};

impl Fetch<'_> {
    /// Points `refs/remotes/<name>/HEAD`, or in a mirror HEAD, to the branch of the remote's HEAD.
    pub(super) fn set_remote_head(&mut self, theirs: &Advertisement) -> Result<(), Error> {
        let repo = self.context.repo;
        let Some(branch) = branch_of_head(theirs) else { return Ok(()) };
        let name = &self.remote.name;
        let is_mirror = repo.is_bare() && repo.config(&keys::remote::MIRROR.of(name))?;
        let (head, target) = if is_mirror {
            ("HEAD".to_owned(), format!("refs/heads/{branch}"))
        } else {
            (format!("refs/remotes/{name}/HEAD"), format!("refs/remotes/{name}/{branch}"))
        };
        let (head, target) = (BString::from(head), BString::from(target));
        if self.options.dry_run || repo.find_ref(target.as_bstr())?.is_none() {
            return Ok(());
        }
        let before = repo.symbolic_target(head.as_bstr())?;
        let value = repo.value_of_ref(head.as_bstr())?;
        let exists = before.is_some() || value.is_some();
        if !exists || (is_mirror || self.remote.follow_head == FollowHead::Always) {
            if before.as_ref() != Some(&target) || self.context.hook.is_some() {
                let edit = Edit {
                    new: New::Symbolic(target),
                    follow: Follow::No,
                    ..Edit::set(head.as_bstr(), ObjectId::null(repo.hash()), "fetch".into())
                };
                let mut transaction = self.transaction(Failures::EndAll);
                // A failure to record HEAD does not fail the fetch.
                let _ = transaction.add(edit).and_then(|()| transaction.commit());
            }
            return Ok(());
        }
        if let Some(hook) = self.context.hook {
            // Git's transaction finds the existing HEAD only after it has called the hook.
            let line = format!("{} ref:{target} {head}\n", ObjectId::null(repo.hash()));
            hook(Stage::Preparing, line.as_bytes());
        }
        if let FollowHead::Warn(known) = &self.remote.follow_head
            && known.as_ref() != Some(&branch)
            && !self.options.quiet
        {
            let space = format!("refs/remotes/{name}/");
            let short = before.as_ref().and_then(|before| before.strip_prefix(space.as_bytes()));
            (self.context.events)(Event::OtherHead {
                remote: name.as_bstr(),
                theirs: branch.as_bstr(),
                ours: match (short, value) {
                    (Some(short), _) if short == branch.as_slice() => return Ok(()),
                    (Some(short), _) => OurHead::Branch(short.as_bstr()),
                    (None, Some(oid)) if before.is_none() => OurHead::Detached(oid),
                    _ => return Ok(()),
                },
            });
        }
        Ok(())
    }
}

/// Returns the branch of the remote's HEAD, without `refs/heads/`. Without a symref in the
/// advertisement, the branch is guessed by its value. Returns `None` if no branch or several
/// branches have the value of HEAD.
fn branch_of_head(theirs: &Advertisement) -> Option<BString> {
    let head = theirs.refs.iter().find(|theirs| theirs.name == "HEAD")?;
    let short = |name: &BString| Some(BString::from(name.strip_prefix(b"refs/heads/")?));
    if let Some(target) = &head.symref {
        return theirs
            .refs
            .iter()
            .find(|theirs| theirs.name == *target)
            .and_then(|theirs| short(&theirs.name));
    }
    let same = theirs.refs.iter().filter(|theirs| theirs.oid == head.oid);
    let mut branches = same.filter_map(|theirs| short(&theirs.name));
    let first = branches.next();
    first.filter(|_| branches.next().is_none())
}
