//! The files of the object directory, compared with Git.

use sapwood::{
    Silent,
    object_files::{count, prune_packed},
};
use testkit::{Repo, Sandbox};

use crate::{Heard, open};

/// A repository with loose objects, a pack, and objects in both.
fn filled(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.init("repo");
    repo.write("a", "1\n");
    repo.commit("one");
    repo.git(&["repack", "-a", "-q"]);
    repo.write("a", "2\n");
    repo.commit("two");
    repo.write(".git/objects/pack/junk", "x");
    repo.write(".git/objects/11/junk", "xyz");
    repo
}

fn counted(repo: &Repo<'_>, heard: &Heard) -> count::Report {
    let repository = open(repo);
    let plan = count::plan(&repository, count::Request { verbose: true }).expect("a plan");
    plan.run(heard).expect("numbers")
}

#[test]
fn counts_what_git_counts() {
    let sandbox = Sandbox::new();
    let repo = filled(&sandbox);
    let said = repo.git(&["count-objects", "-v"]);
    let heard = Heard::default();
    let report = counted(&repo, &heard);
    let kilobytes = |bytes: u64| bytes / 1024;
    let ours = format!(
        "count: {}\nsize: {}\nin-pack: {}\npacks: {}\nsize-pack: {}\nprune-packable: {}\ngarbage: {}\n\
         size-garbage: {}\n",
        report.loose,
        kilobytes(report.loose_size),
        report.packed,
        report.packs,
        kilobytes(report.pack_size),
        report.prunable,
        report.garbage,
        kilobytes(report.garbage_size),
    );
    assert_eq!(ours, said.stdout);
    let mut warnings: Vec<String> = heard.0.borrow().iter().map(|line| format!("warning: {line}")).collect();
    let stderr = said.stderr.to_string();
    let mut theirs: Vec<&str> = stderr.lines().collect();
    warnings.sort();
    theirs.sort();
    assert_eq!(warnings, theirs);
    assert_eq!((report.prunable, report.garbage), (3, 2));
}

#[test]
fn prunes_what_git_prunes() {
    let sandbox = Sandbox::new();
    let repo = filled(&sandbox);
    let listed = repo.git(&["prune-packed", "--dry-run"]).stdout.to_string().replace("rm -f ", "");
    let repository = open(&repo);
    let plan = prune_packed::plan(&repository).expect("a plan");
    assert_eq!(plan.to_string(), listed);
    assert_eq!(counted(&repo, &Heard::default()).prunable, 3);
    // An object whose pack is gone by then stays.
    let files = plan.files().len();
    assert_eq!(plan.run(&Silent).expect("it runs").files.len(), files);
    assert_eq!(counted(&repo, &Heard::default()).prunable, 0);
    assert_eq!(repo.git(&["fsck", "--full"]).code, 0);
    assert_eq!(repo.git(&["prune-packed", "--dry-run"]).stdout, "");
}

/// The pack of a planned removal goes away before the run.
#[test]
fn an_object_without_its_pack_stays() {
    let sandbox = Sandbox::new();
    let repo = filled(&sandbox);
    let repository = open(&repo);
    let plan = prune_packed::plan(&repository).expect("a plan");
    assert!(!plan.files().is_empty());
    drop(plan);
    let packs = std::fs::read_dir(repo.join(".git/objects/pack")).expect("packs");
    packs.flatten().for_each(|file| std::fs::remove_file(file.path()).expect("removed"));
    let repository = open(&repo);
    assert!(prune_packed::plan(&repository).expect("a plan").files().is_empty());
}
