//! What is at paths of the worktree, for who names them: one at a time, or many that were named together.

use std::{io, sync::Mutex};

use bstr::{BStr, BString, ByteSlice as _};
use sys::{Dir, FileType, Stat};

use crate::{
    crew::{self, Tuning},
    handle::FAR,
};

/// So many paths, one after the other, are asked for by one worker.
const IN_A_ROW: usize = 16;

/// So many stats take as long as what is done with a file elsewhere.
const STATS_PER_STEP: usize = 8;

/// What is at a path of the worktree.
#[derive(Debug)]
pub enum Found {
    /// This.
    There(Stat),
    /// Nothing.
    Missing,
    /// A symbolic link is on the way.
    BeyondLink,
    /// Nobody knows.
    Unreadable(io::Error),
}

/// Looks at paths, and remembers where it was.
#[derive(Debug)]
pub struct Looker<'a> {
    worktree: &'a Dir,
    nearby: Nearby,
    /// Made when several are to look.
    tuning: Option<Tuning>,
}

impl<'a> Looker<'a> {
    /// At what is in `worktree`.
    pub fn new(worktree: &'a Dir) -> Looker<'a> {
        Looker { worktree, nearby: Nearby::default(), tuning: None }
    }

    /// One stat, mostly. Like Git's, a directory that was seen last to be one, no link on the way, is believed to be one until another one is met.
    pub fn look(&mut self, path: &BStr) -> Found {
        match self.nearby.by_path(self.worktree, path) {
            Ok(Some(stat)) => Found::There(stat),
            Err(error) => Found::Unreadable(error),
            Ok(None) => {
                let mut above = path.find_iter("/").map(|slash| &path[..slash]);
                let is_link = |dir: &BStr| {
                    let stat = self.worktree.stat(dir).ok().flatten();
                    stat.is_some_and(|stat| stat.file_type == FileType::Symlink)
                };
                if above.any(is_link) { Found::BeyondLink } else { Found::Missing }
            }
        }
    }

    /// What can be told of paths that were named at the same time, by many who look at once; of the others [`Looker::look`] tells.
    pub fn look_at_all(&mut self, paths: &[BString]) -> Vec<Option<Stat>> {
        let worktree = self.worktree;
        let tuning = self.tuning.get_or_insert_with(|| Tuning::reading(worktree));
        let rows: Vec<&[BString]> = paths.chunks(IN_A_ROW).collect();
        let found = crew::map(
            ("look", tuning),
            &rows,
            |row| row.len().div_ceil(STATS_PER_STEP),
            &Mutex::default(),
            |_| Nearby::default(),
            |nearby, row| {
                let look = |path: &BString| nearby.by_handle(worktree, path.as_ref()).ok().flatten();
                Ok::<Vec<_>, std::convert::Infallible>(row.iter().map(look).collect())
            },
        );
        match found {
            Ok(found) => found.into_iter().flatten().collect(),
            Err(never) => match never {},
        }
    }
}

/// The directory in which something was found last.
#[derive(Debug, Default)]
struct Nearby {
    /// With a slash at its end.
    path: BString,
    handle: Option<Dir>,
}

impl Nearby {
    /// `lstat`; `None` if there is nothing. Later there may be another directory, so none is kept open.
    fn by_path(&mut self, worktree: &Dir, path: &BStr) -> io::Result<Option<Stat>> {
        let (directory, _) = split(path);
        // What is far has its directory opened each time, whatever is known of it.
        if path.len() <= FAR && self.path == directory {
            return worktree.stat_near(path.as_bytes());
        }
        let found = worktree.stat(path)?;
        if found.is_some() {
            self.path = directory.into();
        }
        Ok(found)
    }

    /// The same, of paths that were all named before.
    fn by_handle(&mut self, worktree: &Dir, path: &BStr) -> io::Result<Option<Stat>> {
        let (directory, name) = split(path);
        let Some(above) = directory.strip_suffix(b"/") else { return worktree.stat_near(name) };
        if self.handle.is_none() || self.path != directory {
            self.handle = Some(worktree.open_dir(above)?);
            self.path = directory.into();
        }
        self.handle.as_ref().map_or(Ok(None), |handle| handle.stat_near(name))
    }
}

/// The directory, with its slash, and the name in it.
fn split(path: &BStr) -> (&[u8], &[u8]) {
    path.split_at(path.rfind_byte(b'/').map_or(0, |slash| slash + 1))
}
