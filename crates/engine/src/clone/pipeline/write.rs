//! Conversion of contents, and files in the staging directory.
//!
//! Promise: only regular files and directories are made, only below the staging directory, each
//! with `O_EXCL`. A name that is taken is an error: the file system treats two names as one.

use std::{
    collections::VecDeque,
    io::Write as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use format::index::NewEntry;
use repo::convert::{self, Class, Converter};
use sys::{Dir, DirMut, Stat, by_path};

use super::plan::{Directory, File, Odd};
use crate::{crew::KEPT_OPEN, files::own, look::stat::index_stat};

/// The disk must have at least this much left.
const LEFT: u64 = 64 << 20;

/// The free space is asked for after so many bytes.
const INTERVAL: u64 = 16 << 20;

/// The largest conversion buffer that is kept for the next file, in bytes.
const KEPT: usize = 1 << 20;

/// A file that was written.
pub(super) struct Written {
    pub(super) file: File,
    pub(super) stat: Stat,
}

impl Written {
    /// Its entry in the index. The file needs no comparison.
    pub(super) fn entry(&self) -> NewEntry {
        NewEntry {
            stat: index_stat(&self.stat),
            oid: self.file.oid,
            mode: self.file.mode,
            flags: format::index::Flags::UPTODATE,
            stage: format::index::Stage::Normal,
        }
    }
}

/// Writes files. The staging directory is removed with the value.
pub(super) struct Writer {
    root: DirMut,
    path: PathBuf,
    big_file_threshold: u64,
    tools: Mutex<Vec<Tools>>,
    written: Mutex<Vec<Written>>,
    bytes: AtomicU64,
}

/// The tools of one thread.
struct Tools {
    convert: convert::Worker,
    converted: Vec<u8>,
    /// Open directories, the latest one last.
    handles: VecDeque<(Arc<Directory>, DirMut)>,
}

impl Writer {
    /// Creates the staging directory.
    pub(super) fn create(path: &Path, big_file_threshold: u64) -> std::io::Result<Writer> {
        by_path::create_dir(path)?;
        Ok(Writer {
            root: own::open(path)?,
            path: path.to_owned(),
            big_file_threshold,
            tools: Mutex::default(),
            written: Mutex::default(),
            bytes: AtomicU64::new(0),
        })
    }

    /// The staging directory.
    pub(super) fn root(&self) -> &Dir {
        &self.root
    }

    /// Takes the files that were written.
    pub(super) fn take_written(&self) -> Vec<Written> {
        std::mem::take(&mut *locked(&self.written))
    }

    /// Removes the staging directory, to make room.
    pub(super) fn remove(&self) {
        // Another thread may still write. The rest is removed with the value.
        let _ = by_path::remove_dir_all(&self.path);
    }

    /// Writes a file, if that is not the checkout's task.
    pub(super) fn write(&self, converter: &Converter, file: File, content: &[u8]) -> Result<(), Odd> {
        if content.len() as u64 > self.big_file_threshold {
            return Ok(());
        }
        let spare = locked(&self.tools).pop();
        let mut tools = spare.unwrap_or_else(|| Tools {
            convert: converter.worker(),
            converted: Vec::new(),
            handles: VecDeque::new(),
        });
        let stat = tools.write(&self.root, &file, content)?;
        locked(&self.tools).push(tools);
        if let Some(stat) = stat {
            locked(&self.written).push(Written { file, stat });
            self.leave_room(stat.size)?;
        }
        Ok(())
    }

    /// The pack comes first: it needs the disk too.
    fn leave_room(&self, added: u64) -> Result<(), Odd> {
        let before = self.bytes.fetch_add(added, Ordering::Relaxed);
        let written = before + added;
        if before / INTERVAL == written / INTERVAL {
            return Ok(());
        }
        match self.root.available() {
            Ok(available) if available < LEFT.max(written) => Err(Odd),
            _ => Ok(()),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Tools {
    fn write(&mut self, root: &DirMut, file: &File, content: &[u8]) -> Result<Option<Stat>, Odd> {
        let path = file.path.as_ref();
        let Tools { convert, converted, handles } = self;
        let content = match convert.class(path, file.mode).map_err(|_| Odd)? {
            Class::External => return Ok(None),
            Class::None => content,
            Class::InProcess => {
                if converted.capacity() > KEPT {
                    *converted = Vec::new();
                }
                convert.to_worktree(path, file.oid, content, converted).map_err(|_| Odd)?
            }
        };
        if !convert.take_messages().is_empty() {
            return Ok(None);
        }
        let created = match &file.dir.parent {
            None => root.create_new(file.name(), file.mode.is_executable()),
            Some(_) => open(handles, root, &file.dir)?.create_new(file.name(), file.mode.is_executable()),
        };
        let mut written = created.map_err(|_| Odd)?;
        written.write_all(content).map_err(|_| Odd)?;
        let stat = sys::stat_of(&written).map_err(|_| Odd)?;
        sys::close(written).map_err(|_| Odd)?;
        Ok(Some(stat))
    }
}

/// Opens a directory below the top, and creates it if it is missing.
fn open<'h>(
    handles: &'h mut VecDeque<(Arc<Directory>, DirMut)>,
    root: &DirMut,
    dir: &Arc<Directory>,
) -> Result<&'h DirMut, Odd> {
    let at = handles.iter().position(|(other, _)| Arc::ptr_eq(other, dir));
    let at = match at {
        Some(at) => at,
        None => {
            if !make(root, dir) {
                return Err(Odd);
            }
            let opened = root.open_dir(&dir.path).map_err(|_| Odd)?;
            if handles.len() == KEPT_OPEN {
                handles.pop_front();
            }
            handles.push_back((Arc::clone(dir), opened));
            handles.len() - 1
        }
    };
    Ok(&handles[at].1)
}

/// Creates a directory after those above it. Returns false if it cannot be made, or was there.
fn make(root: &DirMut, dir: &Arc<Directory>) -> bool {
    let mut missing = Vec::new();
    let mut at = Some(dir);
    while let Some(dir) = at.filter(|dir| dir.made.get().is_none()) {
        missing.push(dir);
        at = dir.parent.as_ref();
    }
    missing.iter().rev().for_each(|dir| {
        dir.made.get_or_init(|| root.create_dir(&dir.path).is_ok());
    });
    dir.made.get() == Some(&true)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // After a panic the value is still consistent: it is only added to.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
