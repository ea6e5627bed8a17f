//! The objects of `FETCH_HEAD` that are to be integrated.

use bstr::ByteSlice as _;
use format::ObjectId;
use repo::Repository;

use crate::Error;

/// The text of the error without any of them.
pub(super) const NONE: &str = "There are no candidates for merging among the refs that you just fetched.";

/// Reads the objects of `FETCH_HEAD` that are marked for merging.
pub fn heads(repo: &Repository) -> Result<Vec<ObjectId>, Error> {
    let path = repo.git_dir().join("FETCH_HEAD");
    let found = sys::by_path::read(&path).and_then(|found| found.ok_or(std::io::ErrorKind::NotFound.into()));
    let content = found.map_err(|error| {
        let shown = repo.display_common_file("FETCH_HEAD");
        let reason = sys::reason(&error);
        Error::failed(format!("could not open '{}' for reading: {reason}", shown.display()))
    })?;
    let hex = repo.hash().hex_len();
    let head = |line: &[u8]| {
        let (name, rest) = line.split_at_checked(hex)?;
        let oid = ObjectId::from_hex(repo.hash(), name)?;
        (!rest.starts_with(b"\tnot-for-merge\t")).then_some(oid)
    };
    Ok(content.lines().filter_map(head).collect())
}

/// Returns an error if a branch without commits would get several ones.
pub fn must_be_one(heads: &[ObjectId]) -> Result<(), Error> {
    if heads.len() > 1 {
        return Err(Error::failed("Cannot merge multiple branches into empty head."));
    }
    Ok(())
}

/// Returns Git's warning that a fetch has moved the current branch from a commit.
pub fn moved(from: ObjectId) -> String {
    format!(
        "fetch updated the current branch head.\n\
         fast-forwarding your working tree from\n\
         commit {from}."
    )
}
