//! The names of Git's builtin commands. An alias cannot override them, so their arguments can be
//! parsed without the configuration.

/// Returns true if `name` is a builtin. The list is that of the newest Git, sorted; a test compares
/// it with Git's.
pub(crate) fn is_builtin(name: &[u8]) -> bool {
    BUILTINS.binary_search_by(|builtin| builtin.as_bytes().cmp(name)).is_ok()
}

#[rustfmt::skip]
const BUILTINS: &[&str] = &[
    "add", "am", "annotate", "apply", "archive", "backfill", "bisect", "blame", "branch", "bugreport",
    "bundle", "cat-file", "check-attr", "check-ignore", "check-mailmap", "check-ref-format", "checkout",
    "checkout--worker", "checkout-index", "cherry", "cherry-pick", "clean", "clone", "column", "commit",
    "commit-graph", "commit-tree", "config", "count-objects", "credential", "credential-cache",
    "credential-cache--daemon", "credential-store", "describe", "diagnose", "diff", "diff-files",
    "diff-index", "diff-pairs", "diff-tree", "difftool", "fast-export", "fast-import", "fetch",
    "fetch-pack", "fmt-merge-msg", "for-each-ref", "for-each-repo", "format-patch", "format-rev", "fsck",
    "fsck-objects", "fsmonitor--daemon", "gc", "get-tar-commit-id", "grep", "hash-object", "help",
    "history", "hook", "index-pack", "init", "init-db", "interpret-trailers", "last-modified", "log",
    "ls-files", "ls-remote", "ls-tree", "mailinfo", "mailsplit", "maintenance", "merge", "merge-base",
    "merge-file", "merge-index", "merge-ours", "merge-recursive", "merge-recursive-ours",
    "merge-recursive-theirs", "merge-subtree", "merge-tree", "mktag", "mktree", "multi-pack-index", "mv",
    "name-rev", "notes", "pack-objects", "pack-redundant", "pack-refs", "patch-id", "pickaxe", "prune",
    "prune-packed", "pull", "push", "range-diff", "read-tree", "rebase", "receive-pack", "reflog", "refs",
    "remote", "remote-ext", "remote-fd", "repack", "replace", "replay", "repo", "rerere", "reset",
    "restore", "rev-list", "rev-parse", "revert", "rm", "send-pack", "shortlog", "show", "show-branch",
    "show-index", "show-ref", "sparse-checkout", "stage", "stash", "status", "stripspace",
    "submodule--helper", "switch", "symbolic-ref", "tag", "unpack-file", "unpack-objects", "update-index",
    "update-ref", "update-server-info", "upload-archive", "upload-archive--writer", "upload-pack",
    "url-parse", "var", "verify-commit", "verify-pack", "verify-tag", "version", "whatchanged", "worktree",
    "write-tree",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_and_found() {
        assert!(BUILTINS.is_sorted());
        assert!(is_builtin(b"status") && is_builtin(b"add") && is_builtin(b"write-tree"));
        assert!(!is_builtin(b"co") && !is_builtin(b""));
    }
}
