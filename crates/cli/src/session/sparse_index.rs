//! The sparse index, for all commands: full in memory, and written sparse where Git's would be.
//!
//! Git expands an index only if it must, and reports it: a hint, and a region `ensure_full_index`
//! in the trace. sapwood prints both where Git would expand, not where it expands in memory, so
//! that users and scripts find them at the same steps as with Git.

use std::sync::atomic::Ordering;

use bstr::{BStr, ByteSlice as _};
use engine::{
    checkout::Plan,
    look::LookError,
    sparse::{self, Patterns, Purpose, Trees},
};
use format::{
    ObjectId,
    index::{Edit, Entry, Flags, Index, Stage},
    loose::Kind,
};
use repo::Repository;
use store::index::Fingerprint;

use crate::{
    session::{settings::Settings, trace},
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// Git's hint.
const EXPANDED: &str = "\
The sparse index is expanding to a full index, a slow operation.
Your working directory likely has contents that are outside of
your sparse-checkout patterns. Use 'git sparse-checkout list' to
see your sparse-checkout definition and compare it to your working
directory contents. Cleaning up any merge conflicts or staged
changes before running 'git sparse-checkout clean' or 'git
sparse-checkout reapply' may assist in this cleanup.";

/// A full index, and the sparse index it was read from, as long as Git's would still be sparse.
pub(crate) struct Read {
    pub(crate) index: Index,
    pub(crate) before: Option<Index>,
    /// The fingerprint of the file; `None` if the file is missing or was not read here.
    pub(crate) seen: Option<Fingerprint>,
    /// The format of the file on disk differs from the configured one.
    pub(crate) differs_on_disk: bool,
}

/// Selects if the hint about an expansion is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpansionHint {
    Print,
    Omit,
}

/// Returns the patterns if the configuration wants a sparse index: `index.sparse` is set, and the
/// patterns are a cone.
pub(crate) fn wanted(repo: &Repository) -> Result<Option<Patterns>, Failure> {
    let is = |key: &str| Ok::<bool, repo::Error>(repo.config_bool(key)?.unwrap_or(false));
    if !is("index.sparse")? || !is("core.sparseCheckoutCone")? {
        return Ok(None);
    }
    let loaded = sparse::load(repo)?.map(|loaded| loaded.patterns);
    Ok(loaded.filter(|patterns| patterns.cone().is_some()))
}

/// When an index is expanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expansion {
    AtOnce,
    /// The caller expands what it needs, with [`expand_for`] or [`expand`]. Until then the index
    /// stays marked as sparse.
    Later,
    /// Like `Later`, but entries that are in the cone by now stay collapsed: the command does not
    /// use the worktree.
    IndexOnly,
}

/// Expands an index that was read. With `worktree`, entries whose files exist lose the
/// skip-worktree flag.
pub(crate) fn read(
    repo: &Repository,
    settings: &Settings,
    mut index: Index,
    worktree: Option<&sys::Dir>,
    hint: ExpansionHint,
    when: Expansion,
) -> Result<Read, Failure> {
    if !index.sparse {
        if let Some(worktree) = worktree {
            sparse::clear_present(worktree, &mut index)?;
        }
        return Ok(Read { index, before: None, seen: None, differs_on_disk: false });
    }
    let patterns = wanted(repo)?;
    let mut before = patterns.as_ref().map(|_| index.entries_only());
    let mut there = Vec::new();
    if let Some(worktree) = worktree.filter(|_| before.is_some()) {
        there = sparse::present(worktree, &index)?;
        if there.iter().any(|&at| index.entries()[at].mode.is_tree()) {
            before = None;
        }
    }
    if before.is_none() {
        report_expansion(repo, settings, &index, hint)?;
    }
    // Entries inside the cone get files in the worktree.
    let is_inside = |entry: &Entry| {
        entry.mode.is_tree() && patterns.as_ref().is_none_or(|by| by.includes(index.path(entry)))
    };
    let fills = match when {
        Expansion::AtOnce => true,
        Expansion::Later => before.is_none() || index.entries().iter().any(is_inside),
        Expansion::IndexOnly => before.is_none(),
    };
    if fills {
        expand(repo, &mut index)?;
    }
    match worktree {
        // `there` describes this index, which was not expanded.
        Some(_) if index.sparse => sparse::clear(&mut index, &there),
        Some(worktree) => sparse::clear_present(worktree, &mut index)?,
        None => {}
    }
    Ok(Read { index, before, seen: None, differs_on_disk: false })
}

/// Returns true if no collapsed directory exists in the worktree or lies in the cone.
pub(crate) fn has_no_stray_directories(
    repo: &Repository,
    index: &Index,
    worktree: &sys::Dir,
) -> Result<bool, Failure> {
    let Some(patterns) = wanted(repo)?.filter(|_| index.sparse) else { return Ok(false) };
    let is_inside = |entry: &Entry| entry.mode.is_tree() && patterns.includes(index.path(entry));
    let there = sparse::present(worktree, index)?;
    Ok(!index.entries().iter().any(is_inside)
        && !there.into_iter().any(|at| index.entries()[at].mode.is_tree()))
}

/// Expands `index`, if it is sparse.
pub(crate) fn expand(repo: &Repository, index: &mut Index) -> Result<(), Failure> {
    match index.sparse {
        true => sparse::expand(repo, index).map_err(unreadable),
        false => Ok(()),
    }
}

/// Expands as much of `index` as `purpose` needs.
pub(crate) fn expand_for(
    repo: &Repository,
    index: &mut Index,
    purpose: &dyn Fn(&BStr) -> Purpose,
) -> Result<(), Failure> {
    match index.sparse {
        true => sparse::settle(repo, index, purpose).map_err(unreadable),
        false => Ok(()),
    }
}

fn unreadable(error: LookError) -> Failure {
    Failure::fatal(error.to_string())
}

/// Prints, once, the hint that the index is expanded, and traces it.
pub(crate) fn report_expansion(
    repo: &Repository,
    settings: &Settings,
    index: &Index,
    hint: ExpansionHint,
) -> Result<(), Failure> {
    if hint == ExpansionHint::Omit {
        return Ok(());
    }
    trace::region("index", "ensure_full_index");
    // Before and after, Git tries to write the index as a tree.
    report_unmerged(index);
    let reported = settings.reported_expansion.swap(true, Ordering::Relaxed);
    if !reported && settings.advises(repo, "sparseIndexExpanded")? {
        console::hint(EXPANDED);
        if repo.config_str("advice.sparseIndexExpanded").is_none() {
            console::hint("Disable this message with \"git config set advice.sparseIndexExpanded false\"");
        }
    }
    report_unmerged(index);
    Ok(())
}

fn report_unmerged(index: &Index) {
    const SHOWN: usize = 10;
    let unmerged = index.entries().iter().filter(|entry| entry.stage != Stage::Normal);
    for (number, entry) in unmerged.enumerate().take(SHOWN + 1) {
        match number {
            SHOWN => console::eprint_line("..."),
            _ => console::eprint_line(text!(index.path(entry), ": unmerged (", entry.oid.to_string(), ")")),
        }
    }
}

/// Prepares `index` for writing: sparse by `patterns` where Git's would be, or full. Returns the
/// full index.
pub(crate) fn prepare_for_write(
    repo: &Repository,
    settings: &Settings,
    index: &mut Index,
    before: Option<&Index>,
    patterns: Option<&Patterns>,
) -> Result<Option<Index>, Failure> {
    if index.base.is_some() || settings.index_write.split == Some(true) {
        expand(repo, index)?;
        return Ok(None);
    }
    if before.is_none() {
        expand(repo, index)?;
    }
    let made = patterns.and_then(|patterns| collapse(repo, settings, index, before, patterns));
    if made.is_none() {
        expand(repo, index)?;
    }
    Ok(made)
}

/// Collapses `index` for writing, and returns the full index. `None` if it stays full.
fn collapse(
    repo: &Repository,
    settings: &Settings,
    index: &mut Index,
    before: Option<&Index>,
    patterns: &Patterns,
) -> Option<Index> {
    let full = sparse::collapse(index, patterns, before, &Objects { repo, settings })?;
    if before.is_none() {
        trace::region("index", "convert_to_sparse");
    }
    Some(full)
}

/// The objects of the repository, to which missing trees are written.
struct Objects<'a> {
    repo: &'a Repository,
    settings: &'a Settings,
}

impl Trees for Objects<'_> {
    fn has(&self, oid: &ObjectId) -> bool {
        self.repo.objects().contains(oid)
    }

    fn make(&self, oid: &ObjectId, content: &[u8]) -> bool {
        self.repo.objects().freshen(oid)
            || store::objects::write(oid, Kind::Tree, content, &self.settings.objects(self.repo)).is_ok()
    }
}

/// Returns true if a collapsed directory of the index `before` contains `path`.
pub(crate) fn is_collapsed(before: Option<&Index>, path: &BStr) -> bool {
    before
        .is_some_and(|before| sparse::is_inside(before, path.trim_end_with(|letter| letter == '/').as_bstr()))
}

/// Returns true if an entry in a collapsed directory of `before` differs in `after`.
pub(crate) fn changes(before: &Index, after: &Index) -> bool {
    let nodes = after.cache_tree.as_ref();
    before.entries().iter().filter(|entry| entry.mode.is_tree()).any(|entry| {
        let dir = before.path(entry);
        let dir = dir.strip_suffix(b"/").unwrap_or(dir);
        let node = nodes.and_then(|root| root.find(dir.into())?.valid);
        node.is_none_or(|(tree, _)| tree != entry.oid)
    })
}

/// If a collapsed directory of `before` becomes a file, Git drops the entries staged in it.
pub(crate) fn yield_to_files(
    repo: &Repository,
    before: &Index,
    index: &mut Index,
    head: ObjectId,
    target: ObjectId,
) -> Result<(), Failure> {
    let staged = index.cache_tree.as_ref().and_then(|root| root.valid);
    if staged.is_some_and(|(tree, _)| tree == head) {
        return Ok(());
    }
    let mut edits = Vec::new();
    for dir in sparse::collapsed(before) {
        // A directory that is still collapsed stays a tree.
        if index.position(text!(dir, "/").as_bstr(), Stage::Normal).is_ok() {
            continue;
        }
        let Some(found) = repo.lookup_path(target, dir)? else { continue };
        if repo.objects().header(&found).is_ok_and(|(kind, _)| kind == Kind::Tree) {
            continue;
        }
        let below = &index.entries()[index.range_below(dir)];
        edits.extend(below.iter().map(|entry| Edit { path: index.path(entry).into(), entries: Vec::new() }));
    }
    index.apply(edits);
    Ok(())
}

/// A file that replaces a collapsed directory of `before` inherits the skip-worktree flag, even
/// inside the cone.
pub(crate) fn leave_replaced(before: &Index, plan: &mut Plan) {
    for dir in sparse::collapsed(before) {
        let found = plan.index.range_of(dir);
        for entry in &mut plan.index.entries_mut()[found.clone()] {
            entry.flags.insert(Flags::SKIP_WORKTREE);
        }
        if !found.is_empty() {
            plan.writes.retain(|write| !found.contains(&write.entry));
        }
    }
}

/// Keeps all files of the collapsed directories of `before` out of the worktree, because the plan
/// replaces such a directory as a whole.
pub(crate) fn keep_out(before: &Index, plan: &mut Plan) {
    let below: Vec<_> = sparse::collapsed(before).map(|dir| plan.index.range_below(dir)).collect();
    for range in &below {
        for entry in &mut plan.index.entries_mut()[range.clone()] {
            entry.flags.insert(Flags::SKIP_WORKTREE);
        }
    }
    plan.writes.retain(|write| {
        let next = below.partition_point(|range| range.end <= write.entry);
        below.get(next).is_none_or(|range| write.entry < range.start)
    });
}
