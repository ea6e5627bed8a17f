//! The commits of a stash entry.

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    pathspec::Pathspecs,
    stash::{self, Changes, Scope, Snapshot},
};
use format::ObjectId;
use repo::{
    GivenIdentity, Repository, Who,
    keys::{self, Key},
};
use store::objects::ObjectTransaction;

use super::before_changes;
use crate::{
    Context, Error, PlanError,
    new_commit::NewCommit,
    settings::Settings,
    text,
    transaction::{IndexTransaction, Recorded, Start},
};

/// HEAD, in the form for messages of a stash.
pub(super) struct Head {
    /// The commit.
    pub(super) commit: ObjectId,
    /// Its tree.
    pub(super) tree: ObjectId,
    branch: BString,
    /// `<branch>: <commit> <subject>`
    title: BString,
}

impl Head {
    /// Reads HEAD. Returns `None` before the first commit.
    pub(super) fn read(repo: &Repository) -> Result<Option<Head>, Error> {
        let head = repo.head()?;
        let Some(commit) = head.oid() else { return Ok(None) };
        let branch = head.branch().and_then(|name| name.strip_prefix(b"refs/heads/"));
        let branch = BString::from(branch.unwrap_or(b"(no branch)"));
        let title = text!(branch, ": ", repo.abbreviate(commit)?, " ", repo.subject(commit)?);
        let title = BString::from(format::blank::trim_end(&title));
        Ok(Some(Head { commit, tree: repo.tree_of(commit)?, branch, title }))
    }

    /// Returns the message of a stash; `words` is the user's text, if any.
    pub(super) fn message(&self, words: Option<&BStr>) -> BString {
        match words.filter(|words| !words.is_empty()) {
            Some(words) => text!("On ", self.branch, ": ", words),
            None => text!("WIP on ", self.title),
        }
    }
}

/// The objects of a stash, until they are published.
pub struct Objects<'r>(ObjectTransaction<'r>);

impl<'r> Objects<'r> {
    /// Writes nothing yet.
    pub fn new(repo: &'r Repository, settings: &'r Settings) -> Objects<'r> {
        Objects(ObjectTransaction::new(settings.objects(repo)))
    }

    /// Makes the objects visible and durable.
    pub(super) fn publish(self) -> Result<(), Error> {
        Ok(self.0.publish()?)
    }
}

/// The inputs of the commits of a stash.
pub(super) struct Inputs<'a> {
    pub(super) head: &'a Head,
    pub(super) changes: &'a Changes,
    /// The stash has a commit of untracked files, even if there are none.
    pub(super) untracked: bool,
    pub(super) message: &'a BStr,
}

/// Stages the commits of a stash, and returns that of the worktree. The index of `transaction` then
/// matches the worktree. `check` examines the trees first.
pub(super) fn stage(
    transaction: &mut IndexTransaction<'_>,
    objects: &Objects<'_>,
    inputs: &Inputs<'_>,
    check: impl FnOnce(&IndexTransaction<'_>) -> Result<(), PlanError>,
) -> Result<ObjectId, PlanError> {
    let context = transaction.context();
    let Context { repo, settings, .. } = context;
    let Inputs { head, message, .. } = inputs;
    if message.to_str().is_err() || head.title.to_str().is_err() {
        return Err(PlanError::Unsupported("messages that are not UTF-8"));
    }
    let [author, committer] = [identity(repo, Who::Author)?, identity(repo, Who::Committer)?];
    let Objects(objects) = objects;
    let (worktree, index) = transaction.worktree_and_index();
    let (changes, threshold) = (inputs.changes, settings.big_file_threshold);
    let snapshot = stash::snapshot(repo, worktree, index, changes, inputs.untracked, threshold, objects);
    let Snapshot { index, worktree, untracked } = snapshot.map_err(before_changes(context))?;
    check(transaction)?;
    let commit = |tree: ObjectId, parents: Vec<ObjectId>, message: &BStr| {
        let (author, committer) = (author.clone(), committer.clone());
        NewCommit { tree, parents, author, committer, extra: Vec::new(), key: None, message }
            .write(context, objects)
    };
    let lead = |what: &str| text!(what, head.title, "\n");
    let index = commit(index, vec![head.commit], lead("index on ").as_bstr())?;
    let mut parents = vec![head.commit, index];
    if let Some(tree) = untracked {
        parents.push(commit(tree, Vec::new(), lead("untracked files on ").as_bstr())?);
    }
    Ok(commit(worktree, parents, message)?)
}

/// Returns the author or committer line of a commit. Without a configured name or address, uses
/// those that Git sets for stashes.
fn identity(repo: &Repository, who: Who) -> Result<BString, PlanError> {
    let (own, name, mail) = match who {
        Who::Author => ("AUTHOR", keys::author::NAME, keys::author::EMAIL),
        Who::Committer => ("COMMITTER", keys::committer::NAME, keys::committer::EMAIL),
    };
    let is_set = |part: &str, keys: [Key<Option<BString>>; 2]| {
        repo.env().bytes(&format!("GIT_{own}_{part}")).is_some()
            || keys.iter().any(|key| repo.config_str(key).is_some())
    };
    let given = GivenIdentity {
        name: (!is_set("NAME", [keys::user::NAME, name])).then(|| "git stash".into()),
        mail: (!is_set("EMAIL", [keys::user::EMAIL, mail])).then(|| "git@stash".into()),
        date: None,
    };
    let person = repo.person(who, given).map_err(|_| PlanError::Unsupported("identities of nobody"))?;
    Ok(person.line())
}

/// The result of [`create`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// The commit of an entry that is recorded nowhere.
    Commit(ObjectId),
    /// There are no changes.
    NoChanges,
    /// HEAD has no commit yet.
    NoCommit,
}

/// Makes the commits of a stash entry, and records them nowhere (`stash create`). The worktree and
/// the content of the index stay.
pub fn create(context: Context<'_>, words: &BStr) -> Result<Created, PlanError> {
    let Context { repo, settings, interrupt, .. } = context;
    let mut transaction = IndexTransaction::start(context, Start::Full { dry_run: false })?;
    let Some(head) = Head::read(repo)? else {
        // Git has refreshed the index at this point.
        transaction.finish(Recorded::Yes)?;
        return Ok(Created::NoCommit);
    };
    let pathspecs = Pathspecs::default();
    let scope = Scope { pathspecs: &pathspecs, untracked: None, interrupt };
    let (worktree, index) = transaction.worktree_and_index();
    let changes = stash::collect(repo, worktree, index, head.tree, scope).map_err(before_changes(context))?;
    context.check_interrupt()?;
    if changes.paths.is_empty() {
        return Ok(Created::NoChanges);
    }
    let before = transaction.index.clone();
    let message = head.message(Some(words));
    let objects = Objects::new(repo, settings);
    let inputs = Inputs { head: &head, changes: &changes, untracked: false, message: message.as_bstr() };
    let stash = stage(&mut transaction, &objects, &inputs, |_| Ok(()))?;
    objects.publish()?;
    transaction.index = before;
    let recorded = if changes.is_refreshed { Recorded::Yes } else { Recorded::No };
    transaction.finish(recorded)?;
    Ok(Created::Commit(stash))
}
