//! The replacement of the base below a workspace.

use std::cell::RefCell;

use bstr::BStr;
use engine::workspace::{
    base::Base,
    frozen, newer,
    rebase::{self, Head, Inputs, Layout, Staged, View, XattrNamespace},
    record,
};
use format::{
    ObjectId,
    index::{Entry, Flags, Index},
};
use sys::{Dir, by_path};

use super::{Exchange, Rebase, next_base, recover::namespace};
use crate::{
    Context, Error,
    switch::Source,
    transaction::{IndexTransaction, LockedPlan, Recorded, Start},
    workspace::mounts,
};

/// The replacement of the base below a workspace, for a switch that
/// [`crate::switch::prepare_replacement`] planned.
pub struct Replacement<'a> {
    rebase: Rebase<'a>,
    /// The repository as opened from the workspace.
    context: Context<'a>,
    /// The commit to switch to.
    commit: ObjectId,
    exchange: Exchange<'a>,
    /// The view of the files before the switch was planned.
    view: RefCell<Option<View>>,
    namespace: XattrNamespace,
}

impl<'a> Replacement<'a> {
    /// Reads the upper layer, before the switch to `source` is planned. `context` has the
    /// repository as opened from the workspace.
    pub fn new(
        rebase: Rebase<'a>,
        context: Context<'a>,
        source: &Source,
        exchange: Exchange<'a>,
    ) -> Result<Replacement<'a>, Error> {
        let workspace = rebase.workspace;
        let namespace = namespace(workspace);
        let dir = &workspace.record.dir;
        let root = Dir::open(dir).map_err(Error::cannot_open(dir))?;
        let view = RefCell::new(Some(View::read(workspace, &root, namespace)?));
        let commit = source.commit.expect("a workspace is on a commit");
        Ok(Replacement { rebase, context, commit, exchange, view, namespace })
    }

    /// Performs the change that is planned in `locked`. HEAD will then be on `branch`, or detached,
    /// with `message` in its reflog.
    pub fn perform(&self, locked: LockedPlan, branch: Option<&BStr>, message: &BStr) -> Result<(), Error> {
        let Rebase { worktrees, workspace, .. } = self.rebase;
        let fsync = &self.context.settings.fsync;
        let staged = self.stage(&locked)?;
        if let Err(error) = mounts::unmount_to_replace(worktrees, workspace) {
            staged.abandon()?;
            return Err(error);
        }
        match staged.is_current(self.namespace) {
            Ok(true) => {}
            other => {
                staged.abandon()?;
                mounts::mount(worktrees, workspace)?;
                other?;
                return Err(Error::failed("the workspace was changed meanwhile; try again"));
            }
        }
        let head = match branch {
            Some(name) => Head::Branch(name.to_owned()),
            None => Head::Detached(self.commit.to_string().into()),
        };
        let journal = staged.commit(head, message.to_owned(), fsync)?;
        rebase::carry_out(workspace, &journal, self.context.repo.git_dir(), self.namespace, fsync)?;
        Ok(())
    }

    /// Removes the old layers, and mounts the workspace. Called after HEAD has moved, before the
    /// hook.
    pub fn finish(&self) -> Result<(), Error> {
        let Rebase { worktrees, workspace, settings } = self.rebase;
        let workspace = record::find(&worktrees.common, &workspace.name)?;
        super::discard_old(worktrees, &workspace)?;
        // After the mount, a process in the background locks the base directory.
        next_base::retire(settings, self.exchange.old);
        mounts::mount(worktrees, &workspace)?;
        self.refresh()
    }

    /// Records the stat data of files that do not come from the base. Without them, some of Git's
    /// commands report such a file as changed.
    fn refresh(&self) -> Result<(), Error> {
        let mut transaction = IndexTransaction::start(self.context, Start::Sparse { dry_run: false })?;
        transaction.refresh()?;
        transaction.finish(Recorded::Yes)
    }

    /// Returns true if all files of the new base are newer than everything in the workspace. A
    /// build may have gone on while the base was made.
    fn is_newer_than(&self, view: &View) -> bool {
        let Exchange { old, new, .. } = &self.exchange;
        let Some((seconds, nanoseconds)) = new.time().filter(|_| new.time() != old.time()) else {
            return false;
        };
        let time = (i64::try_from(seconds).unwrap_or(i64::MAX), nanoseconds);
        view.upper.newest().is_none_or(|newest| newest < time)
    }

    /// Writes everything that the workspace needs on the new base to temporary places.
    fn stage(&self, locked: &LockedPlan) -> Result<Staged<'a>, Error> {
        let Context { repo, settings, events, .. } = self.context;
        let workspace = self.rebase.workspace;
        let view = self.view.borrow_mut().take().expect("a switch is performed once");
        let options = store::index::ReadOptions::default();
        let load = |base: &Base| base.load_index(&options);
        let (old, new) = (load(self.exchange.old)?, load(self.exchange.new)?);
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
        let layers = workspace.frozen();
        layout.keep_hidden(&view.upper, &|path| frozen::has(&layers, path));
        if !self.is_newer_than(&view) {
            layout.renew(&inputs, &newer::Plan::read(&workspace.newer())?, &|path| {
                let place = workspace.upper().join(sys::os_str(path));
                by_path::stat(&place).ok().flatten().map(|stat| stat.mtime)
            });
        }
        let dir = &workspace.record.dir;
        let root = Dir::open(dir).map_err(Error::cannot_open(dir))?;
        let options = settings.index_to_write(repo, after, Some(true), events);
        let written = (&options, &settings.fsync);
        Ok(Staged::prepare(repo, workspace, &root, (view, layout), self.exchange.new, after, written)?)
    }
}

fn is_up_to_date(index: &Index, entry: &Entry) -> bool {
    entry.flags.contains(Flags::UPTODATE) || index.is_fsmonitor_valid(entry)
}
