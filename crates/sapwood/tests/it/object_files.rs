//! The files of the object directory, compared with Git.

use sapwood::{
    Silent,
    object_files::{count, prune_packed},
};
use testkit::{
    Repo, Sandbox,
    disk::{Disk, Format},
};

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
    let files = plan.files().len();
    assert_eq!(plan.run(&Silent).expect("it runs").files.len(), files);
    assert_eq!(counted(&repo, &Heard::default()).prunable, 0);
    assert_eq!(repo.git(&["fsck", "--full"]).code, 0);
    assert_eq!(repo.git(&["prune-packed", "--dry-run"]).stdout, "");
}

/// The packs of a planned removal go away before the run.
#[test]
fn an_object_without_its_pack_stays() {
    let sandbox = Sandbox::new();
    let repo = filled(&sandbox);
    let repository = open(&repo);
    let plan = prune_packed::plan(&repository).expect("a plan");
    assert!(!plan.files().is_empty());
    let packs = std::fs::read_dir(repo.join(".git/objects/pack")).expect("packs");
    packs.flatten().for_each(|file| std::fs::remove_file(file.path()).expect("removed"));
    let files = plan.files().to_vec();
    assert!(plan.run(&Silent).expect("it runs").files.is_empty());
    assert!(files.iter().all(|file| repo.path.join(file).exists()));
}

/// A file that the file system keeps is reported, and is not in the report of what was removed.
#[test]
fn a_file_that_stays_is_no_result() {
    testkit::need_program("chattr");
    let sandbox = Sandbox::new();
    let disk = sandbox.path().join("disk");
    std::fs::create_dir(&disk).expect("made");
    let image = sandbox.path().join("image");
    let Some(_disk) = Disk::on_file(Format::Ext4, 64, &image, &disk) else { return };
    let repo = sandbox.init("disk/repo");
    repo.write("a", "1\n");
    repo.commit("one");
    repo.git(&["repack", "-a", "-q"]);
    let repository = open(&repo);
    let plan = prune_packed::plan(&repository).expect("a plan");
    let files = plan.files().to_vec();
    let kept = repo.path.join(&files[0]);
    let dir = kept.parent().expect("a directory");
    let chattr = |mode: &str| {
        let ended = std::process::Command::new("chattr").arg(mode).arg(dir).status();
        assert!(ended.expect("it runs").success());
    };
    chattr("+i");
    let heard = Heard::default();
    let removed = plan.run(&heard).expect("it runs").files;
    chattr("-i");
    assert!(kept.exists() && !removed.contains(&files[0]), "{removed:?}");
    assert_eq!(removed.len(), files.iter().filter(|file| !repo.path.join(file).exists()).count());
    assert!(heard.0.borrow().iter().any(|said| said.contains("unable to unlink")), "{:?}", heard.0);
}

/// Names that are not those of objects or packs.
#[test]
fn other_names_are_counted_as_git_counts() {
    let sandbox = Sandbox::new();
    let repo = filled(&sandbox);
    for dir in ["AA", "zz", "0", "111"] {
        repo.write(format!(".git/objects/{dir}/{}", "1".repeat(38)), "x");
    }
    for name in [".idx", ".pack", "one.idx.idx", "one.idx.pack", "two.keep"] {
        repo.write(format!(".git/objects/pack/{name}"), "x");
    }
    let said = repo.git(&["count-objects", "-v"]);
    let report = counted(&repo, &Heard::default());
    let of = |name: &str| {
        let line = said.stdout.to_string().lines().find_map(|line| line.strip_prefix(name)?.parse().ok());
        line.expect("a number")
    };
    let theirs: [u64; 3] = [of("count: "), of("packs: "), of("garbage: ")];
    assert_eq!([report.loose, report.packs, report.garbage], theirs, "{}", said.stderr);
}
