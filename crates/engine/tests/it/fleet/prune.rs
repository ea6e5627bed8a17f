//! Pruning: what is kept, what is removed, and pushes and pulls beside it.

use std::{
    collections::HashSet,
    time::{Duration, SystemTime},
};

use engine::base_transfer::{lease, prune, records};

use super::*;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn options(keep: usize, days: u32) -> prune::Options {
    prune::Options { now: SystemTime::now() + DAY * days, ..prune::Options::new(keep) }
}

fn pruned(remote: &Remote, options: &prune::Options) -> prune::Report {
    prune::prune(remote, options, &AtomicBool::new(false)).expect("pruned")
}

fn named(remote: &Remote, commits: &[ObjectId]) -> HashSet<PathBuf> {
    let root = remote.directory().expect("a directory");
    let manifests =
        commits.iter().map(|commit| records::manifest(remote, commit).expect("read").expect("there"));
    let files = manifests.flat_map(|read| read.manifest.files().collect::<Vec<_>>());
    files.map(|file| root.join(file.digest.path())).collect()
}

#[test]
fn the_newest_the_leased_and_the_young_are_kept() {
    let sandbox = Sandbox::new();
    let (source, remote) = (project(&sandbox), remote_in(&sandbox));
    let sender = Host::at(source.path.clone());
    let push_options = push::Options { branch: Some("main".into()), ..push::Options::default() };
    let mut commits = Vec::new();
    for round in 0..5 {
        let head = change(&source, 20, round);
        sender.push(&remote, head, &push_options);
        commits.push(head);
    }
    let stray = remote.directory().expect("a directory").join("data/00");
    let _ = fs::create_dir(&stray);
    fs::write(stray.join("00".repeat(32)), "of a killed push").expect("written");
    let young = pruned(&remote, &options(1, 0));
    assert_eq!((young.commits.len(), young.files, young.kept), (0, 0, 5));
    lease::write(&remote, &commits[1], "host 1", 3 * DAY).expect("written");
    let dry = prune::Options { dry_run: true, ..options(2, 2) };
    let would = pruned(&remote, &dry);
    let done = pruned(&remote, &options(2, 2));
    assert_eq!(done, would);
    let mut gone: Vec<String> = [0, 2].map(|at: usize| commits[at].to_string()).into();
    gone.sort();
    assert_eq!((done.commits, done.kept), (gone, 3));
    assert_eq!(
        data(&remote).into_keys().collect::<HashSet<_>>(),
        named(&remote, &[commits[1], commits[3], commits[4]])
    );
    for (at, name) in [(1, "leased"), (4, "newest")] {
        let host = Host::new(&sandbox, name);
        let (base, _) = host.pull(&remote, commits[at]).expect("pulled");
        check(&source, &host, &base, commits[at]);
    }
    let error = Host::new(&sandbox, "gone").pull(&remote, commits[0]).expect_err("it is gone");
    assert!(matches!(error, Error::NoBase { .. }), "{error}");
    // The lease ends.
    let done = pruned(&remote, &options(1, 4));
    assert_eq!((done.leases, done.kept), (1, 1));
    assert_eq!(lease::list(&remote).expect("read"), []);
    // A branch keeps its newest base however old that is.
    assert_eq!(pruned(&remote, &options(1, 1000)).kept, 1);
}

#[test]
fn a_push_renews_what_it_uses_again_and_a_pull_explains_a_prune() {
    let sandbox = Sandbox::new();
    let (source, remote) = (project(&sandbox), remote_in(&sandbox));
    let sender = Host::at(source.path.clone());
    let first = commit(&source, "HEAD");
    sender.push(&remote, first, &push::Options::default());
    // All of it is as old as a day and a half, by the manifest and by the files.
    let old = SystemTime::now() - DAY * 3 / 2;
    let age = |path: &Path| {
        let touched = Command::new("touch").args(["-d", "36 hours ago"]).arg(path).status();
        assert!(touched.expect("touch runs").success());
    };
    let record = remote.directory().expect("a directory").join(format!("commits/{first}"));
    let mut manifest = records::manifest(&remote, &first).expect("read").expect("there").manifest;
    let seconds = old.duration_since(SystemTime::UNIX_EPOCH).expect("later").as_secs();
    manifest.time = seconds;
    manifest.tables.iter_mut().for_each(|table| table.renewed = seconds);
    manifest.packs.iter_mut().for_each(|pack| pack.renewed = seconds);
    fs::write(&record, manifest.to_bytes()).expect("written");
    data(&remote).keys().for_each(|path| age(path));
    age(&record);
    let second = change(&source, 5, 1);
    let after = push::Options { after: vec![first], ..push::Options::default() };
    let pushed = sender.push(&remote, second, &after);
    assert_eq!(pushed.contents, 5);
    // A prune that begins before the manifest is there, and therefore does not know it.
    fs::rename(record.with_file_name(second.to_string()), sandbox.path().join("aside")).expect("moved");
    let report = pruned(&remote, &options(1, 0));
    assert_eq!((report.commits.len(), report.files), (1, 0), "{report:?}");
    fs::rename(sandbox.path().join("aside"), record.with_file_name(second.to_string())).expect("moved");
    let host = Host::new(&sandbox, "host");
    let (base, _) = host.pull(&remote, second).expect("pulled");
    check(&source, &host, &base, second);
    // The base goes away in the middle of a pull.
    let late = Host { connections: 1, ..Host::new(&sandbox, "late") };
    let remove = |progress: Progress| {
        if progress.phase == base_transfer::Phase::Tables {
            pruned(&remote, &options(1, 9));
        }
    };
    let error = late.pull_with(&remote, second, &pull::Options::default(), &remove).expect_err("it is gone");
    assert!(matches!(error, Error::Pruned { .. }), "{error}");
    assert!(error.to_string().contains(&second.to_string()));
}

#[test]
fn a_damaged_record_ends_a_prune_before_it_removes_anything() {
    let sandbox = Sandbox::new();
    let (source, remote) = (project(&sandbox), remote_in(&sandbox));
    let sender = Host::at(source.path.clone());
    let push_options = push::Options { branch: Some("main".into()), ..push::Options::default() };
    for round in 0..2 {
        sender.push(&remote, change(&source, 5, round), &push_options);
    }
    lease::write(&remote, &commit(&source, "HEAD"), "a", 2 * DAY).expect("written");
    let root = remote.directory().expect("a directory").to_owned();
    let before = data(&remote);
    for kind in ["commits", "branches", "leases"] {
        let entry = fs::read_dir(root.join(kind)).expect("listed").next().expect("one").expect("an entry");
        let bytes = fs::read(entry.path()).expect("read");
        fs::write(entry.path(), "{").expect("written");
        let error = prune::prune(&remote, &options(9, 3), &AtomicBool::new(false)).expect_err("damaged");
        assert!(error.to_string().contains(entry.file_name().to_str().expect("UTF-8")), "{error}");
        assert_eq!(data(&remote), before);
        fs::write(entry.path(), bytes).expect("written");
    }
    assert_eq!(pruned(&remote, &options(9, 3)).kept, 2);
    // A push takes a damaged record of a branch for none.
    let branch = fs::read_dir(root.join("branches")).expect("listed").next().expect("one").expect("an entry");
    fs::write(branch.path(), "{").expect("written");
    let head = change(&source, 5, 7);
    sender.push(&remote, head, &push_options);
    assert_eq!(records::branch(&remote, "main".into()).expect("read").expect("there").commits, [head]);
}
