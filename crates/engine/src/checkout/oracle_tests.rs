//! Random trees, index and worktree: the plan has the same effect as Git.
//!
//! Each case first computes the plan, which changes nothing, and then runs Git. Both must yield
//! equal refusals, byte for byte, an equal index apart from stat data, and an equal worktree. For
//! the last check, the plan's steps are applied to a snapshot of the worktree from before the run.
#![allow(clippy::disallowed_methods)]

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::Stdio,
};

use bstr::{BStr, BString, ByteSlice};
use format::{
    HashKind, ObjectId,
    index::{CacheTree, Index, read},
};
use proptest::prelude::*;
use repo::objects::Objects;
use testkit::{Repo, Sandbox};

use super::{
    Conflicts, Files, Force, Merge, OneSided, Operation, Plan, PlanError, PlanOptions, Premise, Sparse,
    SparseLeftoverKind,
    plan::{PlanInputs, Settings, decide, finish},
    refusal,
};
use crate::look::{
    LookError,
    content::{Cleaning, CleaningWorker},
    sparse::{self, Patterns},
};

/// Content without conversions.
struct NoConversion;

impl Cleaning for NoConversion {
    fn worker(&self) -> Box<dyn CleaningWorker + '_> {
        Box::new(NoConversion)
    }
}

impl CleaningWorker for NoConversion {
    fn to_git<'a>(&mut self, _: &BStr, file: &'a [u8], _: &'a mut Vec<u8>) -> Result<&'a [u8], LookError> {
        Ok(file)
    }
}

/// A small generator of random numbers. A failure prints its seed, which reproduces the case.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % sides as u64) as usize
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }
}

const PATHS: &[&str] = &[
    "a", "b", "d", "d/x", "d/y", "d/e", "d/e/z", "f", "f/q", "t", "t-2", "t/u", "t.c", "x.ign", "ign/k",
    "ign",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum File {
    Regular(u8),
    Executable(u8),
    Link(u8),
}

type Tree = BTreeMap<&'static str, File>;

impl File {
    fn any(dice: &mut Dice) -> File {
        let content = dice.roll(3) as u8;
        match dice.roll(8) {
            0 => File::Executable(content),
            1 => File::Link(content),
            _ => File::Regular(content),
        }
    }

    fn mode(self) -> &'static str {
        match self {
            File::Regular(_) => "100644",
            File::Executable(_) => "100755",
            File::Link(_) => "120000",
        }
    }

    fn content(self) -> Vec<u8> {
        let (File::Regular(content) | File::Executable(content) | File::Link(content)) = self;
        // Each content has another length, so that every change affects the stat data.
        vec![b'0' + content; 1 + content as usize]
    }

    fn write(self, path: &Path) {
        let content = self.content();
        if let File::Link(_) = self {
            symlink(sys::os_str(&content), path).expect("the link can be made");
            return;
        }
        fs::write(path, &content).expect("the file can be written");
        let mode = if let File::Executable(_) = self { 0o755 } else { 0o644 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("just written");
    }
}

/// Adds a file to a tree. Removes the paths that cannot coexist with it.
fn put(tree: &mut Tree, path: &'static str, file: File) {
    let conflicts = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.starts_with('/'));
    tree.retain(|other, _| !conflicts(other, path) && !conflicts(path, other));
    tree.insert(path, file);
}

fn change(tree: &Tree, dice: &mut Dice, changes: usize) -> Tree {
    let mut tree = tree.clone();
    for _ in 0..dice.roll(changes + 1) {
        let path = PATHS[dice.roll(PATHS.len())];
        if dice.one_in(3) {
            tree.remove(path);
        } else {
            put(&mut tree, path, File::any(dice));
        }
    }
    tree
}

fn git_input(repo: &Repo<'_>, args: &[&str], input: &[u8]) -> BString {
    let program = std::env::var_os("SAPWOOD_TEST_GIT").unwrap_or_else(|| "git".into());
    let mut child = repo
        .command(Path::new(&program))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("git runs");
    child.stdin.take().expect("piped").write_all(input).expect("git reads its input");
    let output = child.wait_with_output().expect("git ends");
    assert!(output.status.success(), "git {args:?}");
    output.stdout.trim_end().into()
}

/// Returns the object name of a file's content.
fn blob(file: File) -> ObjectId {
    let content = file.content();
    let mut hasher = format::hash::Hasher::object(HashKind::Sha1, "blob", content.len() as u64);
    hasher.update(&content);
    hasher.finish().expect("no attack")
}

fn index_info(tree: &Tree) -> Vec<u8> {
    let lines = tree.iter().map(|(path, file)| format!("{} {}\t{path}\n", file.mode(), blob(*file)));
    lines.collect::<String>().into_bytes()
}

/// Writes a tree object. Its entries stay in the index.
fn write_tree(repo: &Repo<'_>, tree: &Tree) -> ObjectId {
    let _ = fs::remove_file(repo.path.join(".git/index"));
    git_input(repo, &["update-index", "--index-info"], &index_info(tree));
    let name = repo.git(&["write-tree"]).stdout;
    ObjectId::from_hex(HashKind::Sha1, name.trim_end()).expect("a name")
}

type Snapshot = BTreeMap<BString, (u32, Vec<u8>)>;

/// Returns all files and links, with content and kind.
fn snapshot(root: &Path) -> Snapshot {
    fn add(dir: &Path, prefix: &str, snapshot: &mut Snapshot) {
        for entry in fs::read_dir(dir).expect("a directory") {
            let entry = entry.expect("readable");
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let meta = entry.path().symlink_metadata().expect("there");
            if name == ".git" {
            } else if meta.is_dir() {
                add(&entry.path(), &format!("{name}/"), snapshot);
            } else if meta.is_symlink() {
                let target = fs::read_link(entry.path()).expect("a link");
                snapshot.insert(name.into(), (2, target.to_string_lossy().as_bytes().to_vec()));
            } else {
                let executable = u32::from(meta.permissions().mode() & 0o100 != 0);
                snapshot.insert(name.into(), (executable, fs::read(entry.path()).expect("a file")));
            }
        }
    }
    let mut snapshot = Snapshot::new();
    add(root, "", &mut snapshot);
    snapshot
}

fn is_below(path: &BStr, dir: &BStr) -> bool {
    path.strip_prefix(dir.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
}

/// Applies a plan to a snapshot, and checks every premise.
fn apply(before: &Snapshot, plan: &Plan, objects: &Objects) -> Snapshot {
    let mut after = before.clone();
    for removal in &plan.removals {
        let found = after.remove(&removal.path);
        match removal.premise {
            Premise::Absent => assert!(found.is_none(), "{} was to be absent", removal.path),
            Premise::Unchanged(_) => assert!(found.is_some(), "{} was to be there", removal.path),
            Premise::Anything | Premise::Directory | Premise::Remnant => {}
        }
    }
    let mut reader = objects.reader();
    for write in &plan.writes {
        let entry = &plan.index.entry(write.entry);
        let path = plan.index.path(entry);
        let obstacles = |other: &BString| {
            other == path || is_below(other.as_bstr(), path) || is_below(path, other.as_bstr())
        };
        match write.premise {
            Premise::Absent => assert!(!after.keys().any(obstacles), "{path} was to be absent"),
            Premise::Unchanged(_) => assert!(after.contains_key(path), "{path} was to be there"),
            Premise::Anything | Premise::Directory | Premise::Remnant => {}
        }
        after.retain(|other, _| !obstacles(other));
        let kind = if entry.mode.is_symlink() { 2 } else { u32::from(entry.mode.is_executable()) };
        let content = reader.read(&entry.oid).expect("a blob").1.to_vec();
        after.insert(path.to_owned(), (kind, content));
    }
    after
}

fn listing(index: &Index) -> String {
    let line = |entry: &format::index::Entry| {
        let path = index.path(entry);
        format!("{:?} {} {:?} {:?} {path}\n", entry.mode, entry.oid, entry.stage, entry.flags.bits() & 7)
    };
    index.entries().iter().map(line).collect()
}

fn load(repo: &Repo<'_>) -> Index {
    let path = repo.path.join(".git/index");
    let Ok(data) = fs::read(&path) else { return Index::empty(HashKind::Sha1) };
    let options = read::Options::new(1, true);
    let decoded = read::decode(&data, HashKind::Sha1, options).expect("Git wrote it");
    let mut index = decoded.finish().expect("it stands alone");
    let meta = fs::metadata(&path).expect("just read");
    use std::os::unix::fs::MetadataExt as _;
    index.timestamp = (meta.mtime() as u32, meta.mtime_nsec() as u32);
    index
}

/// Checks that every valid node contains the name of the tree of the entries below it.
fn check_cache_tree(index: &Index, node: &CacheTree, dir: &str, objects: &Objects) {
    if let Some((oid, count)) = node.valid {
        assert_eq!(count as usize, index.range_below(dir.into()).len(), "count of {dir:?}");
        let mut reader = objects.reader();
        let (_, data) = reader.read(&oid).expect("the cache-tree names what exists");
        for entry in format::tree::TreeEntries::new(HashKind::Sha1, data) {
            let entry = entry.expect("well-formed");
            let path = if dir.is_empty() { entry.name.to_string() } else { format!("{dir}/{}", entry.name) };
            if entry.mode.is_tree() {
                let child = node.child(entry.name).expect("a valid node has all its children");
                assert_eq!(child.valid.map(|(oid, _)| oid), Some(entry.oid), "{path}");
            } else {
                let range = index.range_of(path.as_str().into());
                assert_eq!(range.len(), 1, "{path}");
                assert_eq!(index.entries()[range.start].oid, entry.oid, "{path}");
            }
        }
    }
    for child in node.children() {
        let below = if dir.is_empty() { child.name.to_string() } else { format!("{dir}/{}", child.name) };
        check_cache_tree(index, child, &below, objects);
    }
}

/// Returns one of Git's commands, and the plan options that correspond to it.
fn command(
    repo: &Repo<'_>,
    dice: &mut Dice,
    trees: &[ObjectId; 3],
    unmerged: bool,
) -> (Vec<String>, PlanOptions) {
    let [base, head, target] = *trees;
    let commit = |tree: ObjectId| {
        let name = repo.git(&["commit-tree", "-m", "x", &tree.to_string()]).stdout;
        ObjectId::from_hex(HashKind::Sha1, name.trim_end()).expect("a name")
    };
    let words = |text: &str, trees: &[ObjectId]| {
        text.split(' ').map(str::to_owned).chain(trees.iter().map(ToString::to_string)).collect()
    };
    let kinds =
        [("-m -u", Files::Update), ("-m -u", Files::Update), ("-m", Files::Check), ("-m -i", Files::Ignore)];
    let (how, files) = kinds[dice.roll(4)];
    let one_way = PlanOptions { files, operation: Operation::Plumbing, ..PlanOptions::one_way(target) };
    // read-tree refuses to merge into an unmerged index.
    match if unmerged { 4 + dice.roll(2) } else { dice.roll(12) } {
        0 => {
            let two_way = PlanOptions { merge: Merge::TwoWay { head: Some(head), target }, ..one_way };
            (words(&format!("read-tree {how}"), &[head, target]), two_way)
        }
        1 => (words(&format!("read-tree {how}"), &[target]), one_way),
        2 | 3 => {
            let (aggressive, one_sided) =
                [("", OneSided::Leave), (" --aggressive", OneSided::Settle)][dice.roll(2)];
            let (trivial, conflicts) =
                [("", Conflicts::Stages), ("", Conflicts::Stages), (" --trivial", Conflicts::Refuse)]
                    [dice.roll(3)];
            let trees = [base, head, base, head, target];
            let trees = &trees[dice.roll(3)..];
            let bases = trees[..trees.len() - 2].to_vec();
            let ours = trees[trees.len() - 2];
            let merge = Merge::ThreeWay { bases, ours, theirs: target, one_sided, conflicts };
            (words(&format!("read-tree {how}{aggressive}{trivial}"), trees), PlanOptions { merge, ..one_way })
        }
        9 => {
            let prefix = ["d", "d/e", "t", "f", "new", ""][dice.roll(6)];
            let how = how.replace("-m", &format!("--prefix={prefix}/").replace("=/", "="));
            let merge = Merge::Bind { tree: target, prefix: prefix.into() };
            (words(&format!("read-tree {how}"), &[target]), PlanOptions { merge, ..one_way })
        }
        10 => {
            let trees = &trees[dice.roll(3)..];
            let merge = Merge::Overlay { trees: trees.to_vec() };
            (words("read-tree", trees), PlanOptions { merge, files: Files::Ignore, ..one_way })
        }
        4 => (words("read-tree --reset -u", &[target]), PlanOptions::reset_hard(target)),
        6.. => {
            fs::write(repo.path.join(".git/HEAD"), format!("{}\n", commit(head))).expect("a detached HEAD");
            (words("checkout -q", &[commit(target)]), PlanOptions::switch(Some(head), target))
        }
        _ => {
            let two_way = PlanOptions {
                merge: Merge::TwoWay { head: Some(head), target },
                force: Force::OverwriteUntracked,
                files: Files::Update,
                ..one_way
            };
            (words("read-tree --reset -u", &[head, target]), two_way)
        }
    }
}

/// The kind of worktree.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Worktree {
    Full,
    Sparse,
}

/// Removes paths that are directories elsewhere. At the border of a sparse worktree, the treatment
/// of a directory at a file's path depends on the skip-worktree flags that Git has set so far. The
/// plan does not reproduce that exactly.
fn without_directories(mut tree: Tree) -> Tree {
    tree.retain(|path, _| !PATHS.iter().any(|other| is_below((*other).into(), (*path).into())));
    tree
}

/// Writes random sparse patterns, in cone mode or not. Sets skip-worktree flags and removes files
/// accordingly, with random exceptions. Returns the settings for Git.
fn make_sparse(repo: &Repo<'_>, dice: &mut Dice, staged: &Tree) -> (Patterns, Vec<String>) {
    let directories: Vec<&str> =
        PATHS.iter().filter_map(|path| path.rsplit_once('/')).map(|(dir, _)| dir).collect();
    let cone = dice.one_in(2);
    let patterns = if cone {
        let mut cone = sparse::Cone::new(false);
        for _ in 0..dice.roll(3) {
            cone.add(format!("/{}", directories[dice.roll(directories.len())]).as_str().into());
        }
        Patterns::of_cone(cone)
    } else {
        let line = |dice: &mut Dice| {
            let path = PATHS[dice.roll(PATHS.len())];
            let path = if dice.one_in(2) { path.rsplit('/').next().expect("a name") } else { path };
            format!("{}{path}{}\n", ["", "!", "/"][dice.roll(3)], ["", "", "/"][dice.roll(3)])
        };
        let first = if dice.one_in(2) { "/*\n" } else { "" };
        let lines: String = (0..1 + dice.roll(3)).map(|_| line(dice)).collect();
        Patterns::parse(format!("{first}{lines}").as_bytes(), false, false).patterns
    };
    fs::create_dir_all(repo.path.join(".git/info")).expect("made");
    fs::write(repo.path.join(".git/info/sparse-checkout"), patterns.to_file()).expect("written");
    for path in staged.keys() {
        let outside = !patterns.keeps((*path).into());
        if outside != dice.one_in(4) {
            repo.try_git(&["update-index", "--skip-worktree", path]);
            if !dice.one_in(5) {
                let _ = fs::remove_file(repo.path.join(path));
            }
        }
    }
    let settings = ["core.sparseCheckout=true".to_owned(), format!("core.sparseCheckoutCone={cone}")];
    (patterns, settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]).collect())
}

fn run_case(repo: &Repo<'_>, objects: &Objects, seed: u64, sparse: Worktree, counts: &mut [usize; 2]) {
    let mut dice = Dice(seed);
    for entry in fs::read_dir(&repo.path).expect("a worktree") {
        let path = entry.expect("readable").path();
        if path.ends_with(".git") {
        } else if path.symlink_metadata().expect("there").is_dir() {
            fs::remove_dir_all(path).expect("removable");
        } else {
            fs::remove_file(path).expect("removable");
        }
    }
    repo.write(".gitignore", "*.ign\nign\n");
    let base = change(&Tree::new(), &mut dice, 12);
    let head = change(&base, &mut dice, 5);
    let target = change(if dice.one_in(2) { &head } else { &base }, &mut dice, 6);
    let [base, head, target] = [base, head, target]
        .map(|tree| if sparse == Worktree::Sparse { without_directories(tree) } else { tree });
    let trees = [&base, &head, &target].map(|tree| write_tree(repo, tree));
    let staged = match dice.roll(4) {
        0 => change(&head, &mut dice, 3),
        1 => change(&target, &mut dice, 1),
        _ => head.clone(),
    };
    let staged = if sparse == Worktree::Sparse { without_directories(staged) } else { staged };
    for (path, file) in &staged {
        let path = repo.path.join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("directories can be made");
        file.write(&path);
    }
    write_tree(repo, &staged);
    repo.try_git(&["update-index", "-q", "--refresh"]);
    let mut unmerged = false;
    if dice.one_in(3) && !staged.is_empty() {
        let path = staged.keys().nth(dice.roll(staged.len())).expect("in range");
        match dice.roll(4) {
            0 => repo.git(&["update-index", "--assume-unchanged", path]),
            1 => repo.git(&["update-index", "--skip-worktree", path]),
            2 => repo.git(&["rm", "-q", "--cached", path]),
            _ => {
                unmerged = true;
                let stages: String = (1..=3)
                    .map(|stage| {
                        let file = File::Regular(dice.roll(3) as u8);
                        format!("100644 {} {stage}\t{path}\n", blob(file))
                    })
                    .collect();
                let removal = format!("0 {}\t{path}\n", ObjectId::null(HashKind::Sha1));
                git_input(repo, &["update-index", "--index-info"], (removal + &stages).as_bytes());
                repo.git(&["status", "--porcelain"])
            }
        };
    }
    for _ in 0..dice.roll(4) {
        let path = repo.path.join(PATHS[dice.roll(PATHS.len())]);
        match path.symlink_metadata() {
            Ok(meta) if meta.is_dir() => {
                if dice.one_in(3) {
                    fs::remove_dir_all(&path).expect("removable");
                } else {
                    let name = ["untracked", "x.ign"][dice.roll(2)];
                    File::Regular(1).write(&path.join(name));
                }
            }
            Ok(_) => {
                fs::remove_file(&path).expect("removable");
                match dice.roll(4) {
                    0 => fs::create_dir(&path).expect("just removed"),
                    1 => {}
                    _ => File::any(&mut dice).write(&path),
                }
            }
            Err(_) => {
                let made = fs::create_dir_all(path.parent().expect("below the root"));
                if made.is_ok() && !dice.one_in(4) {
                    File::any(&mut dice).write(&path);
                }
            }
        }
    }

    let thin = (sparse == Worktree::Sparse).then(|| make_sparse(repo, &mut dice, &staged));
    let (mut words, mut options) = command(repo, &mut dice, &trees, unmerged);
    let mut index = match options.merge {
        Merge::Overlay { .. } => Index::empty(HashKind::Sha1),
        _ => load(repo),
    };
    let root = sys::Dir::open(&repo.path).expect("a worktree");
    if let Some((patterns, settings)) = thin {
        options.sparse = Sparse::Given(patterns.into());
        words.splice(..0, settings);
        sparse::clear_present(&root, &mut index).expect("all can be looked at");
    }
    let inputs = PlanInputs {
        trees: objects,
        root: &root,
        cleaning: &NoConversion,
        excludes: Vec::new(),
        follow: None,
        settings: Settings::default(),
    };
    let mut overwritten = Vec::new();
    let outcome = decide(&inputs, &index, &options).map(|decided| {
        let present = decided
            .sparse_leftovers
            .iter()
            .filter(|left| matches!(left.kind, SparseLeftoverKind::Present | SparseLeftoverKind::Refused(_)));
        overwritten.extend(present.map(|left| left.path.clone()));
        finish(objects, index, decided, options.operation)
    });
    // Git reports that it keeps a new path, and overwrites it anyway.
    let is_leftover = |path: &BStr| {
        overwritten.iter().any(|left: &BString| {
            left == path || is_below(path, left.as_bstr()) || is_below(left.as_bstr(), path)
        })
    };
    let before = snapshot(&repo.path);
    let args: Vec<&str> = words.iter().map(String::as_str).collect();
    let run = repo.try_git(&args);
    let context = format!("seed {seed}: git {words:?} gave {} {}", run.code, run.stderr);
    match outcome {
        Ok(plan) => {
            counts[0] += 1;
            assert_eq!(run.code, 0, "{context}\nbut the plan is {:?} {:?}", plan.writes, plan.removals);
            assert_eq!(listing(&plan.index), listing(&load(repo)), "{context}");
            // The plan's warnings cover leftovers. Files that cannot be removed are only reported
            // during execution.
            let printed =
                run.stderr.lines_with_terminator().filter(|line| !line.contains_str("unable to unlink"));
            assert_eq!(
                plan.warnings.concat().as_bstr(),
                printed.collect::<Vec<_>>().concat().as_bstr(),
                "{context}"
            );
            let mut snapshots = [apply(&before, &plan, objects), snapshot(&repo.path)];
            snapshots.iter_mut().for_each(|snapshot| snapshot.retain(|path, _| !is_leftover(path.as_bstr())));
            let [ours, gits] = snapshots;
            assert_eq!(ours, gits, "{context}\n{:?} {:?}", plan.writes, plan.removals);
            let cache_tree = plan.index.cache_tree.as_ref().expect("a plan has one");
            check_cache_tree(&plan.index, cache_tree, "", objects);
        }
        Err(PlanError::Refused(refusals)) => {
            counts[1] += 1;
            let text = refusal::text(&refusals, options.operation, true);
            assert_eq!(text, run.stderr, "{context}");
            assert_ne!(run.code, 0, "{context}");
        }
        Err(PlanError::NotTrivial) => {
            assert_eq!(run.stderr, "error: Merge requires file-level merging\n", "{context}");
        }
        Err(error) => panic!("{context}\nbut the plan failed: {error}"),
    }
}

#[test]
fn merges_like_read_tree() {
    run_cases(Worktree::Full);
}

#[test]
fn merges_like_read_tree_in_a_sparse_worktree() {
    run_cases(Worktree::Sparse);
}

fn run_cases(worktree: Worktree) {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    for content in 0..3 {
        git_input(&repo, &["hash-object", "-w", "--stdin"], &File::Regular(content).content());
    }
    let config = ProptestConfig {
        cases: std::env::var("SAPWOOD_TEST_CASES").map_or(150, |cases| cases.parse().expect("a number")),
        max_shrink_iters: 0,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let algorithm = prop::test_runner::RngAlgorithm::ChaCha;
    let rng = prop::test_runner::TestRng::deterministic_rng(algorithm);
    let mut runner = prop::test_runner::TestRunner::new_with_rng(config, rng);
    let counts = std::cell::RefCell::new([0; 2]);
    runner
        .run(&any::<u64>(), |seed| {
            // Reopened, because an object store contains only the packs and loose objects from the
            // time of opening.
            let objects = Objects::new(&repo.path.join(".git/objects"), HashKind::Sha1);
            run_case(&repo, &objects, seed, worktree, &mut counts.borrow_mut());
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    let [planned, refused] = counts.into_inner();
    // Sparse leftovers are not refusals.
    let least = if worktree == Worktree::Sparse { 4 } else { 10 };
    assert!(planned > 30 && refused > least, "too one-sided: {planned} planned, {refused} refused");
}
