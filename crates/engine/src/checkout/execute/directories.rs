//! Reaching directories, and making them as they are needed.
//!
//! Each worker holds a few handles. A directory that may be there costs one open of its full path; one
//! that must be made costs a mkdir and an open relative to its parent, and nobody waits for it but
//! those who need it. No symbolic link is ever followed: what stands where a directory should be is
//! reported as [`Unreachable::Blocked`], whoever put it there.

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

use super::layout::Layout;
use crate::crew::KEPT_OPEN;

/// Why a directory could not be had.
#[derive(Debug)]
pub(super) enum Unreachable {
    /// It, or one above it, does not exist (and was not to be made).
    Missing,
    /// A leading component is something else than a directory.
    Blocked,
    /// The system says so.
    Failed(io::Error),
}

/// Device and inode number.
pub(super) type FileId = (u64, u64);

/// What a file is known by while a run lasts.
pub(super) fn file_id(stat: &sys::Stat) -> FileId {
    (stat.dev, stat.ino)
}

/// What a round's workers know together about the directories of its layout.
pub(super) struct Directories<'r> {
    worktree: &'r sys::Dir,
    pub(super) layout: &'r Layout<'r>,
    /// Made in this run, so that what it will hold is not there yet.
    made: Vec<AtomicBool>,
    made_ids: &'r Mutex<Vec<FileId>>,
}

impl<'r> Directories<'r> {
    /// `made_ids` collects the directories made.
    pub(super) fn new(
        worktree: &'r sys::Dir,
        layout: &'r Layout<'r>,
        made_ids: &'r Mutex<Vec<FileId>>,
    ) -> Self {
        let made = layout.dirs.iter().map(|_| AtomicBool::new(false)).collect();
        Directories { worktree, layout, made, made_ids }
    }
}

/// One worker's open directories.
pub(super) struct Handles<'r> {
    shared: &'r Directories<'r>,
    // Latest last.
    open: VecDeque<(usize, Rc<sys::Dir>)>,
}

impl<'r> Handles<'r> {
    pub(super) fn new(shared: &'r Directories<'r>) -> Self {
        Handles { shared, open: VecDeque::with_capacity(KEPT_OPEN) }
    }

    /// Opens a directory that exists.
    pub(super) fn existing(&mut self, dir: usize) -> Result<Rc<sys::Dir>, Unreachable> {
        if let Some(at) = self.open.iter().position(|(other, _)| *other == dir) {
            return Ok(Rc::clone(&self.open[at].1));
        }
        let Directories { worktree, layout, .. } = *self.shared;
        let opened = match layout.dirs[dir].path {
            b"" => worktree.try_clone(),
            path => patiently(|| worktree.open_dir(path), || self.open.clear()),
        };
        Ok(self.keep(dir, opened.map_err(Unreachable::from)?))
    }

    /// Opens a directory; makes it, and those above it, if they are not there.
    pub(super) fn made(&mut self, dir: usize) -> Result<Rc<sys::Dir>, Unreachable> {
        // Up to the first that is there, then down again.
        let mut missing = Vec::new();
        let mut at = dir;
        let mut handle = loop {
            let Directories { layout, made, .. } = self.shared;
            let parent = layout.dirs[at].parent;
            let new = at != 0 && !made[at].load(Ordering::Relaxed) && made[parent].load(Ordering::Relaxed);
            if !new {
                match self.existing(at) {
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
        let made = match parent.create_dir(name) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error.into()),
        };
        let opened = patiently(|| parent.open_dir(name), || self.open.clear())?;
        if made {
            let id = file_id(&opened.stat_self()?);
            self.shared.made_ids.lock().unwrap_or_else(PoisonError::into_inner).push(id);
            self.shared.made[dir].store(true, Ordering::Relaxed);
        }
        Ok(self.keep(dir, opened))
    }

    fn keep(&mut self, dir: usize, handle: sys::Dir) -> Rc<sys::Dir> {
        if self.open.len() == KEPT_OPEN {
            self.open.pop_front();
        }
        let handle = Rc::new(handle);
        self.open.push_back((dir, Rc::clone(&handle)));
        handle
    }

    /// See [`patiently`].
    pub(super) fn patiently<T>(&mut self, open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        patiently(open, || self.open.clear())
    }
}

impl From<io::Error> for Unreachable {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Unreachable::Missing,
            io::ErrorKind::NotADirectory => Unreachable::Blocked,
            _ if sys::is_link_in_the_way(&error) => Unreachable::Blocked,
            _ => Unreachable::Failed(error),
        }
    }
}

/// Tries again for about a second while the process or the system is out of descriptors: all workers
/// together hold few, and each lets go of one with every file it finishes.
fn patiently<T>(mut open: impl FnMut() -> io::Result<T>, let_go: impl FnOnce()) -> io::Result<T> {
    match open() {
        Err(error) if sys::is_out_of_descriptors(&error) => {
            let_go();
            again_while(sys::is_out_of_descriptors, open)
        }
        answer => answer,
    }
}

/// Tries again for about a second while it fails with what may pass.
pub(super) fn again_while<T, E>(
    passes: impl Fn(&E) -> bool,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    for round in 0..10 {
        match attempt() {
            Err(error) if passes(&error) => thread::sleep(Duration::from_millis(1 << round)),
            answer => return answer,
        }
    }
    attempt()
}
