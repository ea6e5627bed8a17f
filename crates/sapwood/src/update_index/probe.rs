//! A test for the untracked cache: the stat data of directories on this file system must change if,
//! and only if, an entry is added or removed.
//!
//! Each step waits for the clock to advance, as in Git: the test takes six seconds. Its files are
//! removed, even if it fails.

use std::{
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use engine::stat::{StatRules, index_stat};
use format::index::Stat;
use sys::by_path;

use crate::Error;

/// The expected effect of a step on the directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Changes,
    Stays,
}

/// The directory for the test.
struct ProbeDirectory {
    name: String,
    dir: PathBuf,
}

impl Drop for ProbeDirectory {
    fn drop(&mut self) {
        // An error in `drop` cannot be returned.
        let _ = by_path::remove_dir_all(&self.dir);
    }
}

impl ProbeDirectory {
    fn new(top: &Path) -> Result<ProbeDirectory, Error> {
        let mut number = std::process::id();
        loop {
            let name = format!("mtime-test-{number:06}");
            let dir = top.join(&name);
            match by_path::create_dir(&dir) {
                Ok(()) => return Ok(ProbeDirectory { name, dir }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => number = number.wrapping_add(1),
                Err(error) => {
                    let reason = sys::reason(&error);
                    return Err(Error::failed(format!("Could not make temporary directory: {reason}")));
                }
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Returns the failure of a step.
    fn fatal(&self, what: &str, name: &str, error: &io::Error) -> Error {
        let slash = if name.is_empty() { "" } else { "/" };
        let reason = sys::reason(error);
        Error::failed(format!("failed to {what} {}{slash}{name}: {reason}", self.name))
    }

    fn stat(&self) -> Result<Stat, Error> {
        let found =
            by_path::stat_followed(&self.dir).and_then(|found| found.ok_or(ErrorKind::NotFound.into()));
        found.map(|stat| index_stat(&stat)).map_err(|error| self.fatal("stat", "", &error))
    }

    fn add_file(&self, name: &str) -> Result<(), Error> {
        let made = by_path::create_new(&self.path(name), 0o644).map(drop);
        made.map_err(|error| self.fatal("create file", name, &error))
    }

    fn add_directory(&self) -> Result<(), Error> {
        let made = by_path::create_dir(&self.path("new-dir"));
        made.map_err(|error| self.fatal("create directory", "new-dir", &error))
    }

    fn write(&self) -> Result<(), Error> {
        let written =
            by_path::append(&self.path("newfile"), false, 0o644).and_then(|mut file| file.write_all(b"data"));
        written.map_err(|error| self.fatal("write file", "newfile", &error))
    }

    fn delete_file(&self, name: &str) -> Result<(), Error> {
        let deleted = by_path::remove_file(&self.path(name));
        deleted.map_err(|error| self.fatal("delete file", name, &error))
    }

    fn delete_directory(&self, name: &str) -> Result<(), Error> {
        let deleted = by_path::remove_dir(&self.path(name));
        deleted.map_err(|error| self.fatal("delete directory", name, &error))
    }
}

/// One operation in the directory.
type Step = (Expected, &'static str, fn(&ProbeDirectory) -> Result<(), Error>);

/// The steps, each with the message for a file system that fails it.
const STEPS: &[Step] = &[
    (Expected::Changes, "directory stat info does not change after adding a new file", |tried| {
        tried.add_file("newfile")
    }),
    (
        Expected::Changes,
        "directory stat info does not change after adding a new directory",
        ProbeDirectory::add_directory,
    ),
    (Expected::Stays, "directory stat info changes after updating a file", ProbeDirectory::write),
    (Expected::Stays, "directory stat info changes after adding a file inside subdirectory", |tried| {
        tried.add_file("new-dir/new")
    }),
    (Expected::Changes, "directory stat info does not change after deleting a file", |tried| {
        tried.delete_file("newfile")
    }),
    (Expected::Changes, "directory stat info does not change after deleting a directory", |tried| {
        tried.delete_file("new-dir/new")?;
        tried.delete_directory("new-dir")
    }),
];

/// Runs the test below the directory `top`. Calls `stepped` with 0 once the directory of the test
/// exists, and before each step with its number. Returns what is wrong with the file system, or
/// `None` if it passes.
pub fn directories_tell(
    top: &Path,
    rules: StatRules,
    stepped: &mut dyn FnMut(usize),
) -> Result<Option<&'static str>, Error> {
    let tried = ProbeDirectory::new(top)?;
    stepped(0);
    let mut base = tried.stat()?;
    for (number, (expected, wrong, act)) in STEPS.iter().enumerate() {
        stepped(number + 1);
        thread::sleep(Duration::from_secs(1));
        act(&tried)?;
        let now = tried.stat()?;
        let found = if rules.differs(&base, &now) { Expected::Changes } else { Expected::Stays };
        if found != *expected {
            return Ok(Some(wrong));
        }
        base = now;
    }
    tried.delete_directory("")?;
    Ok(None)
}
