//! An open repository with its settings.

use std::{
    collections::HashMap,
    ffi::OsString,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use bstr::{BString, ByteSlice as _};
use engine::pathspec::{Defaults, Pathspecs};
use format::ObjectId;

use crate::{
    Error,
    context::Context,
    events::{Events, Notices, Silent},
    lazy::lazy,
    notice::Notice,
    settings::Settings,
};

/// A repository, as one process sees it: its place, its configuration and the environment.
pub struct Repository {
    pub(crate) inner: repo::Repository,
    pub(crate) settings: Settings,
    /// The settings of operations that record the user's own work.
    recording: Settings,
    interrupt: Arc<AtomicBool>,
    notices: Vec<Notice>,
}

/// The environment of an operation: variables by name, as Git reads them.
pub type Environment = HashMap<OsString, OsString>;

/// Returns the options for opening repositories from the directory `cwd`.
pub(crate) fn outside(cwd: PathBuf, env: Environment) -> repo::OpenOptions {
    repo::OpenOptions {
        cwd,
        git_dir: None,
        work_tree: None,
        bare: false,
        is_being_created: false,
        config: Vec::new(),
        env: env.into(),
        message_sink: repo::MessageSink(|_| {}),
        is_created_by_command: false,
        lazy_fetch: None,
    }
}

impl Repository {
    /// Opens the repository of the directory `dir`, which may lie below its worktree. `environment`
    /// has the variables that Git would read, such as `HOME` and `GIT_DIR`. Objects that a partial
    /// clone lacks are fetched when they are read.
    pub fn open(dir: &Path, environment: Environment) -> Result<Repository, Error> {
        let cwd = std::path::absolute(dir);
        let cwd = cwd.map_err(|source| Error::CannotOpen { path: dir.to_owned(), source })?;
        let interrupt = Arc::default();
        let options = lazy(outside(cwd, environment), &interrupt);
        Repository::of(repo::Repository::open(&options)?, interrupt)
    }

    /// Reads the settings of an open repository.
    pub(crate) fn of(inner: repo::Repository, interrupt: Arc<AtomicBool>) -> Result<Repository, Error> {
        let notices = Notices::default();
        let settings = Settings::read(&inner, &notices)?;
        let recording = Settings::read(&inner, &Silent)?.for_recording();
        Ok(Repository { inner, settings, recording, interrupt, notices: notices.into_vec() })
    }

    /// Parses pathspecs relative to the directory that was opened. Without patterns, they select
    /// everything.
    pub fn pathspecs<P: AsRef<[u8]>>(&self, patterns: &[P]) -> Result<Pathspecs, Error> {
        let patterns: Vec<BString> = patterns.iter().map(|pattern| pattern.as_ref().into()).collect();
        let root = self.worktree().map_or(&b""[..], |root| root.as_os_str().as_bytes());
        let parsed = Pathspecs::parse(&patterns, self.inner.prefix(), root.as_bstr(), Defaults::default());
        parsed.map_err(|error| Error::Pathspec(error.message))
    }

    /// Returns the object that a revision names: for example `HEAD~2`, `main^{tree}`, `HEAD:file`.
    pub fn resolve(&self, revision: &str) -> Result<ObjectId, Error> {
        Ok(self.inner.rev_parse(revision.into())?)
    }

    /// Opens the repository again, for an operation that must see the settings of this moment: a
    /// program may keep a repository open while others change it.
    pub(crate) fn again(&self) -> Result<Repository, Error> {
        Repository::of(self.inner.open_again()?, self.interrupt())
    }

    /// Returns the notices about the configuration.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// Returns the flag that stops a running operation at its next step, for a handler of signals.
    pub fn interrupt(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.interrupt)
    }

    /// Returns the root of the worktree; `None` in a bare repository.
    pub fn worktree(&self) -> Option<&Path> {
        self.inner.work_tree()
    }

    /// Returns the directory of the repository that belongs to this worktree.
    pub fn git_dir(&self) -> &Path {
        self.inner.git_dir()
    }

    /// Returns the context of an operation that records the user's own work.
    pub(crate) fn recording_context<'a>(&'a self, events: &'a dyn Events) -> Context<'a> {
        Context { settings: &self.recording, ..self.context(events) }
    }

    /// Returns the context of an operation.
    pub(crate) fn context<'a>(&'a self, events: &'a dyn Events) -> Context<'a> {
        let Repository { inner, settings, interrupt, .. } = self;
        Context { repo: inner, settings, events, interrupt, hands_over: false }
    }
}
