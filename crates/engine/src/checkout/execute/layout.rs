//! The directories of a set of steps, and the steps grouped by directory.
//!
//! Steps arrive in index order, so everything below a directory is contiguous. The steps directly
//! in a directory need not be (`a/x`, `a/b/y`, `a/z`). The layout groups them, so that one worker
//! performs them on one open handle. Workers take and steal [`Unit`]s, in index order.

use std::ops::Range;

/// Steps in one directory that one worker performs.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    /// Index into [`Layout::dirs`].
    pub(super) dir: usize,
    /// Indices into [`Layout::steps`].
    pub(super) steps: Range<usize>,
}

/// A directory and its parent.
#[derive(Debug)]
pub(super) struct Directory<'a> {
    /// The path relative to the worktree's root, without a slash at the end; empty for the root.
    pub(super) path: &'a [u8],
    /// The root is its own parent.
    pub(super) parent: usize,
}

impl<'a> Directory<'a> {
    /// Returns the last component.
    pub(super) fn name(&self) -> &'a [u8] {
        file_name(self.path)
    }
}

/// A set of steps grouped by directory.
#[derive(Debug)]
pub(super) struct Layout<'a> {
    /// The root first, parents before children.
    pub(super) dirs: Vec<Directory<'a>>,
    /// Step numbers with the last components of their paths, grouped by directory.
    pub(super) steps: Vec<(usize, &'a [u8])>,
    /// Ranges that cover all of `steps`.
    pub(super) units: Vec<Unit>,
}

/// The most workers that gain from sharing a directory: the kernel serializes file creation within
/// a directory.
const WORKERS_PER_DIRECTORY: usize = 4;
/// Directories with fewer steps are not shared.
const MIN_SHARED_STEPS: usize = 256;

impl<'a> Layout<'a> {
    /// Groups steps, given as numbers and paths sorted by path.
    pub(super) fn new(steps: impl IntoIterator<Item = (usize, &'a [u8])>) -> Self {
        let mut dirs = vec![Directory { path: b"".as_slice(), parent: 0 }];
        let mut counts = vec![0usize];
        let mut placed = Vec::new();
        let mut current = 0;
        for (step, path) in steps {
            let leading = parent_path(path);
            while !is_below(leading, dirs[current].path) {
                current = dirs[current].parent;
            }
            while dirs[current].path.len() != leading.len() {
                let from = dirs[current].path.len() + usize::from(current != 0);
                let len = leading[from..].iter().position(|&byte| byte == b'/');
                let path = &leading[..len.map_or(leading.len(), |len| from + len)];
                dirs.push(Directory { path, parent: current });
                counts.push(0);
                current = dirs.len() - 1;
            }
            counts[current] += 1;
            placed.push((current, step, file_name(path)));
        }
        Self::grouped(dirs, &counts, &placed)
    }

    fn grouped(dirs: Vec<Directory<'a>>, counts: &[usize], placed: &[(usize, usize, &'a [u8])]) -> Self {
        let mut units = Vec::new();
        let mut next = Vec::with_capacity(counts.len());
        let mut start = 0;
        for (dir, &count) in counts.iter().enumerate() {
            next.push(start);
            let end = start + count;
            let share =
                if count < MIN_SHARED_STEPS { count.max(1) } else { count.div_ceil(WORKERS_PER_DIRECTORY) };
            while start < end {
                let steps = start..end.min(start + share);
                start = steps.end;
                units.push(Unit { dir, steps });
            }
        }
        let mut steps = vec![(0, b"".as_slice()); placed.len()];
        for &(dir, step, name) in placed {
            steps[next[dir]] = (step, name);
            next[dir] += 1;
        }
        Layout { dirs, steps, units }
    }

    /// Returns the number of steps of each unit.
    pub(super) fn weights(&self) -> impl ExactSizeIterator<Item = usize> {
        self.units.iter().map(|unit| unit.steps.len())
    }
}

/// Returns the path of the directory that holds a path.
pub(super) fn parent_path(path: &[u8]) -> &[u8] {
    path.iter().rposition(|&byte| byte == b'/').map_or(b"", |slash| &path[..slash])
}

/// Returns the last component of a path.
pub(super) fn file_name(path: &[u8]) -> &[u8] {
    path.iter().rposition(|&byte| byte == b'/').map_or(path, |slash| &path[slash + 1..])
}

/// Returns true if `path` is `dir` or lies below it.
fn is_below(path: &[u8], dir: &[u8]) -> bool {
    dir.is_empty() || (path.starts_with(dir) && matches!(path.get(dir.len()), None | Some(b'/')))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn layout(paths: &[Vec<u8>]) -> Layout<'_> {
        Layout::new(paths.iter().enumerate().map(|(step, path)| (step, path.as_slice())))
    }

    #[test]
    fn groups_the_steps_of_a_directory() {
        let paths = ["a/b/y", "a/c", "a.x", "ab/c/d/e", "z"].map(|path| path.as_bytes().to_vec());
        let mut paths = paths.to_vec();
        paths.push(b"a/x".to_vec());
        paths.sort();
        let layout = layout(&paths);
        let dirs: Vec<_> =
            layout.dirs.iter().map(|dir| String::from_utf8_lossy(dir.path).into_owned()).collect();
        assert_eq!(dirs, ["", "a", "a/b", "ab", "ab/c", "ab/c/d"]);
        let names: Vec<_> =
            layout.steps.iter().map(|(_, name)| String::from_utf8_lossy(name).into_owned()).collect();
        assert_eq!(names, ["a.x", "z", "c", "x", "y", "e"]);
    }

    #[test]
    fn shares_a_huge_directory_among_four_workers() {
        let paths: Vec<Vec<u8>> = (0..1001).map(|n| format!("d/{n:04}").into_bytes()).collect();
        let layout = layout(&paths);
        assert_eq!(layout.units.len(), 4);
        assert_eq!(layout.units.iter().map(|unit| unit.steps.len()).sum::<usize>(), 1001);
    }

    proptest! {
        #[test]
        fn places_each_step_once_in_its_directory(
            set in proptest::collection::btree_set("[ab.]{1,2}(/[ab.]{1,2}){0,3}", 0..60)
        ) {
            let paths: Vec<Vec<u8>> = set.into_iter().map(String::into_bytes).collect();
            let layout = layout(&paths);
            let mut seen = vec![false; paths.len()];
            for unit in &layout.units {
                for &(step, name) in &layout.steps[unit.steps.clone()] {
                    prop_assert!(!std::mem::replace(&mut seen[step], true));
                    prop_assert_eq!(layout.dirs[unit.dir].path, parent_path(&paths[step]));
                    prop_assert_eq!(name, file_name(&paths[step]));
                }
            }
            prop_assert!(seen.into_iter().all(|seen| seen));
            for (number, dir) in layout.dirs.iter().enumerate().skip(1) {
                prop_assert!(dir.parent < number);
                prop_assert_eq!(layout.dirs[dir.parent].path, parent_path(dir.path));
            }
        }
    }
}
