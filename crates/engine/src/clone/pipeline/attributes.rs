//! Files that wait for the attribute files that govern them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use bstr::BString;
use repo::convert::{Arriving, Converter};

use super::plan::{Directory, File, Odd};

/// The bytes that may wait. Files that find no room are left to the checkout.
const WAITING: usize = 32 << 20;

/// A file and the content of its blob.
pub(super) struct Job {
    pub(super) file: File,
    pub(super) content: Arc<[u8]>,
}

/// Holds files back until their attributes are known.
pub(super) struct Gate {
    /// Set when the attribute file at the top is known.
    converter: OnceLock<Converter>,
    state: Mutex<State>,
}

struct State {
    arriving: Option<Arriving>,
    /// Attribute files that came before the one at the top.
    early: Vec<(Arc<Directory>, Vec<u8>)>,
    /// The files that wait for the attribute file of a directory.
    waiting: HashMap<BString, Vec<Job>>,
    bytes: usize,
}

impl Gate {
    pub(super) fn new(arriving: Arriving) -> Gate {
        let state = State { arriving: Some(arriving), early: Vec::new(), waiting: HashMap::new(), bytes: 0 };
        Gate { converter: OnceLock::new(), state: Mutex::new(state) }
    }

    /// The converter, once a file has passed.
    pub(super) fn converter(&self) -> Option<&Converter> {
        self.converter.get()
    }

    /// There is no attribute file at the top.
    pub(super) fn open(&self) -> Result<(), Odd> {
        self.state().open(&self.converter, None)
    }

    /// Takes the attribute file of a directory. Returns the files that waited for it.
    pub(super) fn admit(&self, dir: &Arc<Directory>, content: &[u8]) -> Result<Vec<Job>, Odd> {
        let mut state = self.state();
        let mut freed = Vec::new();
        if dir.parent.is_none() {
            state.open(&self.converter, Some(content))?;
            state.free(dir, &mut freed);
            let converter = self.converter.get().ok_or(Odd)?;
            for (dir, content) in std::mem::take(&mut state.early) {
                converter.add_attributes(dir.path.as_ref(), &content);
                state.free(&dir, &mut freed);
            }
        } else if let Some(converter) = self.converter.get() {
            converter.add_attributes(dir.path.as_ref(), content);
            state.free(dir, &mut freed);
        } else if state.bytes + content.len() <= WAITING {
            state.bytes += content.len();
            state.early.push((Arc::clone(dir), content.to_vec()));
        }
        Ok(freed)
    }

    /// Returns the file if its attributes are known. If not, keeps it with its content.
    pub(super) fn pass(&self, file: File, content: &[u8]) -> Option<File> {
        if file.dir.blocker().is_none() {
            return Some(file);
        }
        let mut state = self.state();
        // Attributes are admitted under the lock.
        let Some(blocker) = file.dir.blocker().map(|blocker| blocker.path.clone()) else { return Some(file) };
        if state.bytes + content.len() <= WAITING {
            state.bytes += content.len();
            state.waiting.entry(blocker).or_default().push(Job { file, content: content.into() });
        }
        None
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn open(&mut self, converter: &OnceLock<Converter>, top: Option<&[u8]>) -> Result<(), Odd> {
        let arriving = self.arriving.take().ok_or(Odd)?;
        converter.set(arriving.begin(top)).map_err(|_| Odd)
    }

    fn free(&mut self, dir: &Arc<Directory>, freed: &mut Vec<Job>) {
        dir.admit();
        let jobs = self.waiting.remove(&dir.path).unwrap_or_default();
        self.bytes -= jobs.iter().map(|job| job.content.len()).sum::<usize>();
        freed.extend(jobs);
    }
}
