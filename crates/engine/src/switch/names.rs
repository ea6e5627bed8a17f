//! What a word means as a branch or ref. Source: gitrevisions(7), git-check-ref-format(1).

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    ObjectId,
    refname::{self, Levels},
};
use repo::Repository;

use super::Error;

/// `refs/heads/`
pub const BRANCHES: &[u8] = b"refs/heads/";

/// Every ref `name` may stand for, in Git's order of preference, by the full name of what it
/// finally points to.
pub fn expand(repo: &Repository, name: &BStr) -> Result<Vec<(BString, ObjectId)>, Error> {
    let name = repo.interpret_branch_name(name)?;
    let rules: [(&[u8], &[u8]); 6] = [
        (b"", b""),
        (b"refs/", b""),
        (b"refs/tags/", b""),
        (BRANCHES, b""),
        (b"refs/remotes/", b""),
        (b"refs/remotes/", b"/HEAD"),
    ];
    let mut found = Vec::new();
    for (before, after) in rules {
        let mut full = BString::from([before, &name, after].concat());
        let Some(oid) = repo.find_ref(full.as_bstr())? else { continue };
        // Symbolic refs nest only so deep: `find_ref` has checked.
        while let Some(target) = repo.symbolic_target(full.as_bstr())? {
            full = target;
        }
        found.push((full, oid));
    }
    Ok(found)
}

/// A word as the short name of a local branch: `@{-N}` becomes what HEAD was on before, `x@{upstream}`
/// the local branch that `x` follows; all else stays as it is. `@` alone is a name, and not HEAD.
pub fn local_branch(repo: &Repository, word: &BStr) -> Result<BString, Error> {
    let word = match repo.expand_prior_checkout(word)? {
        Some((whole, _)) => whole,
        None => word.to_owned(),
    };
    let meant = repo.interpret_mark(word.as_bstr())?;
    match meant.starts_with(b"refs/") {
        true if meant == word => Ok(meant),
        true if meant.starts_with(BRANCHES) => Ok(repo.shorten_ref(meant.as_bstr())?),
        true => Ok(word),
        false => Ok(meant),
    }
}

/// The full name of the branch that a word means; `None` if there can be no such branch.
pub fn branch_ref(repo: &Repository, word: &BStr) -> Result<Option<BString>, Error> {
    let short = local_branch(repo, word)?;
    let is_one = !word.starts_with(b"-") && short != "HEAD";
    let full = BString::from([BRANCHES, &short].concat());
    Ok((is_one && is_ref_name(full.as_bstr())).then_some(full))
}

/// Whether `name` is well formed as a full ref name.
pub fn is_ref_name(name: &BStr) -> bool {
    refname::check(name, Levels::Two).is_ok()
}
