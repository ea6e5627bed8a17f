//! Git's explanations if FETCH_HEAD has no commit to merge.

use bstr::{BStr, BString};
use repo::{Repository, keys, keys::Key};

use crate::term::{
    console::{self, text},
    failure::Failure,
};

/// Explains why there is nothing to merge. Returns the exit code.
pub(super) fn none(repo: &Repository, words: &[BString], rebases: bool) -> Result<u8, Failure> {
    let head = repo.head()?;
    let branch = head.branch().and_then(|branch| branch.strip_prefix(b"refs/heads/")).map(BStr::new);
    let of_branch = |key: Key<Option<BString>>| branch.and_then(|branch| repo.config_str(&key.of(branch)));
    let which = if rebases {
        "Please specify which branch you want to rebase against."
    } else {
        "Please specify which branch you want to merge with."
    };
    let see = "See git-pull(1) for details.\n\n    git pull <remote> <branch>\n";
    let (repository, refspecs) = (words.first(), words.get(1..).unwrap_or_default());
    if !refspecs.is_empty() {
        console::eprint_line(if rebases {
            "There is no candidate for rebasing against among the refs that you just fetched."
        } else {
            "There are no candidates for merging among the refs that you just fetched."
        });
        console::eprint_line(
            "Generally this means that you provided a wildcard refspec which had no\n\
             matches on the remote end.",
        );
        return Ok(1);
    }
    match (repository, branch) {
        (Some(asked), Some(_)) if of_branch(keys::branch::REMOTE).as_ref() != Some(asked) => {
            console::eprint_line(text!(
                "You asked to pull from the remote '",
                asked,
                "', but did not specify\n\
                 a branch. Because this is not the default configured remote\n\
                 for your current branch, you must specify a branch on the command line."
            ));
        }
        (_, None) => console::eprint_line(text!("You are not currently on a branch.\n", which, "\n", see)),
        (_, Some(branch)) => match of_branch(keys::branch::MERGE) {
            Some(merge) => console::eprint_line(text!(
                "Your configuration specifies to merge with the ref '",
                merge_source(repo, branch).unwrap_or(merge),
                "'\nfrom the remote, but no such ref was fetched."
            )),
            None => {
                let remote = match repo.remotes().as_slice() {
                    [only] => only.clone(),
                    _ => "<remote>".into(),
                };
                console::eprint_line(text!(
                    "There is no tracking information for the current branch.\n",
                    which,
                    "\n",
                    see,
                    "\nIf you wish to set tracking information for this branch you can do so with:\n\n    \
                     git branch --set-upstream-to=",
                    remote,
                    "/<branch> ",
                    branch,
                    "\n"
                ));
            }
        },
    }
    Ok(1)
}

/// Returns the first ref that a branch is configured to merge.
fn merge_source(repo: &Repository, branch: &BStr) -> Option<BString> {
    repo.config_all(&keys::branch::MERGE.of(branch)).into_iter().next()
}
