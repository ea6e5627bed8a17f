//! Remotes behind a network.
//!
//! Callers block, and their threads do all work. A request ends soon when the interrupt is set, and
//! waits while the largest number of requests is under way. A request without progress ends after
//! the timeout. A failure that may pass (no connection, status 5xx and 429, a cut) is followed by a
//! pause and another try.

mod client;
mod registry;
mod retry;
mod s3;
mod tls;
mod web;

use std::{
    ops::Range,
    path::Path,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use format::base_files::{DataFile, Digest, RecordKind, RecordName};

use self::client::Http;
use crate::{Address, Error, Options, StoredData, StoredRecord, backend::Backend};

/// The time between two looks at the interrupt.
const TICK: Duration = Duration::from_millis(50);

/// See the module.
pub(crate) struct Network {
    store: Box<dyn Backend>,
    interrupt: Arc<AtomicBool>,
    permits: Permits,
    /// The file of trusted certificates, for messages.
    authorities: Arc<str>,
}

impl Network {
    pub(crate) fn open(address: &Address, options: &Options<'_>) -> Result<Network, Error> {
        let ca_variable = matches!(address, Address::S3 { .. }).then_some("AWS_CA_BUNDLE");
        let http = Http::new(options, ca_variable)?;
        let authorities = Arc::clone(&http.authorities);
        let store: Box<dyn Backend> = match address {
            Address::S3 { bucket, prefix } => Box::new(s3::S3::open(address, bucket, prefix, http, options)?),
            Address::Registry { scheme, host, name } => {
                Box::new(registry::Registry::open(address, *scheme, host, name, http, options)?)
            }
            Address::Web(url) => Box::new(web::Web::open(address, url, http, options)?),
            Address::Directory(path) => unreachable!("{} needs no network", path.display()),
        };
        let permits = Permits::new(options.connections);
        Ok(Network { store, interrupt: Arc::clone(&options.interrupt), permits, authorities })
    }

    fn run<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let _permit = self.permits.take(&self.interrupt)?;
        work().map_err(|error| match error {
            Error::Certificate { address, reason, .. } => {
                Error::Certificate { address, reason, authorities: self.authorities.to_string() }
            }
            error => error,
        })
    }
}

/// The number of requests that may begin.
struct Permits {
    free: Mutex<usize>,
    returned: Condvar,
}

impl Permits {
    fn new(number: usize) -> Permits {
        Permits { free: Mutex::new(number.max(1)), returned: Condvar::new() }
    }

    /// Waits for a permit, unless the command is interrupted.
    fn take(&self, interrupt: &AtomicBool) -> Result<Permit<'_>, Error> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if interrupt.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            if *free > 0 {
                *free -= 1;
                return Ok(Permit(self));
            }
            free = self.returned.wait_timeout(free, TICK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Returns itself when it is dropped.
struct Permit<'a>(&'a Permits);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.returned.notify_one();
    }
}

impl Backend for Network {
    fn has(&self, digest: &Digest) -> Result<bool, Error> {
        self.run(|| self.store.has(digest))
    }

    fn read(&self, digest: &Digest, range: Range<u64>) -> Result<Vec<u8>, Error> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        self.run(|| self.store.read(digest, range))
    }

    fn write(&self, digest: &Digest, path: &Path) -> Result<(), Error> {
        self.run(|| if self.store.has(digest)? { Ok(()) } else { self.store.write(digest, path) })
    }

    fn record(&self, name: &RecordName) -> Result<Option<Vec<u8>>, Error> {
        self.run(|| self.store.record(name))
    }

    fn set_record(&self, name: &RecordName, bytes: &[u8], files: &[DataFile]) -> Result<(), Error> {
        self.run(|| self.store.set_record(name, bytes, files))
    }

    fn remove_record(&self, name: &RecordName) -> Result<(), Error> {
        self.run(|| self.store.remove_record(name))
    }

    fn records(&self, kind: RecordKind) -> Result<Vec<StoredRecord>, Error> {
        let mut records = self.run(|| self.store.records(kind))?;
        records.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(records)
    }

    fn data(&self) -> Result<Vec<StoredData>, Error> {
        let mut data = self.run(|| self.store.data())?;
        data.sort_by_key(|data| data.file.digest);
        Ok(data)
    }

    fn remove(&self, digest: &Digest) -> Result<(), Error> {
        self.run(|| self.store.remove(digest))
    }

    fn touch(&self, digest: &Digest) -> Result<(), Error> {
        self.run(|| self.store.touch(digest))
    }
}
