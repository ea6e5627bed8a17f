//! Reads and rewrites indices made by Git. Git must read the same index, and where the format
//! allows no choice, the bytes must be equal.

#![allow(clippy::disallowed_methods)]

use std::fs;

use bstr::{BString, ByteSlice};
use format::{
    HashKind, Mode, ObjectId,
    index::{
        Edit, Flags, Index, NewEntry, Stage, Stat, Version,
        read::{self, Decoded},
        split::Delta,
        write::{self, Part},
    },
};
use testkit::{Repo, Sandbox};

const WRITE: write::Options = write::Options { version: Version::V2, end_of_entries: false, blocks: 0 };

fn decode(repo: &Repo<'_>, file: &str, hash: HashKind) -> Decoded {
    let data = fs::read(repo.join(file)).expect("Git wrote it");
    read::decode(&data, hash, read::Options::new(2, true)).expect("Git wrote it")
}

fn load(repo: &Repo<'_>, hash: HashKind) -> Index {
    let decoded = decode(repo, ".git/index", hash);
    match decoded.base() {
        Some(base) => decoded.merge(decode(repo, &format!(".git/sharedindex.{base}"), hash)),
        None => decoded.finish(),
    }
    .expect("Git wrote it")
}

fn save(repo: &Repo<'_>, index: &Index, options: &write::Options) {
    let file = write::to_vec(index, Part::Whole, options).expect("Git wrote no null object");
    fs::write(repo.join(".git/index"), file).expect("the repository is ours");
}

/// Returns everything that Git prints about an index.
fn shown(repo: &Repo<'_>) -> Vec<BString> {
    let commands: [&[&str]; 5] = [
        &["ls-files", "-s", "-v", "--debug"],
        &["ls-files", "-s", "-f"],
        &["ls-files", "--resolve-undo"],
        &["--no-optional-locks", "status", "--porcelain=v2"],
        &["fsck"],
    ];
    commands.into_iter().map(|command| repo.git(command).stdout).collect()
}

/// Reads and rewrites the index. Returns the file before and after.
fn rewrite(repo: &Repo<'_>, hash: HashKind, options: &write::Options) -> (Vec<u8>, Vec<u8>) {
    let read = || fs::read(repo.join(".git/index")).expect("Git wrote it");
    let (before, bytes_before) = (shown(repo), read());
    save(repo, &load(repo, hash), options);
    let bytes_after = read();
    assert_eq!(shown(repo), before);
    (bytes_before, bytes_after)
}

/// Commits a tree with every kind of entry.
fn populate(repo: &Repo<'_>) {
    for path in ["a", "dir/b", "dir/sub/c", "dir/sub/d", "dir.x", "dir0", "z/y/x/w"] {
        repo.write(path, path);
    }
    repo.write_executable("bin/run", "#!/bin/sh\n");
    repo.symlink("a", "link");
    repo.commit("first");
}

/// Adds flags, stages, a gitlink, and a path too long for the flags.
fn decorate(repo: &Repo<'_>) {
    let head = repo.git(&["rev-parse", "HEAD"]).stdout;
    let blob = repo.git(&["rev-parse", "HEAD:a"]).stdout;
    let (head, blob) = (head.trim_ascii_end().to_str_lossy(), blob.trim_ascii_end().to_str_lossy());
    let long = format!("long/{}", "x".repeat(5000));
    repo.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{head},submodule")]);
    repo.git(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},{long}")]);
    repo.git(&["update-index", "--assume-unchanged", "dir/b"]);
    repo.git(&["update-index", "--skip-worktree", "dir/sub/c"]);
    repo.write("new", "new");
    repo.git(&["add", "-N", "new"]);
}

#[test]
fn rewrites_every_version_and_hash_byte_for_byte() {
    let sandbox = Sandbox::new();
    for (hash, name) in [(HashKind::Sha1, "sha1"), (HashKind::Sha256, "sha256")] {
        for version in ["2", "4"] {
            let repo = sandbox.repo(&format!("{name}-{version}"));
            fs::create_dir(&repo.path).expect("a new directory");
            repo.git(&["init", "-q", "-b", "main", "--object-format", name]);
            repo.git(&["config", "index.version", version]);
            populate(&repo);
            let (before, after) = rewrite(&repo, hash, &WRITE);
            assert_eq!(before, after, "{name}, version {version}");
            decorate(&repo);
            let (before, after) = rewrite(&repo, hash, &WRITE);
            assert_eq!(before, after, "{name}, version {version}, decorated");
            assert_eq!(before[7], if version == "2" { 3 } else { 4 });
        }
    }
}

#[test]
fn keeps_conflicts_and_resolved_stages() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    populate(&repo);
    repo.git(&["checkout", "-q", "-b", "side"]);
    repo.write("a", "theirs");
    repo.write("dir/b", "theirs");
    repo.commit("theirs");
    repo.git(&["checkout", "-q", "main"]);
    repo.write("a", "ours");
    repo.write("dir/b", "ours");
    repo.commit("ours");
    assert_eq!(repo.try_git(&["merge", "-q", "side"]).code, 1);
    assert!(load(&repo, HashKind::Sha1).is_unmerged());
    let (before, after) = rewrite(&repo, HashKind::Sha1, &WRITE);
    assert_eq!(before, after);

    // Git resolves one conflict and the test the other; both can be restored.
    repo.git(&["add", "a"]);
    let (before, after) = rewrite(&repo, HashKind::Sha1, &WRITE);
    assert_eq!(before, after);
    let mut index = load(&repo, HashKind::Sha1);
    let range = index.range_of("dir/b".into());
    assert_eq!(range.len(), 3);
    let ours = index.entries()[range.start + 1];
    assert_eq!(ours.stage, Stage::Ours);
    let merged = NewEntry { stage: Stage::Normal, ..ours.content() };
    index.apply(vec![Edit { path: "dir/b".into(), entries: vec![merged] }]);
    save(&repo, &index, &WRITE);
    let undo = repo.git(&["ls-files", "--resolve-undo"]).stdout;
    assert_eq!(undo.lines().filter(|line| line.ends_with(b"\tdir/b")).count(), 3);
    assert_eq!(undo.lines().filter(|line| line.ends_with(b"\ta")).count(), 3);
    assert_eq!(repo.git(&["ls-files", "-u"]).stdout, "");
}

#[test]
fn writes_the_same_offset_tables_as_git() {
    let sandbox = Sandbox::new();
    for version in ["2", "4"] {
        let repo = sandbox.init(version);
        repo.git(&["config", "index.threads", "3"]);
        repo.git(&["config", "index.version", version]);
        populate(&repo);
        let options = write::Options { end_of_entries: true, blocks: 3, ..WRITE };
        let (before, after) = rewrite(&repo, HashKind::Sha1, &options);
        assert!(before.contains_str("IEOT") && before.contains_str("EOIE"));
        assert_eq!(before, after, "version {version}");
    }
}

#[test]
fn reads_and_writes_an_index_without_a_hash() {
    let sandbox = Sandbox::new();
    if sandbox.git_version() < (2, 40) {
        // Git before 2.40 neither writes nor accepts an index without a hash.
        return;
    }
    let repo = sandbox.init("repo");
    repo.git(&["config", "index.skipHash", "true"]);
    populate(&repo);
    let before = shown(&repo);
    let index = load(&repo, HashKind::Sha1);
    let mut file = write::to_vec(&index, Part::Whole, &WRITE).expect("Git wrote no null object");
    let trailer = file.len() - 20;
    file[trailer..].fill(0);
    assert_eq!(repo.read(".git/index"), file);
    fs::write(repo.join(".git/index"), file).expect("the repository is ours");
    assert_eq!(shown(&repo), before);
}

#[test]
fn keeps_the_untracked_cache_valid() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    populate(&repo);
    repo.write("dir/untracked", "");
    repo.write("other/thing", "");
    repo.write(".gitignore", "ignored\n");
    repo.write("dir/ignored", "");
    for mode in ["normal", "all"] {
        repo.git(&["config", "status.showUntrackedFiles", mode]);
        repo.git(&["config", "core.untrackedCache", "true"]);
        repo.git(&["update-index", "--force-untracked-cache"]);
        // The first run fills the cache; the second trusts records that are old enough.
        repo.git(&["status"]);
        repo.git(&["status"]);
        let (before, after) = rewrite(&repo, HashKind::Sha1, &WRITE);
        assert!(before.contains_str("UNTR"));
        assert_eq!(before, after);

        let mut index = load(&repo, HashKind::Sha1);
        assert!(index.untracked.is_some());
        let gone = ["dir/sub/d", "z/y/x/w"];
        let edits = gone.iter().map(|path| Edit { path: (*path).into(), entries: vec![] });
        index.apply(edits.collect());
        save(&repo, &index, &WRITE);
        let cached = repo.git(&["--no-optional-locks", "status", "--porcelain"]).stdout;
        repo.git(&["update-index", "--no-untracked-cache"]);
        repo.git(&["config", "--unset", "core.untrackedCache"]);
        assert_eq!(cached, repo.git(&["status", "--porcelain"]).stdout, "showing {mode}");
        repo.git(&["reset", "-q"]);
    }
}

#[test]
fn fsmonitor_bits_move_with_their_entries() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    populate(&repo);
    // The hook reports only `dir/b` as changed.
    repo.write_executable(".git/monitor", "#!/bin/sh\nprintf 'token\\0dir/b\\0'\n");
    repo.git(&["config", "core.fsmonitor", ".git/monitor"]);
    repo.git(&["update-index", "--fsmonitor"]);
    repo.write("dir/b", "changed");
    repo.git(&["status"]);
    let (before, _) = rewrite(&repo, HashKind::Sha1, &WRITE);
    assert!(before.contains_str("FSMN"));

    // `a` sorts before all others, so its removal moves every position.
    let mut index = load(&repo, HashKind::Sha1);
    let marks = |text: &BString| -> Vec<BString> {
        text.lines().filter(|line| !line.ends_with(b" a")).map(|line| line.as_bstr().to_owned()).collect()
    };
    let before = marks(&repo.git(&["ls-files", "-f"]).stdout);
    assert!(
        before.iter().any(|line| line.starts_with(b"h "))
            && before.iter().any(|line| line.starts_with(b"H "))
    );
    index.apply(vec![Edit { path: "a".into(), entries: vec![] }]);
    save(&repo, &index, &WRITE);
    assert_eq!(marks(&repo.git(&["ls-files", "-f"]).stdout), before);
}

#[test]
fn merges_a_split_index_and_splits_it_again() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    populate(&repo);
    repo.git(&["config", "splitIndex.maxPercentChange", "100"]);
    repo.git(&["update-index", "--split-index"]);
    repo.write("dir/sub/e", "added");
    repo.write("a", "replaced");
    repo.git(&["add", "dir/sub/e", "a"]);
    repo.git(&["rm", "-q", "--cached", "link"]);
    let index = load(&repo, HashKind::Sha1);
    let base = index.base.expect("it is split");
    let shared = fs::read(repo.join(format!(".git/sharedindex.{base}"))).expect("Git wrote it");
    let delta = Delta::between(&shared, &index).expect("Git wrote it");
    assert_eq!((delta.deleted.len(), delta.replaced.len(), delta.added.len()), (1, 1, 1));

    let before = shown(&repo);
    let part = Part::Split { base, delta: &delta };
    let file = write::to_vec(&index, part, &WRITE).expect("Git wrote no null object");
    fs::write(repo.join(".git/index"), file).expect("the repository is ours");
    // Git's --debug also prints the file that an entry comes from, and moves racy entries
    // unnecessarily.
    assert_eq!(shown(&repo)[1..], before[1..]);

    // Repeats this with the index in one file.
    save(&repo, &index, &WRITE);
    assert_eq!(shown(&repo)[1..], before[1..]);
    assert!(!repo.read(".git/index").contains_str("link\0\0"));
}

#[test]
fn rewrites_a_sparse_index() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    populate(&repo);
    repo.git(&["sparse-checkout", "init", "--cone", "--sparse-index"]);
    repo.git(&["sparse-checkout", "set", "bin"]);
    let index = load(&repo, HashKind::Sha1);
    assert!(index.sparse);
    let dir = index.position("dir/".into(), Stage::Normal).expect("one entry for all of it");
    assert_eq!(index.entries()[dir].mode, Mode::TREE);
    assert_eq!(index.range_below("dir".into()), dir..dir + 1);
    let (before, after) = rewrite(&repo, HashKind::Sha1, &WRITE);
    assert_eq!(before, after);
    assert!(before.contains_str("sdir"));
}

#[test]
fn git_can_use_the_cache_tree_of_an_edited_index() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    populate(&repo);
    repo.git(&["write-tree"]);
    let mut index = load(&repo, HashKind::Sha1);
    let tree = index.cache_tree.as_ref().expect("just made");
    for dir in ["", "dir", "dir/sub", "z/y/x"] {
        let (_, count) = tree.find(dir.into()).and_then(|node| node.valid).expect("all is valid");
        assert_eq!(count as usize, index.range_below(dir.into()).len());
    }

    let oid = repo.git(&["hash-object", "-w", "link"]).stdout;
    let oid = ObjectId::from_hex(HashKind::Sha1, oid.trim_ascii_end()).expect("a name");
    let entry = NewEntry {
        stat: Stat::default(),
        oid,
        mode: Mode::FILE,
        flags: Flags::empty(),
        stage: Stage::Normal,
    };
    index.apply(vec![
        Edit { path: "dir/new/file".into(), entries: vec![entry] },
        Edit { path: "dir/sub/c".into(), entries: vec![] },
    ]);
    save(&repo, &index, &WRITE);
    let tree = repo.git(&["write-tree"]).stdout;
    let names = repo.git(&["ls-tree", "-r", "--name-only", &tree.trim_ascii_end().to_str_lossy()]).stdout;
    let expected = "a\nbin/run\ndir.x\ndir/b\ndir/new/file\ndir/sub/d\ndir0\nlink\nz/y/x/w\n";
    assert_eq!(names, expected);

    // Now the test sets all nodes by hand, from Git's own tree names.
    let mut index = load(&repo, HashKind::Sha1);
    let mut by_hand = format::index::CacheTree::new();
    for dir in ["dir/sub", "dir", "bin", "z/y/x", "z", "dir/new", "z/y", ""] {
        let name =
            repo.git(&["rev-parse", &format!("{}:{dir}", tree.trim_ascii_end().to_str_lossy())]).stdout;
        let oid = ObjectId::from_hex(HashKind::Sha1, name.trim_ascii_end()).expect("a name");
        by_hand.set_valid(dir.into(), oid, index.range_below(dir.into()).len() as u32);
    }
    assert_eq!(index.cache_tree.as_ref(), Some(&by_hand));
    index.cache_tree = Some(by_hand);
    save(&repo, &index, &WRITE);
    assert_eq!(repo.git(&["fsck", "--cache"]).code, 0);
    assert_eq!(repo.git(&["write-tree"]).stdout, tree);
}
