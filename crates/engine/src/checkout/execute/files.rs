//! Creation of one entry in an open directory.
//!
//! The content is read and converted first, so that no file is created for an unreadable object.
//! Then the old file is compared with the plan's premise and removed, and the new one is created
//! with `O_EXCL`. A new file that cannot be finished is removed again, if its name still refers to
//! the same file.

use std::io::{self, Write as _};

use format::index::Entry;
use repo::{
    convert::{self, Class},
    objects::{Content, Kind, Location, Reader},
};
use sys::File;

use super::{
    Action, Outcome, Run, StepError,
    directories::{Directories, Handles, file_id},
};
use crate::{
    checkout::{Premise, Write},
    crew,
    files::{Failed, Proof, Removed},
};

/// The largest conversion buffer that a worker keeps for its next file, in bytes.
const MAX_KEPT_BUFFER: usize = 1 << 20;

/// The reason why a step did not finish in this round.
#[derive(Debug)]
pub(super) enum Stop {
    /// The path is occupied. It is examined after all rounds.
    Blocked,
    /// Only an external filter can produce the content.
    External,
    Interrupted,
    Failed(StepError),
}

impl From<StepError> for Stop {
    fn from(error: StepError) -> Stop {
        Stop::Failed(error)
    }
}

impl From<repo::Error> for Stop {
    fn from(error: repo::Error) -> Stop {
        Stop::Failed(error.into())
    }
}

/// The reader, the converter and the reusable buffers of one thread.
pub(super) struct Worker<'r> {
    pub(super) run: &'r Run<'r>,
    pub(super) handles: Handles<'r>,
    pub(super) reader: Reader<'r>,
    pub(super) convert: convert::Worker,
    pub(super) converted: Vec<u8>,
}

impl<'r> Worker<'r> {
    pub(super) fn new(run: &'r Run<'r>, directories: &'r Directories<'r>) -> Self {
        Worker::of_crew(run, directories, 0)
    }

    /// Creates the worker with this number in a crew; see [`crew::reader`].
    pub(super) fn of_crew(run: &'r Run<'r>, directories: &'r Directories<'r>, number: usize) -> Self {
        Worker {
            run,
            handles: Handles::new(directories),
            reader: crew::reader(run.repo.objects(), number),
            convert: run.converter.worker(),
            converted: Vec::new(),
        }
    }

    /// Creates the step's entry as `name` in `dir`. `location` is the position of its object in the
    /// object store, if known.
    pub(super) fn place(
        &mut self,
        step: usize,
        class: Class,
        location: Option<Location>,
        dir: &sys::Dir,
        name: &[u8],
    ) -> Result<Outcome, Stop> {
        let (write, entry, _) = self.run.write(step);
        let path = self.run.entry_path(step);
        if entry.mode.is_gitlink() {
            return submodule(self.run, dir, name, &write.premise);
        }
        if entry.mode.is_symlink() && self.run.options.symlinks {
            let target = blob(&mut self.reader, &entry)?;
            remove_old(self.run, dir, name, &write.premise)?;
            return symlink(self.run, dir, name, target);
        }
        if class == Class::External {
            return Err(Stop::External);
        }
        let Worker { run, handles, reader, convert, converted } = self;
        let file = FileSource { entry: &entry, path, class, location };
        let content = content(run, reader, convert, converted, &file);
        run.add_messages(convert.take_messages());
        match content? {
            Some(content) => write_new(run, handles, dir, name, write, &entry, content),
            None => self.stream(&entry, dir, name, &write.premise),
        }
    }

    /// Returns the conversion class of a step; see [`Worker::class_of_file`].
    pub(super) fn class(&mut self, step: usize) -> Result<Class, Stop> {
        let (_, entry, _) = self.run.write(step);
        if entry.mode.is_gitlink() || self.run.is_link(step) {
            Ok(Class::None)
        } else {
            self.class_of_file(&entry, self.run.entry_path(step))
        }
    }

    /// Returns the conversion class of a regular file.
    fn class_of_file(&mut self, entry: &Entry, path: &[u8]) -> Result<Class, Stop> {
        // Without symbolic links in the file system, a link becomes a file that contains the
        // unconverted target.
        if entry.mode.is_symlink() {
            Ok(Class::None)
        } else {
            Ok(self.convert.class(path.into(), entry.mode)?)
        }
    }

    /// Writes a blob that is too large for memory, in pieces.
    fn stream(
        &mut self,
        entry: &Entry,
        dir: &sys::Dir,
        name: &[u8],
        premise: &Premise,
    ) -> Result<Outcome, Stop> {
        remove_old(self.run, dir, name, premise)?;
        let file = create(self.run, &mut self.handles, dir, name, entry)?;
        let Worker { run, reader, .. } = self;
        fill(run, dir, name, file, |mut file| {
            let mut stopped = None;
            let streamed = reader.stream(&entry.oid, &mut |chunk| {
                let written = if run.interrupted() {
                    Err(Stop::Interrupted)
                } else {
                    file.write_all(chunk).map_err(|error| Action::WriteFile.failed()(error).into())
                };
                written.map_err(|stop| {
                    stopped = Some(stop);
                    io::ErrorKind::Other.into()
                })
            });
            match (stopped, streamed) {
                (Some(stop), _) => Err(stop),
                (None, Err(error)) => Err(StepError::object(entry.oid)(error).into()),
                (None, Ok(())) => Ok(()),
            }
        })
    }
}

/// The source of a regular file's content.
pub(super) struct FileSource<'e> {
    pub(super) entry: &'e Entry,
    /// The path that selects attributes and filters.
    pub(super) path: &'e [u8],
    pub(super) class: Class,
    /// The position of the object in the object store, if known.
    pub(super) location: Option<Location>,
}

/// Returns the content of a regular file, or `None` if it is too large for memory. Waits for
/// external filters.
pub(super) fn content<'a>(
    run: &Run<'_>,
    reader: &'a mut Reader<'_>,
    convert: &mut convert::Worker,
    converted: &'a mut Vec<u8>,
    &FileSource { entry, path, class, location }: &FileSource<'_>,
) -> Result<Option<&'a [u8]>, Stop> {
    let oid = entry.oid;
    match class {
        Class::None => match reader.read_located(&oid, location, run.options.big_file_threshold) {
            Ok(Content::Whole(Kind::Blob, content)) => Ok(Some(content)),
            Ok(Content::Large(Kind::Blob, _)) => Ok(None),
            Ok(Content::Whole(kind, _) | Content::Large(kind, _)) => {
                Err(StepError::NotABlob { oid, kind }.into())
            }
            Err(error) => Err(StepError::object(oid)(error).into()),
        },
        Class::InProcess | Class::External => {
            // Do not keep the buffer of one large file for all later ones.
            if converted.capacity() > MAX_KEPT_BUFFER {
                *converted = Vec::new();
            }
            Ok(Some(convert.to_worktree(path.into(), oid, blob(reader, entry)?, converted)?))
        }
    }
}

/// Reads the entry's blob into the reader's buffer.
pub(super) fn blob<'a>(reader: &'a mut Reader<'_>, entry: &Entry) -> Result<&'a [u8], StepError> {
    let oid = entry.oid;
    match reader.read(&oid) {
        Ok((Kind::Blob, content)) => Ok(content),
        Ok((kind, _)) => Err(StepError::NotABlob { oid, kind }),
        Err(error) => Err(StepError::object(oid)(error)),
    }
}

/// Creates a file with this content.
pub(super) fn write_new(
    run: &Run<'_>,
    handles: &mut Handles<'_>,
    dir: &sys::Dir,
    name: &[u8],
    write: &Write,
    entry: &Entry,
    content: &[u8],
) -> Result<Outcome, Stop> {
    remove_old(run, dir, name, &write.premise)?;
    let file = create(run, handles, dir, name, entry)?;
    fill(run, dir, name, file, |mut file| Ok(file.write_all(content).map_err(Action::WriteFile.failed())?))
}

/// Removes the old file that planning found, if it is unchanged.
fn remove_old(run: &Run<'_>, dir: &sys::Dir, name: &[u8], premise: &Premise) -> Result<(), Stop> {
    let action = match premise {
        // Earlier phases have removed these files.
        Premise::Absent | Premise::Anything | Premise::Remnant => return Ok(()),
        Premise::Unchanged(_) => Action::UnlinkOld,
        Premise::Directory => Action::RemoveDirectory,
    };
    match run.within(dir).remove(name, premise, &run.unlinked) {
        Ok(Removed::Gone | Removed::Missing) => Ok(()),
        Ok(Removed::Changed) => Err(Stop::Blocked),
        Err(Failed::Examine(error)) => Err(Action::Examine.failed()(error).into()),
        Err(Failed::Change(error)) => Err(action.failed()(error).into()),
    }
}

/// Creates a file with `O_CREAT | O_EXCL`.
fn create(
    run: &Run<'_>,
    handles: &mut Handles<'_>,
    dir: &sys::Dir,
    name: &[u8],
    entry: &Entry,
) -> Result<File, Stop> {
    let create = || run.within(dir).create_new(name, entry.mode.is_executable());
    let created = handles.retry_without_descriptors(create);
    created.map_err(|error| creation_error(error, Action::CreateFile))
}

/// Writes to a new file and closes it. Removes the file on failure.
fn fill(
    run: &Run<'_>,
    dir: &sys::Dir,
    name: &[u8],
    file: File,
    write: impl FnOnce(&File) -> Result<(), Stop>,
) -> Result<Outcome, Stop> {
    let examine = |file: &File| sys::stat_of(file).map_err(Action::StatWritten.failed());
    let (ours, stop) = match write(&file).and_then(|()| Ok(examine(&file)?)) {
        Ok(stat) => match sys::close(file) {
            Ok(()) => return Ok(Outcome::Written(stat)),
            Err(error) => (Some(stat), Action::WriteFile.failed()(error).into()),
        },
        Err(stop) => (sys::stat_of(&file).ok(), stop),
    };
    let found = dir.stat(name).ok().flatten();
    if let (Some(ours), Some(found)) = (ours, found)
        && let Some(proof) = Proof::created(file_id(&ours), &found)
    {
        // The original error is the one to report.
        let _ = run.within(dir).remove_proven(name, proof);
    }
    Err(stop)
}

fn symlink(run: &Run<'_>, dir: &sys::Dir, name: &[u8], target: &[u8]) -> Result<Outcome, Stop> {
    let created = run.within(dir).symlink(link_target(target), name);
    created.map_err(|error| creation_error(error, Action::CreateSymlink))?;
    stat_created(dir, name)
}

/// Returns a link target up to its first NUL, where the kernel ends it too.
pub(super) fn link_target(blob: &[u8]) -> &[u8] {
    blob.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn submodule(run: &Run<'_>, dir: &sys::Dir, name: &[u8], premise: &Premise) -> Result<Outcome, Stop> {
    if *premise != Premise::Directory {
        remove_old(run, dir, name, premise)?;
    }
    match run.within(dir).create_dir(name) {
        Ok(()) => stat_created(dir, name),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            match dir.stat(name).map_err(Action::Examine.failed())? {
                Some(stat) if stat.file_type == sys::FileType::Directory => Ok(Outcome::Kept),
                _ => Err(Stop::Blocked),
            }
        }
        Err(error) => Err(Action::CreateSubmodule.failed()(error).into()),
    }
}

/// Stats a path that was created without a handle.
fn stat_created(dir: &sys::Dir, name: &[u8]) -> Result<Outcome, Stop> {
    match dir.stat(name).map_err(Action::StatWritten.failed())? {
        Some(stat) => Ok(Outcome::Written(stat)),
        None => Err(Action::StatWritten.failed()(io::ErrorKind::NotFound.into()).into()),
    }
}

fn creation_error(error: io::Error, action: Action) -> Stop {
    match error.kind() {
        io::ErrorKind::AlreadyExists => Stop::Blocked,
        _ => action.failed()(error).into(),
    }
}
