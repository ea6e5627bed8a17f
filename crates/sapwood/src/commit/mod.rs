//! Commit: the index, or changes of the worktree, as a new commit of the current branch.
//!
//! Planning reads HEAD, the operation in progress and the author. The run prepares the index of the
//! commit with its objects durable, runs `pre-commit`, `prepare-commit-msg` and `commit-msg`,
//! writes the commit, and then moves HEAD and publishes the index. A failure before HEAD moves
//! leaves HEAD and the index unchanged, except that a commit of the current index may update the
//! index's stat data and cached trees.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, commit};
//!
//! fn commit_all(repository: &Repository) -> Result<(), Box<dyn std::error::Error>> {
//!     let report = commit::plan(repository, commit::Request::all("A message"))?.run(&Silent)?;
//!     println!("{}", report.commit);
//!     Ok(())
//! }
//! ```

pub mod author;
pub mod cleanup;
pub mod conclude;
pub mod prepare;
pub mod workspace;

use std::{io, path::Path};

use bstr::{BStr, BString, ByteSlice as _};
use engine::switch::state;
use format::ObjectId;
use repo::{CommitText, GivenIdentity, Person, Who, keys};
use sys::{Dir, by_path};

pub use author::AuthorSource;
pub use cleanup::Cleanup;
pub use prepare::Selection;

use crate::{
    Error, Events, Notice, PlanError, Repository, RunError,
    context::Context,
    events::Notices,
    hooks::{self, CommitHooks},
    maintenance::MaintenanceOutput,
    refs,
};
use conclude::Conclusion;
use prepare::{Inputs, Prepared, PreparedFor, Programs, git_path, index_name};

/// The operation that a commit concludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// None.
    Commit,
    /// A merge.
    Merge,
    /// A cherry-pick.
    CherryPick,
    /// A step of a rebase.
    RebasePick,
}

impl Whence {
    /// Returns the operation in progress.
    pub fn of(repo: &repo::Repository) -> Result<Whence, Error> {
        if state::is_merging(repo)? {
            return Ok(Whence::Merge);
        }
        let Some(picked) = repo.find_ref("CHERRY_PICK_HEAD".into())? else { return Ok(Whence::Commit) };
        let rebases = matches!(by_path::stat(&repo.git_dir().join("rebase-merge")), Ok(Some(_)));
        if rebases && repo.find_ref("REBASE_HEAD".into())? == Some(picked) {
            Ok(Whence::RebasePick)
        } else {
            Ok(Whence::CherryPick)
        }
    }

    /// Returns the name of the operation in messages.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Whence::Commit => None,
            Whence::Merge => Some("merge"),
            Whence::CherryPick => Some("cherry-pick"),
            Whence::RebasePick => Some("rebase"),
        }
    }

    /// Returns true for a pick of another commit, which provides the author.
    pub fn is_pick(self) -> bool {
        matches!(self, Whence::CherryPick | Whence::RebasePick)
    }

    /// Returns the arguments that name this operation to `prepare-commit-msg` as the source of a
    /// message that is empty.
    pub fn message_source(self) -> &'static [&'static str] {
        match self {
            Whence::Commit => &[],
            Whence::Merge => &["merge"],
            Whence::CherryPick | Whence::RebasePick => &["commit", "CHERRY_PICK_HEAD"],
        }
    }
}

/// The message that a merge, a pick or a squash left for the next commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationMessage {
    /// The message of the squashed commits, and then that of the operation.
    pub text: BString,
    /// The length of the message of the squashed commits, in bytes.
    pub squashed: usize,
    /// The argument that names the message's source to `prepare-commit-msg`.
    pub source: &'static str,
}

/// Reads the files `SQUASH_MSG` and `MERGE_MSG`. Returns `None` if neither exists. An error
/// names the file.
pub fn operation_message(context: Context<'_>) -> Result<Option<OperationMessage>, Error> {
    let read = |name| {
        let read = by_path::read(&context.repo.git_dir().join(name));
        read.map_err(|error| {
            let shown = git_path(context, name);
            Error::Failed(format!("could not read {}: {}", shown.display(), sys::reason(&error)).into())
        })
    };
    let (merged, squashed) = (read("MERGE_MSG")?, read("SQUASH_MSG")?);
    if merged.is_none() && squashed.is_none() {
        return Ok(None);
    }
    let source = if squashed.is_some() { "squash" } else { "merge" };
    let mut text = squashed.unwrap_or_default();
    let squashed = text.len();
    text.extend(merged.unwrap_or_default());
    Ok(Some(OperationMessage { text: text.into(), squashed, source }))
}

/// The options of a commit.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The message. Without it, the message of the operation in progress, or of the commit that is
    /// amended.
    pub message: Option<BString>,
    /// The part of the worktree to commit.
    pub selection: Selection,
    /// Replaces the commit of HEAD.
    pub amend: bool,
    /// Allows a commit without changes.
    pub allow_empty: bool,
    /// Allows an empty message.
    pub allow_empty_message: bool,
    /// Runs neither `pre-commit` nor `commit-msg`.
    pub no_verify: bool,
    /// The author, if it is another one than the configured.
    pub author: AuthorSource,
    /// The signing key; empty for the configured one; `None` for `commit.gpgSign`.
    pub key: Option<BString>,
}

impl Request {
    /// A commit of all changes of tracked files, with this message.
    pub fn all(message: impl Into<BString>) -> Request {
        let selection = Selection { all: true, ..Selection::default() };
        Request { message: Some(message.into()), selection, ..Request::default() }
    }

    /// A commit of the index, with this message.
    pub fn staged(message: impl Into<BString>) -> Request {
        Request { message: Some(message.into()), ..Request::default() }
    }
}

/// The result of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The new commit.
    pub commit: ObjectId,
    /// The commit of HEAD before.
    pub before: Option<ObjectId>,
    /// The tree of the new commit.
    pub tree: ObjectId,
}

/// A commit that is about to be made.
pub struct Plan<'r> {
    repository: &'r Repository,
    worktree: Dir,
    request: Request,
    whence: Whence,
    head: Option<CommitText>,
    draft: Draft,
    /// `commit.cleanup`
    cleanup: Cleanup,
    author: Person,
    committer: Person,
    key: Option<BString>,
    notices: Vec<Notice>,
}

/// The message before the hooks.
struct Draft {
    text: BString,
    /// The arguments of `prepare-commit-msg` that name the message's source.
    source: Vec<&'static str>,
}

/// Checks the request. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let collected = Notices::default();
    let context = repository.recording_context(&collected);
    let repo = context.repo;
    let root = repo.work_tree().ok_or(Error::NoWorktree)?;
    let worktree = Dir::open(root).map_err(Error::cannot_open(root))?;
    let whence = Whence::of(repo)?;
    let head = repo.head().map_err(Error::from)?.oid();
    let no_head = |error| Error::of_name(error, Error::Failed("could not parse HEAD".into()));
    let head = head.map(|head| repo.commit_text(head)).transpose().map_err(no_head)?;
    // Refuses a hook `reference-transaction` before any hook runs.
    refs::planned_options(context)?;
    let mut draft = draft(context, &request, whence, head.as_ref())?;
    let mut source = request.author.clone();
    if source.commit.is_none() {
        source.commit = author_of(repo, &request, whence, head.as_ref())?;
    }
    let author = author::author(repo, &source)?;
    let committer = repo.person(Who::Committer, GivenIdentity::default()).map_err(Error::from)?;
    let signs = repo.config(&keys::commit::GPG_SIGN).map_err(Error::from)?;
    let key = request.key.clone().or_else(|| signs.then(BString::default));
    let cleanup = repo.config_str(&keys::commit::CLEANUP);
    let cleanup = cleanup::cleanup_mode(cleanup.as_ref().map(|mode| mode.as_bstr()), false)?;
    if cleanup != Cleanup::Verbatim {
        draft.text = cleanup::strip(&draft.text, None);
    }
    Ok(Plan {
        repository,
        worktree,
        request,
        whence,
        head,
        draft,
        cleanup,
        author,
        committer,
        key,
        notices: collected.into_vec(),
    })
}

/// Returns the message before the hooks, and checks `--amend`.
fn draft(
    context: Context<'_>,
    request: &Request,
    whence: Whence,
    head: Option<&CommitText>,
) -> Result<Draft, PlanError> {
    let repo = context.repo;
    if request.amend {
        let Some(head) = head else {
            return Err(Error::Failed("You have nothing to amend.".into()).into());
        };
        if let Some(word) = whence.word() {
            let refused = format!("You are in the middle of a {word} -- cannot amend.");
            return Err(Error::Failed(refused.into()).into());
        }
        if let Some(what) = rewritten_notes(repo)? {
            return Err(PlanError::Unsupported(what));
        }
        if request.message.is_none() {
            let text = head.recode(head.message.as_bstr(), repo.commit_encoding().as_bstr());
            return Ok(Draft { text, source: vec!["commit", "HEAD"] });
        }
    }
    if let Some(message) = &request.message {
        return Ok(Draft { text: message.clone(), source: vec!["message"] });
    }
    Ok(match operation_message(context)? {
        Some(message) => Draft { text: message.text, source: vec![message.source] },
        None => Draft { text: BString::default(), source: whence.message_source().to_vec() },
    })
}

/// Returns the commit whose author a commit without another author keeps.
fn author_of(
    repo: &repo::Repository,
    request: &Request,
    whence: Whence,
    head: Option<&CommitText>,
) -> Result<Option<(BString, CommitText)>, Error> {
    if request.amend {
        return Ok(head.cloned().map(|head| ("HEAD".into(), head)));
    }
    if !whence.is_pick() {
        return Ok(None);
    }
    let name = BString::from("CHERRY_PICK_HEAD");
    let Some(picked) = repo.find_ref(name.as_bstr())? else { return Ok(None) };
    Ok(Some((name, repo.commit_text(picked)?)))
}

/// Returns the setting by which Git copies the notes of an amended commit, if there is one.
pub fn rewritten_notes(repo: &repo::Repository) -> Result<Option<&'static str>, Error> {
    let is_wanted = repo.config(&keys::notes::REWRITE_AMEND)?;
    let source = if repo.env().is_set("GIT_NOTES_REWRITE_REF") {
        Some("GIT_NOTES_REWRITE_REF")
    } else {
        repo.config_value(&keys::notes::REWRITE_REF).map(|_| keys::notes::REWRITE_REF.name())
    };
    Ok(source.filter(|_| is_wanted))
}

impl Plan<'_> {
    /// Returns the commit that HEAD points to; `None` before the first commit.
    pub fn head(&self) -> Option<ObjectId> {
        self.head.as_ref().map(|head| head.id)
    }

    /// Returns the operation that the commit concludes.
    pub fn whence(&self) -> Whence {
        self.whence
    }

    /// Reports the notices of the plan, and makes the commit.
    pub fn run(mut self, events: &impl Events) -> Result<Report, RunError> {
        std::mem::take(&mut self.notices).into_iter().for_each(|notice| events.notice(notice));
        Ok(self.commit(self.repository.recording_context(events))?)
    }

    fn commit(&self, context: Context<'_>) -> Result<Report, Error> {
        let request = &self.request;
        let before = before(context, request.no_verify, self.key.is_some())?;
        let inputs = Inputs {
            context,
            original_cwd: None,
            worktree: &self.worktree,
            head: self.head.as_ref(),
            whence: self.whence,
            selection: &request.selection,
            purpose: PreparedFor::Commit,
            programs: before.programs,
        };
        let mut prepared = prepare::prepare(inputs)?;
        let before = before.when_prepared(context, request.no_verify, &mut prepared)?;
        let done = self.commit_prepared(context, &mut prepared, before);
        // As in Git, a refused commit leaves its trees and a refreshed index.
        let written = prepared.write();
        let report = done?;
        written?;
        Ok(report)
    }

    fn commit_prepared(
        &self,
        context: Context<'_>,
        prepared: &mut Prepared<'_>,
        before: Before,
    ) -> Result<Report, Error> {
        let request = &self.request;
        if Whence::of(context.repo)? != self.whence {
            return Err(Error::Failed(OTHER_OPERATION.into()));
        }
        let variables = author::variables(&self.author);
        let file = prepared.file.clone();
        let hooks = CommitHooks {
            variables: &variables,
            index: &file,
            no_editor: true,
            none_before: before.has_no_hooks,
        };
        let may_change = !request.no_verify && self.run_hook(context, hooks, "pre-commit", &[])?;
        let parent = parent_tree(context, self.head.as_ref(), request.amend)?;
        let may_be_empty = self.whence == Whence::Merge || request.allow_empty || self.amends_a_merge();
        if prepared.differs_from(parent) == Some(false) && !may_be_empty {
            return Err(Error::NothingToCommit);
        }
        // As in Git, changes that the hook staged do not count for the check above.
        if may_change {
            prepared.reload()?;
        }
        prepared.make_trees()?;
        let tree = prepared.trees.as_ref().expect("they were made").root;
        let message = self.message(context, hooks)?;
        let in_workspace = workspace::of(context.repo)?;
        if let Some(workspace) = &in_workspace {
            workspace::sync_files(context, workspace, &self.worktree, &prepared.index, parent)?;
        }
        let commit = self.conclude(prepared, &message)?;
        if let Some(workspace) = &in_workspace {
            workspace::acknowledge(workspace)?;
        }
        let index = index_name(context);
        let hooks = CommitHooks { index: &index, ..hooks };
        hooks.run(context, "post-commit", &[])?;
        if let (Some(old), true) = (self.head(), request.amend) {
            hooks.post_rewrite(context, old, commit)?;
        }
        Ok(Report { commit, before: self.head(), tree })
    }

    fn amends_a_merge(&self) -> bool {
        self.request.amend && self.head.as_ref().is_some_and(|head| head.parents.len() > 1)
    }

    /// Runs the hooks of the message. Returns the final message.
    fn message(&self, context: Context<'_>, hooks: CommitHooks<'_>) -> Result<BString, Error> {
        let path = context.repo.git_dir().join(MESSAGE_FILE);
        let shown = git_path(context, MESSAGE_FILE);
        let failed = |source| Error::CannotOpen { path: shown.clone(), source };
        write_message(&path, &self.draft.text).map_err(failed)?;
        let name = shown.to_string_lossy().into_owned();
        let mut args = vec![name.clone()];
        args.extend(self.draft.source.iter().map(|word| word.to_string()));
        self.run_hook(context, hooks, "prepare-commit-msg", &args)?;
        if !self.request.no_verify {
            self.run_hook(context, hooks, "commit-msg", &[name])?;
        }
        let text = by_path::read(&path).and_then(|text| text.ok_or_else(sys::not_found)).map_err(failed)?;
        let comment = cleanup::comment_sign(context.repo);
        let message = cleanup::clean(&text, self.cleanup, false, comment.as_bstr());
        if !self.request.allow_empty_message && cleanup::is_empty(&message, self.cleanup) {
            return Err(Error::EmptyMessage);
        }
        Ok(message)
    }

    /// Returns true if there is such a hook.
    fn run_hook(
        &self,
        context: Context<'_>,
        hooks: CommitHooks<'_>,
        name: &'static str,
        args: &[String],
    ) -> Result<bool, Error> {
        match hooks.run_before(context, name, args)? {
            None => Ok(false),
            Some(0) => Ok(true),
            Some(_) => Err(Error::HookRefused(name)),
        }
    }

    fn conclude(&self, prepared: &mut Prepared<'_>, message: &BString) -> Result<ObjectId, Error> {
        let conclusion = Conclusion {
            head: self.head.as_ref(),
            whence: self.whence,
            amends: self.request.amend,
            key: self.key.as_ref().map(|key| key.as_bstr()),
            output: MaintenanceOutput::Quiet,
        };
        conclusion.conclude(prepared, message, &self.author, &self.committer)
    }
}

/// The programs that run before a commit is made.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    /// The programs.
    pub programs: Programs,
    /// True if there is no hook among them, and no other program can install one meanwhile.
    pub has_no_hooks: bool,
}

impl Before {
    /// Some programs may run.
    pub const SOME: Before = Before { programs: Programs::Some, has_no_hooks: false };

    /// Looks again when the index is prepared, if a program may have installed a hook meanwhile.
    pub fn when_prepared(
        self,
        context: Context<'_>,
        no_verify: bool,
        prepared: &mut Prepared<'_>,
    ) -> Result<Before, Error> {
        if self.programs == Programs::Some || self.has_no_hooks {
            return Ok(self);
        }
        let found = found(context, no_verify)?;
        if found == Found::Hooks {
            prepared.write()?;
            return Ok(Before::SOME);
        }
        Ok(Before { has_no_hooks: found == Found::None, ..self })
    }
}

/// Returns the programs that run before a commit is made, other than an editor: hooks, and the one
/// that signs.
pub fn before(context: Context<'_>, no_verify: bool, signs: bool) -> Result<Before, Error> {
    if signs {
        return Ok(Before::SOME);
    }
    let found = found(context, no_verify)?;
    if found == Found::Hooks {
        return Ok(Before::SOME);
    }
    // Filters and monitors run while the index is prepared, before Git looks for a hook.
    let starts_program = |name: &BStr| name.starts_with(b"filter.") || keys::core::FSMONITOR.is(name);
    let has_no_hooks = found == Found::None && !context.repo.config_names().any(starts_program);
    Ok(Before { programs: Programs::None, has_no_hooks })
}

/// The hooks before a commit that exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Hooks,
    /// Only hooks that are ignored, which is reported when they would run.
    Ignored,
    None,
}

fn found(context: Context<'_>, no_verify: bool) -> Result<Found, Error> {
    let ignored = Notices::default();
    let verifying: &[&str] = if no_verify { &[] } else { &["pre-commit", "commit-msg"] };
    for name in verifying.iter().chain(&["prepare-commit-msg"]) {
        if hooks::exists(Context { events: &ignored, ..context }, name)? {
            return Ok(Found::Hooks);
        }
    }
    Ok(if ignored.into_vec().is_empty() { Found::None } else { Found::Ignored })
}

/// The file in which hooks and the editor find the message, in the Git directory of the worktree.
pub const MESSAGE_FILE: &str = "COMMIT_EDITMSG";

const OTHER_OPERATION: &str =
    "a merge or a pick began or ended since the commit was planned; plan the commit again";

/// Returns the tree that a commit is compared with; `None` for a first commit.
pub fn parent_tree(
    context: Context<'_>,
    head: Option<&CommitText>,
    amends: bool,
) -> Result<Option<ObjectId>, Error> {
    let Some(head) = head else { return Ok(None) };
    if !amends {
        return Ok(Some(head.tree));
    }
    let parent = head.parents.first().copied();
    Ok(parent.map(|parent| context.repo.tree_of(parent)).transpose()?)
}

/// Truncates and writes the file of a message. A file of another user is replaced.
#[expect(clippy::disallowed_methods, reason = "Git writes the file anew, whatever is in it")]
pub fn write_message(path: &Path, content: &[u8]) -> io::Result<()> {
    sys::changes::aside(|| rewrite(path, content))
}

fn rewrite(path: &Path, content: &[u8]) -> io::Result<()> {
    use io::{ErrorKind, Write as _};
    let create = || by_path::create_new(path, 0o666);
    let file = match by_path::open_to_rewrite(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => create(),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            by_path::remove_file(path).and_then(|()| create())
        }
        opened => opened,
    };
    let mut file = file?;
    file.write_all(content)?;
    sys::close(file)
}
