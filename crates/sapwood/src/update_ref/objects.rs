//! The new objects of edits.

use std::collections::HashMap;

use bstr::ByteSlice as _;
use format::ObjectId;
use repo::{
    Repository,
    objects::{Kind, Reader},
};
use store::refs::{self, Edit, Failures, New, Old, Rejected, Rejection};

use crate::Error;

/// Checks edits. Each object is read once.
pub(super) struct Objects<'a> {
    reader: Reader<'a>,
    known: HashMap<ObjectId, Option<Kind>>,
}

impl<'a> Objects<'a> {
    pub(super) fn new(repo: &'a Repository) -> Objects<'a> {
        Objects { reader: repo.objects().reader(), known: HashMap::new() }
    }

    /// Refuses an edit with a wrong name, or whose new value is not an object, or not a commit for
    /// a branch. Returns an edit with a wrong new value if only this edit is skipped.
    pub(super) fn check(&mut self, edit: &Edit, failures: Failures) -> Result<Option<Rejected>, Error> {
        // Git checks the name before the object.
        refs::check_name_of(edit)?;
        let new = match edit.new {
            New::Id(new) if !new.is_null() => new,
            _ => return Ok(None),
        };
        let name = edit.name.as_bstr();
        let Objects { reader, known } = self;
        let kind = known.entry(new).or_insert_with(|| match reader.header(&new) {
            // Do not read a blob, which may be larger than memory.
            Ok((Kind::Blob, _)) => Some(Kind::Blob),
            _ => reader.read(&new).ok().map(|(kind, _)| kind),
        });
        let is_branch = name == "HEAD" || name.starts_with(b"refs/heads/");
        let message = match kind {
            None => format!("trying to write ref '{name}' with nonexistent object {new}"),
            Some(kind) if *kind != Kind::Commit && is_branch => {
                format!("trying to write non-commit object {new} to branch '{name}'")
            }
            Some(_) => return Ok(None),
        };
        if failures == Failures::EndAll {
            return Err(Error::failed(message));
        }
        let old = match edit.old {
            Old::Id(oid) => Some(oid),
            _ => None,
        };
        let kind = Rejection::InvalidNewValue;
        Ok(Some(Rejected { name: edit.name.clone(), new: Some(new), old, kind, message }))
    }
}
