//! Repositories made to do harm: the published attacks on Git's clone and checkout, each with Git, with
//! sapwood and with the shim, at 1 and 8 workers, on a normal file system and on one that ignores case.
//!
//! What Git refuses is refused in its words and with its exit code; what is left is the same; nothing is
//! written outside, and no hook of the attacker's runs. What sapwood itself does not do yet (recursing into
//! submodules) it must refuse by name, with nothing done; the shim must be Git all the same.

mod configuration;
mod owners;
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

/// Where an attack is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Normal,
    IgnoringCase,
}

/// Who is attacked.
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

/// What was left: name to (type, content or target).
type Tree = BTreeMap<BString, Thing>;

type Thing = (char, BString);

/// A place to be attacked in, for as long as this lives.
struct Field<'a> {
    sandbox: &'a Sandbox,
    place: Place,
    shim: Shim,
    _mount: Option<CaseInsensitive>,
    /// Directories made so far: each run gets its own.
    tried: usize,
}

impl<'a> Field<'a> {
    /// `None` where there is no such file system.
    fn new(sandbox: &'a Sandbox, place: Place) -> Option<Field<'a>> {
        let point = sandbox.path().join("field");
        fs::create_dir(&point).expect("a new directory");
        let mount = match place {
            Place::Normal => None,
            Place::IgnoringCase => Some(CaseInsensitive::mount(&sandbox.path().join("image"), &point)?),
        };
        Some(Field { sandbox, place, shim: Shim::new(), _mount: mount, tried: 0 })
    }

    /// Tries `line` with everyone, each in a directory that `prepare` made; returns what Git did.
    #[track_caller]
    fn same(&mut self, line: &[&str], prepare: impl Fn(&Repo<'_>)) -> Run {
        self.same_with(&[], line, prepare)
    }

    /// As [`Field::same`], with variables set.
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

    /// `None` if the file system failed: lowntfs-3g at times leaves a name that cannot be looked at.
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
        // Of one length, for places stand in files whose size may count.
        let repo = self.sandbox.repo(&format!("field/{:03}", self.tried));
        let prepared = catch_unwind(AssertUnwindSafe(|| {
            fs::create_dir(&repo.path).expect("a new directory");
            prepare(&repo);
        }));
        if let Err(panic) = prepared {
            if self.place == Place::IgnoringCase {
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

    /// Everything in the sandbox, but what is in the field's directories.
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

/// One run: what was there, what was said, what was left.
struct Attempt {
    before: Tree,
    run: Run,
    after: Tree,
}

/// Names with what is there in one tree and in the other, where that is not the same.
fn differing<'a>(one: &'a Tree, other: &'a Tree) -> Vec<(&'a BString, [Option<&'a Thing>; 2])> {
    let names: std::collections::BTreeSet<&BString> = one.keys().chain(other.keys()).collect();
    let both = names.into_iter().map(|name| (name, [one.get(name), other.get(name)]));
    both.filter(|(_, [one, other])| one != other).collect()
}

/// Runs `attack` in each place there is.
fn everywhere(attack: impl Fn(&Sandbox, &mut Field<'_>)) {
    for place in [Place::Normal, Place::IgnoringCase] {
        let sandbox = Sandbox::new();
        let Some(mut field) = Field::new(&sandbox, place) else { return };
        attack(&sandbox, &mut field);
    }
}

/// What was left in a directory, but objects and indexes.
fn look(dir: &Path) -> io::Result<Tree> {
    let mut tree = Tree::new();
    let in_git_dir = |path: &Path| path.as_os_str().as_bytes().contains_str(".git/");
    collect(dir, dir, &mut tree, &|path| !(path.ends_with("objects") && in_git_dir(path)))?;
    let (place, plain) = (dir.as_os_str().as_bytes(), b"<place>");
    for (_, content) in tree.values_mut() {
        *content = content.replace(place, plain).into();
    }
    // The stat data of two runs differ; and a clone that cannot be filled keeps the index of what could be.
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

/// What a hostile tree holds.
#[derive(Clone, Copy, Debug)]
enum Held<'a> {
    File(&'a str),
    Program(&'a str),
    Link(&'a str),
    Commit(&'a str),
}

/// The commit of a tree with these paths, whatever their names; made without a worktree.
fn commit(repo: &Repo<'_>, entries: &[(&str, Held<'_>)]) -> String {
    let tree = tree(repo, entries);
    repo.git(&["commit-tree", "-m", "hostile", &tree]).stdout.trim().to_str_lossy().into_owned()
}

fn tree(repo: &Repo<'_>, entries: &[(&str, Held<'_>)]) -> String {
    let mut below: BTreeMap<&str, Vec<(&str, Held<'_>)>> = BTreeMap::new();
    let mut lines = Vec::new();
    for (path, held) in entries {
        match path.split_once('/') {
            Some((dir, rest)) => below.entry(dir).or_default().push((rest, *held)),
            None => lines.push(match held {
                Held::File(content) => format!("100644 blob {}\t{path}", blob(repo, content)),
                Held::Program(content) => format!("100755 blob {}\t{path}", blob(repo, content)),
                Held::Link(target) => format!("120000 blob {}\t{path}", blob(repo, target)),
                Held::Commit(oid) => format!("160000 commit {oid}\t{path}"),
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

/// A hook that shows that it ran.
fn hook(sandbox: &Sandbox) -> String {
    format!("#!/bin/sh\ntouch '{}'\n", sandbox.path().join("pwned").display())
}

/// A repository with a harmless `main` and the branch `evil`, and its path.
fn source(sandbox: &Sandbox, name: &str, evil: &[(&str, Held<'_>)]) -> String {
    let repo = sandbox.init(name);
    repo.write("README", "harmless\n");
    repo.commit("harmless");
    let commit = commit(&repo, evil);
    repo.git(&["update-ref", "refs/heads/evil", &commit]);
    repo.path.display().to_string()
}

/// A clone of the harmless branch, as `work`.
fn harmless_clone(repo: &Repo<'_>, url: &str) {
    repo.git(&["clone", "-q", "--shared", "--template=", "-b", "main", url, "work"]);
}
