//! `count-objects` compared with Git.

use testkit::Oracle;

use crate::SAPWOOD;

#[test]
fn prints_what_git_prints() {
    let scripts = [
        "true",
        "git gc -q",
        "git repack -q",
        "git repack -q; echo 3 >c; git add c; git commit -qm 2; git repack -q; git multi-pack-index write",
        "rm -rf .git/objects; mkdir .git/objects",
        "echo x >.git/objects/pack/tmp_pack_x; echo y >.git/objects/pack/pack-1.idx; echo z >.git/objects/pack/p.keep",
        "git repack -q; echo x >.git/objects/pack/pack-2.pack; mkdir -p .git/objects/00; echo >.git/objects/00/nonsense",
        "mkdir -p .git/objects/11/00000000000000000000000000000000000000",
        "git clone -q --bare . .git/other; echo \"$PWD/.git/other/objects\" >.git/objects/info/alternates",
        "echo /nowhere >.git/objects/info/alternates",
        "git worktree add -q .git/linked; touch .git/worktrees/linked/config",
    ];
    scripts.into_iter().for_each(compare);
}

/// Each directory has at most one file whose place in the directory decides about the order.
#[test]
fn reports_garbage_in_gits_order() {
    let garbage = "cd .git/objects; mkdir -p 00 ff ../other; echo >00/junk; echo >ff/junk; echo >pack/junk; \
        touch pack/p.keep pack/a.idx pack/a.idx.pack pack/b.pack pack/b.x.idx pack/pack-0.mtimes; \
        git clone -q --bare ../.. ../other; cd ../other/objects; echo >pack/junk; touch pack/x.idx; \
        mkdir -p 00; echo >00/junk; cd ../../objects";
    let alternates = "(echo /nowhere; echo \"$PWD/../other/objects\") >info/alternates";
    let repack = "git -C ../.. repack -q";
    for more in ["true", alternates, repack, &format!("{repack}; {alternates}")] {
        compare(&format!("{garbage}; {more}"));
        compare(&format!("{garbage}; {more}; rm -rf [0-9a-f][0-9a-f]"));
    }
}

/// Compares all forms of the command in a repository that a script has changed.
#[track_caller]
fn compare(script: &str) {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.write("a", "1\n");
        repo.write("dir/b", "2\n");
        repo.commit("one");
        let mut shell = repo.command("sh".as_ref());
        let made = shell.args(["-ec", script]).output().expect("a shell");
        assert!(made.status.success(), "{script}: {}", String::from_utf8_lossy(&made.stderr));
    });
    for options in [&[][..], &["-v"], &["-H"], &["-vH"], &["x"], &["--no-verbose"]] {
        let args = [&["count-objects"], options].concat();
        oracle.same_as(script, &args);
        if script.contains("worktree") {
            oracle.same_in(".git/linked", &args);
        }
    }
}
