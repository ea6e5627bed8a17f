//! What a killed run left ([`Premise::Remnant`]), looked at before anything is created: later it could be this
//! run's own work under another name.
//!
//! What is at a step's path is compared with what the step would write there. The same: it is taken over as it
//! is. A file that is the beginning of it, or has the wrong mode: it is removed, to be written again. Anything
//! else, and whatever cannot be read, is somebody's and stays; the step finds it in its way.
//!
//! A file is compared through an open handle, and removed only if it did not change meanwhile and the name
//! still leads to it. Failures are left to the step itself, which meets them again and reports them.

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
    files::{Stop, Worker, blob, content, link_target},
    layout::{Layout, file_name},
    round::into_inner,
};
use crate::checkout::Premise;

/// What became of a path that was looked at.
enum Found {
    /// Just what the step would make.
    Whole(Stat),
    /// Only begun: it is gone.
    Removed(FileId),
    /// Nothing, or what is not ours to touch.
    Nothing,
    /// A file whose content only an external filter can tell.
    External,
}

/// Takes over what is whole, which settles its step, and removes what was only begun.
pub(super) fn adopt(run: &Run<'_>, outcomes: &[OnceLock<Outcome>]) {
    let writes = &run.plan.writes;
    let steps = (0..writes.len()).filter(|&step| writes[step].premise == Premise::Remnant);
    let layout = Layout::new(steps.map(|step| (step, run.write(step).2)));
    if layout.steps.is_empty() {
        return;
    }
    let directories = Directories::new(run.worktree, &layout, &run.made);
    let removed = Mutex::new(HashSet::new());
    let (whole, external) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let note = |step: usize, dir: usize, found: Found| match found {
        Found::Whole(stat) => whole.lock().unwrap_or_else(PoisonError::into_inner).push((step, stat)),
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
                // A directory that is missing or blocked holds nothing of ours.
                let Ok(dir) = worker.handles.existing(unit.dir) else { continue };
                for &(step, name) in &layout.steps[unit.steps.clone()] {
                    if run.interrupted() {
                        return;
                    }
                    note(step, unit.dir, worker.look(step, &dir, name, false).unwrap_or(Found::Nothing));
                    done();
                }
            }
        },
    );
    // A filter may assume that it has one caller.
    let mut filtered = std::mem::take(&mut *external.lock().unwrap_or_else(PoisonError::into_inner));
    filtered.sort_unstable();
    let mut worker = Worker::new(run, &directories);
    for (step, dir) in filtered {
        let Ok(handle) = worker.handles.existing(dir) else { continue };
        if run.interrupted() {
            break;
        }
        let name = file_name(run.write(step).2);
        note(step, dir, worker.look(step, &handle, name, true).unwrap_or(Found::Nothing));
    }
    let mut whole = into_inner(whole);
    whole.sort_unstable_by_key(|(step, _)| *step);
    // Two names of one file: the other finds it in its way, and then both have collided.
    let mut seen = into_inner(removed);
    for (step, stat) in whole.into_iter().filter(|(_, stat)| seen.insert(file_id(stat))) {
        let set = outcomes[step].set(Outcome::Written(stat));
        debug_assert!(set.is_ok(), "nothing is settled yet");
        run.finished();
    }
}

impl Worker<'_> {
    fn look(&mut self, step: usize, dir: &sys::Dir, name: &[u8], filter: bool) -> Result<Found, Stop> {
        let (_, entry, path) = self.run.write(step);
        let Ok(Some(there)) = dir.stat(name) else { return Ok(Found::Nothing) };
        if self.run.is_link(step) {
            let target = link_target(blob(&mut self.reader, entry)?);
            let same = there.file_type == FileType::Symlink
                && dir.read_link(name).is_ok_and(|found| found == target)
                && is_still(dir, name, &there);
            return Ok(if same { Found::Whole(there) } else { Found::Nothing });
        }
        if there.file_type != FileType::File || entry.mode.is_gitlink() {
            return Ok(Found::Nothing);
        }
        let class = self.class(step)?;
        if class == Class::External && !filter {
            return Ok(Found::External);
        }
        let Ok(file) = self.handles.patiently(|| dir.open_file(name)) else { return Ok(Found::Nothing) };
        let likeness = self.compare(&file, (entry, path), class)?;
        let messages = self.convert.take_messages();
        let unchanged = sys::stat_of(&file).is_ok_and(|now| now == there) && is_still(dir, name, &there);
        match likeness {
            _ if !unchanged => {}
            Likeness::Same if there.is_executable() == entry.mode.is_executable() => {
                self.run.say(messages);
                return Ok(Found::Whole(there));
            }
            Likeness::Same | Likeness::Beginning => {
                // What does not go is found in the way.
                if dir.remove_file(name).is_ok() {
                    return Ok(Found::Removed(file_id(&there)));
                }
            }
            Likeness::Other => {}
        }
        Ok(Found::Nothing)
    }

    fn compare(
        &mut self,
        file: &File,
        (entry, path): (&Entry, &[u8]),
        class: Class,
    ) -> Result<Likeness, Stop> {
        let Worker { run, reader, convert, converted, .. } = self;
        let mut comparison = Comparison { file, buffer: vec![0; BUFFER] };
        if let Some(content) = content(run, (reader, convert, converted), (entry, path), class, None)? {
            return Ok(match comparison.go_on(content) {
                Ok(()) => comparison.end(),
                Err(likeness) => likeness,
            });
        }
        let mut different = None;
        let streamed = reader.stream(&entry.oid, &mut |chunk| {
            let went_on = if run.interrupted() { Err(Likeness::Other) } else { comparison.go_on(chunk) };
            went_on.map_err(|likeness| {
                different = Some(likeness);
                io::ErrorKind::Other.into()
            })
        });
        Ok(match (different, streamed) {
            (Some(likeness), _) => likeness,
            (None, Ok(())) => comparison.end(),
            (None, Err(_)) => Likeness::Other,
        })
    }
}

/// Whether a name still leads to what was seen.
fn is_still(dir: &sys::Dir, name: &[u8], seen: &Stat) -> bool {
    dir.stat(name).is_ok_and(|now| now.as_ref() == Some(seen))
}

/// What a file is to the content it was to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Likeness {
    Same,
    /// It ends too early; up to there it is the same.
    Beginning,
    Other,
}

const BUFFER: usize = 64 << 10;

/// A file on its way to be compared with a content that comes in pieces.
struct Comparison<'f> {
    file: &'f File,
    buffer: Vec<u8>,
}

impl Comparison<'_> {
    /// Compares what comes next; an error ends it.
    fn go_on(&mut self, mut expected: &[u8]) -> Result<(), Likeness> {
        while !expected.is_empty() {
            let most = expected.len().min(self.buffer.len());
            let read = self.read(most).map_err(|_| Likeness::Other)?;
            if self.buffer[..read] != expected[..read] {
                return Err(Likeness::Other);
            }
            if read == 0 {
                return Err(Likeness::Beginning);
            }
            expected = &expected[read..];
        }
        Ok(())
    }

    /// Nothing more was to come.
    fn end(&mut self) -> Likeness {
        match self.read(1) {
            Ok(0) => Likeness::Same,
            _ => Likeness::Other,
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
