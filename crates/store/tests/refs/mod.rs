use std::{collections::BTreeMap, fs, path::Path};

use bstr::{BString, ByteSlice};
use format::{HashKind, ObjectId};
use proptest::prelude::*;
use store::{
    Fsync, Wait,
    refs::{self, Change, Expected, Locks, LogPolicy, Options, PackedRef},
};
use testkit::{Repo, Sandbox};

mod entries;
mod random;
mod transaction;

const COMMITTER: &str = "C O Mitter <committer@example.com> 1112911993 -0700";

/// Two identical repositories with three commits, branch `main` at the last one, and a tag object.
struct Twins {
    sandbox: Sandbox,
    commits: Vec<ObjectId>,
}

impl Twins {
    fn new() -> Twins {
        let sandbox = Sandbox::new();
        for name in ["git", "ours"] {
            let repo = sandbox.init(name);
            for message in ["one", "two", "three"] {
                repo.commit(message);
            }
            repo.git(&["tag", "-a", "-m", "a tag", "annotated"]);
        }
        let listed = sandbox.repo("git").git(&["rev-list", "--reverse", "HEAD"]).stdout;
        let commits =
            listed.lines().map(|hex| ObjectId::from_hex(HashKind::Sha1, hex).expect("a name")).collect();
        Twins { sandbox, commits }
    }

    fn git(&self) -> Repo<'_> {
        self.sandbox.repo("git")
    }

    fn ours(&self) -> Repo<'_> {
        self.sandbox.repo("ours")
    }

    fn both(&self, args: &[&str]) {
        self.git().git(args);
        self.ours().git(args);
    }

    fn options(&self) -> Options {
        let git_dir = self.ours().join(".git");
        Options {
            common_dir: git_dir.clone(),
            display_dir: git_dir.clone(),
            git_dir,
            hash: HashKind::Sha1,
            committer: Ok(COMMITTER.into()),
            log: LogPolicy::Standard,
            fsync: Fsync::default(),
            locks: Locks::default(),
        }
    }

    /// Makes the same change with Git and with this crate. Both must agree on success, on the error
    /// message, and on every byte afterwards.
    fn step(&self, args: &[&str], changes: Vec<Change>) {
        self.step_with(&self.options(), args, changes);
    }

    fn step_with(&self, options: &Options, args: &[&str], changes: Vec<Change>) {
        let run = self.git().try_git(args);
        match refs::apply(options, changes.clone()) {
            Ok(()) => assert_eq!(run.code, 0, "{changes:?} went through, git says: {}", run.stderr),
            Err(error) => {
                assert_ne!(run.code, 0, "{changes:?} went through in git only: {error}");
                let message = error.to_string().replace("/ours/", "/git/");
                assert!(run.stderr.contains_str(&message), "ours: {message}\ngit: {}", run.stderr);
                // Git may leave new directories behind when it fails.
                for repo in [self.git(), self.ours()] {
                    prune(&repo.join(".git/refs/heads"));
                    prune(&repo.join(".git/refs/tags"));
                }
            }
        }
        self.same(&format!("{args:?}"));
    }

    fn same(&self, context: &str) {
        assert_eq!(files(&self.git().join(".git")), files(&self.ours().join(".git")), "{context}");
        let refs = ["for-each-ref", "--format=%(refname) %(objectname) %(*objectname) %(symref)"];
        assert_eq!(self.git().git(&refs).stdout, self.ours().git(&refs).stdout, "{context}");
    }

    fn fsck(&self) {
        let run = self.ours().git(&["fsck", "--no-dangling"]);
        assert!(!run.stderr.contains_str("error") && !run.stderr.contains_str("warning"), "{}", run.stderr);
    }
}

/// Returns all files of refs with their content, and all directories.
fn files(git_dir: &Path) -> BTreeMap<String, BString> {
    fn walk(root: &Path, dir: &Path, found: &mut BTreeMap<String, BString>) {
        for entry in fs::read_dir(dir).into_iter().flatten() {
            let path = entry.expect("reads").path();
            let name = path.strip_prefix(root).expect("below").to_str().expect("plain").to_owned();
            if let Ok(target) = fs::read_link(&path) {
                found.insert(name, format!("-> {}", target.display()).into());
            } else if path.is_dir() {
                walk(root, &path, found);
                found.insert(name, BString::default());
            } else {
                found.insert(name, fs::read(path).expect("reads").into());
            }
        }
    }
    let mut found = BTreeMap::new();
    for name in ["refs", "logs"] {
        walk(git_dir, &git_dir.join(name), &mut found);
    }
    for entry in fs::read_dir(git_dir).expect("reads") {
        let entry = entry.expect("reads");
        let name = entry.file_name().into_string().expect("plain");
        let is_ref = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        if is_ref || name.contains("packed-refs") || name.ends_with(".lock") {
            found.insert(name, fs::read(entry.path()).expect("reads").into());
        }
    }
    found
}

fn git() -> String {
    std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned())
}

fn prune(dir: &Path) {
    for entry in fs::read_dir(dir).expect("reads") {
        let path = entry.expect("reads").path();
        if path.is_dir() {
            prune(&path);
            let _ = fs::remove_dir(path);
        }
    }
}

fn update(name: &str, new: ObjectId, expected: Expected, message: &str) -> Change {
    Change::Update { name: name.into(), new, expected, message: message.into() }
}

fn delete(name: &str, expected: Expected) -> Change {
    Change::Delete { name: name.into(), expected }
}

fn symbolic(name: &str, target: &str, message: &str) -> Change {
    Change::Symbolic {
        name: name.into(),
        target: target.into(),
        message: Some(message.into()),
        old: None,
        new: None,
    }
}

#[test]
fn updates_refs_and_logs() {
    let twins = Twins::new();
    let [one, two, _] = twins.commits[..] else { panic!("three commits") };
    let hex = twins.commits.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (one_hex, two_hex) = (hex[0].as_str(), hex[1].as_str());
    let zero = ObjectId::null(HashKind::Sha1).to_string();
    let step = |args: &[&str], change| twins.step(args, vec![change]);

    // HEAD points to main, so both logs get the line.
    let args = ["update-ref", "-m", "  moved\n\tthere ", "refs/heads/main", one_hex];
    step(&args, update("refs/heads/main", one, Expected::Any, "  moved\n\tthere "));
    // No change of the value, so only HEAD's log gets the line.
    let args = ["update-ref", "-m", "again", "refs/heads/main", one_hex];
    step(&args, update("refs/heads/main", one, Expected::Is(one), "again"));
    let args = ["update-ref", "-m", "new", "refs/heads/side/way", two_hex, &zero];
    step(&args, update("refs/heads/side/way", two, Expected::Missing, "new"));
    let args = ["update-ref", "refs/tags/light", two_hex];
    step(&args, update("refs/tags/light", two, Expected::Any, ""));
    let args = ["update-ref", "ORIG_HEAD", two_hex];
    step(&args, update("ORIG_HEAD", two, Expected::Any, ""));
    let args = ["symbolic-ref", "-m", "checkout: moving", "HEAD", "refs/heads/side/way"];
    step(&args, symbolic("HEAD", "refs/heads/side/way", "checkout: moving"));
    let args = ["update-ref", "--no-deref", "-m", "detach", "HEAD", two_hex];
    step(&args, update("HEAD", two, Expected::Is(two), "detach"));
    // HEAD is already detached at this commit, so nothing changes.
    let args = ["update-ref", "--no-deref", "-m", "detach", "HEAD", two_hex];
    step(&args, update("HEAD", two, Expected::Any, "detach"));
    let args = ["symbolic-ref", "-m", "unborn", "HEAD", "refs/heads/unborn"];
    step(&args, symbolic("HEAD", "refs/heads/unborn", "unborn"));
    let args = ["symbolic-ref", "-m", "back", "HEAD", "refs/heads/main"];
    step(&args, symbolic("HEAD", "refs/heads/main", "back"));
    let args = ["update-ref", "-m", "x", "refs/remotes/origin/main", one_hex];
    step(&args, update("refs/remotes/origin/main", one, Expected::Any, "x"));
    let args = ["symbolic-ref", "-m", "y", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"];
    step(&args, symbolic("refs/remotes/origin/HEAD", "refs/remotes/origin/main", "y"));

    let always = Options { log: LogPolicy::Always, ..twins.options() };
    let args =
        ["-c", "core.logAllRefUpdates=always", "update-ref", "-m", "logged", "refs/tags/light", one_hex];
    twins.step_with(&always, &args, vec![update("refs/tags/light", one, Expected::Any, "logged")]);
    let never = Options { log: LogPolicy::Never, ..twins.options() };
    let args = ["-c", "core.logAllRefUpdates=false", "update-ref", "-m", "z", "refs/heads/quiet", one_hex];
    twins.step_with(&never, &args, vec![update("refs/heads/quiet", one, Expected::Any, "z")]);
    let args = ["-c", "core.logAllRefUpdates=false", "update-ref", "-m", "z", "refs/heads/main", one_hex];
    twins.step_with(&never, &args, vec![update("refs/heads/main", one, Expected::Any, "z")]);
    twins.fsck();
}

#[test]
fn refusals_have_gits_messages_and_change_nothing() {
    let twins = Twins::new();
    let [one, two, three] = twins.commits[..] else { panic!("three commits") };
    let hex = twins.commits.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (one_hex, two_hex, three_hex) = (hex[0].as_str(), hex[1].as_str(), hex[2].as_str());
    let zero = ObjectId::null(HashKind::Sha1).to_string();
    twins.both(&["update-ref", "refs/heads/a/b", one_hex]);
    twins.both(&["update-ref", "refs/heads/packed/b", one_hex]);
    twins.both(&["pack-refs", "--all"]);
    twins.both(&["update-ref", "refs/heads/loose/b", one_hex]);
    let step = |args: &[&str], change| twins.step(args, vec![change]);

    step(
        &["update-ref", "refs/heads/main", one_hex, two_hex],
        update("refs/heads/main", one, Expected::Is(two), ""),
    );
    step(
        &["update-ref", "refs/heads/main", one_hex, &zero],
        update("refs/heads/main", one, Expected::Missing, ""),
    );
    step(
        &["update-ref", "refs/heads/none", one_hex, three_hex],
        update("refs/heads/none", one, Expected::Is(three), ""),
    );
    for parent in ["loose", "packed"] {
        let below = format!("refs/heads/{parent}/b/c");
        step(&["update-ref", &below, one_hex], update(&below, one, Expected::Any, ""));
        let above = format!("refs/heads/{parent}");
        step(&["update-ref", &above, one_hex], update(&above, one, Expected::Any, ""));
    }
    step(
        &["update-ref", "-d", "refs/heads/loose/b", two_hex],
        delete("refs/heads/loose/b", Expected::Is(two)),
    );
    for bad in ["refs/heads/a..b", "refs/heads/.a", "refs/heads/a.lock", "refs/heads/a b"] {
        let error = refs::apply(&twins.options(), vec![update(bad, one, Expected::Any, "")]);
        assert!(matches!(error, Err(refs::Error::BadName { .. })), "{bad}");
    }
    let twice = vec![update("refs/heads/x", one, Expected::Any, ""), delete("refs/heads/x", Expected::Any)];
    assert!(matches!(refs::apply(&twins.options(), twice), Err(refs::Error::Duplicate { .. })));
    // The second change fails, so the first is not made.
    let batch = vec![
        update("refs/heads/first", one, Expected::Missing, ""),
        update("refs/heads/main", one, Expected::Missing, ""),
    ];
    let error = refs::apply(&twins.options(), batch).expect_err("main exists");
    assert_eq!(error.to_string(), "cannot lock ref 'refs/heads/main': reference already exists");
    for names in [["refs/heads/q/r", "refs/heads/q"], ["refs/heads/q", "refs/heads/q/r"]] {
        let batch = names.map(|name| update(name, one, Expected::Any, "")).to_vec();
        let message = refs::apply(&twins.options(), batch).expect_err("one inside the other").to_string();
        let input = names.map(|name| format!("update {name} {one}\n")).concat();
        twins.git().write("input", &input);
        let run =
            twins.git().run(Path::new("sh"), &["-c", &format!("'{}' update-ref --stdin <input", git())]);
        // Older versions look for conflicts in another order.
        if twins.sandbox.git_version() >= (2, 55) {
            assert!(run.stderr.contains_str(&message), "ours: {message}\ngit: {}", run.stderr);
        }
    }
    twins.same("refusals");
}

#[test]
fn removes_loose_and_packed_refs() {
    let twins = Twins::new();
    let hex = twins.commits[0].to_string();
    let names = ["refs/heads/deep/er/one", "refs/heads/deep/er/two", "refs/tags/t", "refs/heads/both"];
    for name in names {
        twins.both(&["update-ref", "-m", "made", name, &hex]);
    }
    twins.both(&["pack-refs", "--all"]);
    let second = twins.commits[1].to_string();
    twins.both(&["update-ref", "-m", "moved", "refs/heads/both", &second]);
    for name in names {
        twins.step(&["update-ref", "-d", name], vec![delete(name, Expected::Any)]);
    }
    twins.step(
        &["update-ref", "-d", "refs/heads/missing/one"],
        vec![delete("refs/heads/missing/one", Expected::Any)],
    );
    // The branch that HEAD points to is deleted.
    twins.step(&["update-ref", "-d", "refs/heads/main"], vec![delete("refs/heads/main", Expected::Any)]);
    // Removing refs frees their names for directories and files alike.
    let one = twins.commits[0];
    for name in ["refs/heads/deep", "refs/heads/both/below"] {
        twins.step(&["update-ref", "-m", "m", name, &hex], vec![update(name, one, Expected::Missing, "m")]);
    }
    twins.fsck();
}

#[test]
fn replaces_empty_directories() {
    let twins = Twins::new();
    let one = twins.commits[0];
    for repo in [twins.git(), twins.ours()] {
        fs::create_dir_all(repo.join(".git/refs/heads/x/y/z")).expect("made");
        fs::create_dir_all(repo.join(".git/logs/refs/heads/x/y")).expect("made");
    }
    let hex = one.to_string();
    twins.step(
        &["update-ref", "-m", "m", "refs/heads/x", &hex],
        vec![update("refs/heads/x", one, Expected::Missing, "m")],
    );
}

#[test]
fn packs_many_refs_like_git() {
    let twins = Twins::new();
    let tag = twins.git().git(&["rev-parse", "annotated"]).stdout;
    let tag = ObjectId::from_hex(HashKind::Sha1, tag.trim_ascii()).expect("a name");
    let main = twins.commits[2];
    let mut refs: Vec<PackedRef> = (0..500)
        .map(|number| PackedRef {
            name: format!("refs/tags/v{number}").into(),
            oid: if number % 2 == 0 { main } else { tag },
            peeled: (number % 2 == 1).then_some(main),
        })
        .chain([
            PackedRef { name: "refs/heads/main".into(), oid: main, peeled: None },
            PackedRef { name: "refs/tags/annotated".into(), oid: tag, peeled: Some(main) },
        ])
        .collect();
    refs.sort_by(|left, right| left.name.cmp(&right.name));
    for new in refs.iter().filter(|new| new.name != "refs/heads/main") {
        twins.git().git(&["update-ref", &new.name.to_string(), &new.oid.to_string()]);
    }
    twins.git().git(&["pack-refs", "--all"]);
    let halves: (Vec<_>, Vec<_>) = refs.into_iter().enumerate().partition(|(index, _)| index % 3 == 0);
    for half in [halves.0, halves.1] {
        let half: Vec<_> = half.into_iter().map(|(_, new)| new).collect();
        refs::write_packed(&twins.options(), &half).expect("written");
    }
    let packed = |repo: Repo<'_>| repo.read(".git/packed-refs");
    assert_eq!(packed(twins.git()), packed(twins.ours()));
    twins.fsck();
    twins.both(&["pack-refs", "--all"]);
    // Each packed ref is found, and no other.
    let options = twins.options();
    for number in [0, 1, 99, 250, 499] {
        let name = format!("refs/tags/v{number}");
        twins.step(
            &["update-ref", "-d", &name],
            vec![delete(&name, Expected::Is(if number % 2 == 0 { main } else { tag }))],
        );
    }
    let together = ["refs/tags/a", "refs/tags/a-b", "refs/tags/a/b"].map(|name| PackedRef {
        name: name.into(),
        oid: main,
        peeled: None,
    });
    assert!(matches!(refs::write_packed(&options, &together), Err(refs::Error::Together { .. })));
}

#[test]
fn keeps_the_traits_of_older_files() {
    let twins = Twins::new();
    let (main, tag) = (twins.commits[2], twins.ours().git(&["rev-parse", "annotated"]).stdout);
    let tag = tag.trim_ascii().as_bstr();
    let path = twins.ours().join(".git/packed-refs");
    fs::write(&path, format!("# pack-refs with: peeled \n{tag} refs/tags/z\n^{main}\n{main} refs/heads/gone\n{main} refs/heads/a\n"))
        .expect("written");
    refs::apply(&twins.options(), vec![delete("refs/heads/gone", Expected::Is(main))]).expect("removed");
    let expected =
        format!("# pack-refs with: peeled sorted \n{main} refs/heads/a\n{tag} refs/tags/z\n^{main}\n");
    assert_eq!(twins.ours().read(".git/packed-refs"), expected);
    twins.fsck();
    for malformed in ["x\n", "# other header\n", "0123 refs/heads/a\n", &format!("{main} refs/heads/a")] {
        fs::write(&path, malformed).expect("written");
        let error = refs::apply(&twins.options(), vec![delete("refs/heads/a", Expected::Any)]);
        assert!(matches!(error, Err(refs::Error::MalformedPackedRefs { .. })), "{malformed:?}: {error:?}");
    }
    assert!(!twins.ours().exists(".git/packed-refs.lock"));
}

#[test]
fn worktrees_have_their_own_head_and_share_branches() {
    let twins = Twins::new();
    twins.git().git(&["worktree", "add", "-q", "-b", "other", "../tree-git", "main"]);
    twins.ours().git(&["worktree", "add", "-q", "-b", "other", "../tree-ours", "main"]);
    let one = twins.commits[0];
    let own = twins.ours().join(".git/worktrees/tree-ours");
    let options = Options { git_dir: own.clone(), ..twins.options() };
    let tree = twins.sandbox.repo("tree-git");
    let hex = one.to_string();
    for (args, change) in [
        (
            ["update-ref", "-m", "m", "refs/heads/other", &hex],
            update("refs/heads/other", one, Expected::Any, "m"),
        ),
        (
            ["update-ref", "-m", "m", "refs/bisect/bad", &hex],
            update("refs/bisect/bad", one, Expected::Any, "m"),
        ),
        (["update-ref", "-m", "m", "ORIG_HEAD", &hex], update("ORIG_HEAD", one, Expected::Any, "m")),
        (["symbolic-ref", "-m", "m", "HEAD", "refs/heads/third"], symbolic("HEAD", "refs/heads/third", "m")),
    ] {
        tree.git(&args);
        refs::apply(&options, vec![change]).expect("applied");
        twins.same(&format!("{args:?}"));
        let theirs = files(&twins.git().join(".git/worktrees/tree-git"));
        assert_eq!(theirs, files(&own), "{args:?}");
    }
}

/// A link to a file is read as that file, and is replaced by a file. A link that represents a
/// symbolic ref is followed.
#[test]
fn reads_and_replaces_symbolic_links() {
    let links = [
        ("to-file", "main"),
        ("to-nowhere", "nowhere"),
        ("to-directory", "full"),
        ("to-empty", "empty"),
        ("to-itself", "to-itself"),
        ("symbolic", "refs/heads/to-file"),
    ];
    let twins = Twins::new();
    let one = twins.commits[0];
    for repo in [twins.git(), twins.ours()] {
        let heads = repo.join(".git/refs/heads");
        fs::create_dir_all(heads.join("empty")).expect("made");
        fs::create_dir_all(heads.join("full")).expect("made");
        fs::copy(heads.join("main"), heads.join("full/ref")).expect("copied");
        for (name, target) in links {
            std::os::unix::fs::symlink(target, heads.join(name)).expect("made");
        }
    }
    for expected in [Expected::Is(one), Expected::Missing, Expected::Any] {
        for (name, _) in links {
            let name = format!("refs/heads/{name}");
            let (new, null) = (twins.commits[1].to_string(), ObjectId::null(HashKind::Sha1).to_string());
            let old = match expected {
                Expected::Any => None,
                Expected::Missing => Some(null),
                Expected::Is(oid) => Some(oid.to_string()),
            };
            let args = ["update-ref", "-m", "m", &name, &new];
            let args: Vec<&str> = args.into_iter().chain(old.as_deref()).collect();
            twins.step(&args, vec![update(&name, twins.commits[1], expected, "m")]);
        }
    }
}

#[test]
fn symbolic_refs_are_followed_and_logged() {
    let twins = Twins::new();
    let [one, two, three] = twins.commits[..] else { panic!("three commits") };
    let alias = |from: &str, to: &str| {
        let (from, to) = (format!("refs/heads/{from}"), format!("refs/heads/{to}"));
        twins.both(&["symbolic-ref", "-m", "alias", &from, &to]);
    };
    alias("alias", "main");
    alias("again", "alias");
    alias("unborn", "new/one");
    let step = |name: &str, new: ObjectId, expected: Expected| {
        let name = format!("refs/heads/{name}");
        let old = match expected {
            Expected::Any => None,
            Expected::Missing => Some(ObjectId::null(HashKind::Sha1).to_string()),
            Expected::Is(oid) => Some(oid.to_string()),
        };
        let new_hex = new.to_string();
        let args = ["update-ref", "-m", "m", &name, &new_hex];
        let args: Vec<&str> = args.into_iter().chain(old.as_deref()).collect();
        twins.step(&args, vec![update(&name, new, expected, "m")]);
    };
    for head in ["main", "alias", "again"] {
        alias_head(&twins, head);
        for name in ["alias", "again", "main"] {
            step(name, two, Expected::Any);
            step(name, two, Expected::Any);
            step(name, one, Expected::Is(three));
            step(name, one, Expected::Is(two));
            step(name, three, Expected::Missing);
        }
    }
    step("unborn", one, Expected::Is(two));
    step("unborn", one, Expected::Missing);
    step("unborn", two, Expected::Missing);
    twins.fsck();
}

fn alias_head(twins: &Twins, branch: &str) {
    let branch = format!("refs/heads/{branch}");
    twins.step(&["symbolic-ref", "-m", "to", "HEAD", &branch], vec![symbolic("HEAD", &branch, "to")]);
}

#[test]
fn waits_for_a_held_lock_and_names_it() {
    let twins = Twins::new();
    let one = twins.commits[0];
    let lock = twins.ours().join(".git/refs/heads/main.lock");
    fs::write(&lock, "").expect("written");
    let error = refs::apply(&twins.options(), vec![update("refs/heads/main", one, Expected::Any, "")]);
    let message = error.expect_err("locked").to_string();
    let expected =
        format!("cannot lock ref 'refs/heads/main': Unable to create '{}': File exists.\n\n", lock.display());
    assert!(message.starts_with(&expected), "{message}");
    let release = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::remove_file(lock).expect("removed");
    });
    // On a busy machine the other thread may wait longer than the default of 100 ms.
    let locks = Locks { loose: Wait::Millis(120_000), ..Locks::default() };
    let patient = Options { locks, ..twins.options() };
    refs::apply(&patient, vec![update("refs/heads/main", one, Expected::Any, "")]).expect("free in time");
    release.join().expect("does not panic");
}
