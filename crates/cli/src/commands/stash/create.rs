//! The commits of a stash entry, and `stash create`, which does not record the entry.

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    pathspec::Pathspecs,
    stash::{self, Changes, Scope, Snapshot},
};
use format::ObjectId;
use repo::{GivenIdentity, Repository, Who};
use store::objects;

use super::{
    common::{failure_before_changes, open},
    options::WORDS,
};
use crate::{
    session::{
        Session,
        apply::{Recorded, Start, Transaction},
        invocation::Invocation,
        new_commit::NewCommit,
    },
    term::{
        console::{self, text},
        failure::Failure,
    },
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
    pub(super) fn read(repo: &Repository) -> Result<Option<Head>, Failure> {
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

/// Prints that a stash needs an initial commit. Returns the exit code.
pub(super) fn no_commit_yet(quiet: bool) -> u8 {
    if !quiet {
        console::eprint_line("You do not have the initial commit yet");
    }
    1
}

/// Writes the commits of a stash durably, and returns that of the worktree. The index of
/// `transaction` then matches the worktree. `check` examines the trees before anything is
/// published.
pub(super) fn commits(
    session: Session<'_>,
    transaction: &mut Transaction<'_>,
    head: &Head,
    changes: &Changes,
    untracked: bool,
    message: &BStr,
    check: impl FnOnce(&Transaction<'_>, &Snapshot) -> Result<(), Failure>,
) -> Result<ObjectId, Failure> {
    let Session { repository: repo, settings, .. } = session;
    if message.to_str().is_err() || head.title.to_str().is_err() {
        return Err(Failure::Unserved("messages that are not UTF-8"));
    }
    let people = [identity(repo, Who::Author)?, identity(repo, Who::Committer)?];
    let objects = objects::Transaction::new(settings.objects(repo));
    let worktree = sys::Dir::open(repo.work_tree().ok_or_else(Failure::no_worktree)?);
    let worktree = worktree.map_err(|error| Failure::fatal(format!("cannot open the worktree: {error}")))?;
    let snapshot = stash::snapshot(
        repo,
        &worktree,
        &mut transaction.index,
        changes,
        untracked,
        settings.big_file_threshold,
        &objects,
    )
    .map_err(|error| failure_before_changes(session, error))?;
    check(transaction, &snapshot)?;
    let [author, committer] = people;
    let commit = |tree: ObjectId, parents: Vec<ObjectId>, message: &BStr| {
        let (author, committer) = (author.clone(), committer.clone());
        NewCommit { tree, parents, author, committer, extra: Vec::new(), key: None, message }
            .write(session, &objects)
    };
    let lead = |what: &str| text!(what, head.title, "\n");
    let index = commit(snapshot.index, vec![head.commit], lead("index on ").as_bstr())?;
    let mut parents = vec![head.commit, index];
    if let Some(tree) = snapshot.untracked {
        parents.push(commit(tree, Vec::new(), lead("untracked files on ").as_bstr())?);
    }
    let stash = commit(snapshot.worktree, parents, message)?;
    objects.publish()?;
    Ok(stash)
}

/// Returns the author or committer line of a commit. Without a configured name or address, uses
/// those that Git sets for stashes.
fn identity(repo: &Repository, who: Who) -> Result<BString, Failure> {
    let own = if who == Who::Author { "author" } else { "committer" };
    let variable = |part: &str| format!("GIT_{}_{part}", own.to_ascii_uppercase());
    let is_set = |part: &str, key: &str| {
        repo.env().bytes(&variable(part)).is_some()
            || repo.config_str(&format!("user.{key}")).is_some()
            || repo.config_str(&format!("{own}.{key}")).is_some()
    };
    let given = GivenIdentity {
        name: (!is_set("NAME", "name")).then(|| "git stash".into()),
        mail: (!is_set("EMAIL", "email")).then(|| "git@stash".into()),
        date: None,
    };
    let person = repo.person(who, given).map_err(|_| Failure::Unserved("identities of nobody"))?;
    Ok(person.line())
}

/// Runs `stash create`. Returns the exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let words = WORDS.parse(args)?.rest;
    let (repo, settings) = open(run)?;
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let mut transaction = Transaction::start(session, Start::Full { dry_run: false })?;
    let Some(head) = Head::read(&repo)? else {
        // Git has refreshed the index at this point.
        transaction.finish(Recorded::Yes)?;
        return Ok(no_commit_yet(false));
    };
    let pathspecs = Pathspecs::default();
    let scope = Scope { pathspecs: &pathspecs, untracked: None, interrupt: run.interrupt.flag() };
    let worktree = transaction.worktree().try_clone().map_err(|error| Failure::fatal(error.to_string()))?;
    let changes = stash::collect(&repo, &worktree, &mut transaction.index, head.tree, scope)
        .map_err(|error| failure_before_changes(session, error))?;
    run.interrupt.check()?;
    if changes.paths.is_empty() {
        return Ok(0);
    }
    let before = transaction.index.clone();
    let message = head.message(Some(bstr::join(" ", words).as_bstr()));
    let stash = commits(session, &mut transaction, &head, &changes, false, message.as_bstr(), |_, _| Ok(()))?;
    transaction.index = before;
    let recorded = if changes.is_refreshed { Recorded::Yes } else { Recorded::No };
    transaction.finish(recorded)?;
    console::out(stash.to_string());
    Ok(0)
}
