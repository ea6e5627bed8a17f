//! Prepares the trees to measure: `refs/lab/new`, and `refs/lab/change-N`, which differs from it
//! in N files spread over the tree.

use std::{
    collections::HashMap,
    fmt, fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use crate::{Error, corpus, measure::must, record};

/// A prepared repository, on a fast disk.
pub(crate) struct Tree {
    pub(crate) name: String,
    /// A bare repository with a single pack.
    pub(crate) packed: PathBuf,
    /// An index of the tree without stat data.
    pub(crate) index: PathBuf,
    /// The numbers of files that the switches change.
    pub(crate) changes: Vec<usize>,
    pub(crate) files: usize,
    pub(crate) directories: usize,
    /// The number of files directly in the largest directory.
    fullest: usize,
}

/// The distribution of files over directories, which limits how many can be created concurrently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The files are spread over many directories.
    Spread,
    /// One directory holds a fifth of the files or more. The kernel creates entries of one
    /// directory one at a time.
    Crowded,
}

impl Tree {
    pub(crate) fn shape(&self) -> Shape {
        if self.fullest * 5 >= self.files { Shape::Crowded } else { Shape::Spread }
    }

    /// Describes the tree in a record.
    pub(crate) fn fact(&self) -> record::Tree {
        let Tree { name, files, directories, .. } = self;
        record::Tree { name: name.clone(), files: *files, directories: Some(*directories) }
    }

    /// Returns the number of files that a case writes.
    pub(crate) fn files_of(&self, case: &str) -> usize {
        case.strip_prefix("switch-").and_then(|count| count.parse().ok()).unwrap_or(self.files)
    }

    /// Creates a repository with these objects and an empty worktree.
    pub(crate) fn empty_at(&self, at: &Path) -> Result<(), Error> {
        let (from, to) = (self.packed.display().to_string(), at.display().to_string());
        let git = |args: &[&str], cwd: &Path| must(Path::new("git"), args, cwd).map(drop);
        git(&["clone", "-q", "-s", "-n", &from, &to], Path::new("/"))?;
        git(&["fetch", "-q", "origin", "refs/lab/*:refs/lab/*"], at)?;
        // A file written through a mount with delayed writes gets a different ctime on the next
        // mount.
        git(&["config", "core.trustctime", "false"], at)
    }

    /// Creates a repository with these objects and a full checkout.
    pub(crate) fn full_at(&self, at: &Path) -> Result<(), Error> {
        self.empty_at(at)?;
        let checkout = ["-c", "checkout.workers=2", "checkout", "-q", "-f", "--detach", "refs/lab/new"];
        must(Path::new("git"), &checkout, at).map(drop)?;
        settle(at)
    }
}

/// Waits until the second of the last file writes is over, then rewrites the index. Git does not
/// trust the stat data of files as recent as the index, so otherwise the next tool would have to
/// read them.
pub(crate) fn settle(at: &Path) -> Result<(), Error> {
    thread::sleep(Duration::from_millis(1100));
    must(Path::new("git"), &["read-tree", "-m", "HEAD"], at).map(drop)
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tree { name, files, directories, fullest, .. } = self;
        write!(
            f,
            "{name}: {files} files in {directories} directories, {fullest} in the fullest ({:?})",
            self.shape()
        )
    }
}

/// Prepares linux from Debian's source packages.
pub(crate) fn linux(counts: &[usize]) -> Result<Tree, Error> {
    let packed = corpus::linux()?.packed()?;
    prepare("linux", &packed, "refs/heads/lab", counts)
}

/// Prepares the tree that an option selects: a repository, a bundle, or `linux`.
pub(crate) fn named(path: &Path, counts: &[usize]) -> Result<Tree, Error> {
    if path == Path::new("linux") && !path.exists() { linux(counts) } else { of(path, counts) }
}

/// Prepares a repository or a bundle.
pub(crate) fn of(path: &Path, counts: &[usize]) -> Result<Tree, Error> {
    let path = fs::canonicalize(path).map_err(|source| Error::Io {
        what: "cannot open",
        path: path.to_owned(),
        source,
    })?;
    let name = path.file_stem().map_or_else(|| "root".into(), |name| name.to_string_lossy().into_owned());
    prepare(&name, &path, "HEAD", counts)
}

fn prepare(name: &str, source: &Path, revision: &str, counts: &[usize]) -> Result<Tree, Error> {
    let dir = corpus::absolute(&corpus::directory().join("weather").join(name))?;
    let (packed, index) = (dir.join("packed.git"), dir.join("index"));
    let git = |args: &[&str]| must(Path::new("git"), args, &packed);
    let mut is_new = false;
    let (from, to) = (source.display().to_string(), packed.display().to_string());
    // `complete` contains the id of the prepared commit, so a changed source is prepared again.
    let complete = dir.join("complete");
    let commit = must(Path::new("git"), &["ls-remote", &from, revision], &dir)?;
    if fs::read(&complete).ok().is_none_or(|prepared| prepared != commit) {
        eprintln!("lab: preparing {}", dir.display());
        let _ = fs::remove_dir_all(&packed);
        must(Path::new("git"), &["clone", "-q", "--bare", "--no-local", &from, &to], &dir)?;
        git(&["update-ref", "refs/lab/new", &format!("{revision}^{{commit}}")])?;
        is_new = true;
    }
    let listing = git(&["ls-tree", "-rz", "--name-only", "refs/lab/new"])?;
    let paths: Vec<&[u8]> = listing.split(|&byte| byte == 0).filter(|path| !path.is_empty()).collect();
    let mut directories: HashMap<&[u8], usize> = HashMap::new();
    for path in &paths {
        let dir = path.iter().rposition(|&byte| byte == b'/').map_or(&b""[..], |slash| &path[..slash]);
        *directories.entry(dir).or_default() += 1;
    }
    let changes: Vec<usize> = counts.iter().copied().filter(|count| count * 2 <= paths.len()).collect();
    for &count in &changes {
        let is_there = git(&["rev-parse", "-q", "--verify", &format!("refs/lab/change-{count}")]).is_ok();
        if !is_there {
            corpus::change(&packed, "refs/lab/new", count)?;
            is_new = true;
        }
    }
    if is_new {
        git(&["repack", "-adq"])?;
        git(&["read-tree", &format!("--index-output={}", index.display()), "refs/lab/new"])?;
        fs::write(&complete, commit).map_err(|source| Error::Io {
            what: "cannot write",
            path: complete,
            source,
        })?;
    }
    crate::rig::warm(&packed)?;
    let fullest = directories.values().copied().max().unwrap_or(0);
    let (files, directories) = (paths.len(), directories.len());
    Ok(Tree { name: name.to_owned(), packed, index, changes, files, directories, fullest })
}
