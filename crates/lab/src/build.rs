//! The build of a program: the commit that `--version` prints.

use std::path::Path;

use crate::{Error, measure::must};

/// Parses the commit from `sapwood version 0.1.0 (<commit>, <target>)`. A program that was built
/// from changed sources says so with `-dirty` after the commit.
pub(crate) fn commit(version: &str) -> Option<&str> {
    let (_, inner) = version.lines().next()?.trim_end().strip_suffix(')')?.split_once(" (")?;
    let word = inner.split([',', ' ']).next()?;
    let id = word.strip_suffix(DIRTY).unwrap_or(word);
    let is_id = id.len() >= 7 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then_some(word)
}

/// The mark of a build from changed sources.
const DIRTY: &str = "-dirty";

/// Returns the commit of a program that may be measured, or the reason why it may not.
pub(crate) fn measurable(version: &str) -> Result<&str, String> {
    match commit(version) {
        None => Err(format!(
            "`{}` names no commit; `cargo build --release` in a clone makes a program that does",
            version.trim()
        )),
        Some(commit) if commit.ends_with(DIRTY) => {
            Err(format!("the program was built from changed sources of {commit}"))
        }
        Some(commit) => Ok(commit),
    }
}

/// Returns the reason why these sources do not describe a program of this commit, if there is one.
pub(crate) fn objection(sources: &Path, commit: &str) -> Result<Option<String>, Error> {
    let git = |args: &[&str]| must(Path::new("git"), args, sources);
    let changed = git(&["status", "--porcelain", "--untracked-files=normal"])?;
    if let Some(line) = String::from_utf8_lossy(&changed).lines().next() {
        return Ok(Some(format!("the tree has changes that no commit holds: `{}`", line.trim())));
    }
    let head = git(&["rev-parse", "--verify", "HEAD"])?;
    let head = String::from_utf8_lossy(&head).trim().to_owned();
    Ok((!head.starts_with(commit))
        .then(|| format!("the program is of commit {commit}, the tree of {}: build it again", &head[..12])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_read_from_the_version() {
        let known = "sapwood version 0.1.0 (0123456789ab, x86_64-unknown-linux-gnu)\n";
        assert_eq!(commit(known), Some("0123456789ab"));
        assert_eq!(commit("sapwood version 0.1.0 (0123456789ab x86_64)"), Some("0123456789ab"));
        for unknown in ["sapwood version 0.1.0", "sapwood version 0.1.0 (x86_64-unknown-linux-gnu)"] {
            assert_eq!(commit(unknown), None);
            assert!(measurable(unknown).expect_err("no commit").contains("names no commit"));
        }
        let dirty = "sapwood version 0.1.0 (0123456789ab-dirty, x86_64-unknown-linux-gnu)";
        assert!(measurable(dirty).expect_err("changed").contains("changed sources"));
        assert_eq!(measurable(known), Ok("0123456789ab"));
    }
}
