//! Checks of a repository after a power cut.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use bstr::{BString, ByteSlice as _};

use super::rig::{Found, Program, State, World};
use crate::seen::{Node, tree};

/// Returns the errors found. Empty if there are none.
pub(super) fn verify(world: &World, found: &Found<'_>, program: Program) -> Vec<String> {
    let mut wrong: Vec<String> = found.failed.iter().cloned().collect();
    wrong.extend(empty_files(&found.repo.join(".git")));
    for args in [&["fsck", "--strict", "--no-dangling", "--no-progress"][..], &["status", "--porcelain"]] {
        let run = found.repo.try_git(args);
        if run.code != 0 || !run.stderr.is_empty() {
            wrong.push(format!("git {}: exit {}: {}{}", args[0], run.code, run.stdout, run.stderr));
        }
    }
    let state = match State::of(&found.repo, world.scenario.stored) {
        Ok(state) => state,
        Err(error) => {
            wrong.push(error);
            return wrong;
        }
    };
    let (old, new) = (&world.states[found.done], world.states.get(found.done + 1));
    wrong.extend(old_or_new(&state, old, new));
    let moved = new.filter(|new| {
        let is_new = |name: &BString| state.refs.get(name) == new.refs.get(name);
        let differing = old.refs.keys().chain(new.refs.keys());
        let mut differing = differing.filter(|name| old.refs.get(*name) != new.refs.get(*name));
        state.index == new.index && old.index != new.index || differing.any(is_new)
    });
    wrong.extend(lost_contents(found, &state, old));
    wrong.extend(moved.into_iter().flat_map(|new| lost_contents(found, &state, new)));
    if wrong.is_empty() && new.is_some() && state == *old {
        wrong.extend(completes(world, found, program));
    }
    wrong
}

/// Finds objects, refs and indexes without content.
pub(crate) fn empty_files(git_dir: &Path) -> Vec<String> {
    let is_temporary = |path: &BString| {
        let is_temporary = |name: &[u8]| name.starts_with(b"tmp_") || name.starts_with(b"bitmap-ref-tips_");
        path.ends_with(b".lock") || path.split_str("/").any(is_temporary)
    };
    let matters = |path: &BString| {
        let single = ["HEAD", "index", "packed-refs", "ORIG_HEAD", "MERGE_HEAD", "config"];
        single.iter().any(|name| *path == *name)
            || path.starts_with(b"objects/")
            || path.starts_with(b"refs/")
    };
    let all = tree(git_dir, true).into_iter();
    let empty = all.filter(|(path, node)| {
        let is_empty = matches!(node, Node::File { content, .. } if content.is_empty());
        is_empty && matters(path) && !is_temporary(path)
    });
    empty.map(|(path, _)| format!("{path} is empty")).collect()
}

/// Checks that the index, each ref and each reflog is in its state before or after the unfinished
/// command.
pub(crate) fn old_or_new(state: &State, old: &State, new: Option<&State>) -> Vec<String> {
    let mut wrong = Vec::new();
    if state.index != old.index && new.is_none_or(|new| state.index != new.index) {
        wrong.push(format!("the index has\n{}and should have\n{}", state.index, old.index));
    }
    let lost = old.objects.difference(&state.objects).count();
    if lost > 0 {
        wrong.push(format!("{lost} objects are lost"));
    }
    let next = new.unwrap_or(old);
    let kept = old.stored.intersection(&next.stored).filter(|name| !state.stored.contains(*name));
    let foreign =
        state.stored.iter().filter(|name| !old.stored.contains(*name) && !next.stored.contains(*name));
    wrong.extend(kept.chain(foreign).map(|name| format!("objects/{name} should be as before or after")));
    let mut compare = |kind: &str, of: fn(&State) -> &BTreeMap<BString, BString>, may_be_empty: bool| {
        let both = [Some(old), new].into_iter().flatten();
        let names: BTreeSet<&BString> = both.chain([state]).flat_map(|state| of(state).keys()).collect();
        // A lock that was removed may reappear: it stays, as after a kill.
        for name in names.into_iter().filter(|name| !name.ends_with(b".lock")) {
            let [is, was, will] =
                [Some(state), Some(old), new].map(|state| state.map(|state| of(state).get(name)));
            let empty = may_be_empty && is.flatten().is_some_and(|content| content.is_empty());
            // A log that the command was just creating.
            let begun = empty && was == Some(None) && will.flatten().is_some();
            if is != was && is != will && !begun {
                wrong.push(format!("{kind} {name} is {is:?}, not {was:?}, nor {will:?}"));
            }
        }
    };
    compare("the ref", |state| &state.refs, false);
    compare("the log", |state| &state.logs, true);
    wrong
}

/// Checks that the content of each file of a state is in the worktree, in the index or in a commit.
fn lost_contents(found: &Found<'_>, state: &State, of: &State) -> Vec<String> {
    let mut missing = Vec::new();
    for (path, node) in &of.files {
        if !state.files.values().any(|other| other == node) {
            missing.push((path, node));
        }
    }
    if missing.is_empty() {
        return Vec::new();
    }
    let reachable = found.repo.try_git(&["rev-list", "--objects", "--all", "--indexed-objects"]).stdout;
    missing.retain(|(_, node)| {
        let content = match node {
            Node::File { content, .. } | Node::Link(content) => content,
        };
        let file = found.repo.join(".git/content");
        fs::write(&file, content).expect("room");
        let oid = found.repo.git(&["hash-object", "--no-filters", ".git/content"]).stdout;
        fs::remove_file(file).expect("just made");
        !reachable.contains_str(oid.trim_end())
    });
    missing.into_iter().map(|(path, _)| format!("the content of {path} is lost")).collect()
}

/// Checks that the unfinished command completes when it runs again. A lock is removed first, as the
/// message recommends.
fn completes(world: &World, found: &Found<'_>, program: Program) -> Vec<String> {
    let git_dir = found.repo.join(".git");
    for path in tree(&git_dir, true).into_keys().filter(|path| path.ends_with(b".lock")) {
        fs::remove_file(git_dir.join(path.to_path_lossy())).expect("it was seen");
    }
    let (code, stderr) = found.run_again(program);
    if code != 0 {
        return vec![format!("again, it ended by {code}: {stderr}")];
    }
    match State::of(&found.repo, world.scenario.stored) {
        Ok(state) if state == world.states[found.done + 1] => Vec::new(),
        Ok(state) => vec![format!("again, it reached {state:?}")],
        Err(error) => vec![error],
    }
}
