//! The sparse index, for all commands: full in memory, and written sparse where Git's would be.
//!
//! Git expands an index only if it must, and reports it: a hint, and a region `ensure_full_index`
//! in the trace. sapwood prints both where Git would expand, not where it expands in memory, so
//! that users and scripts find them at the same steps as with Git.

use std::sync::atomic::Ordering;

use bstr::{BStr, ByteSlice as _};
use engine::{
    checkout::Plan,
    sparse::{self, Patterns, Purpose, Trees},
};
use format::{
    ObjectId,
    index::{Edit, Entry, Flags, Index, Stage},
    loose::Kind,
};
use repo::{Repository, keys};
use store::index::Fingerprint;

use crate::{Error, context::Context, notice::Notice, settings::Settings, text, trace};

/// A full index, and the sparse index it was read from, as long as Git's would still be sparse.
pub struct Read {
    /// The full index.
    pub index: Index,
    /// The sparse index it was read from.
    pub before: Option<Index>,
    /// The fingerprint of the file; `None` if the file is missing or was not read here.
    pub seen: Option<Fingerprint>,
    /// The format of the file on disk differs from the configured one.
    pub differs_on_disk: bool,
}

/// Selects if the hint about an expansion is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpansionHint {
    /// It is printed.
    Print,
    /// It is not printed: Git expands nothing here.
    Omit,
}

/// Returns the patterns if the configuration wants a sparse index: `index.sparse` is set, and the
/// patterns are a cone.
pub fn wanted(repo: &Repository) -> Result<Option<Patterns>, Error> {
    if !repo.config(&keys::index::SPARSE)? || !repo.config(&keys::core::SPARSE_CHECKOUT_CONE)? {
        return Ok(None);
    }
    let loaded = sparse::load(repo)?.map(|loaded| loaded.patterns);
    Ok(loaded.filter(|patterns| patterns.cone().is_some()))
}

/// When an index is expanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expansion {
    /// While it is read.
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
pub fn read(
    context: Context<'_>,
    mut index: Index,
    worktree: Option<&sys::Dir>,
    hint: ExpansionHint,
    when: Expansion,
) -> Result<Read, Error> {
    let repo = context.repo;
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
        if there.iter().any(|&at| index.entry(at).mode.is_tree()) {
            before = None;
        }
    }
    if before.is_none() {
        report_expansion(context, &index, hint)?;
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
pub fn has_no_stray_directories(
    repo: &Repository,
    index: &Index,
    worktree: &sys::Dir,
) -> Result<bool, Error> {
    let Some(patterns) = wanted(repo)?.filter(|_| index.sparse) else { return Ok(false) };
    let is_inside = |entry: &Entry| entry.mode.is_tree() && patterns.includes(index.path(entry));
    let there = sparse::present(worktree, index)?;
    Ok(!index.entries().iter().any(is_inside) && !there.into_iter().any(|at| index.entry(at).mode.is_tree()))
}

/// Expands `index`, if it is sparse.
pub fn expand(repo: &Repository, index: &mut Index) -> Result<(), Error> {
    if index.sparse { Ok(sparse::expand(repo, index)?) } else { Ok(()) }
}

/// Expands as much of `index` as `purpose` needs.
pub fn expand_for(
    repo: &Repository,
    index: &mut Index,
    purpose: &dyn Fn(&BStr) -> Purpose,
) -> Result<(), Error> {
    if index.sparse { Ok(sparse::settle(repo, index, purpose)?) } else { Ok(()) }
}

/// Prints, once, the hint that the index is expanded, and traces it.
pub fn report_expansion(context: Context<'_>, index: &Index, hint: ExpansionHint) -> Result<(), Error> {
    if hint == ExpansionHint::Omit {
        return Ok(());
    }
    trace::region("index", "ensure_full_index");
    // Before and after, Git tries to write the index as a tree.
    report_unmerged(context, index);
    let reported = context.settings.reported_expansion.swap(true, Ordering::Relaxed);
    if !reported && context.advises(keys::advice::SPARSE_INDEX_EXPANDED)? {
        context.events.notice(Notice::SparseIndexExpanded);
        if context.repo.config_str(&keys::advice::SPARSE_INDEX_EXPANDED).is_none() {
            context.events.notice(Notice::SparseIndexAdvice);
        }
    }
    report_unmerged(context, index);
    Ok(())
}

fn report_unmerged(context: Context<'_>, index: &Index) {
    const SHOWN: usize = 10;
    let unmerged = index.entries().iter().filter(|entry| entry.stage != Stage::Normal);
    for (number, entry) in unmerged.enumerate().take(SHOWN + 1) {
        match number {
            SHOWN => context.events.notice(Notice::MoreUnmerged),
            _ => {
                let path = index.path(entry).to_owned();
                context.events.notice(Notice::Unmerged(path, entry.oid.to_string()));
            }
        }
    }
}

/// Prepares `index` for writing: sparse by `patterns` where Git's would be, or full. Returns the
/// full index.
pub fn prepare_for_write(
    repo: &Repository,
    settings: &Settings,
    index: &mut Index,
    before: Option<&Index>,
    patterns: Option<&Patterns>,
) -> Result<Option<Index>, Error> {
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
pub fn is_collapsed(before: Option<&Index>, path: &BStr) -> bool {
    before
        .is_some_and(|before| sparse::is_inside(before, path.trim_end_with(|letter| letter == '/').as_bstr()))
}

/// Returns true if an entry in a collapsed directory of `before` differs in `after`.
pub fn changes(before: &Index, after: &Index) -> bool {
    let nodes = after.cache_tree.as_ref();
    before.entries().iter().filter(|entry| entry.mode.is_tree()).any(|entry| {
        let dir = before.path(entry);
        let dir = dir.strip_suffix(b"/").unwrap_or(dir);
        let node = nodes.and_then(|root| root.find(dir.into())?.valid);
        node.is_none_or(|(tree, _)| tree != entry.oid)
    })
}

/// If a collapsed directory of `before` becomes a file, Git drops the entries staged in it.
pub fn yield_to_files(
    repo: &Repository,
    before: &Index,
    index: &mut Index,
    head: ObjectId,
    target: ObjectId,
) -> Result<(), Error> {
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
pub fn leave_replaced(before: &Index, plan: &mut Plan) {
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
pub fn keep_out(before: &Index, plan: &mut Plan) {
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
