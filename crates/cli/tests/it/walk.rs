//! Walks through real histories: sapwood switches between random commits, Git does the same in a
//! copy, and after each step index, bytes and modes are equal and `git status` is clean.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use testkit::{Repo, Sandbox, shared_data};

use crate::{SAPWOOD, full, random::Random};

/// Identifies a file's state without its device: files with equal identities have equal content.
type Identity = (u64, i64, i64, u64);

/// Path -> (identity, mode, hash of content or link target).
type Tree = BTreeMap<PathBuf, (Identity, u32, u64)>;

/// Reads the worktree; files whose inode and change time are unchanged are not read again.
fn read(root: &Path, before: &Tree) -> Tree {
    fn visit(root: &Path, dir: &Path, before: &Tree, now: &mut Tree) {
        for entry in fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("readable").path();
            if path == root.join(".git") {
                continue;
            }
            let meta = path.symlink_metadata().expect("just listed");
            let identity = (meta.ino(), meta.ctime(), meta.ctime_nsec(), meta.size());
            let name = path.strip_prefix(root).expect("below").to_owned();
            if meta.is_dir() {
                now.insert(name, ((0, 0, 0, 0), meta.mode(), 0));
                visit(root, &path, before, now);
                continue;
            }
            let content = match before.get(&name) {
                Some(&(seen, _, content)) if seen == identity => content,
                _ if meta.is_symlink() => hash(fs::read_link(&path).expect("a link").as_os_str().as_bytes()),
                _ => hash(&fs::read(&path).expect("a file")),
            };
            now.insert(name, (identity, meta.mode(), content));
        }
    }
    let mut now = Tree::new();
    visit(root, root, before, &mut now);
    now
}

fn hash(content: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hasher as _};
    let mut hasher = DefaultHasher::new();
    hasher.write(content);
    hasher.finish()
}

fn same(git: &Tree, ours: &Tree) -> Result<(), String> {
    for (path, (_, mode, content)) in git {
        match ours.get(path) {
            None => return Err(format!("{} is missing", path.display())),
            Some((_, other, _)) if other != mode => {
                return Err(format!("{}: mode {other:o}, not {mode:o}", path.display()));
            }
            Some((_, _, other)) if other != content => {
                return Err(format!("{}: other content", path.display()));
            }
            Some(_) => {}
        }
    }
    match ours.keys().find(|path| !git.contains_key(*path)) {
        Some(path) => Err(format!("{} should not be there", path.display())),
        None => Ok(()),
    }
}

fn walk(bundle: &str, steps: usize) {
    let Some(bundle) = shared_data(bundle) else { return };
    let sandbox = Sandbox::new();
    let root = sandbox.repo("");
    for name in ["git", "ours"] {
        root.git(&["clone", "-q", "--no-checkout", &bundle.display().to_string(), name]);
    }
    let (git, ours) = (sandbox.repo("git"), sandbox.repo("ours"));
    let listing = git.git(&["rev-list", "--all"]).stdout.to_string();
    let commits: Vec<&str> = listing.lines().collect();
    let mut random = Random::new(20_261_120);
    let (mut their_tree, mut our_tree) = (Tree::new(), Tree::new());
    for step in 0..=steps {
        let commit = commits[random.below(commits.len())];
        let workers = ["1", "2", "8"][step % 3];
        let context = format!("step {step}, {commit}, {workers} workers");
        git.git(&["checkout", "-q", commit]);
        let run = run_ours(&ours, workers, commit);
        assert_eq!((run.code, run.stderr.to_string()), (0, String::new()), "{context}");
        let index = |repo: &Repo<'_>| repo.git(&["ls-files", "-s"]).stdout;
        assert!(index(&git) == index(&ours), "{context}: the index differs");
        our_tree = read(&ours.path, &our_tree);
        their_tree = read(&git.path, &their_tree);
        if let Err(difference) = same(&their_tree, &our_tree) {
            panic!("{context}: {difference}");
        }
        let status = ours.git(&["--no-optional-locks", "status", "--porcelain"]).stdout;
        assert_eq!(status, "", "{context}: status");
    }
    let fsck = ours.git(&["fsck", "--connectivity-only"]);
    assert_eq!(fsck.code, 0);
}

fn run_ours(ours: &Repo<'_>, workers: &str, commit: &str) -> testkit::Run {
    let setting = format!("checkout.workers={workers}");
    let args = ["-c", &setting, "-c", "checkout.thresholdForParallelism=0", "checkout", "-q", commit];
    ours.run(Path::new(SAPWOOD), &args)
}

#[test]
fn walk_ripgrep() {
    walk("ripgrep.bundle", if full() { 200 } else { 60 });
}

#[test]
fn walk_libgit2() {
    walk("libgit2.bundle", if full() { 200 } else { 12 });
}
