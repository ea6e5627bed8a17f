//! The start of a walk: the common directory of all pathspecs.
//!
//! Each directory on the path to it is classified as in a walk, so nothing is searched in an
//! ignored directory, in `.git` or behind a symbolic link.

use std::sync::Arc;

use bstr::{BStr, ByteSlice as _};
use sys::FileType;

use super::{
    Walk,
    classify::{Classification, ParentDirectory},
    recorded::RecordState,
    rules::{IgnoreFile, LazyRules},
    tree::{Descent, IgnoreState, Job, Node, ReadPurpose},
};
use crate::look::{handle::Handle, ignore::Level};

impl Walk<'_> {
    /// Returns the first job, or none if there is nothing to examine. Results that are already
    /// known are added to `top`.
    pub(super) fn start(&self, top: &Arc<Node>) -> Vec<Job> {
        let goal = self.pathspecs.common_directory();
        let Ok(root) = self.root.try_clone() else { return Vec::new() };
        let root = Handle::top(root);
        let all = 0..self.index.len();
        let enter = |within| Descent {
            purpose: ReadPurpose::Report,
            ignore_state: IgnoreState::NotIgnored,
            nested: None,
            within,
            entry: false,
        };
        let job = |path: &BStr, descent, level: Option<Arc<Level>>| {
            let node = Node::below(top, path.to_owned(), 0, descent, self);
            let known = match &self.recorded {
                Some(recorded) if path.is_empty() => recorded.root(),
                _ => RecordState::Unused,
            };
            vec![Job { node, from: Arc::clone(&root), lazy_rules: LazyRules::Known(level), known }]
        };
        if goal.is_empty() {
            return job(goal, enter(all), None);
        }
        let ends: Vec<usize> = goal.find_iter("/").collect();
        // A path after `:/` is not normalized. A path with such components does not exist.
        let mut parts = goal.strip_suffix(b"/").unwrap_or(goal).split_str("/");
        let is_path = parts.all(|part| !matches!(part, b"" | b"." | b".."));
        if !is_path {
            return Vec::new();
        }
        let behind_a_link = ends.iter().any(|&end| {
            let found = self.root.stat(&goal[..end]).ok().flatten();
            found.is_some_and(|stat| stat.file_type == FileType::Symlink)
        });
        if behind_a_link {
            return Vec::new();
        }
        let mut level = None;
        let mut dir = BStr::new("");
        let mut within = all;
        let mut ignore_state = IgnoreState::NotIgnored;
        for &end in &ends {
            let found = self.root.stat(&goal[..end]).ok().flatten();
            if found.is_none_or(|stat| stat.file_type != FileType::Directory) {
                // The directory is examined anyway, so that the error is reported.
                return if dir.is_empty() { Vec::new() } else { job(goal, enter(0..0), level) };
            }
            if ignore_state != IgnoreState::Ignored
                && let Ok(handle) = self.open(dir)
            {
                let content = self.ignore_file(&handle, dir, IgnoreFile::Unknown, Vec::new);
                level = self.level(dir, content.as_deref(), level, Vec::new);
            }
            let mut path = goal[..end].to_owned();
            let rules = || (ignore_state == IgnoreState::Ignored, level.as_deref());
            let parent = ParentDirectory { rules: &rules, are_unread: &|| false, within: &within };
            match self.classify(&mut path, FileType::Directory, &parent, None) {
                Classification::Known(state, entry) => {
                    top.add(state, path.as_bstr(), entry, self.options.ignored);
                    return Vec::new();
                }
                Classification::Descend(descent) if descent.purpose == ReadPurpose::Classify => {
                    return job(path.as_bstr(), descent, level);
                }
                Classification::Descend(descent) => {
                    let nested = descent.nested.filter(|_| self.is_nested(path.as_bstr()));
                    if let Some(state) = nested {
                        top.add(state, path.as_bstr(), descent.entry, self.options.ignored);
                        return Vec::new();
                    }
                    within = if self.tracked.folds_case() { 0..0 } else { descent.within };
                    ignore_state = descent.ignore_state;
                    dir = goal[..=end].as_bstr();
                }
            }
        }
        debug_assert_eq!(dir, goal, "every part of it was classified");
        job(goal, Descent { ignore_state, ..enter(within) }, level)
    }

    fn open(&self, dir: &BStr) -> std::io::Result<sys::Dir> {
        match dir.strip_suffix(b"/") {
            None => self.root.try_clone(),
            Some(dir) => self.root.open_dir(dir),
        }
    }
}
