//! Examines the tracked files of a directory that the walk for untracked files has listed.

use std::{ops::Range, sync::PoisonError};

use bstr::BStr;
use format::index::Stage;
use sys::{Dir, FileType, ProcessCwd, ThreadCwd};

use super::{Note, Part, PathState, Scan, directory::split_off_jobs};
use crate::{
    crew::StepReporter,
    look::{
        handle::Handle,
        untracked::{Listed, Observer},
    },
};

/// Below this many files, threads get no working directory of their own, because setting it up
/// costs a few system calls.
const MIN_FILES_FOR_CHDIR: usize = 16;

impl Observer for Scan<'_> {
    fn files(&self) -> usize {
        self.selection.before(self.visited.len())
    }

    fn has_selected(&self, within: &Range<usize>) -> bool {
        self.any(within)
    }

    fn directory(
        &self,
        dir: &Dir,
        prefix: usize,
        listed: &Listed<'_>,
        within: &Range<usize>,
        reporter: &mut dyn StepReporter,
    ) {
        if !self.any(within) {
            return;
        }
        let mut notes = Vec::new();
        let mut files: Vec<(u64, usize)> = Vec::with_capacity(listed.files.len());
        files.extend(listed.files.iter().filter(|&&(_, at)| self.is_unexamined(at)));
        for others in listed.others {
            self.split(others, prefix, |part| match part {
                Part::File(at) if !self.is_unexamined(at) => {}
                // The entry may be a submodule.
                Part::File(at) => match listed.find(&self.index.path_at(at)[prefix..]) {
                    Some((_, ino)) => files.push((ino, at)),
                    None => self.note(at, PathState::Missing, &mut notes),
                },
                Part::Directory(entries, length) => {
                    let name = &self.index.path_at(entries.start)[prefix..length - 1];
                    let is_link = match listed.find(name) {
                        // The subdirectory is a job of its own.
                        Some((FileType::Directory, _)) => return,
                        Some((file_type, _)) => file_type == FileType::Symlink,
                        None => false,
                    };
                    for at in entries.filter(|&at| self.is_unexamined(at)) {
                        let state = if is_link { self.behind_a_link(at) } else { PathState::Missing };
                        self.note(at, state, &mut notes);
                    }
                }
            });
        }
        if reporter.is_slow() {
            files.sort_unstable();
            let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
            rest.extend(split_off_jobs(&mut files, prefix));
        }
        for (_, at) in files {
            self.probe(dir, at, prefix, &mut notes);
            reporter.step();
        }
        self.store_notes(notes);
    }

    fn thread_cwd(&self) -> Option<ThreadCwd<'_>> {
        if self.tuning.is_remote() || self.files() < MIN_FILES_FOR_CHDIR {
            return None;
        }
        let process_cwd = self.process_cwd.get_or_init(|| ProcessCwd::of(self.root).ok()).as_ref()?;
        ThreadCwd::new(process_cwd).ok()
    }

    fn unlisted(
        &self,
        from: &Handle,
        thread_cwd: Option<&mut ThreadCwd<'_>>,
        path: &BStr,
        within: &Range<usize>,
        reporter: &mut dyn StepReporter,
    ) {
        // Slow disks are examined at the end, with listings.
        if reporter.is_slow() || !self.any(within) {
            return;
        }
        let mut files = Vec::new();
        self.split(within, path.len(), |part| match part {
            Part::File(at) if self.is_unexamined(at) => files.push(at),
            // A subdirectory is a job of its own, or is examined at the end.
            Part::File(_) | Part::Directory(..) => {}
        });
        let dir = path.strip_suffix(b"/").unwrap_or_default();
        if let Some(thread_cwd) = thread_cwd
            && files.len() > 1
            && self.probe_from_cwd(thread_cwd, dir, files.iter().copied(), path.len(), reporter)
        {
            return;
        }
        let mut notes = Vec::new();
        for at in files {
            self.probe_below(from, at, &mut notes);
            reporter.step();
        }
        self.store_notes(notes);
    }

    fn is_clean(&self, from: &Handle, at: usize) -> bool {
        let entry = &self.index.entry(at);
        if entry.stage != Stage::Normal || !self.is_selected(at) {
            return self.index.is_fsmonitor_valid(entry);
        }
        let is_unexamined = self.is_unexamined(at);
        let mut notes = Vec::new();
        self.probe_below(from, at, &mut notes);
        let clean = notes.is_empty();
        if is_unexamined {
            self.store_notes(notes);
        }
        clean
    }
}

impl Scan<'_> {
    /// Like [`Scan::probe`], with the path relative to a directory above.
    fn probe_below(&self, from: &Handle, at: usize, notes: &mut Vec<Note>) {
        self.probe(from.dir(), at, from.base(), notes);
    }
}
