//! In-process conversions and external filters.
#![allow(unused_variables)]

use crate::{Error, Repository};
use bstr::BStr;
use format::{Mode, ObjectId, index::Index};

/// What a path needs on its way to the worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Class {
    /// Bytes as they are.
    None,
    /// eol, ident, working-tree-encoding: any thread, in memory.
    InProcess,
    /// A smudge command or a long-running process.
    External,
}
/// Shared by all threads. Attributes are read from the index given (Git's checkout direction),
/// then the worktree. If no attribute file and no configuration can concern conversion, every
/// path is `Class::None` at no cost.
pub struct Converter {}
/// One per thread.
pub struct Worker {}
impl Converter {
    pub fn for_checkout(repo: &Repository, index: &Index) -> Result<Converter, Error> {
        todo!()
    }
    pub fn worker(&self) -> Worker {
        todo!()
    }
}
impl Worker {
    pub fn class(&mut self, path: &BStr, mode: Mode) -> Result<Class, Error> {
        todo!()
    }
    /// Returns the bytes to write: `blob` itself or `out`.
    pub fn to_worktree<'a>(
        &mut self,
        path: &BStr,
        oid: ObjectId,
        blob: &'a [u8],
        out: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Error> {
        todo!()
    }
    /// The other direction, for comparing a file with its blob.
    pub fn to_git<'a>(
        &mut self,
        path: &BStr,
        file: &'a [u8],
        out: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Error> {
        todo!()
    }
}
