//! Hostile repositories: the published attacks on Git's clone and checkout. Each attack runs with
//! Git, sapwood and the shim, at 1 and 8 workers, on a case-sensitive and on a case-insensitive
//! file system.
//! sapwood refuses the same commands as Git, with the same message and exit code, and leaves the
//! same files. Nothing is written outside the target, and no hook of the attacker runs. Commands
//! that sapwood does not support (recursion into submodules) fail with a message that names them,
//! and change nothing; the shim hands them over to Git.

mod configuration;
mod owners;
mod places;
mod sources;
mod submodules;
mod trees;

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::ffi::OsStrExt as _,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::Path,
};

use bstr::{BString, ByteSlice as _};
use testkit::{CaseInsensitive, Repo, Run, Sandbox};

use crate::{SAPWOOD, shim::Shim};

/// The file system on which an attack is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileSystem {
    Normal,
    IgnoringCase,
}

/// The program that is attacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Git,
    Sapwood,
    Shim,
}

const RUNS: &[(Program, &str)] = &[
    (Program::Git, "1"),
    (Program::Sapwood, "1"),
    (Program::Sapwood, "8"),
    (Program::Shim, "1"),
    (Program::Shim, "8"),
];

/// The files left behind: name to (type, content or target).
type Tree = BTreeMap<BString, Entry>;

type Entry = (char, BString);

/// A directory in which attacks are run. It is unmounted on drop.
struct AttackDir<'a> {
    sandbox: &'a Sandbox,
    place: FileSystem,
    shim: Shim,
    _mount: Option<CaseInsensitive>,
    /// The number of directories created so far; each run gets its own.
    tried: usize,
}

impl<'a> AttackDir<'a> {
    /// Mounts the file system. Returns `None` if it is not available.
    fn new(sandbox: &'a Sandbox, place: FileSystem) -> Option<AttackDir<'a>> {
        let point = sandbox.path().join("field");
        fs::create_dir(&point).expect("a new directory");
        let mount = match place {
            FileSystem::Normal => None,
            FileSystem::IgnoringCase => Some(CaseInsensitive::mount(&sandbox.path().join("image"), &point)?),
        };
        Some(AttackDir { sandbox, place, shim: Shim::new(), _mount: mount, tried: 0 })
    }

    /// Runs `line` with each program, each in a directory filled by `prepare`, and compares the
    /// results. Returns Git's run.
    #[track_caller]
    fn same(&mut self, line: &[&str], prepare: impl Fn(&Repo<'_>)) -> Run {
        self.same_with(&[], line, prepare)
    }

    /// Like [`AttackDir::same`], with environment variables.
    #[track_caller]
    fn same_with(&mut self, env: &[(&str, &str)], line: &[&str], prepare: impl Fn(&Repo<'_>)) -> Run {
        let mut expected: Option<(Run, Tree)> = None;
        for (program, workers) in RUNS {
            let context = format!("{line:?} by {program:?}, {workers} workers, {:?}", self.place);
            let Attempt { before, run, after } = (0..10)
                .find_map(|_| self.attempt(&context, *program, workers, env, line, &prepare))
                .expect("a file system that works once in ten times");
            if *program == Program::Sapwood && run.stderr.contains_str("is not supported by git yet") {
                assert_eq!((run.code, &before), (128, &after), "{context}: {}", run.stderr);
                continue;
            }
            match &expected {
                None => expected = Some((run, after)),
                Some((theirs, left)) => {
                    let said = format!("git said {}, ours {}", theirs.stderr, run.stderr);
                    assert_eq!(theirs.code, run.code, "{context}: {said}");
                    let differing = differing(left, &after);
                    assert!(differing.is_empty(), "{context}: git left, ours right: {differing:#?}; {said}");
                    if self.sandbox.git_version() >= (2, 55) {
                        assert_eq!(theirs, &run, "{context}: git left, ours right");
                    }
                }
            }
        }
        expected.expect("Git was the first").0
    }

    /// Returns `None` if the file system failed: lowntfs-3g sometimes creates a name that cannot be
    /// looked up.
    #[track_caller]
    fn attempt(
        &mut self,
        context: &str,
        program: Program,
        workers: &str,
        env: &[(&str, &str)],
        line: &[&str],
        prepare: &impl Fn(&Repo<'_>),
    ) -> Option<Attempt> {
        self.tried += 1;
        // All names have one length, because files contain paths and their sizes may matter.
        let repo = self.sandbox.repo(&format!("field/{:03}", self.tried));
        let prepared = catch_unwind(AssertUnwindSafe(|| {
            fs::create_dir(&repo.path).expect("a new directory");
            prepare(&repo);
        }));
        if let Err(panic) = prepared {
            if self.place == FileSystem::IgnoringCase {
                return None;
            }
            resume_unwind(panic);
        }
        let (outside, before) = (self.outside(), look(&repo.path).ok()?);
        let run = self.run(program, workers, env, &repo, line);
        assert!(!self.sandbox.path().join("pwned").exists(), "{context}: a hook ran: {}", run.stderr);
        let now = self.outside();
        let differing = differing(&outside, &now);
        assert!(differing.is_empty(), "{context}: something outside changed: {differing:#?}");
        let after = look(&repo.path).ok()?;
        (!run.stderr.contains_str("Input/output error")).then_some(Attempt { before, run, after })
    }

    fn run(
        &self,
        program: Program,
        workers: &str,
        env: &[(&str, &str)],
        repo: &Repo<'_>,
        line: &[&str],
    ) -> Run {
        let mut command = match program {
            Program::Git => repo.git_command(),
            Program::Sapwood => repo.command(Path::new(SAPWOOD)),
            Program::Shim => self.shim.command(repo),
        };
        command.envs(env.iter().copied()).args(line);
        if program != Program::Git {
            command.env("SAPWOOD_TEST_CHECKOUT_WORKERS", workers);
        }
        let run = crate::shim::finished(&mut command);
        let place = repo.path.as_os_str().as_bytes();
        let plain = |text: BString| BString::from(text.replace(place, "<place>").replace("sapwood", "git"));
        Run { code: run.code, stdout: plain(run.stdout), stderr: plain(run.stderr) }
    }

    /// Returns everything in the sandbox except for the directories of the runs.
    fn outside(&self) -> Tree {
        let (root, field) = (self.sandbox.path(), self.sandbox.path().join("field"));
        let mut tree = Tree::new();
        let wanted = |path: &Path| path.parent() != Some(&field) && !path.ends_with("image");
        collect(&root, &root, &mut tree, &wanted).expect("a sound file system");
        let names = fs::read_dir(&field).expect("a directory").flatten().map(|entry| entry.file_name());
        let strange = names.filter(|name| !name.as_bytes().iter().all(u8::is_ascii_digit));
        tree.extend(strange.map(|name| (name.as_bytes().into(), ('?', BString::default()))));
        tree
    }
}

/// One run: the files before, the output, and the files after.
struct Attempt {
    before: Tree,
    run: Run,
    after: Tree,
}

/// Returns the names that differ, with their states in both trees.
fn differing<'a>(one: &'a Tree, other: &'a Tree) -> Vec<(&'a BString, [Option<&'a Entry>; 2])> {
    let names: std::collections::BTreeSet<&BString> = one.keys().chain(other.keys()).collect();
    let both = names.into_iter().map(|name| (name, [one.get(name), other.get(name)]));
    both.filter(|(_, [one, other])| one != other).collect()
}

/// Runs `attack` on each file system that is available.
fn everywhere(attack: impl Fn(&Sandbox, &mut AttackDir<'_>)) {
    for place in [FileSystem::Normal, FileSystem::IgnoringCase] {
        let sandbox = Sandbox::new();
        let Some(mut field) = AttackDir::new(&sandbox, place) else { return };
        attack(&sandbox, &mut field);
    }
}

/// Returns the files in a directory, without objects and indexes.
fn look(dir: &Path) -> io::Result<Tree> {
    let mut tree = Tree::new();
    let in_git_dir = |path: &Path| path.as_os_str().as_bytes().contains_str(".git/");
    collect(dir, dir, &mut tree, &|path| !(path.ends_with("objects") && in_git_dir(path)))?;
    let (place, plain) = (dir.as_os_str().as_bytes(), b"<place>");
    for (_, content) in tree.values_mut() {
        *content = content.replace(place, plain).into();
    }
    // The stat data of two runs differ. A clone that cannot be checked out keeps the index of the
    // files written.
    tree.retain(|path, _| !(path.contains_str(".git/") && path.ends_with(b"/index")));
    Ok(tree)
}

fn collect(root: &Path, dir: &Path, tree: &mut Tree, wanted: &dyn Fn(&Path) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if !wanted(&path) {
            continue;
        }
        let name = BString::from(path.strip_prefix(root).expect("below").as_os_str().as_bytes());
        let meta = path.symlink_metadata()?;
        if meta.is_symlink() {
            let target = fs::read_link(&path)?;
            tree.insert(name, ('l', target.as_os_str().as_bytes().into()));
        } else if meta.is_dir() {
            tree.insert(name, ('d', BString::default()));
            collect(root, &path, tree, wanted)?;
        } else {
            tree.insert(name, ('f', fs::read(&path)?.into()));
        }
    }
    Ok(())
}

/// The entries of a hostile tree.
#[derive(Clone, Copy, Debug)]
enum TreeEntry<'a> {
    File(&'a str),
    Program(&'a str),
    Link(&'a str),
    Commit(&'a str),
}

/// Commits a tree with these paths, whatever their names, without a worktree. Returns the commit.
fn commit(repo: &Repo<'_>, entries: &[(&str, TreeEntry<'_>)]) -> String {
    let tree = tree(repo, entries);
    repo.git(&["commit-tree", "-m", "hostile", &tree]).stdout.trim().to_str_lossy().into_owned()
}

fn tree(repo: &Repo<'_>, entries: &[(&str, TreeEntry<'_>)]) -> String {
    let mut below: BTreeMap<&str, Vec<(&str, TreeEntry<'_>)>> = BTreeMap::new();
    let mut lines = Vec::new();
    for (path, held) in entries {
        match path.split_once('/') {
            Some((dir, rest)) => below.entry(dir).or_default().push((rest, *held)),
            None => lines.push(match held {
                TreeEntry::File(content) => format!("100644 blob {}\t{path}", blob(repo, content)),
                TreeEntry::Program(content) => format!("100755 blob {}\t{path}", blob(repo, content)),
                TreeEntry::Link(target) => format!("120000 blob {}\t{path}", blob(repo, target)),
                TreeEntry::Commit(oid) => format!("160000 commit {oid}\t{path}"),
            }),
        }
    }
    lines.extend(below.iter().map(|(dir, entries)| format!("040000 tree {}\t{dir}", tree(repo, entries))));
    fed(repo, &["mktree", "--missing", "-z"], &(lines.join("\0") + "\0"))
}

fn blob(repo: &Repo<'_>, content: &str) -> String {
    fed(repo, &["hash-object", "-w", "--stdin"], content)
}

fn fed(repo: &Repo<'_>, args: &[&str], input: &str) -> String {
    use std::{io::Write as _, process::Stdio};
    let mut command = repo.git_command();
    let mut child =
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Git runs");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("read");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{args:?} of {input:?}");
    output.stdout.trim().to_str_lossy().into_owned()
}

/// Returns a hook that leaves a file when it runs.
fn hook(sandbox: &Sandbox) -> String {
    format!("#!/bin/sh\ntouch '{}'\n", sandbox.path().join("pwned").display())
}

/// Creates a repository with a harmless `main` and the branch `evil`. Returns its path.
fn source(sandbox: &Sandbox, name: &str, evil: &[(&str, TreeEntry<'_>)]) -> String {
    let repo = sandbox.init(name);
    repo.write("README", "harmless\n");
    repo.commit("harmless");
    let commit = commit(&repo, evil);
    repo.git(&["update-ref", "refs/heads/evil", &commit]);
    repo.path.display().to_string()
}

/// Clones the harmless branch to `work`.
fn harmless_clone(repo: &Repo<'_>, url: &str) {
    repo.git(&["clone", "-q", "--shared", "--template=", "-b", "main", url, "work"]);
}
