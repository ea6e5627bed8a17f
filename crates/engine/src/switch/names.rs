//! Resolves command-line words to branches and refs. Source: gitrevisions(7),
//! git-check-ref-format(1).

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    ObjectId,
    refname::{self, Levels},
};
use repo::Repository;

use super::Error;

/// The prefix of full branch names.
pub const BRANCHES: &[u8] = b"refs/heads/";

/// Returns every ref to which `name` may resolve, in Git's order of precedence: the full name at
/// the end of its chain of symbolic refs, and its object.
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
        // The chain is finite: `find_ref` has checked its depth.
        while let Some(target) = repo.symbolic_target(full.as_bstr())? {
            full = target;
        }
        found.push((full, oid));
    }
    Ok(found)
}

/// Returns the short name of the local branch to which a word resolves. `@{-N}` becomes the branch
/// that was checked out before, `x@{upstream}` the local branch that `x` follows. Other words are
/// returned unchanged. A lone `@` is a branch name, not HEAD.
pub fn local_branch(repo: &Repository, word: &BStr) -> Result<BString, Error> {
    let word = match repo.expand_prior_checkout(word)? {
        Some((whole, _)) => whole,
        None => word.to_owned(),
    };
    let resolved = repo.interpret_mark(word.as_bstr())?;
    match resolved.starts_with(b"refs/") {
        true if resolved == word => Ok(resolved),
        true if resolved.starts_with(BRANCHES) => Ok(repo.shorten_ref(resolved.as_bstr())?),
        true => Ok(word),
        false => Ok(resolved),
    }
}

/// Returns the full name of the branch to which a word resolves, or `None` if the word is not a
/// valid branch name.
pub fn branch_ref(repo: &Repository, word: &BStr) -> Result<Option<BString>, Error> {
    let short = local_branch(repo, word)?;
    let may_be_branch = !word.starts_with(b"-") && short != "HEAD";
    let full = BString::from([BRANCHES, &short].concat());
    Ok((may_be_branch && is_ref_name(full.as_bstr())).then_some(full))
}

/// Returns true if `name` is well formed as a full ref name.
pub fn is_ref_name(name: &BStr) -> bool {
    refname::check(name, Levels::Two).is_ok()
}
