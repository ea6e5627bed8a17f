//! `fetch` compared with Git: refs, reflogs, FETCH_HEAD, shallow file, messages and exit codes.
//!
//! Each copy of the repository has its own server in a directory next to it.

use testkit::{Oracle, Repo};

use crate::SAPWOOD;

/// Creates the server, clones it, and adds commits on the server.
const HISTORY: &str = "
git init -q --initial-branch=main ../server
(
    cd ../server
    for n in 1 2 3 4; do echo $n >file; git add file; git commit -qm $n; done
    git tag v1 HEAD~2
    git tag -a -m 'a tag' v2 HEAD~1
    git branch topic
    git branch rewound
    git branch dir/gone
)
git remote add origin ../server
git fetch -q
git switch -q -c main --track origin/main
(
    cd ../server
    echo 5 >file; git commit -qam 5
    git tag -a -m 'another tag' v3
    git branch new
    git branch -f rewound HEAD~3
    git branch -D -q dir/gone
    git tag -f v1 HEAD~1 2>/dev/null
)
";

fn oracle(script: &str) -> Oracle {
    Oracle::new(SAPWOOD, |repo| shell(repo, &[HISTORY, script].concat()))
}

fn shell(repo: &Repo<'_>, script: &str) {
    let made = repo.command("sh".as_ref()).args(["-ec", script]).output().expect("a shell");
    assert!(made.status.success(), "{script}: {}", String::from_utf8_lossy(&made.stderr));
}

/// Runs one command in both copies and compares everything.
#[track_caller]
fn same(script: &str, args: &[&str]) {
    let oracle = oracle(script);
    oracle.same_as(script, args);
    for file in ["FETCH_HEAD", "shallow"] {
        let read = |repo: Repo<'_>| std::fs::read(repo.join(format!(".git/{file}"))).ok();
        assert_eq!(read(oracle.git()), read(oracle.ours()), "{script} {args:?}: {file}");
    }
    for directory in ["pack", "info/commit-graphs"] {
        let seen = |repo: Repo<'_>| beside(&repo.join(".git/objects").join(directory));
        assert_eq!(seen(oracle.git()), seen(oracle.ours()), "{script} {args:?}: {directory}");
    }
    let checked = oracle.ours().git(&["fsck", "--no-dangling"]);
    assert_eq!(checked.stdout, "", "{script} {args:?}");
    let kept = std::fs::read_dir(oracle.ours().join(".git/objects/pack")).expect("a directory");
    let names = kept.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned());
    let odd: Vec<String> = names.filter(|name| name.starts_with("tmp_") || name.ends_with(".keep")).collect();
    assert!(odd.is_empty(), "{script} {args:?}: {odd:?}");
}

/// Returns the files of a directory. A pack's files are listed by suffix only, because the bytes of
/// a pack may differ. A `.promisor` file is listed with its content.
fn beside(directory: &std::path::Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut seen: Vec<String> = entries
        .map(|entry| {
            let path = entry.expect("readable").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            match path.extension().map(|extension| extension.to_string_lossy().into_owned()) {
                Some(extension) if name.starts_with("pack-") && extension == "promisor" => {
                    format!("promisor {}", String::from_utf8_lossy(&std::fs::read(&path).expect("readable")))
                }
                Some(extension) if name.starts_with("pack-") => extension,
                _ => name,
            }
        })
        .collect();
    seen.sort();
    seen
}

#[test]
fn fetches_what_the_configuration_names() {
    for args in [
        &["fetch"][..],
        &["fetch", "-v"],
        &["fetch", "-q"],
        &["fetch", "origin"],
        &["fetch", "--prune"],
        &["fetch", "--prune", "--atomic"],
        &["fetch", "--dry-run", "--prune"],
        &["fetch", "--tags"],
        &["fetch", "--tags", "--force"],
        &["fetch", "--no-tags"],
        &["fetch", "--prune-tags", "--prune"],
        &["fetch", "--append"],
        &["fetch", "--no-write-fetch-head"],
        &["fetch", "--prefetch"],
        &["fetch", "--refetch"],
        &["fetch", "--keep"],
        &["fetch", "--porcelain", "-v"],
        &["fetch", "--no-show-forced-updates"],
        &["fetch", "--depth=1"],
        &["fetch", "--set-upstream"],
        &["-c", "fetch.output=compact", "fetch"],
        &["-c", "remote.origin.tagOpt=--no-tags", "fetch"],
        &["-c", "remote.origin.followRemoteHEAD=never", "fetch"],
        &["-c", "fetch.unpackLimit=1", "fetch"],
    ] {
        same("", args);
    }
}

#[test]
fn fetches_what_the_command_line_names() {
    for args in [
        &["fetch", "origin", "main"][..],
        &["fetch", "origin", "main:other", "+rewound:refs/heads/r"],
        &["fetch", "origin", "rewound:refs/remotes/origin/rewound"],
        &["fetch", "origin", "main:main"],
        &["fetch", "-u", "origin", "main:main"],
        &["fetch", "../server"],
        &["fetch", "../server", "refs/heads/*:refs/heads/q/*", "^refs/heads/topic"],
        &["fetch", "origin", "tag", "v3"],
        &["fetch", "origin", "tag"],
        &["fetch", "origin", "nosuch"],
        &["fetch", "nosuch"],
        &["fetch", "origin", "a b"],
        &["fetch", "origin", "main:x", "topic:x"],
        &["fetch", "--refmap=refs/heads/*:refs/mine/*", "origin", "main"],
        &["fetch", "--refmap=", "origin", "main"],
        &["fetch", "--set-upstream", "origin", "new"],
        &["fetch", "origin", "v2:tagged", "main:other"],
        &["fetch", "--depth=0"],
        &["fetch", "--unshallow"],
        &["-c", "fetch.output", "fetch"],
    ] {
        same("", args);
    }
    let nowhere = "1234567890123456789012345678901234567890:x";
    same("", &["-c", "protocol.version=0", "fetch", "origin", nowhere]);
}

#[test]
fn follows_tags_of_what_has_arrived() {
    let tags =
        "(cd ../server; git tag old; git commit -q --allow-empty -m 6; git tag -a -m seven seven main~2)";
    same(tags, &["fetch", "origin", "HEAD:branch"]);
    same(&["git fetch -q --depth=1 origin; ", tags].concat(), &["fetch", "--deepen=1"]);
}

#[test]
fn keeps_symbolic_refs() {
    for target in ["main", "nothing"] {
        let link = format!("git symbolic-ref refs/remotes/origin/topic refs/remotes/origin/{target}");
        oracle(&link).same_as(&link, &["fetch"]);
    }
}

#[test]
fn continues_after_a_failed_ref() {
    let conflict = "(cd ../server; git branch dir)";
    same(conflict, &["fetch"]);
    same(conflict, &["fetch", "--atomic"]);
    same(conflict, &["fetch", "--prune"]);
    let locked = "mkdir -p .git/refs/remotes/origin; touch .git/refs/remotes/origin/new.lock";
    same(locked, &["fetch"]);
    same(locked, &["fetch", "--atomic"]);
}

#[test]
fn changes_where_history_is_cut_off() {
    let shallow = "git fetch -q --depth=2 origin";
    for args in [
        &["fetch"][..],
        &["fetch", "--unshallow"],
        &["fetch", "--deepen=1"],
        &["fetch", "--depth=1"],
        &["fetch", "--depth=100"],
        &["fetch", "--depth=2", "--deepen=1"],
    ] {
        same(shallow, args);
    }
    // A tag of a commit at the old boundary arrives by a separate request.
    let tagged = [shallow, "; git -C ../server tag -a -m old old main~1"].concat();
    same(&tagged, &["fetch", "--deepen=1"]);
    let by_name = "git -C ../server config uploadpack.allowRefInWant true";
    same(by_name, &["fetch", "origin", "main", "new:new", "rewound:other"]);
}

#[test]
fn runs_the_hook_of_refs() {
    let hook = "mkdir -p .git/hooks
        printf '#!/bin/sh\\necho $1 >&2; cat >&2\\n' >.git/hooks/reference-transaction
        chmod +x .git/hooks/reference-transaction";
    same(hook, &["fetch", "--atomic"]);
    let refusal = "mkdir -p .git/hooks
        printf '#!/bin/sh\\ntest $1 != prepared\\n' >.git/hooks/reference-transaction
        chmod +x .git/hooks/reference-transaction";
    same(refusal, &["fetch", "--atomic"]);
}

#[test]
fn fetches_from_several_remotes() {
    let two = "git remote add two ../server; git config remotes.both 'origin two'";
    for args in [
        &["fetch", "--all"][..],
        &["fetch", "--multiple", "origin", "two"],
        &["fetch", "both"],
        &["fetch", "both", "main"],
        &["fetch", "--multiple", "nosuch"],
        &["fetch", "--all", "origin"],
        &["fetch", "--all", "--atomic"],
    ] {
        same(two, args);
    }
    let bad = "git remote add bad ../nowhere; git remote add two ../server";
    same(bad, &["fetch", "--all"]);
}

#[test]
fn fetches_without_all_objects() {
    let server = "git -C ../server config uploadpack.allowFilter true
        git -C ../server config uploadpack.allowAnySHA1InWant true\n";
    let config = "git config core.repositoryFormatVersion 1; git config remote.origin.promisor true
        git config remote.origin.partialCloneFilter blob:none\n";
    let partial = [server, config].concat();
    for args in [
        &["fetch"][..],
        &["fetch", "--refetch", "--filter=tree:0"],
        &["fetch", "--no-filter"],
        &["fetch", "--filter=blob:limit=1k", "origin", "new"],
        &["-c", "fetch.unpackLimit=1", "fetch"],
    ] {
        same(&partial, args);
    }
    for args in [
        &["fetch", "--filter=blob:none"][..],
        &["fetch", "--filter=junk"],
        &["fetch", "--filter=blob:none", "--multiple", "origin", "../server"],
    ] {
        same(server, args);
    }
    same("", &["fetch", "--filter=blob:none"]);
    // A local commit becomes promised, because it is reachable from a promised one.
    let pushed = "git commit -q --allow-empty -m mine; git push -q origin HEAD:refs/heads/mine
        git -C ../server commit-tree -p mine -m theirs mine^{tree} >../id
        git -C ../server update-ref refs/heads/mine $(cat ../id)";
    same(&[&partial, pushed].concat(), &["fetch"]);
}

#[test]
fn restricts_and_cuts_off_history() {
    for args in [
        &["fetch", "--shallow-since=@1112911993 +0000"][..],
        &["fetch", "--shallow-since=noon of January 6 1995"],
        &["fetch", "--shallow-since=last friday"],
        &["fetch", "--shallow-exclude=refs/heads/topic", "origin", "main"],
        &["fetch", "--negotiation-tip=main", "--negotiation-tip=refs/remotes/origin/*"],
        &["fetch", "--negotiation-tip=nosuch", "--negotiation-restrict=no*such"],
        &["fetch", "--negotiate-only", "--negotiation-tip=main", "origin"],
        &["fetch", "--negotiate-only", "origin"],
        &["fetch", "--negotiate-only", "--negotiation-tip=main", "--multiple", "origin", "../server"],
        &["fetch", "--negotiation-include=main", "--negotiation-include=nosuch", "--negotiation-tip=main~1"],
        &["-c", "remote.origin.negotiationInclude=no*such", "fetch"],
        &["fetch", "--write-commit-graph"],
        &["-c", "fetch.writeCommitGraph=true", "fetch", "--no-write-commit-graph"],
        &["-c", "fetch.writeCommitGraph=true", "fetch", "--all"],
    ] {
        same("", args);
    }
}

#[test]
fn fetches_from_bundles() {
    let bundles = "git -C ../server bundle create -q ../all.bundle --all
        git -C ../server bundle create -q ../last.bundle main~1..main
        echo 6 >../server/file; git -C ../server commit -qam 6
        git -C ../server bundle create -q ../next.bundle main~1..main
        git remote add bundle ../last.bundle";
    for args in [
        &["fetch", "../all.bundle"][..],
        &["fetch", "../all.bundle", "refs/heads/*:refs/heads/b/*"],
        &["fetch", "-q", "bundle"],
        &["fetch", "../next.bundle", "main"],
        &["fetch", "--depth=1", "--keep", "bundle", "main"],
        &["fetch", "bundle", "nosuch"],
    ] {
        same(bundles, args);
    }
}
