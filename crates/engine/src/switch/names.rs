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
/// the local branch that `x` follows; all else stays as it is.
pub fn local_branch(repo: &Repository, word: &BStr) -> Result<BString, Error> {
    let meant = repo.interpret_branch_name(word)?;
    Ok(match meant.strip_prefix(BRANCHES) {
        Some(branch) if !word.starts_with(BRANCHES) => branch.into(),
        None if meant.starts_with(b"refs/") => word.to_owned(),
        _ => meant,
    })
}

/// Whether `name` may be the short name of a branch.
pub fn is_branch_name(name: &BStr) -> bool {
    let full = BString::from([BRANCHES, name].concat());
    !name.starts_with(b"-") && name != "HEAD" && is_ref_name(full.as_bstr())
}

/// Whether `name` is well formed as a full ref name.
pub fn is_ref_name(name: &BStr) -> bool {
    refname::check(name, Levels::Two).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_names() {
        for good in ["main", "a/b", "a.b", "@x", "héllo"] {
            assert!(is_branch_name(good.into()), "{good}");
        }
        for bad in [
            "", "-x", "HEAD", "a..b", ".a", "a/.b", "a.lock", "a b", "a~1", "a^", "a:", "x.", "a@{b", "a//b",
            "a/", "\u{7f}",
        ] {
            assert!(!is_branch_name(bad.into()), "{bad}");
        }
    }
}
