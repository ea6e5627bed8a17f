//! The work of a case, and the state of the repository before it.

use std::{fs, io::Write as _, path::Path};

use crate::{Error, measure::must, weather::trees::settle};

/// The work that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// `add` of this many small files in a new repository.
    New(usize),
    /// `add -u` of this many changed files.
    Changed(usize),
    /// `commit -a` of this many changed files.
    Commit(usize),
    /// `stash` of this many changed files.
    Stash(usize),
    /// `stash pop` of this many changed files.
    Pop(usize),
    /// `add` of the whole tree in a new repository.
    All,
}

/// A case's work, and a seed that makes the content of each run unique.
pub(super) struct Script {
    pub(super) work: Work,
    pub(super) seed: String,
}

/// The number of files in a directory of a new repository.
const FULLNESS: usize = 50;

impl Work {
    /// Returns true if the work runs in the tree of the corpus rather than in a new repository.
    pub(super) fn needs_tree(self) -> bool {
        !matches!(self, Work::New(_))
    }

    /// Returns the name of the repository's directory.
    pub(super) fn directory(self) -> &'static str {
        if self.needs_tree() { "tree" } else { "new" }
    }

    /// Returns the arguments of the measured command.
    pub(super) fn words(self) -> &'static [&'static str] {
        match self {
            Work::New(_) | Work::All => &["add", "."],
            Work::Changed(_) => &["add", "-u"],
            Work::Commit(_) => &["commit", "-q", "-a", "-m", "changed"],
            Work::Stash(_) => &["stash", "push", "-q"],
            Work::Pop(_) => &["stash", "pop", "-q"],
        }
    }
}

impl Script {
    /// Creates the repository that the work needs.
    pub(super) fn prepare(&self, disk: &Path) -> Result<(), Error> {
        let at = disk.join(self.work.directory());
        match self.work {
            Work::New(count) => {
                let _ = fs::remove_dir_all(&at);
                init(&at)?;
                (0..count).try_for_each(|number| {
                    let dir = at.join(format!("d{}", number / FULLNESS));
                    let content = format!("{} {number}\n", self.seed).repeat(40 + number % 160);
                    write(&dir, &format!("f{number}"), content.as_bytes())
                })
            }
            Work::All => {
                let _ = fs::remove_dir_all(at.join(".git"));
                init(&at)
            }
            Work::Changed(count) | Work::Commit(count) | Work::Stash(count) => self.change(&at, count),
            Work::Pop(count) => {
                self.change(&at, count)?;
                git(&["stash", "push", "-q"], &at)?;
                settle(&at)
            }
        }
    }

    /// Restores the initial state of the repository.
    pub(super) fn clear(&self, disk: &Path) -> Result<(), Error> {
        let at = disk.join(self.work.directory());
        match self.work {
            Work::New(_) | Work::All => return Ok(()),
            Work::Commit(_) => git(&["reset", "-q", "--hard", "HEAD~1"], &at)?,
            Work::Changed(_) => git(&["reset", "-q", "--hard"], &at)?,
            Work::Stash(_) | Work::Pop(_) => {
                git(&["stash", "clear"], &at)?;
                git(&["reset", "-q", "--hard"], &at)?;
            }
        }
        settle(&at)
    }

    /// Appends a line to files that are spread over the tree.
    fn change(&self, at: &Path, count: usize) -> Result<(), Error> {
        let listing = must(Path::new("git"), &["ls-files", "-sz"], at)?;
        let text = String::from_utf8_lossy(&listing);
        let lines = text.split('\0').filter(|line| line.starts_with("100"));
        let files: Vec<&str> = lines.filter_map(|line| line.split_once('\t').map(|(_, path)| path)).collect();
        for number in (0..files.len()).step_by((files.len() / count).max(1)).take(count) {
            let path = at.join(files[number]);
            let appended = fs::OpenOptions::new()
                .append(true)
                .open(&path)
                .and_then(|mut file| file.write_all(format!("{}\n", self.seed).as_bytes()));
            appended.map_err(|source| Error::Io { what: "cannot change", path, source })?;
        }
        Ok(())
    }
}

/// Counts the files of the repository's Git directory.
pub(super) fn files(at: &Path) -> i64 {
    fn below(dir: &Path) -> i64 {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let count = |entry: fs::DirEntry| match entry.file_type() {
            Ok(file_type) if file_type.is_dir() => below(&entry.path()),
            _ => 1,
        };
        entries.map(count).sum()
    }
    below(&at.join(".git"))
}

fn git(args: &[&str], at: &Path) -> Result<(), Error> {
    must(Path::new("git"), args, at).map(drop)
}

fn init(at: &Path) -> Result<(), Error> {
    git(&["init", "-q", &at.display().to_string()], Path::new("/"))
}

fn write(dir: &Path, name: &str, content: &[u8]) -> Result<(), Error> {
    let path = dir.join(name);
    let written = fs::create_dir_all(dir).and_then(|()| fs::write(&path, content));
    written.map_err(|source| Error::Io { what: "cannot write", path, source })
}
