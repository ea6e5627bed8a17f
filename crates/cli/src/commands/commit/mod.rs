//! `sapwood commit`: the index as a commit.
//!
//! Order: the options (`plan`); the index of the commit, with its objects durable; the author;
//! `pre-commit`; the draft of the message with comments for the editor (`message`, `template`);
//! `prepare-commit-msg`, the editor and `commit-msg`; the commit, HEAD, and the index; the hooks
//! and maintenance after a commit; and the summary. The steps without the editor are in
//! [`sapwood::commit`]. A failure before HEAD moves leaves HEAD and the index unchanged, except
//! that a commit of the current index may update the index's stat data and cached trees.

mod message;
mod obstacle;
mod options;
mod patch;
mod plan;
mod signoff;
mod summary;
mod template;

use std::path::PathBuf;

use bstr::{BString, ByteSlice as _};
use repo::{GivenIdentity, Person, Who, keys};
use sapwood::{
    Dir, ObjectId, TreeError,
    commit::{
        self, AuthorSource, Before, Selection, Whence, author,
        conclude::Conclusion,
        prepare::{Inputs, Prepared, PreparedFor, Programs, git_path, index_name},
        workspace, write_message,
    },
    maintenance::MaintenanceOutput,
};

use crate::{
    commands::{
        obstacles::{ATTRIBUTES_OF_PATHSPECS, GENERAL, GUESSED_IDENTITY, WRITING},
        paths,
        record::{Command, Group},
        status::preview::{self, Preview},
        workspace::quota::tell_if_full,
    },
    session::{
        Session, editor,
        hooks::CommitHooks,
        invocation::Invocation,
        new_commit, real_git,
        settings::{Reader, Settings, refused},
    },
    term::{
        console::{self, text},
        failure::Failure,
        text::{os_error, os_str},
    },
};

use message::Draft;
use options::{Request, TABLE};
use patch::Patch;
use plan::{FixupKind, Plan};

/// The record of `commit`.
pub(super) const COMMAND: Command = Command {
    name: "commit",
    summary: "Record changes to the repository",
    about: "Makes a commit of the index, or of files. Objects, the index and refs are durable when it is \
            done. `-a` compares the files and stores the changed ones in parallel; only trees of changed \
            directories are built.",
    group: Group::Changes,
    syntax: &TABLE,
    settings: &[GENERAL, preview::SETTINGS, obstacle::SETTINGS],
    variables: &[obstacle::VARIABLES],
    line: &[ATTRIBUTES_OF_PATHSPECS, obstacle::LINE],
    checks: &[
        WRITING,
        &[preview::SETTINGS_TOGETHER, obstacle::VERBOSE, obstacle::REVISIONS, GUESSED_IDENTITY],
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

const RESOLVE: &str = "\
Fix them up in the work tree, and then use 'git add/rm <file>'
as appropriate to mark resolution and make a commit.";

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
    let settings = Settings::read(&repo)?.for_recording();
    let plan = plan::plan(&repo, request, paths)?;
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let comment = commit::cleanup::comment_sign(&repo);
    let commit = Run { session, worktree: &worktree, plan: &plan, comment };
    let done = if plan.request.dry_run { commit.dry_run() } else { commit.commit() };
    tell_if_full(run);
    done
}

impl<'a> Run<'a> {
    /// Prepares the index according to the options.
    fn prepare(&self, purpose: PreparedFor, programs: Programs) -> Result<Prepared<'a>, Failure> {
        let Session { invocation: run, repository: repo, settings } = self.session;
        let request = &self.plan.request;
        let given = paths::parse(run, repo, &self.plan.paths)?;
        let pathspecs = request.pathspec_file.or(given, request.all.then_some("-a"), run, repo)?;
        let fixup = self.plan.fixup.as_ref();
        let fixes = fixup.is_some_and(|fixup| fixup.kind == FixupKind::Fixup);
        let needs_paths =
            request.include || request.only && !request.allow_empty && (!request.amend || fixes);
        if pathspecs.is_empty() && needs_paths {
            return Err(Failure::fatal("No paths with --include/--only does not make sense."));
        }
        let (all, include, only) = (request.all, request.include, request.only);
        let selection = Selection { pathspecs, all, include, only };
        let cwd = run.original_cwd(repo);
        let prepared = commit::prepare::prepare(Inputs {
            context: self.session.context(run),
            original_cwd: cwd.as_ref().map(|cwd| cwd.as_bstr()),
            worktree: self.worktree,
            head: self.plan.head.as_ref(),
            whence: self.plan.whence,
            selection: &selection,
            purpose,
            programs,
        });
        prepared.map_err(|error| match error {
            sapwood::Error::Conflicts(paths) => {
                paths.iter().for_each(|path| console::out(text!("U\t", path)));
                console::error("Committing is not possible because you have unmerged files.");
                if settings.advises(repo, keys::advice::RESOLVE_CONFLICT).unwrap_or(true) {
                    console::hint(RESOLVE);
                }
                Failure::fatal("Exiting because of an unresolved conflict.")
            }
            sapwood::Error::Unmatched(_) if all || include => Failure::from(error).with_code(128),
            error => error.into(),
        })
    }

    /// Returns the source of the author.
    fn author(&self) -> AuthorSource {
        AuthorSource {
            commit: self.plan.author_of.clone(),
            identity: self.plan.request.author.clone(),
            date: self.plan.request.date.clone(),
        }
    }

    /// Writes the trees of the index, which must be complete now. Returns false if that fails; the
    /// error was printed.
    fn make_trees(&self, prepared: &mut Prepared<'_>) -> Result<bool, Failure> {
        let error = match prepared.make_trees() {
            Ok(()) => return Ok(true),
            Err(sapwood::Error::Trees(error)) => error,
            Err(error) => return Err(error.into()),
        };
        match error {
            TreeError::Write(error) => new_commit::report_tree_error(&error),
            TreeError::Publish(error) => console::error(error.to_string()),
        }
        console::error("Error building trees");
        Ok(false)
    }

    /// Creates the commit and moves HEAD. Returns the commit's name.
    fn conclude(
        &self,
        prepared: &mut Prepared<'_>,
        message: &BString,
        author: &Person,
        committer: &Person,
    ) -> Result<ObjectId, Failure> {
        let is_quiet = self.plan.request.quiet;
        let conclusion = Conclusion {
            head: self.plan.head.as_ref(),
            whence: self.plan.whence,
            amends: self.plan.request.amend,
            key: self.plan.key.as_ref().map(|key| key.as_bstr()),
            output: if is_quiet { MaintenanceOutput::Quiet } else { MaintenanceOutput::Progress },
        };
        let done = conclusion.conclude(prepared, message, author, committer);
        done.map_err(|error| match error {
            sapwood::Error::NulInMessage => {
                console::error(error.to_string());
                Failure::fatal("failed to write commit object")
            }
            error => error.into(),
        })
    }

    fn dry_run(&self) -> Result<u8, Failure> {
        let prepared = self.prepare(PreparedFor::Status, Programs::Some)?;
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
        let input = message::standard_input(self.session, self.plan)?;
        let before = self.before()?;
        let mut prepared = self.prepare(PreparedFor::Commit, before.programs)?;
        let context = self.session.context(self.session.invocation);
        let before = before.when_prepared(context, self.plan.request.no_verify, &mut prepared)?;
        let done = self.commit_prepared(&mut prepared, before, input);
        // As in Git, a refused commit leaves its trees and a refreshed index.
        let written = prepared.write();
        let code = done?;
        written?;
        Ok(code)
    }

    /// Returns the programs that run before the commit is made.
    fn before(&self) -> Result<Before, Failure> {
        let Plan { request, key, editor, .. } = self.plan;
        if *editor || !request.trailers.is_empty() {
            return Ok(Before::SOME);
        }
        let context = self.session.context(self.session.invocation);
        Ok(commit::before(context, request.no_verify, key.is_some())?)
    }

    fn commit_prepared(
        &self,
        prepared: &mut Prepared<'_>,
        before: Before,
        input: Option<Vec<u8>>,
    ) -> Result<u8, Failure> {
        let repo = self.session.repository;
        let (plan, context) = (self.plan, self.session.context(self.session.invocation));
        let author = author::author(repo, &self.author())?;
        let variables = author::variables(&author);
        let file = prepared.file.clone();
        let of_commit = CommitHooks {
            variables: &variables,
            index: &file,
            no_editor: !plan.editor,
            none_before: before.has_no_hooks,
        };
        let verify = || of_commit.run_before(context, "pre-commit", &[]);
        let code = if plan.request.no_verify { None } else { verify()? };
        if code.is_some_and(|code| code != 0) {
            return Ok(1);
        }
        let may_change = code.is_some();
        let mut draft = message::draft(self.session, plan, input, self.comment.as_bstr())?;
        let committer = repo.person(Who::Committer, GivenIdentity::default())?;
        self.finish_draft(&mut draft, committer.name_and_mail().as_bstr());
        let is_committable = self.write_draft(&mut draft, prepared, &author, &committer)?;
        let may_be_empty =
            plan.whence == Whence::Merge || plan.request.allow_empty || plan.is_merge_amended();
        if !is_committable && !may_be_empty {
            prepared.write()?;
            self.nothing_to_commit(prepared)?;
            return Ok(1);
        }
        // As in Git, changes that the hook staged do not count for this check.
        if may_change {
            prepared.reload()?;
        }
        if !self.make_trees(prepared)? || !self.edit(&draft, of_commit)? {
            return Ok(1);
        }
        let message = self.read_message()?;
        let changes = self.changes(prepared)?;
        let in_workspace = workspace::of(repo)?;
        if let Some(workspace) = &in_workspace {
            let parent = self.parent_tree()?;
            workspace::sync_files(context, workspace, self.worktree, &prepared.index, parent)?;
        }
        let oid = self.conclude(prepared, &message, &author, &committer)?;
        if let Some(workspace) = &in_workspace {
            workspace::acknowledge(workspace)?;
        }
        let index = index_name(context);
        let of_commit = CommitHooks { index: &index, ..of_commit };
        of_commit.run(context, "post-commit", &[])?;
        if let (Some(old), true, false) = (plan.head_id(), plan.request.amend, plan.request.no_post_rewrite) {
            of_commit.post_rewrite(context, old, oid)?;
        }
        if !plan.request.quiet {
            self.summary(oid, &author, &committer, prepared, changes)?;
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
        let is_committable = if self.plan.editor && self.plan.includes_status {
            let (comments, is_committable) = self.comments(draft, prepared, author, committer)?;
            draft.text.extend_from_slice(&comments);
            is_committable
        } else {
            self.is_committable(prepared)?
        };
        let shown = git_path(self.session.context(self.session.invocation), commit::MESSAGE_FILE);
        write_message(&self.editmsg(), &draft.text).map_err(|error| {
            Failure::fatal(format!("could not open '{}': {}", shown.display(), os_error(&error)))
        })?;
        self.add_trailers(&shown)?;
        Ok(is_committable)
    }

    /// Runs the hooks and the editor on the message. Returns false if one of them refuses.
    fn edit(&self, draft: &Draft, of_commit: CommitHooks<'_>) -> Result<bool, Failure> {
        let context = self.session.context(self.session.invocation);
        let name = git_path(context, commit::MESSAGE_FILE).to_string_lossy().into_owned();
        let args: Vec<String> = std::iter::once(name.clone()).chain(draft.source.clone()).collect();
        if of_commit.run_before(context, "prepare-commit-msg", &args)?.is_some_and(|code| code != 0) {
            return Ok(false);
        }
        if self.plan.editor && editor::edit(self.session, &self.editmsg(), &of_commit.variables())?.is_err() {
            console::eprint_line("Please supply the message using either -m or -F option.");
            return Ok(false);
        }
        let verify = || of_commit.run_before(context, "commit-msg", &[name]);
        Ok(self.plan.request.no_verify || verify()?.is_none_or(|code| code == 0))
    }

    fn editmsg(&self) -> PathBuf {
        self.session.repository.git_dir().join(commit::MESSAGE_FILE)
    }

    /// Returns the tree to compare the index with; `None` for a first commit.
    fn parent_tree(&self) -> Result<Option<ObjectId>, Failure> {
        let context = self.session.context(self.session.invocation);
        Ok(commit::parent_tree(context, self.plan.head.as_ref(), self.plan.request.amend)?)
    }

    /// Returns true if the index differs from the previous commit.
    fn is_committable(&self, prepared: &Prepared<'_>) -> Result<bool, Failure> {
        if let Some(differs) = prepared.differs_from(self.parent_tree()?) {
            return Ok(differs);
        }
        // The trees are made later, or the error is reported then.
        let read = prepared.read();
        let what = Preview { amends: self.plan.request.amend, ..Preview::default() };
        let wanted = preview::Wanted { untracked: Some("no".into()), ..preview::Wanted::default() };
        let nothing = |_| Ok(BString::default());
        Ok(preview::preview(self.session, read, &wanted, what, &nothing)?.is_committable)
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
            git.arg(os_str(&[b"--trailer=", &trailer[..]].concat()));
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
