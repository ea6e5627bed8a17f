//! Making the commit: its parents and headers, the object, HEAD, and the end of the operation that
//! it concludes.

use bstr::{BStr, BString, ByteSlice as _};
use engine::{add::Missing, switch};
use format::{ObjectId, loose::Kind};
use repo::{CommitHeader, CommitText, Person, Repository, keys};
use store::objects::ObjectTransaction;

use super::{
    Whence,
    prepare::{Prepared, git_path},
};
use crate::{
    Error,
    context::Context,
    error::TreeError,
    maintenance::{self, MaintenanceOutput},
    new_commit::NewCommit,
    notice::Notice,
    refs, text,
};

/// The facts about a new commit besides its content.
#[derive(Clone, Copy)]
pub struct Conclusion<'p> {
    /// The commit that HEAD points to.
    pub head: Option<&'p CommitText>,
    /// The operation that the commit concludes.
    pub whence: Whence,
    /// True to replace the commit of HEAD.
    pub amends: bool,
    /// The signing key; empty for the configured one; `None` for no signature.
    pub key: Option<&'p BStr>,
    /// The output of the maintenance that may follow.
    pub output: MaintenanceOutput,
}

/// The parents of the commit, and the headers derived from them.
struct Ancestry {
    parents: Vec<ObjectId>,
    extra: Vec<CommitHeader>,
}

impl Prepared<'_> {
    /// Writes the trees of the index, which must be complete now.
    pub fn make_trees(&mut self) -> Result<(), Error> {
        if self.trees.is_some() {
            return Ok(());
        }
        self.write()?;
        let Context { repo, settings, .. } = self.context;
        let objects = ObjectTransaction::new(settings.objects(repo));
        let trees = engine::add::write_tree(&mut self.index, repo, &objects, Missing::Refused);
        let trees = trees.map_err(|error| Error::Trees(TreeError::Write(error)))?;
        objects.publish().map_err(|error| Error::Trees(TreeError::Publish(error)))?;
        self.trees = Some(trees);
        Ok(())
    }
}

impl Conclusion<'_> {
    /// Creates the commit and moves HEAD. Returns the commit's name.
    pub fn conclude(
        &self,
        prepared: &mut Prepared<'_>,
        message: &BString,
        author: &Person,
        committer: &Person,
    ) -> Result<ObjectId, Error> {
        let context = prepared.context;
        let Context { repo, events, .. } = context;
        let (action, ancestry) = self.ancestry(context)?;
        let tree = prepared.trees.as_ref().expect("they were made before the message was edited").root;
        let (objects, index) = prepared.take_waiting();
        if index.is_none() {
            must_exist(repo, tree)?;
        }
        let commit = NewCommit {
            tree,
            parents: ancestry.parents,
            author: author.line(),
            committer: committer.line(),
            extra: ancestry.extra,
            message: message.as_bstr(),
            key: self.key,
        };
        let refs = refs::options(context)?;
        let oid = commit.write(context, &objects)?;
        context.check_interrupt()?;
        prepared.write_with(objects, index)?;
        let action = repo.env().bytes("GIT_REFLOG_ACTION").unwrap_or(action.into());
        let subject = message.lines().next().unwrap_or_default();
        let log = text!(action, ": ", subject);
        switch::advance_head(repo, &refs, self.head.map(|head| head.id), oid, log.as_bstr())?;
        if let Err(error) = switch::state::conclude(repo, &refs) {
            events.notice(Notice::NotConcluded(error.to_string()));
        }
        prepared.publish().map_err(Error::StaleIndex)?;
        rerere(context)?;
        maintenance::start_auto(context, self.output)?;
        Ok(oid)
    }

    /// Returns the word for the reflog, the parents, and the headers to keep.
    fn ancestry(&self, context: Context<'_>) -> Result<(&'static str, Ancestry), Error> {
        let Some(head) = self.head else {
            return Ok(("commit (initial)", Ancestry { parents: Vec::new(), extra: Vec::new() }));
        };
        if self.amends {
            const OWN: [&str; 7] =
                ["tree", "parent", "author", "committer", "encoding", "gpgsig", "gpgsig-sha256"];
            let extra = head.headers.iter().filter(|header| !OWN.iter().any(|own| header.key == *own));
            let ancestry = Ancestry { parents: head.parents.clone(), extra: extra.cloned().collect() };
            return Ok(("commit (amend)", ancestry));
        }
        if self.whence == Whence::Merge {
            return Ok(("commit (merge)", merged(context, head.id)?));
        }
        let action = match self.whence {
            Whence::CherryPick => "commit (cherry-pick)",
            Whence::RebasePick => "commit (rebase)",
            Whence::Commit | Whence::Merge => "commit",
        };
        Ok((action, Ancestry { parents: vec![head.id], extra: Vec::new() }))
    }
}

/// Returns an error if the tree was pruned while the message was edited: no ref leads to it
/// yet.
fn must_exist(repo: &Repository, tree: ObjectId) -> Result<(), Error> {
    match repo.objects().header(&tree) {
        Err(error) if error.is_unreadable() => Err(error.into()),
        Err(_) if tree != ObjectId::empty_tree(repo.hash()) => {
            Err(Error::Failed(format!("{tree} is not a valid object").into()))
        }
        _ => Ok(()),
    }
}

/// Returns HEAD and the merged commits, without those that are ancestors of others. A signed
/// tag is kept as a header.
fn merged(context: Context<'_>, head: ObjectId) -> Result<Ancestry, Error> {
    let repo = context.repo;
    let read = sys::by_path::read(&repo.git_dir().join("MERGE_HEAD"));
    let shown = git_path(context, "MERGE_HEAD");
    let reason = match read {
        Ok(Some(list)) => return merged_from(repo, head, &list),
        Ok(None) => "No such file or directory".to_owned(),
        Err(error) => sys::reason(&error),
    };
    Err(Error::Failed(format!("could not open '{}' for reading: {reason}", shown.display()).into()))
}

fn merged_from(repo: &Repository, head: ObjectId, list: &[u8]) -> Result<Ancestry, Error> {
    let mut merged: Vec<(ObjectId, Option<ObjectId>)> = vec![(head, None)];
    for line in list.lines() {
        let corrupt = || Error::Failed(text!("Corrupt MERGE_HEAD file (", line, ")"));
        let named = repo.resolve(line.as_bstr())?.ok_or_else(corrupt)?;
        let commit = repo.commit_if_there(named)?.ok_or_else(corrupt)?;
        merged.push((commit, (named != commit).then_some(named)));
    }
    let mode = sys::by_path::read(&repo.git_dir().join("MERGE_MODE")).ok().flatten();
    if mode.as_deref() != Some(b"no-ff") {
        merged = reduced(repo, merged)?;
    }
    let mut ancestry = Ancestry { parents: Vec::new(), extra: Vec::new() };
    for (commit, tag) in merged {
        ancestry.parents.push(commit);
        let Some(tag) = tag else { continue };
        let mut reader = repo.objects().reader();
        if let (Kind::Tag, content) = reader.read(&tag)?
            && is_signed(content)
        {
            ancestry.extra.push(CommitHeader { key: "mergetag".into(), value: content.into() });
        }
    }
    Ok(ancestry)
}

/// Leaves out commits that are ancestors of others, and all but the first of equal ones.
fn reduced(
    repo: &Repository,
    merged: Vec<(ObjectId, Option<ObjectId>)>,
) -> Result<Vec<(ObjectId, Option<ObjectId>)>, Error> {
    let mut unique: Vec<(ObjectId, Option<ObjectId>)> = Vec::new();
    for one in merged {
        if !unique.iter().any(|(commit, _)| *commit == one.0) {
            unique.push(one);
        }
    }
    let mut kept = Vec::new();
    for one in &unique {
        let mut is_contained = false;
        for (other, _) in unique.iter().filter(|(other, _)| *other != one.0) {
            is_contained |= repo.merge_bases(one.0, *other)?.contains(&one.0);
        }
        if !is_contained {
            kept.push(*one);
        }
    }
    Ok(kept)
}

/// Records the conflict resolutions, if `rerere` is enabled.
fn rerere(context: Context<'_>) -> Result<(), Error> {
    let Context { repo, events, .. } = context;
    let is_wanted = match repo.config(&keys::rerere::ENABLED)? {
        Some(is_wanted) => is_wanted,
        None => matches!(sys::by_path::stat(&repo.common_dir().join("rr-cache")), Ok(Some(_))),
    };
    if !is_wanted {
        return Ok(());
    }
    let Some(mut git) = events.git() else { return Ok(()) };
    events.before_program();
    git.envs(repo.child_env()).current_dir(repo.child_dir()).arg("rerere");
    if let Err(error) = git.stdin(std::process::Stdio::null()).status() {
        events.notice(Notice::CannotRun("git rerere".into(), sys::reason(&error)));
    }
    Ok(())
}

/// Returns true if a tag has a signature in a format that Git supports.
fn is_signed(tag: &[u8]) -> bool {
    const BEGINNINGS: [&str; 4] = [
        "-----BEGIN PGP SIGNATURE-----",
        "-----BEGIN PGP MESSAGE-----",
        "-----BEGIN SIGNED MESSAGE-----",
        "-----BEGIN SSH SIGNATURE-----",
    ];
    tag.lines().any(|line| BEGINNINGS.iter().any(|beginning| line.starts_with(beginning.as_bytes())))
}
