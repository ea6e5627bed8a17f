//! Objects that exist only in a cruft pack. `gc` prunes them by the times in the pack's `.mtimes`,
//! so a command that needs such an object must store it again, as Git does.

use std::path::Path;

use bstr::ByteSlice as _;
use testkit::{Repo, Run, Sandbox};

use crate::SAPWOOD;

/// Commands that write objects. `$program` is Git, and later sapwood.
const COMMANDS: &[&str] = &[
    "$program hash-object -w new",
    "$program hash-object -w --no-filters --stdin <new",
    "$program -c core.bigFileThreshold=1 hash-object -w new",
    "$program add new",
    "$program -c core.bigFileThreshold=1 add new",
    "$program -c sapwood.packOnAdd=1 add new d",
    "$program add -N new",
    "$program update-index --add new d/x",
    "$program update-index --add new && $program write-tree",
    "git ls-tree HEAD | sed s/a$/b/ | $program mktree",
    "$program commit-tree -m new HEAD^{tree}",
    "$program add d && $program commit -qm new",
    "$program commit -qam new",
    "$program stash create",
    "$program stash -qu",
];

const SETUP: &str = "
    git config core.logAllRefUpdates false && git config gc.auto 0 && git config maintenance.auto false &&
    mkdir d e && echo 1 >a && echo 1 >e/f && git add . && git commit -qm one &&
    echo 2 >>a && echo new >new && echo x >d/x && cp .git/index ../index && cp -a . ../files";

/// Makes all that the command wrote unreachable, and moves it into a cruft pack of a distant time.
const UNDO: &str = "
    git update-ref refs/heads/main $base && git update-ref -d refs/stash &&
    rm -f .git/ORIG_HEAD .git/FETCH_HEAD .git/index .git/info/sparse-checkout .git/config.worktree &&
    cp ../index .git/index && cp ../files/.git/config .git/config && git clean -qfdx && cp -a ../files/[ade]* ../files/new . &&
    find .git/objects -type f -exec touch -d '60 days ago' {} + &&
    git repack -q -d --cruft && ls .git/objects/pack/*.mtimes";

const ALL: &str = "git cat-file --batch-all-objects --batch-check='%(objectname)'";

fn sh(repo: &Repo<'_>, script: &str) -> Run {
    repo.run(Path::new("/bin/sh"), &["-c", script])
}

fn ok(repo: &Repo<'_>, script: &str) -> Vec<String> {
    let run = sh(repo, script);
    assert_eq!(run.code, 0, "{script}: {}", run.stderr);
    run.stdout.lines().map(|line| line.to_str_lossy().into_owned()).collect()
}

#[test]
fn objects_of_a_cruft_pack_are_stored_again() {
    for command in COMMANDS {
        let sandbox = Sandbox::new();
        let repo = sandbox.init("repo");
        ok(&repo, SETUP);
        let base = ok(&repo, "git rev-parse HEAD").concat();
        let before = ok(&repo, ALL);
        ok(&repo, &command.replace("$program", "git"));
        let written: Vec<String> = ok(&repo, ALL).into_iter().filter(|oid| !before.contains(oid)).collect();
        assert!(!written.is_empty(), "{command}");
        let undone = sh(&repo, &UNDO.replace("$base", &base));
        assert_eq!(undone.code, 0, "{command}: {}", undone.stderr);
        let packs = ok(&repo, "git count-objects -v | grep -x 'count: 0'; ls .git/objects/pack/*.mtimes");
        assert!(packs.len() >= 2, "all is packed: {packs:?}");
        ok(&repo, &command.replace("$program", SAPWOOD));
        // A pack that is no longer a cruft pack is kept.
        ok(&repo, "for f in .git/objects/pack/*.mtimes; do test ! -e $f || rm -f ${f%.mtimes}.*; done");
        for oid in written {
            let found = repo.try_git(&["cat-file", "-e", &oid]);
            assert_eq!(found.code, 0, "{command}: {oid} is only in a cruft pack");
        }
    }
}

/// A pack that arrives in a fetch is unpacked, except for objects that are here to stay.
#[test]
fn fetched_objects_of_a_cruft_pack_are_stored_again() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    ok(
        &repo,
        "git config gc.auto 0 && echo 1 >a && git add a && git commit -qm one && git clone -q . ../other &&
         (cd ../other && echo 2 >a && git commit -qam two) && echo 2 | git hash-object -w --stdin &&
         git repack -q -d --cruft && ls .git/objects/pack/*.mtimes",
    );
    ok(&repo, &format!("{SAPWOOD} -c fetch.unpackLimit=100 fetch -q ../other main"));
    ok(&repo, "for f in .git/objects/pack/*.mtimes; do rm -f ${f%.mtimes}.*; done");
    ok(&repo, "git fsck && git cat-file -e FETCH_HEAD:a");
}
