//! Adoption of files that a killed run left ([`Premise::Remnant`]). The phase runs before anything
//! is created. Later, this run may have created the file at a path under another name.
//!
//! The file at a step's path is compared with the content that the step would write. An equal file
//! is adopted unchanged. A file that holds only the beginning of the content, or has the wrong
//! mode, is removed and written again. Any other file, and an unreadable one, belongs to the user
//! and stays; the step then finds its path occupied.
//!
//! A file is compared through an open handle. It is removed only if it did not change meanwhile and
//! its name still refers to it. The phase reports no failures: the step itself fails in the same
//! way and reports it.

use std::{
    collections::HashSet,
    io::{self, Read as _},
    sync::{Mutex, OnceLock, PoisonError},
};

use format::index::Entry;
use repo::convert::Class;
use sys::{File, FileType, Stat};

use super::{
    Outcome, Run,
    directories::{Directories, FileId, file_id},
    files::{FileSource, Stop, Worker, blob, content, link_target},
    layout::{Layout, file_name},
    round::into_inner,
};
use crate::{checkout::Premise, files::Proof};

/// The result for one path.
enum Found {
    /// The file is exactly the one that the step would create.
    Complete(Stat),
    /// The file was incomplete, and is removed.
    Removed(FileId),
    /// The path is free, or holds a file of the user.
    Nothing,
    /// The content of the file can be compared only with the output of an external filter.
    External,
}

/// Adopts complete files, which finishes their steps, and removes incomplete ones.
pub(super) fn adopt(run: &Run<'_>, outcomes: &[OnceLock<Outcome>]) {
    let writes = &run.plan.writes;
    let steps = (0..writes.len()).filter(|&step| writes[step].premise == Premise::Remnant);
    let layout = Layout::new(steps.map(|step| (step, run.write(step).2)));
    if layout.steps.is_empty() {
        return;
    }
    let directories = Directories::new(run, &layout);
    let removed = Mutex::new(HashSet::new());
    let (complete, external) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let record = |step: usize, dir: usize, found: Found| match found {
        Found::Complete(stat) => complete.lock().unwrap_or_else(PoisonError::into_inner).push((step, stat)),
        Found::External => external.lock().unwrap_or_else(PoisonError::into_inner).push((step, dir)),
        Found::Removed(file) => {
            removed.lock().unwrap_or_else(PoisonError::into_inner).insert(file);
        }
        Found::Nothing => {}
    };
    run.crew(layout.steps.len()).run(
        "remnant",
        layout.weights(),
        |number| Worker::of_crew(run, &directories, number),
        |worker, units, done| {
            for unit in &layout.units[units] {
                // A directory that is missing or blocked holds no remnant.
                let Ok(dir) = worker.handles.open(unit.dir) else { continue };
                for &(step, name) in &layout.steps[unit.steps.clone()] {
                    if run.interrupted() {
                        return;
                    }
                    record(step, unit.dir, worker.examine(step, &dir, name, false).unwrap_or(Found::Nothing));
                    done();
                }
            }
        },
    );
    // A filter may assume a single caller.
    let mut filtered = std::mem::take(&mut *external.lock().unwrap_or_else(PoisonError::into_inner));
    filtered.sort_unstable();
    let mut worker = Worker::new(run, &directories);
    for (step, dir) in filtered {
        let Ok(handle) = worker.handles.open(dir) else { continue };
        if run.interrupted() {
            break;
        }
        let name = file_name(run.write(step).2);
        record(step, dir, worker.examine(step, &handle, name, true).unwrap_or(Found::Nothing));
    }
    let mut complete = into_inner(complete);
    complete.sort_unstable_by_key(|(step, _)| *step);
    // Two names may refer to one file. Only the first step adopts it. The other step finds its path
    // occupied, and both collide.
    let mut seen = into_inner(removed);
    for (step, stat) in complete.into_iter().filter(|(_, stat)| seen.insert(file_id(stat))) {
        let set = outcomes[step].set(Outcome::Written(stat));
        debug_assert!(set.is_ok(), "nothing is settled yet");
        run.count_step();
    }
}

impl Worker<'_> {
    fn examine(&mut self, step: usize, dir: &sys::Dir, name: &[u8], filter: bool) -> Result<Found, Stop> {
        let (_, entry, path) = self.run.write(step);
        let Ok(Some(found)) = dir.stat(name) else { return Ok(Found::Nothing) };
        if self.run.is_link(step) {
            let target = link_target(blob(&mut self.reader, &entry)?);
            let same = found.file_type == FileType::Symlink
                && dir.read_link(name).is_ok_and(|link| link == target)
                && dir.stat(name).is_ok_and(|now| now == Some(found));
            return Ok(if same { Found::Complete(found) } else { Found::Nothing });
        }
        if found.file_type != FileType::File || entry.mode.is_gitlink() {
            return Ok(Found::Nothing);
        }
        let class = self.class(step)?;
        if class == Class::External && !filter {
            return Ok(Found::External);
        }
        let Ok(file) = self.handles.retry_without_descriptors(|| dir.open_file(name)) else {
            return Ok(Found::Nothing);
        };
        let relation = self.compare(&file, &entry, path, class)?;
        let messages = self.convert.take_messages();
        if sys::stat_of(&file).ok() != Some(found) {
            return Ok(Found::Nothing);
        }
        // The name must still refer to the file.
        let Ok(Some(now)) = dir.stat(name) else { return Ok(Found::Nothing) };
        let Some(proof) = Proof::unchanged(&found, &now) else { return Ok(Found::Nothing) };
        match relation {
            Relation::Same if found.is_executable() == entry.mode.is_executable() => {
                self.run.add_messages(messages);
                return Ok(Found::Complete(found));
            }
            Relation::Same | Relation::Prefix => {
                // A file that cannot be removed keeps its path occupied.
                if self.run.within(dir).remove_proven(name, proof).is_ok() {
                    return Ok(Found::Removed(file_id(&found)));
                }
            }
            Relation::Other => {}
        }
        Ok(Found::Nothing)
    }

    fn compare(&mut self, file: &File, entry: &Entry, path: &[u8], class: Class) -> Result<Relation, Stop> {
        let Worker { run, reader, convert, converted, .. } = self;
        let source = FileSource { entry, path, class, location: None };
        let mut comparison = Comparison { file, buffer: vec![0; BUFFER_SIZE] };
        if let Some(content) = content(run, reader, convert, converted, &source)? {
            return Ok(match comparison.compare_next(content) {
                Ok(()) => comparison.finish(),
                Err(relation) => relation,
            });
        }
        let mut different = None;
        let streamed = reader.stream(&entry.oid, &mut |chunk| {
            let went_on =
                if run.interrupted() { Err(Relation::Other) } else { comparison.compare_next(chunk) };
            went_on.map_err(|relation| {
                different = Some(relation);
                io::ErrorKind::Other.into()
            })
        });
        Ok(match (different, streamed) {
            (Some(relation), _) => relation,
            (None, Ok(())) => comparison.finish(),
            (None, Err(_)) => Relation::Other,
        })
    }
}

/// The relation of a file to the content of its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Same,
    /// The file is a proper prefix of the content.
    Prefix,
    Other,
}

const BUFFER_SIZE: usize = 64 << 10;

/// A file that is compared with content that arrives in pieces.
struct Comparison<'f> {
    file: &'f File,
    buffer: Vec<u8>,
}

impl Comparison<'_> {
    /// Compares the next piece. An error ends the comparison.
    fn compare_next(&mut self, mut expected: &[u8]) -> Result<(), Relation> {
        while !expected.is_empty() {
            let most = expected.len().min(self.buffer.len());
            let read = self.read(most).map_err(|_| Relation::Other)?;
            if self.buffer[..read] != expected[..read] {
                return Err(Relation::Other);
            }
            if read == 0 {
                return Err(Relation::Prefix);
            }
            expected = &expected[read..];
        }
        Ok(())
    }

    /// Ends the comparison after the last piece.
    fn finish(&mut self) -> Relation {
        match self.read(1) {
            Ok(0) => Relation::Same,
            _ => Relation::Other,
        }
    }

    fn read(&mut self, most: usize) -> io::Result<usize> {
        loop {
            match self.file.read(&mut self.buffer[..most]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}
