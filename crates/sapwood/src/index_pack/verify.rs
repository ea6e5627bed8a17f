//! Checks that the index on disk is the right one for its pack.

use std::path::Path;

use bstr::BString;
use engine::{
    midx::Notice as ObjectFile,
    pack_indexing::{Mismatch, check_index, check_reverse},
};
use format::{HashKind, ObjectId, idx::Idx, idx_writer::Form};
use repo::pack_indexing::Indexed;
use sys::{FileType, by_path};

use super::indexing::{cannot_open, derived, path};
use crate::{Error, Events, Notice, text};

/// Returns the form of the existing index, with the limit of short offsets from `asked`.
pub(super) fn form(
    index: &BString,
    hash: HashKind,
    asked: &Form,
    events: &dyn Events,
) -> Result<Form, Error> {
    let no_pack = || Error::Failed(text!("Cannot open existing pack file '", index, "'"));
    if !index.ends_with(b".idx") {
        return Err(no_pack());
    }
    let pack = derived(index, "idx", "pack")?;
    let found = by_path::stat_followed(&path(&pack)).ok().flatten();
    if !found.is_some_and(|stat| stat.file_type == FileType::File) {
        return Err(no_pack());
    }
    let no_index = || Error::Failed(text!("Cannot open existing pack idx file for '", index, "'"));
    let map = by_path::open(&path(index)).and_then(|file| sys::Map::of(&file)).map_err(|_| no_index())?;
    let idx = Idx::parse(map, hash).map_err(|error| {
        events.notice(Notice::ObjectFile(ObjectFile::Error(error.about(index))));
        no_index()
    })?;
    let form = idx.form().ok_or_else(|| {
        Error::Failed(text!("offset beyond end of pack index for ", pack, " (truncated index?)"))
    })?;
    Ok(Form { largest_short: asked.largest_short, ..form })
}

/// Compares the files with those that `objects` would result in.
pub(super) fn check(
    index: &Path,
    reverse: Option<&Path>,
    objects: &Indexed,
    checksum: &ObjectId,
    form: &Form,
) -> Result<(), Error> {
    let file = by_path::open(index).map_err(cannot_open(index))?;
    if let Some(name) = objects.duplicate() {
        return Err(Error::failed(format!("The same object {name} appears twice in the pack")));
    }
    check_index(&file, objects, checksum, form).map_err(|mismatch| differs(index, &mismatch))?;
    let Some(reverse) = reverse else { return Ok(()) };
    let found = by_path::stat_followed(reverse).map_err(|error| {
        Error::failed(format!("could not stat: {}: {}", reverse.display(), sys::reason(&error)))
    })?;
    if found.is_none() {
        return Ok(());
    }
    let file = by_path::open(reverse).map_err(cannot_open(reverse))?;
    check_reverse(&file, objects, checksum).map_err(|mismatch| differs(reverse, &mismatch))
}

fn differs(path: &Path, mismatch: &Mismatch) -> Error {
    let name = path.display();
    Error::failed(match mismatch {
        Mismatch::Io(error) => format!("{name}: sha1 file read error: {}", sys::reason(error)),
        Mismatch::Truncated => format!("{name}: sha1 file truncated"),
        Mismatch::Differs => format!("sha1 file '{name}' validation error"),
        Mismatch::Garbage => format!("{name}: sha1 file has trailing garbage"),
    })
}
