//! The merge of two commits by the real Git, without a worktree and an index.

use std::process::{Command, Stdio};

use bstr::{BStr, BString, ByteSlice as _};
use engine::switch::names;
use format::ObjectId;
use repo::{GivenIdentity, Who};
use store::{Components, objects::ObjectTransaction};

use crate::{Error, new_commit::NewCommit, settings::Settings, text, worktree::records::Worktrees};

/// The commits to merge.
pub(super) struct Sides<'a> {
    /// The name of the workspace.
    pub(super) name: &'a BStr,
    /// The full name of the branch.
    pub(super) branch: &'a BString,
    /// Its commit.
    pub(super) old: ObjectId,
    /// The commit of the workspace.
    pub(super) tip: ObjectId,
}

impl Sides<'_> {
    /// Returns the name of the branch for messages.
    pub(super) fn short(&self) -> BString {
        self.branch.strip_prefix(names::BRANCHES).unwrap_or(self.branch).into()
    }
}

/// Writes a merge commit, which no ref reaches yet. Returns an error that names the paths of a
/// conflict.
pub(super) fn merge(
    worktrees: &Worktrees<'_>,
    settings: &Settings,
    sides: &Sides<'_>,
) -> Result<ObjectId, Error> {
    let repo = worktrees.repo;
    let short = sides.short();
    let tree = merged_tree(worktrees, settings, sides, short.as_bstr())?;
    let message = text!("Merge workspace '", sides.name, "' into ", short, "\n");
    let commit = NewCommit {
        tree,
        parents: vec![sides.old, sides.tip],
        author: repo.person(Who::Author, GivenIdentity::default())?.line(),
        committer: repo.person(Who::Committer, GivenIdentity::default())?.line(),
        extra: Vec::new(),
        message: message.as_bstr(),
        key: None,
    };
    let transaction = ObjectTransaction::new(settings.objects(repo));
    let new = commit.write(worktrees.context(repo, settings), &transaction)?;
    transaction.publish()?;
    Ok(new)
}

/// Returns a command of the real Git in the repository. It syncs the objects that it writes if
/// `settings` harden them: a branch will reach them.
pub(super) fn git(worktrees: &Worktrees<'_>, settings: &Settings) -> Result<Command, Error> {
    let Worktrees { repo, events, .. } = worktrees;
    let missing = || Error::failed("the real Git is needed for a merge, and there is none");
    let mut git = events.git().ok_or_else(missing)?;
    events.before_program();
    if settings.fsync.hardens(Components::LOOSE_OBJECT) {
        git.args(["-c", "core.fsync=loose-object"]);
    }
    git.envs(repo.child_env()).current_dir(repo.child_dir());
    Ok(git)
}

/// Runs `git merge-tree`. It reads the objects and the attributes of the repository, and writes
/// only objects.
fn merged_tree(
    worktrees: &Worktrees<'_>,
    settings: &Settings,
    sides: &Sides<'_>,
    short: &BStr,
) -> Result<ObjectId, Error> {
    let repo = worktrees.repo;
    let mut git = git(worktrees, settings)?;
    git.args(["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z"]);
    git.args([sides.old.to_string(), sides.tip.to_string()]);
    let output = git.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let output = output.map_err(|error| Error::failed(format!("cannot run the real Git: {error}")))?;
    let mut parts = output.stdout.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    let tree = parts.next().and_then(|tree| ObjectId::from_hex(repo.hash(), tree));
    match (output.status.code(), tree) {
        (Some(0), Some(tree)) => Ok(tree),
        (Some(1), Some(_)) => {
            let paths = parts.map(BString::from).collect();
            let (name, onto) = (sides.name.to_owned(), short.to_owned());
            Err(Error::LandConflicts { name, onto, commit: None, paths })
        }
        _ => {
            let reason = output.stderr.trim().as_bstr();
            Err(Error::Failed(text!("cannot merge '", sides.name, "' into '", short, "': ", reason)))
        }
    }
}
