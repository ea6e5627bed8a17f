//! The lane of external filters: one thread in addition to the workers, as in a checkout, because
//! a filter may assume a single caller.
//!
//! The lane passes each file to its filter in index order. A filter may delay a file; it is asked
//! for those files after the last one, and delivers them in any order. So a filter that fetches
//! contents fetches them in one batch.

use std::{
    collections::HashMap,
    sync::{
        PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bstr::{BString, ByteSlice as _};
use format::ObjectId;
use repo::{
    convert::{Delays, ExternalFilters, Smudged},
    objects::{Kind, Reader},
};

use super::{
    Error,
    contents::{ARENA, Found, Run, name_of},
};

/// Files whose filters have answered, before they are written.
#[derive(Default)]
struct Waiting {
    files: Vec<(usize, ObjectId, Vec<u8>)>,
    bytes: usize,
}

/// Adds the contents of the entries at these positions, which need an external filter. Ends early
/// if `stop` is set.
pub(super) fn write(
    run: &Run<'_>,
    entries: &[usize],
    stop: &AtomicBool,
) -> Result<Vec<(usize, Found)>, Error> {
    let mut reader = run.repo.objects().reader();
    let mut filters = run.converter.external(Delays::Offered);
    let written = Lane { run, stop, reader: &mut reader, waiting: Waiting::default(), found: Vec::new() }
        .run(entries, &mut filters);
    run.messages.lock().unwrap_or_else(PoisonError::into_inner).extend(filters.take_messages());
    written
}

struct Lane<'l, 'r> {
    run: &'l Run<'r>,
    stop: &'l AtomicBool,
    reader: &'l mut Reader<'r>,
    waiting: Waiting,
    found: Vec<(usize, Found)>,
}

impl Lane<'_, '_> {
    fn run(mut self, entries: &[usize], filters: &mut ExternalFilters) -> Result<Vec<(usize, Found)>, Error> {
        let mut delayed: HashMap<BString, usize> = HashMap::new();
        for &entry in entries {
            self.check()?;
            let (path, oid) = (self.run.index.path_at(entry), self.run.index.entry(entry).oid);
            let smudged = filters.smudge(path, oid, self.blob(entry)?);
            match smudged.map_err(|source| self.failed(entry, source))? {
                Smudged::Delayed => drop(delayed.insert(path.to_owned(), entry)),
                smudged => self.take(entry, smudged)?,
            }
        }
        // A filter is asked until it has no more files, even if all of them have arrived.
        loop {
            self.check()?;
            let first = delayed.values().min().copied();
            let ready = filters.available();
            let ready = ready.map_err(|source| self.failed(first.unwrap_or_default(), source))?;
            if ready.is_empty() {
                break;
            }
            for path in ready {
                let Some(entry) = delayed.remove(&path) else { continue };
                let smudged = filters.fetch(path.as_bstr(), self.run.index.entry(entry).oid);
                let smudged = smudged.map_err(|source| self.failed(entry, source))?;
                self.take(entry, smudged)?;
            }
        }
        if let Some(path) = filters.unfinished().first() {
            return Err(Error::Step { message: format!("'{path}' was not filtered properly") });
        }
        self.flush()?;
        Ok(self.found)
    }

    fn check(&self) -> Result<(), Error> {
        let is_over = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        if is_over(self.stop) || is_over(self.run.options.interrupt) {
            Err(Error::Interrupted)
        } else {
            Ok(())
        }
    }

    fn failed(&self, entry: usize, source: repo::Error) -> Error {
        Error::Convert { path: self.run.path(entry), source: Box::new(source) }
    }

    fn blob(&mut self, entry: usize) -> Result<&[u8], Error> {
        let oid = self.run.index.entry(entry).oid;
        match self.reader.read(&oid) {
            Ok((Kind::Blob, blob)) => Ok(blob),
            Ok(_) => Err(Error::NotABlob { path: self.run.path(entry), oid }),
            Err(source) => Err(self.run.unreadable(entry, source)),
        }
    }

    /// Takes the answer of a filter.
    fn take(&mut self, entry: usize, smudged: Smudged) -> Result<(), Error> {
        let bytes = match smudged {
            Smudged::Ready(bytes) => bytes,
            Smudged::Unchanged | Smudged::Delayed => self.blob(entry)?.to_vec(),
        };
        if bytes.is_empty() {
            self.found.push((entry, Found::File(None)));
        } else {
            let name = name_of(&bytes, self.run.index.hash);
            let oid = self.run.index.entry(entry).oid;
            let name = name.ok_or_else(|| Error::NotABlob { path: self.run.path(entry), oid })?;
            self.waiting.bytes += bytes.len();
            self.waiting.files.push((entry, name, bytes));
        }
        if self.waiting.bytes >= ARENA {
            self.flush()?;
        }
        self.run.count();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        let Waiting { mut files, .. } = std::mem::take(&mut self.waiting);
        files.sort_unstable_by_key(|(entry, ..)| *entry);
        let contents: Vec<(ObjectId, &[u8])> = files.iter().map(|(_, oid, bytes)| (*oid, &**bytes)).collect();
        let places = self.run.appender.add(&contents)?;
        self.found.extend(files.iter().zip(places).map(|(file, place)| (file.0, Found::File(Some(place)))));
        Ok(())
    }
}
