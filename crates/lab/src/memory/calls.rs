//! A call of each command that sapwood serves.

/// A step of the table: calls outside of measurements, then the measured one.
pub(super) struct Call {
    /// The command, as in the list of native commands.
    pub(super) command: &'static str,
    /// Shell text before the measured call. `$GIT` is Git, `$FILE` a tracked file.
    pub(super) before: &'static str,
    /// The words of the measured call, with the same variables.
    pub(super) call: &'static str,
}

const fn call(command: &'static str, call: &'static str) -> Call {
    Call { command, before: "", call }
}

const fn after(command: &'static str, before: &'static str, call: &'static str) -> Call {
    Call { command, before, call }
}

const EDIT: &str = "echo edited >>\"$FILE\"";

/// The calls in their order: those that change the tree leave it as they found it, or the next call
/// restores it.
pub(super) const CALLS: &[Call] = &[
    call("status", "status"),
    call("init", "init -q \"$NEW/init\""),
    call("clone", "clone -q \"$SOURCE\" \"$NEW/clone\""),
    call("fetch", "fetch -q origin"),
    call("pull", "pull -q --ff-only origin HEAD"),
    call("checkout", "checkout -q --detach HEAD~1"),
    call("switch", "switch -q -"),
    after("add", EDIT, "add ."),
    after("rm", "$GIT reset -q --hard", "rm -q \"$FILE\""),
    after("mv", "$GIT reset -q --hard", "mv \"$FILE\" moved-by-lab"),
    call("reset", "reset -q --hard"),
    after("restore", EDIT, "restore ."),
    after("clean", "echo new >untracked-by-lab", "clean -fdq"),
    after("commit", EDIT, "commit -qam Edit"),
    after("stash push", EDIT, "stash push -q"),
    call("stash list", "stash list"),
    call("stash apply", "stash apply -q"),
    after("stash pop", "$GIT reset -q --hard", "stash pop -q"),
    after("stash save", EDIT, "stash save -q saved"),
    call("stash branch", "stash branch by-lab"),
    after(
        "stash drop",
        "$GIT reset -q --hard; $GIT switch -q -; echo 1 >>\"$FILE\"; $GIT stash -q",
        "stash drop -q",
    ),
    call("stash clear", "stash clear"),
    after("stash create", EDIT, "stash create"),
    after("stash store", "$GIT branch -f stored $($GIT stash create)", "stash store -q stored"),
    after("worktree add", "$GIT reset -q --hard", "worktree add -q --detach \"$NEW/added\""),
    call("worktree list", "worktree list"),
    call("worktree lock", "worktree lock \"$NEW/added\""),
    call("worktree unlock", "worktree unlock \"$NEW/added\""),
    call("worktree move", "worktree move \"$NEW/added\" \"$NEW/moved\""),
    call("worktree repair", "worktree repair"),
    call("worktree remove", "worktree remove \"$NEW/moved\""),
    call("worktree prune", "worktree prune"),
    call("submodule update", "submodule update --init"),
    call("submodule init", "submodule init"),
    call("read-tree", "read-tree HEAD"),
    call("checkout-index", "checkout-index -aqf"),
    call("sparse-checkout check-rules", "sparse-checkout check-rules --rules-file=/dev/null </dev/null"),
    call("sparse-checkout init", "sparse-checkout init --cone"),
    call("sparse-checkout set", "sparse-checkout set \"$DIR\""),
    call("sparse-checkout list", "sparse-checkout list"),
    call("sparse-checkout add", "sparse-checkout add \"$DIR\""),
    call("sparse-checkout reapply", "sparse-checkout reapply"),
    call("sparse-checkout clean", "sparse-checkout clean -f"),
    call("sparse-checkout disable", "sparse-checkout disable"),
    call("update-index", "update-index --refresh"),
    call("update-ref", "update-ref refs/lab/memory HEAD"),
    call("symbolic-ref", "symbolic-ref refs/lab/symbolic refs/lab/memory"),
    call("hash-object", "hash-object -w \"$FILE\""),
    after("mktree", "$GIT ls-tree HEAD >\"$NEW/tree\"", "mktree <\"$NEW/tree\""),
    call("write-tree", "write-tree"),
    call("commit-tree", "commit-tree -m Commit HEAD^{tree}"),
    call("show-ref", "show-ref"),
    call("for-each-ref", "for-each-ref"),
    call("check-attr", "check-attr -a \"$FILE\""),
    after(
        "check-ignore",
        "mkdir -p .git/info; echo '*.ignored' >.git/info/exclude",
        "check-ignore -v \"$FILE.ignored\"",
    ),
    call("config", "config --list"),
    call("count-objects", "count-objects -v"),
    call("prune-packed", "prune-packed -q"),
    call("multi-pack-index", "multi-pack-index write"),
    call("index-pack", "index-pack -o \"$NEW/copy.idx\" \"$PACK\""),
    call("commit-graph", "commit-graph write --reachable"),
    call("rev-parse", "rev-parse HEAD"),
    call("diff-files", "diff-files"),
    call("diff-index", "diff-index HEAD"),
    call("ls-files", "ls-files --stage"),
    call("ls-remote", "ls-remote origin"),
];

/// Commands that no table has, each with the reason.
pub(super) const LEFT_OUT: &[(&str, &str)] =
    &[("submodule--helper update", "an inner command of `submodule update`")];
