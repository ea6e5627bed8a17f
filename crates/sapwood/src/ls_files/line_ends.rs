//! The line endings of listed paths, and the attributes about them.

use bstr::BStr;
use format::index::{Entry, Index, Stage};
use repo::{
    Repository,
    convert::{self, Converter, Worker},
};
use sys::{FileType, by_path};

use crate::Error;

/// Finds the line endings of paths. Contents and attributes are those of one repository: like Git,
/// it is searched for the blobs of submodules too.
pub struct LineEnds<'a> {
    repo: &'a Repository,
    /// Created on first use.
    worker: Option<Worker>,
}

impl<'a> LineEnds<'a> {
    /// Examines nothing yet.
    pub fn of(repo: &'a Repository) -> LineEnds<'a> {
        LineEnds { repo, worker: None }
    }

    /// Returns the line endings of the blob of a path; for an unmerged path, of our side. Returns
    /// an empty text if the entry is no file.
    pub fn in_index(&self, index: &Index, entry: &Entry) -> &'static str {
        if !entry.mode.is_file() {
            return "";
        }
        let path = index.path(entry);
        let at = [Stage::Normal, Stage::Ours].iter().find_map(|stage| index.position(path, *stage).ok());
        let mut reader = self.repo.objects().reader();
        match at.map(|at| reader.read(&index.entry(at).oid)) {
            Some(Ok((_, content))) => convert::describe_line_ends(content),
            _ => convert::describe_line_ends(b""),
        }
    }

    /// Returns the line endings of a file; an empty text if there is no file.
    pub fn in_worktree(&self, path: &BStr) -> &'static str {
        let Some(top) = self.repo.work_tree() else { return "" };
        let path = top.join(sys::os_str(path));
        let found = by_path::stat(&path).ok().flatten();
        if found.is_none_or(|stat| stat.file_type != FileType::File) {
            return "";
        }
        match by_path::read(&path) {
            Ok(Some(content)) => convert::describe_line_ends(&content),
            _ => "",
        }
    }

    /// Returns the attributes of a path. Where the worktree has no attribute file, the one in
    /// `index` applies; the index of the first call is used.
    pub fn attributes(&mut self, index: &Index, path: &BStr) -> Result<&'static str, Error> {
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => Converter::for_compare(self.repo, index)?.worker(),
        };
        Ok(self.worker.insert(worker).describe_attributes(path))
    }
}
