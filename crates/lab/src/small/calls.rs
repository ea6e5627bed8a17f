//! The calls of an editor, a prompt and an agent.

/// A caller, with the calls that it makes in a worktree.
pub(super) struct Caller {
    pub(super) name: &'static str,
    pub(super) calls: [&'static str; 20],
}

/// The calls as words after `git`, separated by blanks. Each succeeds again and again in the same
/// state: a worktree with one changed, one staged and one untracked file. `{file}` is a tracked
/// file without changes, `{changed}` the changed one, `{staged}` the staged one.
pub(super) const CALLERS: [Caller; 3] = [
    Caller {
        name: "editor",
        calls: [
            "rev-parse --show-toplevel",
            "rev-parse --git-dir --git-common-dir",
            "config --get-regexp ^user\\.",
            "config --local --list",
            "status --porcelain -z",
            "status -z -uall",
            "status --porcelain=v2 --branch -z",
            "ls-files --stage -- {file}",
            "ls-files -z --others --exclude-standard",
            "show :{file}",
            "cat-file -s HEAD:{file}",
            "diff --no-ext-diff -U0 -- {changed}",
            "diff-files --name-status -z",
            "for-each-ref --sort=-committerdate --format=%(refname) refs/heads",
            "symbolic-ref --short HEAD",
            "log -1 --format=%H",
            "check-ignore -v {file}.ignored",
            "hash-object {changed}",
            "stash list",
            "worktree list --porcelain",
        ],
    },
    Caller {
        name: "prompt",
        calls: [
            "rev-parse --is-inside-work-tree",
            "rev-parse --git-dir",
            "rev-parse --abbrev-ref HEAD",
            "rev-parse --short HEAD",
            "rev-parse --verify HEAD",
            "rev-parse --is-bare-repository --is-inside-git-dir",
            "symbolic-ref -q HEAD",
            "status --porcelain --branch",
            "status --porcelain -uno",
            "status --short",
            "--no-optional-locks status --porcelain=v2 --branch",
            "diff --no-ext-diff --shortstat",
            "diff --cached --shortstat",
            "ls-files --unmerged",
            "config --get user.name",
            "config --bool --default true bash.showDirtyState",
            "describe --tags --always",
            "for-each-ref --count=1 refs/heads",
            "show-ref --head",
            "count-objects",
        ],
    },
    Caller {
        name: "agent",
        calls: [
            "status",
            "status --short --branch",
            "diff",
            "diff --stat",
            "diff --cached",
            "diff HEAD --name-only",
            "log --oneline -5",
            "log -1 --stat",
            "show --stat HEAD",
            "branch --show-current",
            "branch --list",
            "ls-files",
            "ls-tree -r --name-only HEAD",
            "rev-parse HEAD",
            "add --dry-run .",
            "add {staged}",
            "commit --dry-run",
            "checkout HEAD -- {file}",
            "restore --staged {file}",
            "blame -s {file}",
        ],
    },
];

/// Returns the words of a call with these files in the places of their names.
pub(super) fn words(call: &str, file: &str, changed: &str, staged: &str) -> Vec<String> {
    let place =
        |word: &str| word.replace("{file}", file).replace("{staged}", staged).replace("{changed}", changed);
    call.split(' ').map(place).collect()
}
