//! `workspace rebase`: moves a workspace to another base.
//!
//! It is a `switch` (refusals, HEAD, reflog, hook) whose files come from the base of the new
//! commit: the steps of its plan are not executed; instead the files that the base now provides are
//! removed from the upper layer. `engine::workspace::rebase` has the order, and what a kill leaves.

use std::{
    cell::RefCell,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    sparse,
    switch::{self, Target},
    trash::Trash,
    workspace::{
        backend::{Backend, Busy, fuse},
        base::{Base, Bases},
        frozen, newer,
        rebase::{self, Head, Inputs, Journal, Layout, Staged, View, XattrNamespace},
        record::{self, Workspace},
    },
};
use format::{
    ObjectId,
    index::{Flags, Index},
};
use repo::{OpenOptions, Repository};
use serde_json::json;
use sys::{Dir, File, by_path};

use super::{
    build,
    context::{self, Context},
    mounts,
    request::{REBASE, Request},
    submodules,
    supply::Supply,
};
use crate::{
    commands::{
        checkout::{
            branch::{self, WorktreeUpdater},
            request::{self as checkout, Source, Variant},
        },
        trash,
        worktree::context::{WorktreeContext, open_worktree},
    },
    session::{
        Session,
        apply::{LockedPlan, Recorded, Start, Transaction},
        invocation::Invocation,
        settings::Settings,
    },
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let words = REBASE.parse(args)?.store(&mut request)?;
    let [name, commit] = words.as_slice() else {
        return Err(Failure::fatal("name a workspace and a commit"));
    };
    let context = Context::open(run)?;
    let workspace = context.find(name.as_bstr())?;
    let _lock = workspace.lock(&context.repo.trust())?;
    let workspace = recover(&context, &workspace)?;
    let code = match workspace.record.backend {
        Backend::Fuse if fuse::program_of(&workspace.state) == Some(fuse::Program::UnionfsFuse) => {
            return Err(Failure::fatal(
                "unionfs-fuse marks deletions in a way of its own, so the base cannot change; use 'git \
                 switch' in the workspace",
            ));
        }
        Backend::Image | Backend::Overlay | Backend::OverlayUser | Backend::Fuse => {
            rebase(&context, &workspace, commit.as_bstr(), &request)?
        }
        // These backends share nothing with a base, so a switch is sufficient.
        Backend::Btrfs | Backend::Reflink | Backend::Copy => {
            let goal = Goal::find(&context, &workspace, commit.as_bstr())?;
            branch::run(run, &goal.repo, &goal.settings, goal.request(&request), Some(goal.source.clone()))?
        }
    };
    if request.json {
        let base = record::find(&context.common, &workspace.name)?.record.base.map(|base| base.name);
        context::print_json(
            &json!({"name": workspace.name.to_string_lossy(), "base": base, "rebased": code == 0}),
        );
    }
    Ok(code)
}

/// The target commit, and the repository opened from the workspace.
struct Goal {
    repo: Repository,
    settings: Settings,
    source: Source,
}

impl Goal {
    fn find(context: &Context<'_>, workspace: &Workspace, name: &BStr) -> Result<Goal, Failure> {
        let worktree = context.repo.linked_worktree(&workspace.name).ok_or_else(|| {
            Failure::fatal(text!("'", workspace.name.as_bytes(), "' has lost its administrative directory"))
        })?;
        let repo = open_worktree(context.run, &worktree)?;
        // A crash after the rebase must not take the index: the files are those of the new base.
        let settings = Settings::read(context.run, &repo)?.for_recording();
        let oid = repo
            .rev_parse(name)
            .map_err(|error| Failure::of_name(error, Failure::Fatal(text!("invalid reference: ", name))))?;
        let source = checkout::describe(&repo, name, oid)?;
        Ok(Goal { repo, settings, source })
    }

    fn request(&self, request: &Request) -> checkout::Request {
        let mut switch = checkout::Request::new(Variant::Switch);
        switch.quiet = request.quiet || request.json;
        switch.detach = request.detach || self.source.branch.is_none();
        switch
    }
}

fn rebase(
    context: &Context<'_>,
    workspace: &Workspace,
    name: &BStr,
    request: &Request,
) -> Result<u8, Failure> {
    mounts::mount(context.run, &context.repo, workspace)?;
    if !submodules::exist(workspace)? {
        return rebase_alone(context, workspace, name, request);
    }
    // Without `--recurse-submodules` a switch leaves submodules as they are.
    submodules::unmount(context.run, workspace, Busy::Refuse)?;
    let done = rebase_alone(context, workspace, name, request);
    submodules::mount(context.run, &context.repo, workspace)?;
    done
}

/// Rebases a workspace in which no submodule is mounted.
fn rebase_alone(
    context: &Context<'_>,
    workspace: &Workspace,
    name: &BStr,
    request: &Request,
) -> Result<u8, Failure> {
    mounts::refuse_mounts_inside(workspace)?;
    let old = workspace.record.base.as_ref().expect("a workspace with an upper layer has a base");
    let old = Bases::trusted(&old.dir, context.repo.trust())?.get(&old.name)?;
    let new = new_base(context, workspace, name, request)?;
    let held = new.hold()?;
    if workspace.record.backend == Backend::OverlayUser {
        mounts::join(workspace)?;
    }
    let goal = Goal::find(context, workspace, name)?;
    let Goal { repo, settings, source } = &goal;
    let namespace = namespace(workspace);
    let root = Dir::open(&workspace.record.dir).map_err(Failure::cannot_open(&workspace.record.dir))?;
    let view = RefCell::new(Some(View::read(workspace, &root, namespace)?));
    drop(root);
    let replacement =
        BaseReplacement { context, goal: &goal, workspace, old, new, view, namespace, _held: held };
    let switch_request = goal.request(request);
    branch::run_with(context.run, repo, settings, switch_request, Some(source.clone()), Some(&replacement))
}

/// Returns the base of the commit called `name` for the backend of a workspace, and builds it if it
/// does not exist. The files of the workspace need not be visible here.
fn new_base(
    context: &Context<'_>,
    workspace: &Workspace,
    name: &BStr,
    request: &Request,
) -> Result<Base, Failure> {
    let admin = context.common.join("worktrees").join(&workspace.name);
    let repo = open_admin(context.run, admin, workspace.record.dir.clone())?;
    let settings = Settings::read(context.run, &repo)?;
    let invalid = || Failure::Fatal(text!("invalid reference: ", name));
    let oid = repo.rev_parse(name).map_err(|error| Failure::of_name(error, invalid()))?;
    let commit = repo.peel_to_commit(oid)?;
    let commit = commit.ok_or_else(|| Failure::Fatal(text!("'", name, "' is no commit")))?;
    let patterns = sparse::load(&repo)?.map(|loaded| loaded.patterns);
    let supply = Supply {
        run: context.run,
        repo: &repo,
        settings: &settings,
        commit,
        patterns: patterns.as_ref(),
        is_visible: build::shows(None, request.quiet || request.json),
        dirs: directories(context, workspace)?,
    };
    supply.base(workspace.record.backend)
}

/// Returns the base directories for a new base: that of the old base, and the configured one, which
/// comes first if it has the other one as an alternate.
fn directories(context: &Context<'_>, workspace: &Workspace) -> Result<Vec<Bases>, Failure> {
    let configured = context.bases(None)?;
    let Some(old) = &workspace.record.base else { return Ok(vec![configured]) };
    let old = Bases::trusted(&old.dir, context.repo.trust())?;
    let real = |bases: &Bases| by_path::canonical(bases.dir()).unwrap_or_else(|_| bases.dir().to_owned());
    if configured.alternates()?.contains(&real(&old)) {
        return Ok(vec![configured, old]);
    }
    Ok(if real(&configured) == real(&old) { vec![old] } else { vec![old, configured] })
}

/// Opens a worktree by its Git directory, because its files may not be mounted.
fn open_admin(run: &Invocation, admin: PathBuf, top: PathBuf) -> Result<Repository, Failure> {
    let options =
        OpenOptions { cwd: admin.clone(), git_dir: Some(admin), work_tree: Some(top), ..run.outside() };
    Ok(Repository::open(&options)?)
}

fn namespace(workspace: &Workspace) -> XattrNamespace {
    match workspace.record.backend {
        Backend::OverlayUser => XattrNamespace::User,
        Backend::Fuse => XattrNamespace::Fuse,
        _ => XattrNamespace::Trusted,
    }
}

/// The replacement of the base below a workspace.
struct BaseReplacement<'a> {
    context: &'a Context<'a>,
    goal: &'a Goal,
    workspace: &'a Workspace,
    old: Base,
    new: Base,
    /// The view of the files before the switch was planned.
    view: RefCell<Option<View>>,
    namespace: XattrNamespace,
    /// Keeps the new base from being removed until the record names it.
    _held: File,
}

impl WorktreeUpdater for BaseReplacement<'_> {
    fn perform(
        &self,
        locked: LockedPlan,
        branch: Option<&BStr>,
        commit: ObjectId,
        message: &BStr,
    ) -> Result<(), Failure> {
        let fsync = &self.goal.settings.fsync;
        let staged = self.stage(&locked)?;
        if let Err(failure) = mounts::unmount_to_replace(self.context.run, self.workspace) {
            staged.abandon()?;
            return Err(failure);
        }
        match staged.is_current(self.namespace) {
            Ok(true) => {}
            other => {
                staged.abandon()?;
                mounts::mount(self.context.run, &self.context.repo, self.workspace)?;
                other?;
                return Err(Failure::fatal("the workspace was changed meanwhile; try again"));
            }
        }
        let head = match branch {
            Some(name) => Head::Branch(name.to_owned()),
            None => Head::Detached(commit.to_string().into()),
        };
        let journal = staged.commit(head, message.to_owned(), fsync)?;
        let admin = self.goal.repo.git_dir();
        rebase::carry_out(self.workspace, &journal, admin, self.namespace, fsync)?;
        Ok(())
    }

    fn finish(&self) -> Result<(), Failure> {
        let workspace = record::find(&self.context.common, &self.workspace.name)?;
        conclude(&self.context.worktree_context(), &workspace)?;
        mounts::mount(self.context.run, &self.context.repo, &workspace)?;
        self.refresh()
    }
}

impl BaseReplacement<'_> {
    /// Records the stat data of files that do not come from the base. Without them, some of Git's
    /// commands report such a file as changed.
    fn refresh(&self) -> Result<(), Failure> {
        let Goal { repo, settings, .. } = self.goal;
        let session = Session { invocation: self.context.run, repository: repo, settings };
        let mut transaction = Transaction::start(session, Start::Sparse { dry_run: false })?;
        transaction.refresh()?;
        transaction.finish(Recorded::Yes)
    }

    /// Writes everything that the workspace needs on the new base to temporary places.
    fn stage(&self, locked: &LockedPlan) -> Result<Staged<'_>, Failure> {
        let view = self.view.borrow_mut().take().expect("a switch is performed once");
        let options = store::index::ReadOptions::default();
        let (old, new) = (self.old.load_index(&options)?, self.new.load_index(&options)?);
        let after = &locked.plan.index;
        let is_clean = |entry: &_| -> bool { is_up_to_date(after, entry) };
        let inputs = Inputs {
            old: &old,
            new: &new,
            plan: &locked.plan,
            upper: &view.upper,
            renamed: &view.renamed,
            empty: &view.empty,
            umask: sys::umask(),
            is_clean: &is_clean,
        };
        let mut layout = Layout::of(&inputs);
        let layers = self.workspace.frozen();
        layout.keep_hidden(&view.upper, &|path| frozen::has(&layers, path));
        layout.renew(&inputs, &newer::Plan::read(&self.workspace.newer())?, &|path| {
            let place = self.workspace.upper().join(sys::os_str(path));
            by_path::stat(&place).ok().flatten().map(|stat| stat.mtime)
        });
        let dir = &self.workspace.record.dir;
        let root = Dir::open(dir).map_err(Failure::cannot_open(dir))?;
        let settings = &self.goal.settings;
        let options = settings.index_to_write(after, Some(true));
        let written = (&options, &settings.fsync);
        Ok(Staged::prepare(
            &self.goal.repo,
            self.workspace,
            &root,
            (view, layout),
            &self.new,
            after,
            written,
        )?)
    }
}

fn is_up_to_date(index: &Index, entry: &format::index::Entry) -> bool {
    entry.flags.contains(Flags::UPTODATE) || index.is_fsmonitor_valid(entry)
}

/// Removes the journal and the old layers.
fn conclude(worktree_context: &WorktreeContext<'_>, workspace: &Workspace) -> Result<(), Failure> {
    let old = rebase::conclude(workspace)?;
    if old.is_empty() {
        return Ok(());
    }
    old.iter().try_for_each(|layer| move_to_trash(worktree_context, layer))?;
    if workspace.record.backend == Backend::OverlayUser {
        // A process in the background would stay in the namespace of the workspace, and keep it in
        // use.
        let interrupt = worktree_context.run.interrupt.flag();
        let _ = engine::trash::empty(&worktree_context.common, trash::workers(), interrupt);
    } else {
        trash::empty_in_background(&worktree_context.common);
    }
    Ok(())
}

/// Removes an old upper layer that a killed process has left.
pub(super) fn discard_old(context: &Context<'_>, workspace: &Workspace) -> Result<(), Failure> {
    conclude(&context.worktree_context(), workspace)
}

/// Removes a directory that belongs to sapwood, through the trash.
pub(super) fn discard(worktree_context: &WorktreeContext<'_>, old: &Path) -> Result<(), Failure> {
    move_to_trash(worktree_context, old)?;
    trash::empty_in_background(&worktree_context.common);
    Ok(())
}

fn move_to_trash(worktree_context: &WorktreeContext<'_>, old: &Path) -> Result<(), Failure> {
    let (Some(above), Some(name)) = (old.parent(), old.file_name()) else { return Ok(()) };
    let interrupt = worktree_context.run.interrupt.flag();
    let mut discarded = Trash::new(
        &worktree_context.common,
        worktree_context.shared_or_default(),
        trash::workers(),
        interrupt,
    );
    let above = Dir::open(above).map_err(Failure::cannot_open(above))?;
    // The next `workspace gc` removes the rest.
    let _ = discarded.discard(&above, name.as_bytes().as_bstr());
    Ok(())
}

/// Completes a rebase that was killed. The caller holds the workspace's lock. Returns the updated
/// workspace.
pub(super) fn recover(context: &Context<'_>, workspace: &Workspace) -> Result<Workspace, Failure> {
    recover_in(&context.worktree_context(), &context.settings, workspace)
}

/// Like [`recover`], without a [`Context`].
pub(super) fn recover_in(
    worktree_context: &WorktreeContext<'_>,
    settings: &Settings,
    workspace: &Workspace,
) -> Result<Workspace, Failure> {
    let Some(journal) = Journal::read(workspace)? else {
        rebase::forget(workspace)?;
        conclude(worktree_context, workspace)?;
        return Ok(workspace.clone());
    };
    let admin = worktree_context.common.join("worktrees").join(&workspace.name);
    let worktree = worktree_context.repo.linked_worktree(&workspace.name).ok_or_else(|| {
        Failure::fatal(text!("'", workspace.name.as_bytes(), "' has lost its administrative directory"))
    })?;
    let fsync = &settings.fsync;
    let moved = rebase::carry_out(workspace, &journal, &admin, namespace(workspace), fsync)?;
    ["index", "HEAD"].iter().for_each(|name| record::clear_stale_lock(&admin.join(name)));
    let repo = open_admin(worktree_context.run, admin, worktree.path)?;
    let settings = Settings::read(worktree_context.run, &repo)?.for_recording();
    move_head(&repo, &settings, &journal)?;
    conclude(worktree_context, &moved)?;
    console::eprint_line(text!("Completed the rebase of workspace '", workspace.name.as_bytes(), "'"));
    Ok(moved)
}

fn move_head(repo: &Repository, settings: &Settings, journal: &Journal) -> Result<(), Failure> {
    let head = repo.head()?;
    let detached;
    let target = match &journal.head {
        Head::Branch(name) if head.branch() == Some(name.as_bstr()) => return Ok(()),
        Head::Branch(name) => Target::Branch(name.as_bstr()),
        Head::Detached(name) => {
            detached =
                ObjectId::from_hex(repo.hash(), name).ok_or_else(|| Failure::fatal("damaged journal"))?;
            if head.branch().is_none() && head.oid() == Some(detached) {
                return Ok(());
            }
            Target::Commit(detached)
        }
    };
    Ok(switch::move_head(&settings.refs(repo)?, target, journal.message.as_bstr())?)
}
