//! Remotes behind a network. All async code is here: an own runtime, which is started when such a
//! remote is opened, and ended when it is dropped. One thread waits for sockets and decrypts; the
//! callers' threads do the rest.
//!
//! Callers block. A request ends soon when the interrupt is set, and waits while as many others are
//! under way as there may be connections. A request without progress ends after the timeout. A
//! failure that may pass (no connection, status 5xx and 429, a cut) is followed by a pause and
//! another try.

mod client;
mod progress;
mod registry;
mod retry;
mod runtime;
mod s3;
mod tls;
mod web;

use std::{
    ops::Range,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use format::base_files::{DataFile, Digest, RecordKind, RecordName};
use tokio::sync::Semaphore;

use self::{client::Http, runtime::Runtime};
use crate::{Address, Error, Options, StoredData, StoredRecord, backend::Backend};

/// The time between two looks at the interrupt.
const TICK: Duration = Duration::from_millis(50);

/// A kind of remote, async. See [`Backend`].
#[async_trait(?Send)]
trait Store: Send + Sync {
    async fn has(&self, digest: &Digest) -> Result<bool, Error>;
    async fn read(&self, digest: &Digest, range: Range<u64>) -> Result<Vec<u8>, Error>;
    async fn write(&self, digest: &Digest, path: &Path) -> Result<(), Error>;
    async fn record(&self, name: &RecordName) -> Result<Option<Vec<u8>>, Error>;
    async fn set_record(&self, name: &RecordName, bytes: &[u8], files: &[DataFile]) -> Result<(), Error>;
    async fn remove_record(&self, name: &RecordName) -> Result<(), Error>;
    async fn records(&self, kind: RecordKind) -> Result<Vec<StoredRecord>, Error>;
    async fn data(&self) -> Result<Vec<StoredData>, Error>;
    async fn remove(&self, digest: &Digest) -> Result<(), Error>;
    async fn touch(&self, digest: &Digest) -> Result<(), Error>;
}

/// See the module.
pub(crate) struct Network {
    store: Box<dyn Store>,
    interrupt: Arc<AtomicBool>,
    permits: Semaphore,
    /// The file of trusted certificates, for messages.
    authorities: Arc<str>,
    runtime: Runtime,
}

impl Network {
    pub(crate) fn open(address: &Address, options: &Options<'_>) -> Result<Network, Error> {
        let runtime = Runtime::start()?;
        let ca_variable = matches!(address, Address::S3 { .. }).then_some("AWS_CA_BUNDLE");
        let http = Http::new(options, ca_variable)?;
        let authorities = Arc::clone(&http.authorities);
        let store: Box<dyn Store> = {
            let _entered = runtime.enter();
            match address {
                Address::S3 { bucket, prefix } => {
                    Box::new(s3::S3::open(address, bucket, prefix, http, options)?)
                }
                Address::Registry { scheme, host, name } => {
                    Box::new(registry::Registry::open(address, *scheme, host, name, http, options)?)
                }
                Address::Web(url) => Box::new(web::Web::open(address, url, http, options)?),
                Address::Directory(path) => unreachable!("{} needs no network", path.display()),
            }
        };
        let permits = Semaphore::new(options.connections.max(1));
        Ok(Network { store, interrupt: Arc::clone(&options.interrupt), permits, authorities, runtime })
    }

    fn run<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let interrupted = async {
            while !self.interrupt.load(Ordering::Relaxed) {
                tokio::time::sleep(TICK).await;
            }
        };
        let permitted = async {
            let _permit = self.permits.acquire().await.expect("the semaphore is never closed");
            work.await
        };
        let done = self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = interrupted => Err(Error::Interrupted),
                done = permitted => done,
            }
        });
        done.map_err(|error| match error {
            Error::Certificate { address, reason, .. } => {
                Error::Certificate { address, reason, authorities: self.authorities.to_string() }
            }
            error => error,
        })
    }
}

impl Backend for Network {
    fn has(&self, digest: &Digest) -> Result<bool, Error> {
        self.run(self.store.has(digest))
    }

    fn read(&self, digest: &Digest, range: Range<u64>) -> Result<Vec<u8>, Error> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        self.run(self.store.read(digest, range))
    }

    fn write(&self, digest: &Digest, path: &Path) -> Result<(), Error> {
        self.run(async {
            if self.store.has(digest).await? { Ok(()) } else { self.store.write(digest, path).await }
        })
    }

    fn record(&self, name: &RecordName) -> Result<Option<Vec<u8>>, Error> {
        self.run(self.store.record(name))
    }

    fn set_record(&self, name: &RecordName, bytes: &[u8], files: &[DataFile]) -> Result<(), Error> {
        self.run(self.store.set_record(name, bytes, files))
    }

    fn remove_record(&self, name: &RecordName) -> Result<(), Error> {
        self.run(self.store.remove_record(name))
    }

    fn records(&self, kind: RecordKind) -> Result<Vec<StoredRecord>, Error> {
        let mut records = self.run(self.store.records(kind))?;
        records.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(records)
    }

    fn data(&self) -> Result<Vec<StoredData>, Error> {
        let mut data = self.run(self.store.data())?;
        data.sort_by_key(|data| data.file.digest);
        Ok(data)
    }

    fn remove(&self, digest: &Digest) -> Result<(), Error> {
        self.run(self.store.remove(digest))
    }

    fn touch(&self, digest: &Digest) -> Result<(), Error> {
        self.run(self.store.touch(digest))
    }

    /// The servers remove uploads that nobody completes.
    fn remove_leftovers(&self, _: SystemTime) -> Result<(), Error> {
        Ok(())
    }
}
