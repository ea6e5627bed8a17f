//! The repositories of `lab write`, and the cleanup between runs.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::steps::Step;
use crate::{
    Error, corpus,
    measure::{hermetic, must},
};

/// A repository to measure on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Tree {
    /// Two versions of Linux, from Debian's source packages.
    Linux,
    /// A generated repository of 16 packs.
    Packs,
}

impl Tree {
    pub(super) fn name(self) -> &'static str {
        match self {
            Tree::Linux => "linux",
            Tree::Packs => "packs",
        }
    }
}

/// The number of packs of the generated repository.
const PACKS: usize = 16;

/// A repository with an index, and the paths that runs write to.
pub(super) struct Fixture {
    /// The bare repository.
    pub(super) repo: PathBuf,
    pub(super) packs: usize,
    pub(super) objects: usize,
    scratch: PathBuf,
    /// A worktree without files.
    pub(super) tree: PathBuf,
    /// A bare repository without objects.
    pub(super) empty: PathBuf,
}

fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { what, path, source }
}

impl Fixture {
    /// Creates the repository, or reuses the one of an earlier call.
    pub(super) fn make(tree: Tree, objects: usize, scratch: &Path) -> Result<Fixture, Error> {
        let repo = match tree {
            Tree::Linux => corpus::linux()?.packed()?,
            Tree::Packs => generated(objects, scratch)?,
        };
        let git = Path::new("git");
        let counted = must(git, &["count-objects", "-v"], &repo)?;
        let counted = String::from_utf8_lossy(&counted);
        let field = |name: &str| {
            let value = counted.lines().find_map(|line| line.strip_prefix(name));
            value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
        };
        let scratch = corpus::absolute(&scratch.join(tree.name()))?;
        let (tree, empty) = (scratch.join("tree"), scratch.join("empty"));
        let fixture =
            Fixture { packs: field("packs:"), objects: field("in-pack:"), repo, scratch, tree, empty };
        if !fixture.tree.exists() {
            let (from, to) = (fixture.repo.display().to_string(), fixture.tree.display().to_string());
            must(git, &["clone", "-q", "--shared", "--no-checkout", &from, &to], &fixture.scratch)?;
        }
        let largest = fixture.largest_pack()?;
        let pack = fixture.scratch_pack();
        if !pack.exists() {
            fs::copy(&largest, &pack).map_err(io("cannot copy", &largest))?;
        }
        Ok(fixture)
    }

    /// Returns the path of a copy of the largest pack.
    pub(super) fn scratch_pack(&self) -> PathBuf {
        self.scratch.join("copy.pack")
    }

    fn largest_pack(&self) -> Result<PathBuf, Error> {
        let dir = self.repo.join("objects/pack");
        let entries = fs::read_dir(&dir).map_err(io("cannot list", &dir))?.flatten();
        let packs = entries.filter(|entry| entry.path().extension().is_some_and(|it| it == "pack"));
        let largest = packs.max_by_key(|entry| entry.metadata().map_or(0, |found| found.len()));
        largest
            .map(|entry| entry.path())
            .ok_or_else(|| Error::Setup(format!("{} has no packs", self.repo.display())))
    }

    /// Prepares the input of a step.
    pub(super) fn prepare(&self, step: Step) -> Result<(), Error> {
        let Some(version) = step.index_version() else { return Ok(()) };
        let git = Path::new("git");
        must(git, &["read-tree", "HEAD"], &self.tree)?;
        let version = version.to_string();
        must(git, &["update-index", "--index-version", &version, "--force-write-index"], &self.tree)?;
        Ok(())
    }

    /// Removes what a run of a step wrote.
    pub(super) fn clean(&self, step: Step) -> Result<(), Error> {
        let remove = |path: PathBuf| match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(io("cannot remove", &path)(error))
            }
            _ => Ok(()),
        };
        match step {
            Step::MultiPackIndex => remove(self.repo.join("objects/pack/multi-pack-index")),
            Step::CommitGraph | Step::ChangedPaths => remove(self.repo.join("objects/info/commit-graph")),
            Step::IndexPack | Step::IndexPackStdin => {
                for ending in ["idx", "rev"] {
                    remove(self.scratch_pack().with_extension(ending))?;
                }
                let empty = &self.empty;
                if empty.exists() {
                    fs::remove_dir_all(empty).map_err(io("cannot remove", empty))?;
                }
                let at = empty.display().to_string();
                must(Path::new("git"), &["init", "-q", "--bare", &at], Path::new("/")).map(drop)
            }
            _ => Ok(()),
        }
    }
}

/// Creates a repository of [`PACKS`] packs: each contains commits that change one small file each,
/// among 1,000 files in 100 directories.
fn generated(objects: usize, scratch: &Path) -> Result<PathBuf, Error> {
    let repo = scratch.join(format!("packs-{objects}.git"));
    let complete = repo.join("complete");
    if complete.exists() {
        return Ok(repo);
    }
    let _ = fs::remove_dir_all(&repo);
    let at = repo.display().to_string();
    must(Path::new("git"), &["init", "-q", "--bare", "-b", "main", &at], Path::new("/"))?;
    // Each commit adds four objects: the commit, a blob and two trees.
    let commits = objects.div_ceil(4);
    for pack in 0..PACKS {
        eprintln!("lab: generating pack {} of {PACKS}", pack + 1);
        let range = commits * pack / PACKS..commits * (pack + 1) / PACKS;
        let mut child = hermetic(&mut Command::new("git"))
            .args(["-c", "fastimport.unpackLimit=1", "-c", "core.fsync=none", "fast-import", "--quiet"])
            .current_dir(&repo)
            .stdin(Stdio::piped())
            .spawn()
            .map_err(io("cannot start git in", &repo))?;
        let mut input = child.stdin.take().expect("it was asked for");
        let mut stream = String::new();
        for number in range {
            let (time, text) = (1_600_000_000 + number, format!("content of {number}\n"));
            stream += "commit refs/heads/main\n";
            stream += &format!("committer lab <lab@example.org> {time} +0000\ndata 2\nx\n");
            if number > 0 && number == commits * pack / PACKS {
                stream += "from refs/heads/main^0\n";
            }
            let (dir, file) = (number % 100, number / 100 % 10);
            stream += &format!("M 100644 inline d{dir}/f{file}\ndata {}\n{text}\n", text.len());
        }
        input.write_all(stream.as_bytes()).map_err(io("cannot feed git in", &repo))?;
        drop(input);
        let ended = child.wait().map_err(io("cannot wait for git in", &repo))?;
        if !ended.success() {
            return Err(Error::Setup(format!("git fast-import failed in {}", repo.display())));
        }
    }
    fs::write(&complete, "").map_err(io("cannot write", &complete))?;
    Ok(repo)
}
