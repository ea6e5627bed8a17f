//! Opens directories, and creates them on demand.
//!
//! Each worker keeps a few handles open. An existing directory costs one open of its full path. A
//! missing one costs a mkdir and an open relative to its parent, and only the workers that need it
//! wait for it. No symbolic link is ever followed. If the path of a directory holds another kind of
//! file, the result is [`Unreachable::Blocked`], regardless of which process created the file.

use std::{
    collections::VecDeque,
    io,
    rc::Rc,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use super::{Run, layout::Layout};
use crate::{crew::KEPT_OPEN, files::Allowed};

pub(super) use crate::files::{FileId, file_id};

/// The reason why a directory could not be opened.
#[derive(Debug)]
pub(super) enum Unreachable {
    /// The directory or one of its parents does not exist, and the caller did not ask to create it.
    Missing,
    /// A leading component is not a directory.
    Blocked,
    /// Another system error.
    Failed(io::Error),
}

/// The facts that the workers of a round share about the directories of its layout.
pub(super) struct Directories<'r> {
    worktree: &'r sys::Dir,
    allowed: Allowed,
    pub(super) layout: &'r Layout<'r>,
    /// True for a directory created by this run: its subdirectories do not exist yet.
    created: Vec<AtomicBool>,
    created_ids: &'r Mutex<Vec<FileId>>,
}

impl<'r> Directories<'r> {
    /// Creates the state of a round.
    pub(super) fn new(run: &'r Run<'r>, layout: &'r Layout<'r>) -> Self {
        let created = layout.dirs.iter().map(|_| AtomicBool::new(false)).collect();
        let Run { worktree, allowed, created_dirs, .. } = run;
        Directories { worktree, allowed: *allowed, layout, created, created_ids: created_dirs }
    }
}

/// The open directories of one worker.
pub(super) struct Handles<'r> {
    shared: &'r Directories<'r>,
    // The most recently used handle is last.
    handles: VecDeque<(usize, Rc<sys::Dir>)>,
}

impl<'r> Handles<'r> {
    pub(super) fn new(shared: &'r Directories<'r>) -> Self {
        Handles { shared, handles: VecDeque::with_capacity(KEPT_OPEN) }
    }

    /// Opens a directory that exists.
    pub(super) fn open(&mut self, dir: usize) -> Result<Rc<sys::Dir>, Unreachable> {
        if let Some(at) = self.handles.iter().position(|(other, _)| *other == dir) {
            return Ok(Rc::clone(&self.handles[at].1));
        }
        let Directories { worktree, layout, .. } = *self.shared;
        let opened = match layout.dirs[dir].path {
            b"" => worktree.try_clone(),
            path => retry_without_descriptors(|| worktree.open_dir(path), || self.handles.clear()),
        };
        Ok(self.keep(dir, opened.map_err(Unreachable::from)?))
    }

    /// Opens a directory. Creates it and its parents if they are missing.
    pub(super) fn open_or_create(&mut self, dir: usize) -> Result<Rc<sys::Dir>, Unreachable> {
        // Go up to the first directory that exists, then down again.
        let mut missing = Vec::new();
        let mut at = dir;
        let mut handle = loop {
            let Directories { layout, created, .. } = self.shared;
            let parent = layout.dirs[at].parent;
            let new =
                at != 0 && !created[at].load(Ordering::Relaxed) && created[parent].load(Ordering::Relaxed);
            if !new {
                match self.open(at) {
                    Err(Unreachable::Missing) if at != 0 => {}
                    answer => break answer?,
                }
            }
            missing.push(at);
            at = parent;
        };
        while let Some(at) = missing.pop() {
            handle = self.make(&handle, at)?;
        }
        Ok(handle)
    }

    fn make(&mut self, parent: &sys::Dir, dir: usize) -> Result<Rc<sys::Dir>, Unreachable> {
        let name = self.shared.layout.dirs[dir].name();
        let created = match self.shared.allowed.within(parent).create_dir(name) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error.into()),
        };
        let opened = retry_without_descriptors(|| parent.open_dir(name), || self.handles.clear())?;
        if created {
            let id = file_id(&opened.stat_self()?);
            self.shared.created_ids.lock().unwrap_or_else(PoisonError::into_inner).push(id);
            self.shared.created[dir].store(true, Ordering::Relaxed);
        }
        Ok(self.keep(dir, opened))
    }

    fn keep(&mut self, dir: usize, handle: sys::Dir) -> Rc<sys::Dir> {
        if self.handles.len() == KEPT_OPEN {
            self.handles.pop_front();
        }
        let handle = Rc::new(handle);
        self.handles.push_back((dir, Rc::clone(&handle)));
        handle
    }

    /// Calls [`retry_without_descriptors`], and closes the open directories before the first retry.
    pub(super) fn retry_without_descriptors<T>(
        &mut self,
        open: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        retry_without_descriptors(open, || self.handles.clear())
    }
}

impl From<io::Error> for Unreachable {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Unreachable::Missing,
            io::ErrorKind::NotADirectory => Unreachable::Blocked,
            _ if sys::is_symlink_refused(&error) => Unreachable::Blocked,
            _ => Unreachable::Failed(error),
        }
    }
}

/// Retries for about a second while the process or the system is out of file descriptors. All
/// workers together hold few of them, and each releases one with every file that it finishes.
fn retry_without_descriptors<T>(
    mut open: impl FnMut() -> io::Result<T>,
    release: impl FnOnce(),
) -> io::Result<T> {
    match open() {
        Err(error) if sys::is_out_of_descriptors(&error) => {
            release();
            retry_while(sys::is_out_of_descriptors, open)
        }
        answer => answer,
    }
}

/// Retries for about a second while the operation fails with a transient error.
pub(super) fn retry_while<T, E>(
    is_transient: impl Fn(&E) -> bool,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    for round in 0..10 {
        match attempt() {
            Err(error) if is_transient(&error) => thread::sleep(Duration::from_millis(1 << round)),
            answer => return answer,
        }
    }
    attempt()
}
