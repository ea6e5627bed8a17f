//! Names that cannot coexist in an index.

use std::collections::HashSet;

use bstr::{BStr, ByteSlice};
use format::index::{Edit, Index, Stage};

use super::{Decider, is_below};
use crate::look::trees::Kind;

impl Decider<'_> {
    /// Resolves conflicts between a path and paths below it, which cannot coexist in an index. As
    /// in Git, the last one added stays. Afterwards the edits are sorted and each path has one.
    pub(super) fn resolve_conflicting_names(&mut self) {
        let decided = &mut self.decided;
        decided.edits.sort_by(|a, b| a.path.cmp(&b.path));
        // The last of several edits of a path counts.
        decided.edits.reverse();
        decided.edits.dedup_by(|a, b| a.path == b.path);
        decided.edits.reverse();
        let index = self.index;
        if matches!(self.policy.kind, Kind::Overlay | Kind::ThreeWay { .. }) {
            displace_names(index, &mut decided.edits);
        }
        if index.is_empty() {
            return;
        }
        let edited =
            |path: &BStr| decided.edits.binary_search_by(|edit| edit.path.as_bstr().cmp(path)).is_ok();
        let merged = |at: usize| index.entry(at).stage == Stage::Normal;
        let mut replaced = HashSet::new();
        let mut lost = HashSet::new();
        let mut last_dir = BStr::new("");
        let mut at = 0;
        // Only merged entries are checked: stages of different names may conflict in an index.
        let is_merged = |edit: &&Edit| edit.entries.first().is_some_and(|entry| entry.stage == Stage::Normal);
        for edit in decided.edits.iter().filter(is_merged) {
            let path = edit.path.as_bstr();
            at = index.seek(at, path);
            // Every path below `path`, and every path between, has it as a prefix.
            let next = (at < index.len()).then(|| index.path_at(at));
            let maybe_above = next.is_some_and(|next| next != path && next.starts_with(path));
            if maybe_above && index.range_below(path).any(|at| merged(at) && !edited(index.path_at(at))) {
                lost.insert(edit.path.clone());
            }
            let dir = path.rfind_byte(b'/').map_or(BStr::new(""), |slash| path[..slash].as_bstr());
            if dir == last_dir {
                continue;
            }
            for end in dir.find_iter("/").chain((!dir.is_empty()).then_some(dir.len())) {
                let above = dir[..end].as_bstr();
                if last_dir == above || is_below(last_dir, above) {
                    continue;
                }
                if index.range_of(above).any(merged) && !edited(above) {
                    replaced.insert(above.to_owned());
                }
            }
            last_dir = dir;
        }
        if replaced.is_empty() && lost.is_empty() {
            return;
        }
        decided.edits.retain(|edit| !lost.contains(&edit.path));
        decided.writes.retain(|(path, _)| !lost.contains(path));
        decided.edits.extend(replaced.into_iter().map(|path| Edit { path, entries: Vec::new() }));
        decided.edits.sort_by(|a, b| a.path.cmp(&b.path));
    }
}

/// Resolves conflicts within one stage, where one tree has a file and another a directory. Git adds
/// the paths below a name after the name, and these paths stay. Only the first path added below a
/// name displaces the name. `edits` are sorted.
fn displace_names(index: &Index, edits: &mut [Edit]) {
    for at in 0..edits.len() {
        let (edit, after) = edits[at..].split_first_mut().expect("in range");
        if edit.entries.is_empty() {
            continue;
        }
        let bound = [edit.path.as_slice(), b"/"].concat();
        let first = after.partition_point(|other| other.path.as_slice() < bound.as_slice());
        let Some(below) = after.get(first).filter(|other| other.path.starts_with(&bound)) else { continue };
        let kept = index.range_below(edit.path.as_bstr()).next();
        if kept.is_none_or(|kept| index.path_at(kept) >= below.path) {
            edit.entries.retain(|entry| below.entries.iter().all(|other| other.stage != entry.stage));
        }
    }
}
