//! Names and contents of records at a remote.

use base_store::Remote;
use bstr::{BStr, ByteSlice as _};
use format::{
    ObjectId,
    base_files::{Branch, Digest, Malformed, Manifest, RecordKind, RecordName, manifest},
};

use super::Error;

/// A manifest as it was read.
#[derive(Clone, Debug)]
pub struct Read {
    /// The manifest.
    pub manifest: Manifest,
    /// The signed bytes.
    pub signed: Vec<u8>,
    /// The signature behind them.
    pub signature: Option<Vec<u8>>,
}

/// Returns the name of a commit's manifest.
pub fn commit_name(commit: &ObjectId) -> RecordName {
    RecordName::new(RecordKind::Commit, commit.to_string()).expect("digits are allowed")
}

/// Returns the name of a branch's record. `branch` is the name of a ref without `refs/heads/`.
/// Bytes that a name cannot have are written as `_` and two digits; a long name is hashed.
pub fn branch_name(branch: &BStr) -> RecordName {
    const LONGEST: usize = 100;
    let mut id = String::new();
    for (at, &byte) in branch.iter().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => id.push(char::from(byte)),
            b'.' if at > 0 => id.push('.'),
            _ => id.push_str(&format!("_{byte:02x}")),
        }
    }
    if id.is_empty() || id.len() > LONGEST {
        id = format!("__{}", Digest::of(branch));
    }
    RecordName::new(RecordKind::Branch, id).expect("only such characters are left")
}

/// Returns the branch whose record has this id; `None` for one with a hashed name.
pub fn branch_of(id: &str) -> Option<bstr::BString> {
    let (mut name, mut rest) = (Vec::new(), id.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'_' => {
                let (digits, after) = rest.split_at_checked(2)?;
                name.push(u8::from_str_radix(digits.to_str().ok()?, 16).ok()?);
                rest = after;
            }
            byte => name.push(byte),
        }
    }
    Some(name.into())
}

/// Reads the manifest of a commit; `None` if there is none.
pub fn manifest(remote: &Remote, commit: &ObjectId) -> Result<Option<Read>, Error> {
    let name = commit_name(commit);
    let Some(bytes) = remote.record(&name)? else { return Ok(None) };
    if bytes.len() > manifest::MAX_LEN {
        let reason = format!("it has {} bytes", bytes.len());
        return Err(Error::WrongRecord { remote: address(remote), name: name.to_string(), reason });
    }
    let (signed, signature) = manifest::split_signature(&bytes);
    let parsed = Manifest::parse(signed).map_err(malformed(remote, &name))?;
    if parsed.hash != commit.kind() {
        return Err(Error::Hash {
            remote: address(remote),
            ours: commit.kind().name(),
            theirs: parsed.hash.name(),
        });
    }
    if parsed.commit != *commit {
        let reason = format!("it is about commit {}", parsed.commit);
        return Err(Error::WrongRecord { remote: address(remote), name: name.to_string(), reason });
    }
    let (signed, signature) = (signed.to_vec(), signature.map(<[u8]>::to_vec));
    Ok(Some(Read { manifest: parsed, signed, signature }))
}

/// Reads the record of a branch; `None` if there is none.
pub fn branch(remote: &Remote, branch: &BStr) -> Result<Option<Branch>, Error> {
    let name = branch_name(branch);
    remote.record(&name)?.map(|bytes| Branch::parse(&bytes).map_err(malformed(remote, &name))).transpose()
}

/// Returns the manifest of the base with which a host best begins: that of `tip` if it has one,
/// else that of the newest commit of the branch that has one.
pub fn nearest(remote: &Remote, name: &BStr, tip: Option<&ObjectId>) -> Result<Option<Read>, Error> {
    if let Some(tip) = tip
        && let Some(read) = manifest(remote, tip)?
    {
        return Ok(Some(read));
    }
    let known = branch(remote, name)?.map_or_else(Vec::new, |branch| branch.commits);
    for commit in known.iter().filter(|commit| Some(*commit) != tip) {
        if let Some(read) = manifest(remote, commit)? {
            return Ok(Some(read));
        }
    }
    Ok(None)
}

/// Removes the record of a branch and its list of bundles. Those that are not there are no error.
pub fn remove_branch(remote: &Remote, branch: &BStr) -> Result<(), Error> {
    let name = branch_name(branch);
    let bundles = RecordName::new(RecordKind::Bundles, name.id().to_owned())?;
    remote.remove_record(&name)?;
    Ok(remote.remove_record(&bundles)?)
}

pub(super) fn address(remote: &Remote) -> String {
    remote.address().to_string()
}

pub(super) fn malformed<'r>(remote: &'r Remote, name: &'r RecordName) -> impl Fn(Malformed) -> Error + 'r {
    move |source| Error::Record { remote: address(remote), name: name.to_string(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_branches_are_ids_and_come_back() {
        for (name, id) in [
            ("main", "main"),
            ("feature/x_1", "feature_2fx_5f1"),
            (".hidden.x", "_2ehidden.x"),
            ("gr\u{fc}n", "gr_c3_bcn"),
        ] {
            assert_eq!(branch_name(name.into()).id(), id);
            assert_eq!(branch_of(id).expect("whole"), name);
        }
        let long = "x".repeat(101);
        assert_eq!(branch_of(branch_name(long.as_str().into()).id()), None);
    }
}
