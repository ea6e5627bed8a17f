//! Which attribute files count for what is written.

use std::collections::HashSet;

use bstr::ByteSlice as _;
use repo::{
    Repository,
    convert::{self, Converter},
};

use super::Plan;

/// Whose attribute file counts, where a directory has one in the index and another in the worktree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attributes {
    /// That of the index that is checked out.
    #[default]
    OfIndex,
    /// That of the worktree as it is, when paths are restored; but that of the index where it is itself restored
    /// before any other file of its directory. Git comes to this by removing it first and then asking for attributes.
    OfWorktree,
    /// That of the worktree, where all files go somewhere else.
    Elsewhere,
}

/// The converter for the files that are written.
pub(super) fn converter(
    repo: &Repository,
    plan: &Plan,
    attributes: Attributes,
) -> Result<Converter, repo::Error> {
    match attributes {
        Attributes::OfIndex => Converter::for_checkout(repo, &plan.index),
        Attributes::OfWorktree => {
            let renewed = renewed(plan);
            Converter::for_restore(repo, &plan.index, |dir| renewed.contains(dir))
        }
        Attributes::Elsewhere => Converter::for_restore(repo, &plan.index, |_| false),
    }
}

/// Finds the first file to be written whose filter is required and has no command, and the words
/// with which Git dies of it. Attributes are looked up only if such a filter is configured.
pub fn unusable_filter(
    repo: &Repository,
    plan: &Plan,
    attributes: Attributes,
) -> Result<Option<String>, repo::Error> {
    if plan.writes.is_empty() || !convert::any_driver_only_fails(repo)? {
        return Ok(None);
    }
    let mut worker = converter(repo, plan, attributes)?.worker();
    for write in &plan.writes {
        let entry = &plan.index.entries()[write.entry];
        let path = plan.index.path(entry);
        if entry.mode.is_file()
            && let Some(message) = worker.sure_failure(path)?
        {
            return Ok(Some(message));
        }
    }
    Ok(None)
}

/// The directories whose attribute file is the first file written in them or below; the worktree's top is empty.
pub(super) fn renewed(plan: &Plan) -> HashSet<&[u8]> {
    let entry = |step: usize| &plan.index.entries()[plan.writes[step].entry];
    let path = |step: usize| plan.index.path(entry(step)).as_bytes();
    let mut renewed = HashSet::new();
    for step in 0..plan.writes.len() {
        let Some(below) = path(step).strip_suffix(b".gitattributes") else { continue };
        let is_file = entry(step).mode.is_file();
        if !is_file || !(below.is_empty() || below.ends_with(b"/")) {
            continue;
        }
        let first = plan.writes[..step].partition_point(|write| {
            let path = plan.index.path(&plan.index.entries()[write.entry]);
            path.as_bytes() < below
        });
        if (first..step).all(|earlier| !entry(earlier).mode.is_file()) {
            renewed.insert(below.strip_suffix(b"/").unwrap_or(below));
        }
    }
    renewed
}
