//! The requests of a command to a network disk, each of which costs a round trip: never more than
//! Git's.

use std::{
    fs::File,
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

use testkit::{
    Repo, Run, Sandbox,
    weather::{self, Counts, Latency, Mount, Operation, Profile},
};

use crate::SAPWOOD;

const COMMANDS: [&[&str]; 8] = [
    &["status"],
    &["status", "-uno"],
    &["status", "--porcelain=v2", "--branch"],
    &["ls-files"],
    &["ls-files", "-o", "--exclude-standard"],
    &["diff-files"],
    &["diff-index", "HEAD"],
    &["switch", "-q", "main"],
];

#[test]
fn sends_no_more_requests_than_git() {
    if let Err(unusable) = weather::usable() {
        println!("skipped: {unusable}");
        return;
    }
    let sandbox = Sandbox::new();
    let repo = sandbox.init("disk/backing");
    let files = ["top", "dir/one", "dir/deep/two"];
    files.iter().for_each(|file| repo.write(file, "x\n"));
    repo.commit("all");
    repo.git(&["branch", "--no-track", "up"]);
    repo.git(&["commit", "-q", "--allow-empty", "-m", "ahead"]);
    repo.git(&["branch", "-q", "--set-upstream-to", "up"]);
    // Files as new as the index would be read.
    let long_ago = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for file in files {
        File::open(repo.join(file)).and_then(|file| file.set_modified(long_ago)).expect("ours");
    }
    repo.git(&["update-index", "--refresh"]);
    repo.git(&["gc", "-q"]);
    for command in COMMANDS {
        let asked = |run: &dyn Fn(&Repo<'_>) -> Run| -> (Run, Counts) {
            let profile = Profile { latency: Latency::None, ..Profile::nfs() };
            let mount = Mount::new(&profile, &sandbox.path().join("disk")).expect("mounts");
            let before = mount.counts();
            (run(&sandbox.repo("disk/disk")), mount.counts().since(&before))
        };
        let theirs = asked(&|repo| repo.try_git(command));
        let ours = asked(&|repo| repo.run(Path::new(SAPWOOD), command));
        assert_eq!(ours.0, theirs.0, "{command:?}");
        assert!(ours.1.all() <= theirs.1.all(), "{command:?}: {:?}, Git {:?}", ours.1, theirs.1);
    }
}

/// Counts the calls that list directories: the last call, which returns no more entries, would be
/// an additional one for each directory.
#[test]
fn lists_directories_only_up_to_the_last_tracked_name() {
    if let Err(unusable) = weather::usable() {
        println!("skipped: {unusable}");
        return;
    }
    let sandbox = Sandbox::new();
    let repo = sandbox.init("disk/backing");
    for number in 0..40 {
        repo.write(format!("{}/{}/{number}", number % 2, number % 8), "x\n");
    }
    repo.commit("all");
    let mount = Mount::new(&Profile::nfs(), &sandbox.path().join("disk")).expect("mounts");
    let before = mount.counts();
    let told = sandbox.repo("disk/disk").run(Path::new(SAPWOOD), &["status", "--short", "-uno"]);
    assert_eq!((told.code, told.stdout), (0, "".into()));
    let asked = mount.counts().since(&before);
    assert!(asked.of(Operation::Opendir) >= 4, "{asked}");
    // The pack directory is listed to its end.
    assert!(asked.of(Operation::Readdir) <= asked.of(Operation::Opendir) + 1, "{asked}");
}
