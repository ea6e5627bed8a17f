//! The attribute files that apply to written files.

use std::collections::HashSet;

use bstr::ByteSlice as _;
use repo::{
    Repository,
    convert::{self, Converter},
};

use super::Plan;

/// The source of a directory's attribute file if the index and the worktree differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attributes {
    /// The index that is checked out.
    #[default]
    OfIndex,
    /// The worktree, for restored paths. If the restore writes the attribute file before all other
    /// files of its directory, the index's file applies: Git removes the old file first and then
    /// reads attributes.
    OfWorktree,
    /// The worktree, if all files are written elsewhere.
    Elsewhere,
}

/// Returns the converter for the written files.
pub(super) fn converter(
    repo: &Repository,
    plan: &Plan,
    attributes: Attributes,
) -> Result<Converter, repo::Error> {
    match attributes {
        Attributes::OfIndex => Converter::for_checkout(repo, &plan.index),
        Attributes::OfWorktree => {
            let restored_attribute_dirs = restored_attribute_dirs(plan);
            Converter::for_restore(repo, &plan.index, |dir| restored_attribute_dirs.contains(dir))
        }
        Attributes::Elsewhere => Converter::for_restore(repo, &plan.index, |_| false),
    }
}

/// Finds the first file to be written whose filter is required and has no command, and returns
/// Git's message about it. Attributes are read only if such a filter is configured.
pub fn unusable_filter(
    repo: &Repository,
    plan: &Plan,
    attributes: Attributes,
) -> Result<Option<String>, repo::Error> {
    if plan.writes.is_empty() || !convert::any_required_driver_cannot_smudge(repo)? {
        return Ok(None);
    }
    let mut worker = converter(repo, plan, attributes)?.worker();
    for write in &plan.writes {
        let entry = &plan.index.entry(write.entry);
        let path = plan.index.path(entry);
        if entry.mode.is_file()
            && let Some(message) = worker.smudge_failure(path)?
        {
            return Ok(Some(message));
        }
    }
    Ok(None)
}

/// Returns the directories whose attribute file is the first file written in or below them. The
/// worktree's root is the empty path.
pub(super) fn restored_attribute_dirs(plan: &Plan) -> HashSet<&[u8]> {
    let entry = |step: usize| plan.index.entry(plan.writes[step].entry);
    let path = |step: usize| plan.index.path_at(plan.writes[step].entry).as_bytes();
    let mut restored_attribute_dirs = HashSet::new();
    for step in 0..plan.writes.len() {
        let Some(below) = path(step).strip_suffix(b".gitattributes") else { continue };
        let is_file = entry(step).mode.is_file();
        if !is_file || !(below.is_empty() || below.ends_with(b"/")) {
            continue;
        }
        let first =
            plan.writes[..step].partition_point(|write| plan.index.path_at(write.entry).as_bytes() < below);
        if (first..step).all(|earlier| !entry(earlier).mode.is_file()) {
            restored_attribute_dirs.insert(below.strip_suffix(b"/").unwrap_or(below));
        }
    }
    restored_attribute_dirs
}
