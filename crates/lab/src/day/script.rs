//! The script of the day: the acts of all participants, in order. It is identical for both sides
//! and for every run.
//!
//! The user works on branches. The editors run the commands that VS Code
//! (`extensions/git/src/git.ts`) and JetBrains' IDEs (their "Version Control | Console") run. The
//! job checks out as `actions/checkout` does. The agents work in worktrees of their own. Two runs
//! with the same Git must give equal results. Therefore agents change shared state only by adding
//! and removing worktrees.

use std::collections::VecDeque;

/// One step of the script.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// A call of `git` with these arguments, in the repository.
    Git(Vec<String>),
    /// Appends a line to a file.
    Edit(String),
    /// Writes an untracked file.
    Litter(String),
    /// Removes a directory next to the repository.
    Remove(String),
}

/// The properties of the repository that the script depends on.
pub(super) struct WorkingSet {
    /// Tracked regular files that exist on every branch, in the order of their use.
    pub(super) files: Vec<String>,
}

/// Returns the acts of user, editors and job, with `commands` calls of Git.
pub(super) fn day(working_set: &WorkingSet, commands: usize) -> Vec<Act> {
    let mut acts = VecDeque::new();
    let mut files = working_set.files.iter().cycle().cloned();
    let mut round = 0;
    while calls(&acts) < commands {
        let mut take = || files.next().expect("a repository with files");
        user(&mut acts, round, [take(), take(), take()]);
        code(&mut acts, round, &take());
        jetbrains(&mut acts, round, [take(), take()]);
        if round.is_multiple_of(4) {
            job(&mut acts, round);
        }
        round += 1;
    }
    while calls(&acts) > commands {
        acts.pop_back();
    }
    acts.into()
}

fn calls(acts: &VecDeque<Act>) -> usize {
    acts.iter().filter(|act| matches!(act, Act::Git(_))).count()
}

/// Builds a call from words separated by spaces; `word` replaces `{}`.
fn git(line: &str, word: &str) -> Act {
    Act::Git(line.split(' ').map(|part| part.replace("{}", word)).collect())
}

fn user(acts: &mut VecDeque<Act>, round: usize, [one, two, three]: [String; 3]) {
    let topic = format!("topic-{round}");
    let (dir, _) = one.rsplit_once('/').unwrap_or((".", ""));
    acts.extend([
        git("status", ""),
        git("switch -c {}", &topic),
        Act::Edit(one.clone()),
        Act::Edit(two.clone()),
        git("diff --stat", ""),
        git("add -u", ""),
        git("restore --staged {}", &two),
        git("commit -q -m work", ""),
        git("status --short", ""),
        git("restore {}", &two),
        Act::Edit(three.clone()),
        git("checkout -- {}", &three),
        git("switch main", ""),
        git("log --oneline -5", ""),
        git("merge -q {}", &topic),
        git("switch -", ""),
        git("reset --soft HEAD~1", ""),
        git("reset", ""),
        git("checkout -- .", ""),
        git("checkout change-10", ""),
        git("show --stat HEAD", ""),
        git("checkout -q main", ""),
        git("reset -q --hard HEAD~1", ""),
        git("branch -D {}", &topic),
        Act::Edit(one.clone()),
        git("stash", ""),
        git("switch --detach change-100", ""),
        git("switch -q main", ""),
        git("stash pop", ""),
        // Git refuses this switch: the edited file differs between the branches.
        git("switch old", ""),
        git("switch -m no-such-branch", ""),
        git("checkout -f main", ""),
        git("checkout change-10 -- {}", dir),
        git("restore -SW --source=HEAD {}", dir),
        Act::Litter(format!("litter-{round}")),
        git("clean -n", ""),
        git("clean -f -q", ""),
    ]);
    if round.is_multiple_of(6) {
        acts.extend([git("switch -q old", ""), git("status -s", ""), git("switch -q -", "")]);
    }
}

fn code(acts: &mut VecDeque<Act>, round: usize, file: &str) {
    let branch = format!("code-{round}");
    acts.extend([
        git("rev-parse --show-toplevel", ""),
        git("rev-parse --git-dir --git-common-dir", ""),
        git("config --get commit.template", ""),
        git("status -z -uall", ""),
        git("symbolic-ref --short HEAD", ""),
        git("for-each-ref --sort=-committerdate --format=%(refname)%00%(objectname)%00%(*objectname)", ""),
        git("remote --verbose", ""),
        git("checkout -q -b {} --no-track main", &branch),
        Act::Edit(file.to_owned()),
        git("ls-files --stage -- {}", file),
        git("show --textconv :{}", file),
        git("add -A -- {}", file),
        git("reset -q HEAD -- {}", file),
        git("diff-index --cached --name-status -z HEAD --", ""),
        git("checkout -q -- {}", file),
        Act::Litter(format!("{file}.orig")),
        git("clean -f -q -- {}.orig", file),
        git("checkout -q main --", ""),
        git("branch -D {}", &branch),
        git("worktree list --porcelain", ""),
    ]);
}

fn jetbrains(acts: &mut VecDeque<Act>, round: usize, [one, two]: [String; 2]) {
    const ALWAYS: &str = "-c credential.helper= -c core.quotepath=false -c log.showSignature=false";
    let own = |line: &str, word: &str| git(&format!("{ALWAYS} {line}"), word);
    let branch = format!("idea-{round}");
    acts.extend([
        own("rev-parse --abbrev-ref --symbolic-full-name HEAD", ""),
        own("status --porcelain -z --untracked-files=no", ""),
        own("checkout -b {} main --", &branch),
        Act::Edit(one.clone()),
        Act::Edit(two.clone()),
        own("add --ignore-errors -A -f -- {}", &one),
        own("restore --staged --worktree --source=HEAD -- {}", &one),
        own("commit -q -m idea --only -- {}", &two),
        own("checkout main --", ""),
        own("checkout --force {}", &branch),
        own("reset --hard main", ""),
        own("checkout main", ""),
        own("branch -D {}", &branch),
    ]);
}

fn job(acts: &mut VecDeque<Act>, round: usize) {
    let (place, clone) = (format!("../job-{round}"), format!("../clone-{round}"));
    acts.extend([
        git("worktree add --detach {} change-100", &place),
        git(&format!("-C {place} checkout --progress --force -B job refs/remotes/origin/main"), ""),
        git(&format!("-C {place} log -1 --format=%H"), ""),
        git(&format!("-C {place} checkout-index -f -a"), ""),
        git(&format!("-C {place} clean -ffdx"), ""),
        git(&format!("-C {place} reset --hard HEAD"), ""),
        git(&format!("-C {place} read-tree -m -u HEAD"), ""),
        git("worktree remove --force {}", &place),
        git("worktree prune", ""),
        git("branch -q -D job", ""),
        git("clone -q --shared --branch change-10 . {}", &clone),
        git(&format!("-C {clone} checkout -q --detach origin/main"), ""),
        Act::Remove(clone),
    ]);
}

/// Returns the acts of one agent, which creates worktrees, works in them and removes them.
pub(super) fn agent(working_set: &WorkingSet, number: usize, rounds: usize) -> Vec<Act> {
    let mut acts = Vec::new();
    for round in 0..rounds {
        let branch = format!("agent-{number}-{round}");
        let place = format!("../{branch}");
        let file = &working_set.files[(number * rounds + round) % working_set.files.len()];
        let inside = |line: &str| git(&format!("-C {place} {line}"), file);
        acts.extend([
            git(&format!("worktree add -b {branch} {place} change-10"), ""),
            Act::Edit(format!("{place}/{file}")),
            inside("status --porcelain"),
            inside("add {}"),
            inside("commit -q -m agent"),
            inside("switch -q --detach change-100"),
            inside("checkout -q -"),
            Act::Edit(format!("{place}/{file}")),
            inside("restore {}"),
            inside("reset -q --hard HEAD~1"),
            Act::Litter(format!("{place}/litter")),
            inside("clean -fdq"),
            git("worktree remove --force {}", &place),
        ]);
    }
    acts
}

/// Returns the acts that add and remove a worktree that exists for as long as the agents run.
/// Without it, Git would remove the directory of all worktrees together with the last worktree, and
/// a concurrent `git worktree add` would fail.
pub(super) fn keeper() -> [Act; 2] {
    [
        git("worktree add -q --detach --no-checkout ../keeper main", ""),
        git("worktree remove --force ../keeper", ""),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_calls_as_asked_for() {
        let working_set = WorkingSet { files: vec!["a".into(), "dir/b".into()] };
        for commands in [1, 70, 500] {
            assert_eq!(calls(&day(&working_set, commands).into()), commands);
        }
    }
}
