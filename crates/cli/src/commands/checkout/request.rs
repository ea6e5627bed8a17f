//! The request of `checkout`, `switch` and `restore`, filled by their options.

use crate::{
    commands::pathspec_file::PathspecFile,
    session::{revisions::warn_ambiguous, settings::Settings},
    term::{
        args::Value,
        console::{self, text},
        failure::Failure,
        progress,
    },
};
use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    checkout::ConflictSide,
    switch::{names, tracking::Track},
};
use format::ObjectId;
use repo::{Repository, convert::Metadata};

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

/// A branch to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewBranch {
    /// The name as given.
    pub(crate) name: BString,
    pub(crate) kind: NewBranchKind,
}

/// How to create a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewBranchKind {
    /// The branch must not exist.
    Create,
    /// The branch may exist.
    Reset,
    /// The branch gets no commit.
    Orphan,
}

/// The object that an argument names.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The name as given, with `-` and `@{-N}` replaced by their branch.
    pub(crate) name: BString,
    /// Full name, if it is a local branch.
    pub(crate) branch: Option<BString>,
    /// The commit; `None` if it is a tree.
    pub(crate) commit: Option<ObjectId>,
    /// Its tree.
    pub(crate) tree: ObjectId,
    /// The source of the files, for long-running filters.
    pub(crate) metadata: Metadata,
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

/// Describes `name`, which resolves to `oid`.
pub(crate) fn describe(repo: &Repository, name: &BStr, oid: ObjectId) -> Result<Source, Failure> {
    let given = if name == "@" { BStr::new("HEAD") } else { name };
    // A tag takes precedence over a branch of the same name here, although the branch is checked
    // out.
    let (reference, object) = match names::expand(repo, given)?.into_iter().next() {
        Some((full, target)) => (Some(full), target),
        None => (None, oid),
    };
    let name = names::local_branch(repo, given)?;
    let full = text!(names::BRANCHES, name);
    let branch = match names::is_ref_name(full.as_bstr()) {
        true => repo.find_ref(full.as_bstr())?.map(|tip| (full, tip)),
        false => None,
    };
    let oid = branch.as_ref().map_or(oid, |(_, tip)| *tip);
    let no_tree = |error| Failure::of_name(error, Failure::fatal(format!("unable to read tree ({oid})")));
    let commit = repo.peel_to_commit(oid).map_err(no_tree)?;
    let tree = repo.tree_of(commit.unwrap_or(oid)).map_err(no_tree)?;
    let metadata = Metadata { reference, treeish: Some(commit.unwrap_or(object)) };
    Ok(Source { name, branch: branch.map(|(full, _)| full), commit, tree, metadata })
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

    /// Returns true if only HEAD changes: `switch -c x`, `checkout -b x`.
    pub(crate) fn only_makes_a_branch(&self) -> bool {
        self.variant == Variant::Switch || self.plain_new_branch
    }

    /// `-m`, or a `--conflict` that implies it: merge changes that would be refused.
    pub(crate) fn merges(&self) -> bool {
        self.merge.unwrap_or(self.conflict)
    }

    /// Returns true if progress is shown.
    pub(crate) fn shows_progress(&self) -> bool {
        self.progress.unwrap_or_else(|| !self.quiet && progress::has_terminal())
    }
}
