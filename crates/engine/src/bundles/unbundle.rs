//! Takes the objects and refs of one bundle.

use std::{
    io::{Seek as _, SeekFrom},
    path::Path,
};

use bstr::BString;
use format::bundle::{self, Header};
use repo::{
    fsck::{Line, Rules},
    indexing::Meter,
};
use store::refs::{Edit, Failures, Transaction};
use sys::by_path;

use super::{Bundles, Error, Failed};
use crate::{
    fetch::{
        Context, Event,
        connected::{self, Connected},
    },
    indexing::arrive::{self, Arrival, Keeping, Purpose, Settings},
};

impl Bundles<'_> {
    /// Takes a bundle whose prerequisites are here. A bundle that lacks some is no reason for a
    /// message.
    pub(super) fn unbundle(&self, path: &Path) -> Result<Result<(), Failed>, Error> {
        let Ok(mut file) = by_path::open(path) else { return Ok(Err(Failed)) };
        let header = sys::Map::of(&file).ok().and_then(|map| bundle::parse(&map).ok());
        let Some(header) = header else { return Ok(Err(Failed)) };
        if !self.has_prerequisites(&header)? {
            return Ok(Err(Failed));
        }
        if file.seek(SeekFrom::Start(header.pack_offset as u64)).is_err() {
            return Ok(Err(Failed));
        }
        let Context { repo, interrupt, fsync, locks, .. } = self.context;
        let settings = Settings { keeping: Keeping::Packed, ..Settings::load(repo, Purpose::Fetch)? };
        let (rules, _) = Rules::of_fetch(repo)?;
        let events = self.context.events;
        let arrival = Arrival {
            objects: repo.objects_dir(),
            hash: repo.hash(),
            settings: &settings,
            fsync,
            shared: locks.shared,
            existing: Some(repo.objects()),
            promisor: header.filter.as_ref().map(|_| b"from-bundle\n".to_vec()),
            keep: None,
            interrupt,
            meter: &Meter::default(),
            observer: None,
            rules: rules.as_ref(),
            say: &|line| match line {
                Line::Error(text) => events(Event::Error(text.as_ref())),
                Line::Warning(text) => events(Event::Warning(text.as_ref())),
            },
            keeps_beginning: false,
        };
        match arrive::take(&mut file, &arrival) {
            Ok(_) => {
                self.write_refs(&header);
                Ok(Ok(()))
            }
            Err(arrive::Error::Interrupted) => Err(Error::Interrupted),
            Err(error) => {
                self.error(&error.to_string());
                self.error("index-pack died");
                Ok(Err(Failed))
            }
        }
    }

    fn has_prerequisites(&self, header: &Header) -> Result<bool, Error> {
        let Context { repo, workers, interrupt, .. } = self.context;
        if header.prerequisites.is_empty() {
            return Ok(true);
        }
        let objects = repo.stored_objects();
        if !header.prerequisites.iter().all(|oid| objects.contains(oid)) {
            return Ok(false);
        }
        let options = connected::Options { workers, interrupt };
        let checked = connected::check(repo, &header.prerequisites, options);
        match checked {
            Ok(Connected::Complete) => Ok(true),
            Ok(Connected::Missing(_)) => {
                self.error(
                    "some prerequisite commits exist in the object store, but are not connected to the \
                     repository's history",
                );
                Ok(false)
            }
            Err(connected::Error::Interrupted) => Err(Error::Interrupted),
            Err(connected::Error::Repo(error)) => Err(error.into()),
        }
    }

    /// Each ref is a transaction of its own, as in Git. `HEAD` is left out, and so is a ref to an
    /// object that the bundle does not bring.
    fn write_refs(&self, header: &Header) {
        let objects = self.context.repo.stored_objects();
        for (name, oid) in &header.refs {
            let Some(name) = name.strip_prefix(b"refs/") else { continue };
            let name = BString::from([b"refs/bundles/", name].concat());
            if !objects.contains(oid) {
                let cause = format!("trying to write ref '{name}' with nonexistent object {oid}");
                self.error(&format!("update_ref failed for ref '{name}': {cause}"));
                continue;
            }
            let mut transaction = Transaction::new(self.context.refs, Failures::EndAll);
            if let Some(hook) = self.context.hook {
                transaction.observed_by(Box::new(hook));
            }
            let edit = Edit::set(name.as_ref(), *oid, "fetched bundle".into());
            let done = transaction.add(edit).and_then(|()| transaction.commit().map(drop));
            if let Err(error) = done {
                self.error(&format!("update_ref failed for ref '{name}': {error}"));
            }
        }
    }
}
