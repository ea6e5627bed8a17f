//! `sapwood commit`: the index as a commit.
//!
//! Order: the options (`plan`); the index of the commit, with its objects durable (`index`); the
//! author; `pre-commit`; the draft of the message with comments for the editor (`message`,
//! `template`); `prepare-commit-msg`, the editor and `commit-msg`; the commit, HEAD, and the index
//! (`conclude`); the hooks and maintenance after a commit; and the summary. A failure before HEAD
//! moves leaves HEAD and the index unchanged, except that a commit of the current index may update
//! the index's stat data and cached trees.

mod author;
mod cleanup;
mod conclude;
mod index;
mod message;
mod obstacle;
mod options;
mod patch;
mod plan;
mod signoff;
mod summary;
mod template;
mod workspace;

use std::path::PathBuf;

use bstr::{BString, ByteSlice as _};
use format::ObjectId;
use repo::{GivenIdentity, Person, Who};
use sys::Dir;

use crate::{
    commands::{
        obstacles::{GENERAL, WRITING, attributes_of_pathspecs, guessed_identity},
        record::{Command, Group, Traits},
        status::preview::{self, Preview},
    },
    session::{
        Session, editor,
        hooks::{self, CommitHooks},
        invocation::Invocation,
        new_commit, real_git,
        settings::{
            Settings,
            refused::{self, Reader},
        },
    },
    term::{
        console::{self, text},
        failure::Failure,
        text::os_error,
    },
};

use index::{Prepared, PreparedFor, git_path, index_name};
use message::Draft;
use options::{Request, TABLE};
use patch::Patch;
use plan::{Plan, Whence};

/// The record of `commit`.
pub(super) const COMMAND: Command = Command {
    name: "commit",
    summary: "Record changes to the repository",
    about: "Makes a commit of the index, or of files. Objects, the index and refs are durable when it is \
            done. `-a` compares the files and stores the changed ones in parallel; only trees of changed \
            directories are built.",
    group: Group::Changes,
    syntax: &TABLE,
    traits: Traits { plans_first: true, ..Command::BASE.traits },
    settings: &[GENERAL, preview::SETTINGS, obstacle::SETTINGS],
    variables: &[obstacle::VARIABLES],
    line: &[attributes_of_pathspecs, obstacle::line],
    checks: &[
        WRITING,
        &[preview::settings_together, obstacle::verbose, obstacle::revisions, guessed_identity],
    ],
    run,
    ..Command::BASE
};

/// The commands whose settings are checked.
const READERS: [Reader; 8] = [
    Reader::Every,
    Reader::Repository,
    Reader::Plumbing,
    Reader::Porcelain,
    Reader::Submodules,
    Reader::Columns,
    Reader::Refs,
    Reader::Hooks,
];

/// A run of the command.
struct Run<'a> {
    session: Session<'a>,
    worktree: &'a Dir,
    plan: &'a Plan,
    /// The comment prefix.
    comment: BString,
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let paths = TABLE.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    let root = repo.work_tree().ok_or_else(Failure::no_worktree)?;
    let worktree = Dir::open(root).map_err(Failure::cannot_open(root))?;
    refused::check(&repo, &READERS)?;
    let settings = Settings::read(run, &repo)?.for_recording();
    let plan = plan::plan(&repo, request, paths)?;
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let run = Run { session, worktree: &worktree, plan: &plan, comment: preview::comment_sign(&repo) };
    if plan.request.dry_run { run.dry_run() } else { run.commit() }
}

impl Run<'_> {
    fn dry_run(&self) -> Result<u8, Failure> {
        let prepared = index::prepare(self.session, self.worktree, self.plan, PreparedFor::Status)?;
        let is_committable = self.show_status(&prepared)?;
        Ok(u8::from(!is_committable))
    }

    /// Prints the status. Returns true if there is something to commit.
    fn show_status(&self, prepared: &Prepared<'_>) -> Result<bool, Failure> {
        let what = Preview {
            is_template: false,
            amends: self.plan.request.amend,
            index_file: prepared.file.clone(),
            ..Preview::default()
        };
        let patch = Patch { run: self, file: &prepared.file, cuts: false, is_template: false };
        let wanted = &self.plan.request.wanted;
        let preview = preview::preview(self.session, prepared.read(), wanted, what, &|it| patch.show(it))?;
        console::out_raw(&preview.text);
        Ok(preview.is_committable)
    }

    fn commit(&self) -> Result<u8, Failure> {
        let Session { repository: repo, settings, .. } = self.session;
        let plan = self.plan;
        let input = message::standard_input(self.session, plan)?;
        let mut prepared = index::prepare(self.session, self.worktree, plan, PreparedFor::Commit)?;
        let author = author::author(repo, plan)?;
        let variables = author::variables(&author);
        let file = prepared.file.clone();
        let of_commit = CommitHooks { variables: &variables, index: &file, no_editor: !plan.editor };
        let may_change = !plan.request.no_verify && hooks::exists(repo, settings, "pre-commit")?;
        if may_change && of_commit.run(repo, settings, "pre-commit", &[])? != 0 {
            return Ok(1);
        }
        let mut draft = message::draft(self.session, plan, input, self.comment.as_bstr())?;
        let committer = new_commit::person(repo, Who::Committer, GivenIdentity::default())?;
        self.finish_draft(&mut draft, committer.name_and_mail().as_bstr());
        let is_committable = self.write_draft(&mut draft, &prepared, &author, &committer)?;
        let may_be_empty =
            plan.whence == Whence::Merge || plan.request.allow_empty || plan.is_merge_amended();
        if !is_committable && !may_be_empty {
            self.nothing_to_commit(&prepared)?;
            return Ok(1);
        }
        // As in Git, changes that the hook staged do not count for this check.
        if may_change {
            prepared.reload()?;
        }
        if !self.make_trees(&mut prepared)? || !self.edit(&draft, of_commit)? {
            return Ok(1);
        }
        let message = self.read_message()?;
        let changes = self.changes(&prepared)?;
        let workspace = self.workspace()?;
        if let Some(workspace) = &workspace {
            self.sync_files(workspace, &prepared)?;
        }
        let oid = self.conclude(prepared, &message, &author, &committer)?;
        if let Some(workspace) = &workspace {
            workspace::acknowledge(workspace)?;
        }
        let index = index_name(self.session);
        let of_commit = CommitHooks { index: &index, ..of_commit };
        of_commit.run(repo, settings, "post-commit", &[])?;
        if let (Some(old), true, false) = (plan.head_id(), plan.request.amend, plan.request.no_post_rewrite) {
            of_commit.post_rewrite(repo, settings, old, oid)?;
        }
        if !plan.request.quiet {
            self.summary(oid, &author, &committer, changes)?;
        }
        Ok(0)
    }

    /// Writes the draft with its comments. Returns true if there is something to commit.
    fn write_draft(
        &self,
        draft: &mut Draft,
        prepared: &Prepared<'_>,
        author: &Person,
        committer: &Person,
    ) -> Result<bool, Failure> {
        let is_committable = match self.plan.editor && self.plan.includes_status {
            true => {
                let (comments, is_committable) = self.comments(draft, prepared, author, committer)?;
                draft.text.extend_from_slice(&comments);
                is_committable
            }
            false => self.is_committable(prepared)?,
        };
        let shown = git_path(self.session, "COMMIT_EDITMSG");
        write(&self.editmsg(), &draft.text).map_err(|error| {
            Failure::fatal(format!("could not open '{}': {}", shown.display(), os_error(&error)))
        })?;
        self.add_trailers(&shown)?;
        Ok(is_committable)
    }

    /// Runs the hooks and the editor on the message. Returns false if one of them refuses.
    fn edit(&self, draft: &Draft, of_commit: CommitHooks<'_>) -> Result<bool, Failure> {
        let Session { repository: repo, settings, .. } = self.session;
        let name = git_path(self.session, "COMMIT_EDITMSG").to_string_lossy().into_owned();
        let args: Vec<String> = std::iter::once(name.clone()).chain(draft.source.clone()).collect();
        if of_commit.run(repo, settings, "prepare-commit-msg", &args)? != 0 {
            return Ok(false);
        }
        if self.plan.editor && editor::edit(self.session, &self.editmsg(), &of_commit.variables())?.is_err() {
            console::eprint_line("Please supply the message using either -m or -F option.");
            return Ok(false);
        }
        Ok(self.plan.request.no_verify || of_commit.run(repo, settings, "commit-msg", &[name])? == 0)
    }

    fn editmsg(&self) -> PathBuf {
        self.session.repository.git_dir().join("COMMIT_EDITMSG")
    }

    /// Returns the tree to compare the index with; `None` for a first commit.
    fn parent_tree(&self) -> Result<Option<ObjectId>, Failure> {
        let Some(head) = &self.plan.head else { return Ok(None) };
        if !self.plan.request.amend {
            return Ok(Some(head.tree));
        }
        let parent = head.parents.first().copied();
        Ok(parent.map(|parent| self.session.repository.tree_of(parent)).transpose()?)
    }

    /// Returns true if the index differs from the previous commit.
    fn is_committable(&self, prepared: &Prepared<'_>) -> Result<bool, Failure> {
        use format::index::Flags;
        let index = &prepared.index;
        match (self.parent_tree()?, &prepared.trees) {
            (None, _) => Ok(index.entries().iter().any(|entry| !entry.flags.contains(Flags::INTENT_TO_ADD))),
            (Some(tree), Some(trees)) => Ok(tree != trees.root),
            // The trees are made later, or the error is reported then.
            (Some(_), None) => {
                let read = prepared.read();
                let what = Preview { amends: self.plan.request.amend, ..Preview::default() };
                let wanted = preview::Wanted { untracked: Some("no".into()), ..preview::Wanted::default() };
                let nothing = |_| Ok(BString::default());
                Ok(preview::preview(self.session, read, &wanted, what, &nothing)?.is_committable)
            }
        }
    }

    /// Runs the real Git to add the trailers of the command line.
    fn add_trailers(&self, file: &std::path::Path) -> Result<(), Failure> {
        let trailers = &self.plan.request.trailers;
        if trailers.is_empty() {
            return Ok(());
        }
        let repo = self.session.repository;
        let failed = || Failure::fatal("unable to pass trailers to --trailers");
        let rules = signoff::Rules::read(repo, self.comment.as_bstr());
        for trailer in trailers {
            if trailer.is_empty() {
                console::error("empty --trailer argument");
                return Err(failed());
            }
            if rules.lacks_key(trailer) {
                let message = text!("invalid trailer '", trailer, "': missing key before separator");
                console::error(message);
                return Err(failed());
            }
        }
        let mut git = real_git::command(self.session.invocation).ok_or_else(failed)?;
        git.envs(repo.child_env()).current_dir(repo.child_dir());
        git.args(["interpret-trailers", "--in-place", "--no-divider"]).arg(file);
        for trailer in trailers {
            git.arg(sys::os_str(&[b"--trailer=", &trailer[..]].concat()));
        }
        console::flush();
        match git.stdin(std::process::Stdio::null()).status() {
            Ok(status) if status.success() => Ok(()),
            _ => Err(failed()),
        }
    }

    /// Prints why there is nothing to commit.
    fn nothing_to_commit(&self, prepared: &Prepared<'_>) -> Result<(), Failure> {
        self.show_status(prepared)?;
        console::flush();
        if self.plan.request.amend {
            console::eprint_raw(obstacle::EMPTY_AMEND.as_bytes());
        } else if self.plan.whence.is_pick() {
            console::eprint_raw(obstacle::EMPTY_PICK.as_bytes());
            console::eprint_raw(match self.plan.whence {
                Whence::RebasePick => b"Otherwise, please use 'git rebase --skip'\n".as_slice(),
                _ => b"Otherwise, please use 'git cherry-pick --skip'\n",
            });
        }
        Ok(())
    }
}

impl Plan {
    /// Returns true if the author's date may differ from the time of the commit.
    fn is_date_of_interest(&self) -> bool {
        self.author_of.is_some() || self.request.date.is_some()
    }
}

/// Truncates and writes a file. A file of another user is replaced.
fn write(path: &std::path::Path, content: &[u8]) -> std::io::Result<()> {
    use std::io::{ErrorKind, Write as _};
    let create = || sys::by_path::create_new(path, 0o666);
    let file = match sys::by_path::open_to_rewrite(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => create(),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            sys::by_path::remove_file(path).and_then(|()| create())
        }
        opened => opened,
    };
    let mut file = file?;
    file.write_all(content)?;
    sys::close(file)
}
