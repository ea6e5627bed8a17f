//! The replay of commits by the real Git, without a worktree and an index.
//!
//! Order: `git rev-list` names the commits, as `git rebase` chooses them; one `git merge-tree`
//! merges each with the result so far; the new commits are published together. Author, date and
//! message stay; the committer is the user. No ref reaches them before the landing succeeds.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use bstr::{BString, ByteSlice};
use format::{HashKind, Kind, ObjectId, hash::Hasher};
use repo::{CommitText, GivenIdentity, Who};
use store::objects::ObjectTransaction;

use super::merge::{Sides, git};
use crate::{Error, new_commit::NewCommit, settings::Settings, text, worktree::records::Worktrees};

/// Writes the commits that `sides.tip` has and the branch lacks again, on top of the branch.
/// Returns the last one; the commit of the branch if nothing is left. Returns an error that names
/// the commit and the paths of a conflict.
pub(super) fn rebase(
    worktrees: &Worktrees<'_>,
    settings: &Settings,
    sides: &Sides<'_>,
) -> Result<ObjectId, Error> {
    let repo = worktrees.repo;
    let commits = listed(worktrees, settings, sides)?;
    let Some((merge, _)) = commits.iter().map(|one| (one.id, &one.parents)).find(|(_, of)| of.len() > 1)
    else {
        return replayed(worktrees, settings, sides, &commits);
    };
    let merge = repo.abbreviate(merge)?;
    let message = text!("'", sides.name, "' has the merge commit ", merge, ", which --rebase would flatten");
    Err(Error::Advised { message, advice: "land it without --rebase, or rebase it there".to_owned() })
}

/// Returns the commits to replay, oldest first: without those whose change the branch has.
fn listed(
    worktrees: &Worktrees<'_>,
    settings: &Settings,
    sides: &Sides<'_>,
) -> Result<Vec<CommitText>, Error> {
    let repo = worktrees.repo;
    let mut git = git(worktrees, settings)?;
    git.args(["rev-list", "--topo-order", "--reverse", "--cherry-pick", "--right-only"]);
    git.arg(format!("{}...{}", sides.old, sides.tip)).arg("--");
    let output = git.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let output = output.map_err(|error| Error::failed(format!("cannot run the real Git: {error}")))?;
    worktrees.check_interrupt()?;
    if !output.status.success() {
        return Err(failed(sides, &output.stderr));
    }
    let commit = |line: &[u8]| {
        let oid = ObjectId::from_hex(repo.hash(), line);
        let oid = oid.ok_or_else(|| failed(sides, b"git rev-list named no commit"))?;
        Ok(repo.commit_text(oid)?)
    };
    ByteSlice::lines(output.stdout.as_slice()).map(commit).collect()
}

fn replayed(
    worktrees: &Worktrees<'_>,
    settings: &Settings,
    sides: &Sides<'_>,
    commits: &[CommitText],
) -> Result<ObjectId, Error> {
    let repo = worktrees.repo;
    if commits.is_empty() {
        return Ok(sides.old);
    }
    let transaction = ObjectTransaction::new(settings.objects(repo));
    let encoding = repo.commit_encoding();
    let mut merges = Merges::start(worktrees, settings)?;
    let (mut tip, mut tree) = (sides.old, repo.tree_of(sides.old)?);
    for commit in commits {
        worktrees.check_interrupt()?;
        let before = match commit.parents.first() {
            Some(parent) => repo.tree_of(*parent)?,
            None => empty_tree(repo.hash())?,
        };
        let merged = match merges.merge([before, tree, commit.tree]) {
            Some(merged) => merged,
            None => {
                worktrees.check_interrupt()?;
                return Err(failed(sides, &merges.reason()));
            }
        };
        if !merged.conflicts.is_empty() || !merged.is_clean {
            return Err(Error::LandConflicts {
                name: sides.name.to_owned(),
                onto: sides.short(),
                commit: Some(commit.id),
                paths: merged.conflicts,
            });
        }
        // The branch has the change already. A commit that was empty from the start stays.
        if merged.tree == tree && commit.tree != before {
            continue;
        }
        let author = commit.header("author");
        let author = author.ok_or_else(|| failed(sides, b"a commit has no author"))?;
        let message = commit.recode(commit.message.as_bstr(), encoding.as_bstr());
        let new = NewCommit {
            tree: merged.tree,
            parents: vec![tip],
            author: commit.recode(author, encoding.as_bstr()),
            committer: repo.person(Who::Committer, GivenIdentity::default())?.line(),
            extra: Vec::new(),
            message: message.as_bstr(),
            key: None,
        };
        (tip, tree) = (new.write(worktrees.context(repo, settings), &transaction)?, merged.tree);
    }
    transaction.publish()?;
    Ok(tip)
}

fn empty_tree(hash: HashKind) -> Result<ObjectId, Error> {
    let hasher = Hasher::object(hash, Kind::Tree.name(), 0);
    hasher.finish().map_err(|_| Error::failed("the empty tree collides in SHA-1"))
}

fn failed(sides: &Sides<'_>, reason: &[u8]) -> Error {
    Error::Failed(text!("cannot rebase '", sides.name, "' onto '", sides.short(), "': ", reason.trim()))
}

/// A process of the real Git that merges trees in memory, one after the other.
struct Merges {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    hash: HashKind,
}

/// The result of a merge.
struct Merged {
    is_clean: bool,
    tree: ObjectId,
    conflicts: Vec<BString>,
}

impl Merges {
    fn start(worktrees: &Worktrees<'_>, settings: &Settings) -> Result<Merges, Error> {
        let mut git: Command = git(worktrees, settings)?;
        git.args(["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", "--stdin"]);
        git.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = git.spawn();
        let mut child =
            started.map_err(|error| Error::failed(format!("cannot run the real Git: {error}")))?;
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("it is piped"));
        Ok(Merges { child, input, output: BufReader::new(output), hash: worktrees.repo.hash() })
    }

    /// Merges two trees that come from a third one, the first of `trees`. Git answers each line at
    /// once. Returns `None` if Git has ended.
    fn merge(&mut self, [base, ours, theirs]: [ObjectId; 3]) -> Option<Merged> {
        let line = format!("{base} -- {ours} {theirs}\n");
        self.input.as_mut()?.write_all(line.as_bytes()).ok()?;
        let is_clean = match self.field()?.as_slice() {
            b"1" => true,
            b"0" => false,
            _ => return None,
        };
        let tree = ObjectId::from_hex(self.hash, &self.field()?)?;
        let mut conflicts = Vec::new();
        loop {
            let path = self.field()?;
            if path.is_empty() {
                return Some(Merged { is_clean, tree, conflicts });
            }
            conflicts.push(path);
        }
    }

    fn field(&mut self) -> Option<BString> {
        let mut field = Vec::new();
        self.output.read_until(0, &mut field).ok()?;
        (field.pop() == Some(0)).then(|| field.into())
    }

    /// Ends the process, and returns its messages.
    fn reason(mut self) -> Vec<u8> {
        let mut said = Vec::new();
        drop(self.input.take());
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_end(&mut said);
        }
        said
    }
}

impl Drop for Merges {
    fn drop(&mut self) {
        // The end of its input ends the process.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
