//! The request of `checkout`, `switch` and `restore`, filled by their options.

use crate::{
    commands::pathspec_file::PathspecFile,
    session::{
        invocation::{Invocation, Program},
        revisions::warn_ambiguous,
        settings::Settings,
    },
    term::{
        args::Value,
        console::{self, text},
        failure::Failure,
        progress,
    },
};
use bstr::{BStr, BString, ByteSlice as _};
use engine::checkout::ConflictSide;
use repo::Repository;
pub(crate) use sapwood::switch::{NewBranch, NewBranchKind, Source};
use sapwood::{
    ObjectId,
    switch::{self, Discard, Rules, Track},
};

/// One of the three commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// `checkout`
    Checkout,
    /// `switch`
    Switch,
    /// `restore`
    Restore,
}

/// The request, as the options state it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) variant: Variant,
    pub(crate) quiet: bool,
    pub(crate) dry_run: bool,
    /// `--progress`, `--no-progress`
    pub(crate) progress: Option<bool>,
    /// `-f`
    pub(crate) force: bool,
    /// `-f`, `--discard-changes`
    pub(crate) discard: bool,
    pub(crate) detach: bool,
    pub(crate) overwrite_ignore: bool,
    pub(crate) ignore_other_worktrees: bool,
    /// `-b`, `-c`, `--orphan`, `-B`, `-C`, or guessed from a remote
    pub(crate) new_branch: Option<NewBranch>,
    /// `-l`
    pub(crate) reflog: bool,
    /// `None`: as configured.
    pub(crate) track: Option<Track>,
    pub(super) guess: Option<bool>,
    pub(crate) overlay: Option<bool>,
    pub(crate) ignore_unmerged: bool,
    pub(crate) ignore_skip_worktree: bool,
    /// `--ours`, `--theirs`
    pub(crate) side: Option<ConflictSide>,
    /// `-m`; `None` if only `--conflict` may imply it.
    pub(super) merge: Option<bool>,
    /// `--conflict` was given with a style.
    pub(super) conflict: bool,
    /// `restore --source`
    pub(super) source: Option<BString>,
    pub(super) staged: Option<bool>,
    pub(super) worktree: Option<bool>,
    /// `--recurse-submodules`
    pub(crate) recurse: Option<bool>,
    pub(super) pathspec_file: PathspecFile,
    /// `checkout -b <name>` without other arguments: like `switch -c`.
    pub(super) plain_new_branch: bool,
    /// The first argument was classified as path or revision without `--`: the number of paths is
    /// printed.
    pub(crate) count_paths: bool,
}

/// `--track`
pub(crate) fn track(value: Value) -> Result<Track, Failure> {
    match value.text.as_ref().map(|mode| mode.as_bytes()) {
        _ if !value.on => Ok(Track::Never),
        None | Some(b"direct") => Ok(Track::Explicit),
        Some(b"inherit") => Ok(Track::Inherit),
        Some(_) => {
            console::error("option `--track' expects \"direct\" or \"inherit\"");
            Err(Failure::Reported(129))
        }
    }
}

/// Returns true for a valid conflict style.
pub(crate) fn is_conflict_style(name: &[u8]) -> bool {
    matches!(name, b"merge" | b"diff3" | b"zdiff3")
}

/// Like [`describe`], with Git's warnings about a revision on the command line.
pub(super) fn describe_source(
    repo: &Repository,
    settings: &Settings,
    spec: &BStr,
    oid: ObjectId,
) -> Result<Source, Failure> {
    let source = describe(repo, spec, oid)?;
    // Git looks up an expression that is not a ref, and not a range, once more.
    let once = source.metadata.reference.is_some() || spec.contains_str("...");
    let times = if once { 1 } else { 2 };
    warn_ambiguous(repo, settings, spec, times)?;
    Ok(source)
}

/// See [`Source::describe`].
pub(crate) fn describe(repo: &Repository, name: &BStr, oid: ObjectId) -> Result<Source, Failure> {
    Ok(Source::describe(repo, name, oid)?)
}

impl Request {
    pub(crate) fn new(variant: Variant) -> Request {
        Request {
            variant,
            quiet: false,
            dry_run: false,
            progress: None,
            force: false,
            discard: false,
            detach: false,
            overwrite_ignore: true,
            ignore_other_worktrees: false,
            new_branch: None,
            reflog: false,
            track: None,
            guess: None,
            overlay: None,
            ignore_unmerged: false,
            ignore_skip_worktree: false,
            side: None,
            merge: Some(false),
            conflict: false,
            source: None,
            staged: None,
            worktree: None,
            recurse: None,
            pathspec_file: PathspecFile::default(),
            plain_new_branch: false,
            count_paths: false,
        }
    }

    pub(super) fn take_conflict(&mut self, value: Value) -> Result<(), Failure> {
        if let Some(style) = value.text.as_ref().filter(|style| !is_conflict_style(style)) {
            console::error(text!("unknown conflict style '", style, "'"));
            return Err(Failure::Reported(129));
        }
        self.conflict = value.text.is_some();
        self.merge = self.merge.filter(|&merge| merge || !self.conflict);
        Ok(())
    }

    pub(super) fn name(&mut self, value: Value, kind: NewBranchKind) -> Result<(), Failure> {
        let branch = value.text.map(|name| NewBranch { name, kind });
        let other = self.new_branch.as_ref().is_some_and(|old| old.kind != kind);
        match branch {
            Some(_) if other => {
                let letter = self.letter();
                let upper = letter.to_ascii_uppercase();
                Err(Failure::fatal(format!(
                    "options '-{letter}', '-{upper}', and '--orphan' cannot be used together"
                )))
            }
            None if other => Ok(()),
            branch => {
                self.new_branch = branch;
                Ok(())
            }
        }
    }

    pub(super) fn letter(&self) -> char {
        if self.variant == Variant::Switch { 'c' } else { 'b' }
    }

    /// `-m`, or a `--conflict` that implies it: merge changes that would be refused.
    pub(crate) fn merges(&self) -> bool {
        self.merge.unwrap_or(self.conflict)
    }

    /// Returns true if progress is shown.
    pub(crate) fn shows_progress(&self) -> bool {
        self.progress.unwrap_or_else(|| !self.quiet && progress::has_terminal())
    }

    /// Returns the request for a switch.
    pub(crate) fn switch(&self, run: &Invocation, repo: &Repository) -> switch::Request {
        switch::Request {
            target: None,
            rules: if self.variant == Variant::Switch { Rules::Switch } else { Rules::Checkout },
            new_branch: self.new_branch.clone(),
            track: self.track,
            reflog: self.reflog,
            detach: self.detach,
            discard: match (self.discard, self.force) {
                (true, true) => Discard::ChangesAndUntracked,
                (true, false) => Discard::Changes,
                (false, _) => Discard::Nothing,
            },
            merge: self.merges(),
            protect_ignored: !self.overwrite_ignore,
            ignore_other_worktrees: self.ignore_other_worktrees,
            only_head: self.plain_new_branch,
            resumable: run.program == Program::Sapwood,
            recurse_submodules: self.recurse,
            keep: run.original_cwd(repo),
            reflog_action: run.variable("GIT_REFLOG_ACTION").map(BString::from),
            list_changes: !self.quiet,
            // With `-q`, sapwood examines only the files that it will change; Git examines all.
            refresh: run.program == Program::Git,
            progress: self.shows_progress(),
        }
    }
}
