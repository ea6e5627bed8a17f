//! Patches that can be compared, as `git patch-id` does: without line numbers and blanks.
//!
//! Two commits have the same patch if they change the same paths, remove and add the same lines
//! there, and the lines around these are the same.

use std::collections::HashMap;

use bstr::ByteSlice as _;
use engine::diff::{self, Pair, Side};
use format::{HashKind, ObjectId, hash::Hasher};
use repo::Repository;

use crate::Error;

/// The number of unchanged lines around a change that count.
const AROUND: usize = 3;

/// A file with more removed and added lines, or more bytes, is compared by its object names.
const LINES: usize = 1000;
const BYTES: usize = 1 << 20;

/// A change from one tree to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Change {
    /// `None` for the empty tree.
    pub(super) old: Option<ObjectId>,
    pub(super) new: ObjectId,
}

impl Change {
    /// Returns the change of a commit; `None` for a merge.
    pub(super) fn of(repo: &Repository, commit: ObjectId) -> Result<Option<Change>, Error> {
        let old = match repo.parents_if_commit(&commit)?[..] {
            [] => None,
            [parent] => Some(repo.tree_of(parent)?),
            _ => return Ok(None),
        };
        Ok(Some(Change { old, new: repo.tree_of(commit)? }))
    }
}

/// The changed paths and the kinds of their changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Outline(ObjectId);

/// The changed paths and lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Patch(ObjectId);

/// The patches of a repository. Each is computed once.
pub(super) struct Patches<'r> {
    pub(super) repo: &'r Repository,
    known: HashMap<Change, Option<Patch>>,
}

impl<'r> Patches<'r> {
    pub(super) fn new(repo: &'r Repository) -> Patches<'r> {
        Patches { repo, known: HashMap::new() }
    }

    pub(super) fn outline(&self, change: Change) -> Result<Outline, Error> {
        let mut hasher = Hasher::checksum(HashKind::Sha256);
        for pair in diff::trees(self.repo, change.old, Some(change.new))? {
            name(&mut hasher, &pair);
        }
        Ok(Outline(finish(hasher)))
    }

    /// Returns the patch; `None` for a change without one.
    pub(super) fn patch(&mut self, change: Change) -> Result<Option<Patch>, Error> {
        if let Some(known) = self.known.get(&change) {
            return Ok(*known);
        }
        let pairs = diff::trees(self.repo, change.old, Some(change.new))?;
        let mut hasher = Hasher::checksum(HashKind::Sha256);
        for pair in &pairs {
            name(&mut hasher, pair);
            let (old, new) = (self.content(pair.old)?, self.content(pair.new)?);
            match changed_lines(&old, &new) {
                Some(lines) => hasher.update(&lines),
                None => [pair.old, pair.new].into_iter().for_each(|side| {
                    hasher.update(format!("{:?}", side.and_then(|side| side.oid)).as_bytes());
                }),
            }
        }
        let patch = (!pairs.is_empty()).then(|| Patch(finish(hasher)));
        self.known.insert(change, patch);
        Ok(patch)
    }

    fn content(&self, side: Option<Side>) -> Result<Vec<u8>, Error> {
        let Some(Side { mode, oid: Some(oid) }) = side else { return Ok(Vec::new()) };
        if mode.is_gitlink() {
            return Ok(format!("{oid}\n").into_bytes());
        }
        Ok(self.repo.objects().reader().read(&oid)?.1.to_vec())
    }
}

fn finish(hasher: Hasher) -> ObjectId {
    hasher.finish().expect("a checksum looks for no collisions")
}

fn name(hasher: &mut Hasher, pair: &Pair) {
    let mode = |side: Option<Side>| side.map_or(0, |side| side.mode.bits());
    hasher.update(&pair.path);
    hasher.update(format!("\0{:o} {:o}\n", mode(pair.old), mode(pair.new)).as_bytes());
}

/// Returns the removed and added lines with those around them. They are compared with their blanks,
/// and returned without; `None` if the
/// content is no text, or too much.
fn changed_lines(old: &[u8], new: &[u8]) -> Option<Vec<u8>> {
    let is_unfit = |content: &[u8]| content.len() > BYTES || content.contains(&0);
    if is_unfit(old) || is_unfit(new) {
        return None;
    }
    let plain = |line: &[u8]| line.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect::<Vec<u8>>();
    let lines = |content: &[u8]| content.lines_with_terminator().map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (old, new) = (lines(old), lines(new));
    let mut out = Vec::new();
    let mut push = |sign: u8, lines: &[Vec<u8>]| {
        for line in lines {
            out.push(sign);
            out.extend_from_slice(&plain(line));
            out.push(b'\n');
        }
    };
    for group in groups(&old, &new)? {
        push(b' ', &old[group.old.start.saturating_sub(AROUND)..group.old.start]);
        push(b'-', &old[group.old.clone()]);
        push(b'+', &new[group.new.clone()]);
        push(b' ', &old[group.old.end..old.len().min(group.old.end + AROUND)]);
        push(b'@', &[Vec::new()]);
    }
    Some(out)
}

/// Lines that were replaced.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    old: std::ops::Range<usize>,
    new: std::ops::Range<usize>,
}

/// Returns the groups of changed lines; `None` if there are too many. Source: Myers, "An O(ND)
/// Difference Algorithm and its Variations", 1986.
fn groups(old: &[Vec<u8>], new: &[Vec<u8>]) -> Option<Vec<Group>> {
    let start = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[start..], &new[start..]);
    let end = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[..old.len() - end], &new[..new.len() - end]);
    if old.is_empty() || new.is_empty() {
        let group = Group { old: start..start + old.len(), new: start..start + new.len() };
        return Some(if old.is_empty() && new.is_empty() { Vec::new() } else { vec![group] });
    }
    let steps = steps(old, new)?;
    let mut groups: Vec<Group> = Vec::new();
    for (x, y, is_removal) in steps {
        let (x, y) = (start + x, start + y);
        let (next_x, next_y) = if is_removal { (x + 1, y) } else { (x, y + 1) };
        match groups.last_mut() {
            Some(group) if group.old.end == x && group.new.end == y => {
                group.old.end = next_x;
                group.new.end = next_y;
            }
            _ => groups.push(Group { old: x..next_x, new: y..next_y }),
        }
    }
    Some(groups)
}

/// Returns the removals (true) and additions of a shortest edit, each with its position in both.
fn steps(old: &[Vec<u8>], new: &[Vec<u8>]) -> Option<Vec<(usize, usize, bool)>> {
    let most = LINES.min(old.len() + new.len());
    let middle = most + 1;
    let mut furthest = vec![0usize; 2 * middle + 1];
    let mut trace: Vec<Vec<usize>> = Vec::new();
    for rounds in 0..=most {
        trace.push(furthest[middle - rounds..=middle + rounds].to_vec());
        for diagonal in (middle - rounds..=middle + rounds).step_by(2) {
            let goes_down = diagonal == middle - rounds
                || diagonal != middle + rounds && furthest[diagonal - 1] < furthest[diagonal + 1];
            let mut x = if goes_down { furthest[diagonal + 1] } else { furthest[diagonal - 1] + 1 };
            let mut y = x + middle - diagonal;
            while x < old.len() && y < new.len() && old[x] == new[y] {
                (x, y) = (x + 1, y + 1);
            }
            furthest[diagonal] = x;
            if x >= old.len() && y >= new.len() {
                return Some(walk_back(&trace, middle, old.len(), new.len()));
            }
        }
    }
    None
}

fn walk_back(trace: &[Vec<usize>], middle: usize, x: usize, y: usize) -> Vec<(usize, usize, bool)> {
    let (mut x, mut y) = (x, y);
    let mut steps = Vec::new();
    for (rounds, furthest) in trace.iter().enumerate().rev().take_while(|(rounds, _)| *rounds > 0) {
        let at = |diagonal: usize| furthest[diagonal + rounds - middle];
        let diagonal = middle + x - y;
        let goes_down =
            diagonal == middle - rounds || diagonal != middle + rounds && at(diagonal - 1) < at(diagonal + 1);
        let before = if goes_down { diagonal + 1 } else { diagonal - 1 };
        let (before_x, before_y) = (at(before), at(before) + middle - before);
        steps.push((before_x, before_y, !goes_down));
        (x, y) = (before_x, before_y);
    }
    steps.reverse();
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<Vec<u8>> {
        text.bytes().map(|byte| vec![byte]).collect()
    }

    /// Applies the groups to the old lines.
    fn applied(old: &str, new: &str) -> String {
        let (old_lines, new_lines) = (lines(old), lines(new));
        let (mut out, mut at) = (Vec::new(), 0);
        for group in groups(&old_lines, &new_lines).expect("few lines") {
            out.extend_from_slice(&old_lines[at..group.old.start].concat());
            out.extend_from_slice(&new_lines[group.new].concat());
            at = group.old.end;
        }
        out.extend_from_slice(&old_lines[at..].concat());
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn groups_lead_from_the_old_lines_to_the_new_ones() {
        for (old, new) in [
            ("", ""),
            ("", "abc"),
            ("abc", ""),
            ("abc", "abc"),
            ("abcabba", "cbabac"),
            ("aXbYc", "abc"),
            ("abc", "aXbYc"),
            ("xaxbxcx", "yaybycy"),
            ("aaaa", "aa"),
            ("abcdef", "fedcba"),
        ] {
            assert_eq!(applied(old, new), new, "{old} to {new}");
        }
    }

    #[test]
    fn a_patch_does_not_depend_on_what_is_far_away() {
        let with =
            |before: &str, middle: &str| format!("{before}1\n2\n3\n4\n{middle}5\n6\n7\n8\n").into_bytes();
        let one = changed_lines(&with("", "x\n"), &with("", "y\n"));
        assert_eq!(one, changed_lines(&with("far\naway\n", "x\n"), &with("far\naway\n", "  y \n")));
        assert_ne!(one, changed_lines(&with("", "x\n"), &with("", "z\n")));
        assert_ne!(one, changed_lines(b"x\n", b"y\n"));
        assert_eq!(changed_lines(b"\0", b""), None);
    }
}
