//! `sapwood sparse-checkout`: selects the directories or files that are in the worktree.
//!
//! Order of changes: the configuration of this worktree; the lock on `info/sparse-checkout`;
//! worktree and index; the file. If files cannot be written, the file stays as it was and its
//! patterns are applied again.

mod clean;
mod modify;
mod options;
mod rules;

use std::path::PathBuf;

use bstr::BString;
use engine::{guard::Guard, sparse};
use format::config::Edit;
use repo::{Repository, keys, keys::Key};
use sapwood::Dir;

use self::options::{Action, Request};
use crate::{
    commands::{
        obstacles::{GENERAL, NO_ATTRIBUTES_IN_PATHSPECS, WRITING},
        record::{Command, Group},
    },
    session::{invocation::Invocation, settings::Settings},
    term::failure::Failure,
};

/// The record of `sparse-checkout`.
pub(super) const COMMAND: Command = Command {
    name: "sparse-checkout",
    summary: "Reduce your working tree to a subset of tracked files",
    about: "Keeps only some of the tracked files in the worktree: the directories of a cone, or the paths \
            that match patterns. Files are written and removed in parallel. Sparse indexes are read and \
            written.",
    group: Group::Worktrees,
    syntax: &options::USAGE,
    subcommands: SUBCOMMANDS,
    ..Command::BASE
};

/// The values that the records of all subcommands share.
const SUBCOMMAND: Command = Command {
    group: Group::Worktrees,
    settings: &[GENERAL],
    line: &[NO_ATTRIBUTES_IN_PATHSPECS],
    checks: &[WRITING],
    ..Command::BASE
};

const SUBCOMMANDS: &[Command] = &[
    Command {
        name: "sparse-checkout list",
        summary: "List the patterns of the sparse checkout",
        syntax: &options::LIST,
        run: |run, args| perform(run, Action::List, args),
        ..SUBCOMMAND
    },
    Command {
        name: "sparse-checkout init",
        summary: "Start a sparse checkout with the files at the root",
        syntax: &options::INIT,
        run: |run, args| perform(run, Action::Init, args),
        ..SUBCOMMAND
    },
    Command {
        name: "sparse-checkout set",
        summary: "Replace the patterns of the sparse checkout",
        syntax: &options::SET,
        run: |run, args| perform(run, Action::Set, args),
        ..SUBCOMMAND
    },
    Command {
        name: "sparse-checkout add",
        summary: "Add patterns to the sparse checkout",
        syntax: &options::ADD,
        run: |run, args| perform(run, Action::Add, args),
        ..SUBCOMMAND
    },
    Command {
        name: "sparse-checkout reapply",
        summary: "Apply the patterns again",
        syntax: &options::REAPPLY,
        run: |run, args| perform(run, Action::Reapply, args),
        ..SUBCOMMAND
    },
    Command {
        name: "sparse-checkout clean",
        summary: "Remove directories outside of the sparse checkout",
        syntax: &options::CLEAN,
        run: |run, args| perform(run, Action::Clean, args),
        ..SUBCOMMAND
    },
    Command {
        name: "sparse-checkout disable",
        summary: "Fill the working tree again",
        syntax: &options::DISABLE,
        run: |run, args| perform(run, Action::Disable, args),
        ..SUBCOMMAND
    },
    Command {
        name: "sparse-checkout check-rules",
        summary: "Check which paths match the patterns",
        syntax: &options::CHECK_RULES,
        run: |run, args| perform(run, Action::CheckRules, args),
        ..SUBCOMMAND
    },
];

/// Runs a subcommand. Returns its exit code.
fn perform(run: &Invocation, action: Action, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let patterns = action.table().parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    // Check this before anything is written.
    let is_there = |top: &std::path::Path| Dir::open(top).is_ok();
    if action != Action::CheckRules && !repo.work_tree().is_some_and(is_there) {
        return Err(Failure::no_worktree());
    }
    if !matches!(action, Action::CheckRules | Action::List)
        && let Some(top) = repo.work_tree()
    {
        Guard::of(&repo, top)?;
    }
    let settings = Settings::read(&repo)?;
    let state = State {
        run,
        repo: &repo,
        settings: &settings,
        on: sparse::is_on(&repo)?,
        cone: repo.config(&keys::core::SPARSE_CHECKOUT_CONE)?,
        icase: repo.config(&keys::core::IGNORE_CASE)?,
        sparse_index: repo.config(&keys::index::SPARSE)?,
        has_worktree_config: repo.extensions().worktree_config,
    };
    match action {
        Action::List => rules::list(&state),
        Action::CheckRules => rules::check(state, &request),
        Action::Init => modify::init(state, &request),
        Action::Set => modify::set(state, &request, &patterns),
        Action::Add => modify::add(&state, &request, &patterns),
        Action::Reapply => modify::reapply(state, &request),
        Action::Disable => modify::disable(state),
        Action::Clean => clean::run(&state, &request),
    }
}

/// The worktree, and its current sparsity settings.
struct State<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    settings: &'a Settings,
    /// `core.sparseCheckout`
    on: bool,
    /// `core.sparseCheckoutCone`
    cone: bool,
    /// `core.ignoreCase`
    icase: bool,
    /// `index.sparse`
    sparse_index: bool,
    /// `extensions.worktreeConfig`
    has_worktree_config: bool,
}

/// The values of `core.sparseCheckout` and `core.sparseCheckoutCone`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Off,
    Patterns,
    Cone,
}

impl State<'_> {
    fn file(&self) -> PathBuf {
        sparse::path(self.repo)
    }

    /// Selects the requested mode, the current one, or a cone, and records it if it is new; then
    /// does the same for the sparse index.
    fn take_mode(&mut self, request: &Request) -> Result<(), Failure> {
        let is_new = request.cone.is_some() || !self.on;
        self.decide_mode(request.cone);
        if (is_new || request.sparse_index.is_some()) && self.repo.head()?.oid().is_some() {
            // Git changes the index last, and would fail at its lock only then.
            store::Lock::wait_until_free(&self.repo.index_path(), store::Wait::No)?;
        }
        if is_new {
            self.record(if self.cone { Mode::Cone } else { Mode::Patterns })?;
        }
        let Some(on) = request.sparse_index else { return Ok(()) };
        self.sparse_index = on;
        self.edit(&[set(keys::index::SPARSE, on)])
    }

    fn decide_mode(&mut self, asked: Option<bool>) {
        self.cone = asked.or(self.on.then_some(self.cone)).unwrap_or(true);
        self.on = true;
    }

    fn record(&mut self, mode: Mode) -> Result<(), Failure> {
        sapwood::worktree_config::begin(self.repo, self.settings)?;
        self.has_worktree_config = true;
        let mut edits = vec![
            set(keys::core::SPARSE_CHECKOUT, mode != Mode::Off),
            set(keys::core::SPARSE_CHECKOUT_CONE, mode == Mode::Cone),
        ];
        if mode == Mode::Off {
            edits.push(set(keys::index::SPARSE, false));
        }
        self.edit(&edits)
    }

    /// Changes the configuration of this worktree, or the common one without `worktreeConfig`.
    fn edit(&self, edits: &[Edit]) -> Result<(), Failure> {
        let path = if self.has_worktree_config {
            self.repo.git_dir().join("config.worktree")
        } else {
            self.repo.common_dir().join("config")
        };
        Ok(store::config::edit(&path, edits, &self.settings.locks, &self.settings.fsync)?)
    }
}

fn set(key: Key<bool>, on: bool) -> Edit {
    Edit::Set { key: key.name().into(), value: if on { "true" } else { "false" }.into() }
}
