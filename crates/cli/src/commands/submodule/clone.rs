//! The repository of a submodule: cloned into `modules` of the superproject, or found there, and
//! connected with the worktree.
//!
//! An existing repository is used unchanged. A failed clone leaves no files, and is retried once
//! after all others, as in Git.

use std::{collections::VecDeque, path::Path, process::Command};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{clone::Filter, files::whole};
use format::config::Edit;
use sys::by_path;

use super::{
    alternates,
    list::{Link, Superproject},
    options::Request,
};
use crate::{
    session::{
        reexec,
        submodules::connect,
        tasks::{Next, Start, Task, Work},
    },
    term::{
        console::text,
        failure::Failure,
        notice::Printer,
        text::{os_error, os_str},
    },
};

/// A submodule without a worktree.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) link: Link,
    pub(super) name: BString,
    pub(super) url: BString,
    /// `--depth`, or the depth that `.gitmodules` recommends.
    pub(super) depth: Option<BString>,
}

/// The work before the worktree can be connected.
enum Step {
    Clone(Box<Command>),
    /// The repository exists.
    Connect,
}

/// The clones of an update.
pub(super) struct Clones<'a> {
    pub(super) superproject: &'a Superproject<'a>,
    pub(super) request: &'a Request,
    /// The submodules that were not examined yet.
    pub(super) links: std::vec::IntoIter<Link>,
    /// The submodules to clone a second time.
    pub(super) retries: VecDeque<Wanted>,
    /// Examines one submodule. Returns `None` if there is nothing to clone.
    pub(super) look: CloneLookup<'a>,
    /// A submodule could not be cloned in two attempts.
    pub(super) gave_up: bool,
}

/// Returns the clone that a submodule needs, and appends text for the user.
type CloneLookup<'a> = Box<dyn FnMut(Link, &mut Vec<u8>) -> Result<Option<Wanted>, Failure> + 'a>;

/// The attempt to clone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    First,
    Second,
}

impl Work for Clones<'_> {
    type Key = (Wanted, Attempt);

    fn next(&mut self, output: &mut Vec<u8>) -> Result<Option<Task<Self::Key>>, Failure> {
        for link in self.links.by_ref() {
            if let Some(wanted) = (self.look)(link, output)? {
                return Ok(Some(self.start(wanted, Attempt::First)));
            }
        }
        let retry = self.retries.pop_front();
        Ok(retry.map(|wanted| self.start(wanted, Attempt::Second)))
    }

    fn ended(&mut self, key: Self::Key, code: u8, output: &mut Vec<u8>) -> Result<Next, Failure> {
        let (wanted, attempt) = key;
        let done = match code {
            0 => self.finish(&wanted),
            // The task ended before it started a process, and has printed its error.
            REFUSED => Err(Failure::Reported(128)),
            _ => Err(Failure::Fatal(text!(
                "clone of '",
                wanted.url,
                "' into submodule path '",
                path_bytes(&self.superproject.dir(wanted.link.path.as_bstr())),
                "' failed"
            ))),
        };
        let Err(failure) = done else { return Ok(Next::GoOn) };
        match failure {
            Failure::Signal(_) => return Err(failure),
            Failure::Fatal(message) => output.extend_from_slice(&text!("fatal: ", message, "\n")),
            failure => failure.print(),
        }
        let path = &wanted.link.path;
        if attempt == Attempt::First {
            output.extend_from_slice(&text!("Failed to clone '", path, "'. Retry scheduled\n"));
            self.retries.push_back(wanted);
            return Ok(Next::GoOn);
        }
        output.extend_from_slice(&text!("Failed to clone '", path, "' a second time, aborting\n"));
        self.gave_up = true;
        Ok(Next::Stop)
    }
}

/// The exit code of a task that was refused before it started a process.
const REFUSED: u8 = 255;

impl Clones<'_> {
    fn start(&self, wanted: Wanted, attempt: Attempt) -> Task<(Wanted, Attempt)> {
        let what = match self.prepare(&wanted) {
            Ok(Step::Clone(command)) => Start::Process(command),
            Ok(Step::Connect) => Start::Ended(0),
            Err(failure) => {
                failure.print();
                Start::Ended(REFUSED)
            }
        };
        Task { key: (wanted, attempt), what }
    }

    fn prepare(&self, wanted: &Wanted) -> Result<Step, Failure> {
        let (superproject, path) = (self.superproject, wanted.link.path.as_bstr());
        superproject.submodules.validate(path)?;
        let dir = superproject.dir(path);
        let place = connect::place(superproject.repo, &Printer, wanted.name.as_bstr())?;
        if self.request.require_init && !is_empty(&dir) {
            return Err(not_empty(&dir));
        }
        let shared = superproject.settings.locks.shared;
        let make_parents = |path: &Path| {
            let made = path.parent().map_or(Ok(()), |parent| shared.create_dir_all(parent));
            made.map_err(cannot_create(path))
        };
        if exists(&place) {
            make_parents(&dir)?;
            // The old index described a worktree that no longer exists.
            let _ = by_path::remove_file(&place.join("index"));
            return Ok(Step::Connect);
        }
        make_parents(&place)?;
        let mut references = self.request.references.clone();
        references.extend(alternates::of_superproject(superproject, wanted.name.as_bstr())?);
        Ok(Step::Clone(Box::new(self.command(wanted, &place, &dir, &references))))
    }

    fn command(&self, wanted: &Wanted, place: &Path, dir: &Path, references: &[BString]) -> Command {
        let request = self.request;
        let mut git =
            reexec::in_submodule(self.superproject.run, self.superproject.dir(BStr::new("")).as_path());
        git.env("GIT_PROTOCOL_FROM_USER", "0").args(["clone", "--no-checkout"]);
        if request.quiet {
            git.arg("--quiet");
        }
        if request.progress {
            git.arg("--progress");
        }
        if let Some(depth) = wanted.depth.as_ref().filter(|depth| depth.iter().any(|&digit| digit != b'0')) {
            git.arg(os_str(&text!("--depth=", depth)));
        }
        for reference in references {
            git.arg("--reference").arg(os_str(reference));
        }
        if let Some(format) = &request.ref_format {
            git.arg(os_str(&text!("--ref-format=", format)));
        }
        if request.dissociate {
            git.arg("--dissociate");
        }
        git.arg("--separate-git-dir").arg(place);
        if let Some(filter) = &request.filter {
            let expanded = Filter::parse(filter.as_bstr());
            let filter = expanded.as_ref().map_or(filter.as_bstr(), |filter| filter.expanded());
            git.arg(os_str(&text!("--filter=", filter)));
        }
        if let Some(single) = request.single_branch {
            git.arg(if single { "--single-branch" } else { "--no-single-branch" });
        }
        git.arg("--").arg(os_str(&wanted.url)).arg(dir);
        git
    }

    /// Connects the repository with the worktree.
    fn finish(&self, wanted: &Wanted) -> Result<(), Failure> {
        let superproject = self.superproject;
        let dir = superproject.dir(wanted.link.path.as_bstr());
        if self.request.require_init && !has_only_dot_git(&dir) {
            // A parallel clone has connected the two; undo that, so that nothing uses the
            // repository.
            let _ = whole::remove_gitfile(&dir);
            return Err(not_empty(&dir));
        }
        let place = connect::place(superproject.repo, &Printer, wanted.name.as_bstr())
            .inspect_err(|_| self.disable(wanted))?;
        if !exists(&dir) {
            let made = superproject.settings.locks.shared.create_dir_all(&dir);
            made.map_err(cannot_create(&dir))?;
        }
        connect::connect(&dir, &place, superproject.settings)?;
        let edits: Vec<Edit> = alternates::inherited(superproject.repo)
            .map(|(key, value)| Edit::Set { key: key.into(), value })
            .collect();
        if !edits.is_empty() {
            let settings = superproject.settings;
            store::config::edit(&place.join("config"), &edits, &settings.config_locks, &settings.fsync)?;
        }
        Ok(())
    }

    /// Disables a repository that now lies within another one.
    fn disable(&self, wanted: &Wanted) {
        let head = text!("modules/", wanted.name, "/HEAD");
        let _ = by_path::remove_file(&self.superproject.repo.git_dir().join(os_str(&head)));
    }
}

fn exists(path: &Path) -> bool {
    matches!(by_path::stat_followed(path), Ok(Some(_)))
}

/// Returns true for a directory that is empty or missing.
fn is_empty(dir: &Path) -> bool {
    !exists(dir) || by_path::list(dir).is_ok_and(|names| names.is_empty())
}

fn has_only_dot_git(dir: &Path) -> bool {
    is_empty(dir) || by_path::list(dir).is_ok_and(|names| names.iter().all(|(name, _)| name == ".git"))
}

fn not_empty(dir: &Path) -> Failure {
    Failure::Fatal(text!("directory not empty: '", path_bytes(dir), "'"))
}

fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

fn cannot_create(dir: &Path) -> impl Fn(std::io::Error) -> Failure + '_ {
    move |error| {
        let reason = os_error(&error);
        Failure::fatal(format!("could not create directory '{}': {reason}", dir.display()))
    }
}
