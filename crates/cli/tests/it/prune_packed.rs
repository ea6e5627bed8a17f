//! `prune-packed`, run as `git` and compared with Git.

use testkit::Oracle;

use crate::{
    multi_pack_index::{same_objects, shell},
    shim::Shim,
};

const FIRST: &str = "git config gc.auto 0; git config maintenance.auto false; echo 1 >a; echo 2 >b; git add .; git commit -qm one; git repack -q; echo 3 >c; git add c";

#[test]
fn removes_what_git_removes() {
    let scripts = [
        "true",
        "git multi-pack-index write",
        "git repack -adq",
        "rm .git/objects/pack/*.idx",
        "rm -rf .git/objects/pack",
        "mkdir -p .git/objects/00; echo >.git/objects/00/nonsense; mkdir .git/objects/01",
        "git clone -q --bare . .git/other; rm -rf .git/objects/pack/*; echo ../other/objects >.git/objects/info/alternates; git -C .git/other repack -q",
        // The replacement is packed, the object itself is not.
        "git replace $(git rev-parse :c) $(git rev-parse HEAD:a)",
    ];
    let shim = Shim::new();
    for script in scripts {
        let oracle = Oracle::new(&shim.program(), |repo| shell(repo, &format!("{FIRST}\n{script}")));
        for options in [&["-n"][..], &["-q", "--dry-run"], &["--no-quiet"], &[]] {
            let args = [&["prune-packed"], options].concat();
            oracle.same_as(script, &args);
            shim.was_native(&args);
            same_objects(&oracle, script);
        }
    }
}

#[test]
fn an_unreadable_directory_ends_the_work() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), |repo| {
        shell(
            repo,
            &format!("{FIRST}\nfor n in 20 21; do rm -rf .git/objects/$n; done; echo >.git/objects/20"),
        );
    });
    oracle.same(&["prune-packed"]);
    shim.was_native(&["prune-packed"]);
    same_objects(&oracle, "a file in the place of a directory");
    oracle.same(&["prune-packed", "x"]);
    shim.was_handed_over(&["prune-packed", "x"], "too many arguments");
}
