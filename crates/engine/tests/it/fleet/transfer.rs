//! A push and a pull carry over everything, and the next ones carry over what changed.

use super::*;

fn options(branch: &str) -> push::Options<'static> {
    push::Options { branch: Some(branch.into()), ..push::Options::default() }
}

#[test]
fn a_host_gets_what_git_checks_out_and_pays_for_changes_only() {
    let sandbox = Sandbox::new();
    let (source, remote) = (project(&sandbox), remote_in(&sandbox));
    let (sender, host) = (Host::at(source.path.clone()), Host::new(&sandbox, "host"));
    let first = commit(&source, "HEAD");
    let pushed = sender.push(&remote, first, &options("main"));
    assert!(!pushed.was_there && pushed.contents > 500 && pushed.known == 0, "{pushed:?}");
    assert_eq!(pushed.bytes, data(&remote).values().sum::<u64>());
    let (base, cold) = host.pull(&remote, first).expect("pulled");
    check(&source, &host, &base, first);
    // The attributes came in the pack.
    assert_eq!((cold.packs, cold.contents, cold.known), (1, pushed.contents, 1));

    let again = sender.push(&remote, first, &options("main"));
    assert_eq!(again, push::Report { was_there: true, ..push::Report::default() });
    let (_, again) = host.pull(&remote, first).expect("pulled");
    assert_eq!((again.requests, again.bytes, again.known), (0, 0, pushed.contents + 1));

    let second = change(&source, 100, 1);
    let pushed = sender.push(&remote, second, &options("main"));
    assert_eq!((pushed.contents, pushed.segments), (100, 1));
    let (base, next) = host.pull(&remote, second).expect("pulled");
    check(&source, &host, &base, second);
    // The manifest, and: a pack, a table, a range.
    assert_eq!((next.contents, next.packs, next.requests), (100, 1, 3));
    assert!(next.bytes * 50 < cold.bytes, "{next:?} after {cold:?}");
    // The history goes on from the base before.
    let log = ["rev-list", "--count", &second.to_string()];
    let count = source.git_command().current_dir(&host.repository).args(log).output().expect("git runs");
    assert_eq!(count.stdout.trim(), b"2");

    // A new host gets the second base at once.
    let other = Host::new(&sandbox, "other");
    let (base, report) = other.pull(&remote, second).expect("pulled");
    check(&source, &other, &base, second);
    assert_eq!(report.packs, 2);
}

#[test]
fn two_pushes_at_once_and_repeated_ones_write_the_same_files() {
    let sandbox = Sandbox::new();
    let source = project(&sandbox);
    let head = commit(&source, "HEAD");
    let remotes = ["one", "two"].map(|name| remote_at(&sandbox.path().join(name)));
    Host::at(source.path.clone()).push(&remotes[0], head, &options("main"));
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (remote, source, sandbox) = (&remotes[1], &source, &sandbox);
            scope.spawn(move || {
                let bases = Bases::at(&sandbox.path().join(format!("bases{number}")));
                let sender = Host::with_bases(source.path.clone(), bases);
                sender.push(remote, head, &options("main"))
            });
        }
    });
    let names = |remote: &Remote| {
        let root = remote.directory().expect("a directory");
        data(remote)
            .into_keys()
            .map(|path| path.strip_prefix(root).expect("below").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&remotes[0]), names(&remotes[1]));
    let host = Host::new(&sandbox, "host");
    let (base, _) = host.pull(&remotes[1], head).expect("pulled");
    check(&source, &host, &base, head);
    let branch = base_transfer::records::branch(&remotes[1], "main".into()).expect("read").expect("there");
    assert_eq!(branch.commits, [head]);
}

#[test]
fn many_small_pushes_are_put_together() {
    let sandbox = Sandbox::new();
    let (source, remote) = (sandbox.init("source"), remote_in(&sandbox));
    source.write("many/0/file0", "");
    source.write("large", noise(5 << 20, 3));
    for number in 0..600 {
        source.write(format!("other/{number}"), format!("{number}\n"));
    }
    source.commit("one");
    let sender = Host::at(source.path.clone());
    let mut most = (0, 0);
    for round in 0..40 {
        // Each round adds a file, so each segment is still of use.
        source.write(format!("new/{round}"), format!("{round}"));
        source.git(&["add", "new"]);
        let head = change(&source, 1, round);
        sender.push(&remote, head, &options("main"));
        let read = base_transfer::records::manifest(&remote, &head).expect("read").expect("there");
        most = (most.0.max(read.manifest.packs.len()), most.1.max(read.manifest.tables.len()));
    }
    assert_eq!(most, (16, 34));
    let head = commit(&source, "HEAD");
    let host = Host::new(&sandbox, "host");
    let (base, report) = host.pull(&remote, head).expect("pulled");
    assert!(report.requests < 40, "{report:?}");
    check(&source, &host, &base, head);
    let known = base_transfer::records::branch(&remote, "main".into()).expect("read").expect("there").commits;
    assert_eq!((known.len(), known[0]), (32, head));
    let nearest = |tip| {
        let found = base_transfer::records::nearest(&remote, "main".into(), tip).expect("read");
        found.map(|read| read.manifest.commit)
    };
    assert_eq!(nearest(Some(&known[7])), Some(known[7]));
    assert_eq!(nearest(Some(&ObjectId::null(HashKind::Sha1))), Some(head));
    assert!(base_transfer::records::nearest(&remote, "no".into(), None).expect("read").is_none());
}

#[test]
fn a_partial_clone_keeps_the_depth_and_a_complete_repository_gets_all_blobs() {
    let sandbox = Sandbox::new();
    let (source, remote) = (project(&sandbox), remote_in(&sandbox));
    let head = change(&source, 3, 1);
    let depth = std::num::NonZeroU32::new(2);
    let sender = Host::at(source.path.clone());
    sender.push(&remote, head, &push::Options { depth, ..options("main") });
    let git = |host: &Host, args: &[&str]| {
        let ran = source.git_command().current_dir(&host.repository).args(args).output().expect("git runs");
        assert!(ran.status.success(), "{}", ran.stderr.as_bstr());
        ran.stdout
    };
    let complete = Host::at(sandbox.init("complete").path);
    let ends = [(Host::new(&sandbox, "partial"), "HEAD~1", "2"), (complete, "HEAD", "1")];
    for (host, end, count) in &ends {
        let (_, report) = host.pull(&remote, head).expect("pulled");
        assert_eq!(report.packs, 1);
        let shallow = fs::read_to_string(host.repository.join(".git/shallow")).expect("read");
        assert_eq!(shallow.trim(), commit(&source, end).to_string());
        git(host, &["update-ref", "refs/heads/new", &head.to_string()]);
        git(host, &["fsck"]);
        assert_eq!(git(host, &["rev-list", "--count", &head.to_string()]).trim().as_bstr(), *count);
    }
    let [(partial, ..), (complete, ..)] = &ends;
    let missing = |host: &Host| {
        let missing = git(host, &["rev-list", "--objects", "--missing=print", &head.to_string()]);
        missing.lines().filter(|line| line.starts_with(b"?")).count()
    };
    assert!(missing(partial) > 0);
    assert_eq!(missing(complete), 0);
    // A repository that has everything needs contents, and those it has as objects itself.
    let full = sandbox.repo("full");
    source.git(&["clone", "-q", ".", "../full"]);
    let full = Host::at(full.path);
    let (base, report) = full.pull(&remote, head).expect("pulled");
    assert_eq!((report.packs, report.contents, report.bytes), (0, 0, 0));
    assert!(!full.repository.join(".git/shallow").exists());
    check(&source, &full, &base, head);
}

#[test]
fn changed_trees_travel_as_deltas_against_the_packs_before() {
    let sandbox = Sandbox::new();
    let (source, remote) = (project(&sandbox), remote_in(&sandbox));
    let (sender, host) = (Host::at(source.path.clone()), Host::new(&sandbox, "host"));
    let first = commit(&source, "HEAD");
    sender.push(&remote, first, &options("main"));
    host.pull(&remote, first).expect("pulled");
    // One entry in a tree of 86, which has 2.8 KB that do not compress.
    let second = change(&source, 1, 1);
    sender.push(&remote, second, &options("main"));
    let read = base_transfer::records::manifest(&remote, &second).expect("read").expect("there");
    let pack = read.manifest.packs[1].file;
    assert!(pack.size < 1000, "{pack:?}");

    // `gc` removed what the deltas need.
    let packs = host.repository.join(".git/objects/pack");
    fs::remove_dir_all(&packs).expect("removed");
    fs::create_dir(&packs).expect("created");
    let (base, report) = host.pull(&remote, second).expect("pulled");
    assert_eq!(report.packs, 2);
    check(&source, &host, &base, second);
    let other = Host::at(sandbox.init("complete").path);
    other.pull(&remote, first).expect("pulled");
    let (base, report) = other.pull(&remote, second).expect("pulled");
    assert_eq!(report.packs, 1);
    check(&source, &other, &base, second);
}
