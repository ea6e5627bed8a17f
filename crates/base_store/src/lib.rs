//! Remotes of bases: object stores, registries, web servers and directories, behind one interface
//! that blocks. `docs/design/fleet.md` defines the layout.
//!
//! A remote holds data files, which never change and are named by their digest, and small records.
//! A data file is there completely or not at all, and a record is replaced as a whole. A failed or
//! killed write leaves what was there before; [`Remote::remove_leftovers`] removes its remains.
//!
//! [`Remote`] is `Sync`, so workers share one. Answers are not trusted: [`Remote::read`]
//! returns as many bytes as were asked for, or an error, and the caller checks them.

mod address;
mod backend;
mod directory;
mod error;
mod network;

use std::{
    ffi::OsString,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, SystemTime},
};

use format::base_files::{DataFile, Digest, RecordKind, RecordName};

use backend::Backend;
use directory::Directory;
use network::Network;

pub use address::{Address, Scheme, WebAddress};
pub use error::{AddressError, Error};

/// The number of requests at once, unless the caller says otherwise.
pub const CONNECTIONS: usize = 8;

/// The longest record that is read, in bytes.
pub(crate) const LONGEST_RECORD: usize = 64 << 20;

/// The settings of a remote.
pub struct Options<'a> {
    /// Reads a variable of the environment: `AWS_*`, `DOCKER_CONFIG`, `HOME`, `HTTPS_PROXY` and
    /// the like.
    pub variable: &'a (dyn Fn(&str) -> Option<OsString> + Sync),
    /// Ends requests soon when it is set.
    pub interrupt: Arc<AtomicBool>,
    /// The largest number of requests at once.
    pub connections: usize,
    /// The longest time without an answer, or without progress of one.
    pub timeout: Duration,
    /// The number of times that a request is repeated after a failure that may pass.
    pub retries: u32,
    /// A request is repeated at least for this time: `sapwood.baseRetry`.
    pub patience: Duration,
    /// The pause before the first repetition. It doubles each time, up to 10 seconds.
    pub pause: Duration,
    /// A file of certificates to trust instead of the system's: `http.sslCAInfo`.
    pub ca_file: Option<PathBuf>,
    /// A file of certificates to trust a proxy with TLS by, instead of the system's:
    /// `http.proxySSLCAInfo`.
    pub proxy_ca_file: Option<PathBuf>,
    /// The URL of a proxy for all requests: `http.proxy`. An empty one means none, also none of the
    /// variables.
    pub proxy: Option<String>,
    /// User and password for a web server or a registry that asks, if the address has none.
    pub credentials: Option<(String, String)>,
    /// More headers for a web server, as `name: value`: `http.extraHeader`.
    pub headers: Vec<String>,
}

impl<'a> Options<'a> {
    /// Returns the defaults.
    pub fn new(
        variable: &'a (dyn Fn(&str) -> Option<OsString> + Sync),
        interrupt: Arc<AtomicBool>,
    ) -> Options<'a> {
        Options {
            variable,
            interrupt,
            connections: CONNECTIONS,
            timeout: Duration::from_secs(30),
            retries: 6,
            patience: Duration::ZERO,
            pause: Duration::from_millis(100),
            ca_file: None,
            proxy_ca_file: None,
            proxy: None,
            credentials: None,
            headers: Vec::new(),
        }
    }
}

/// A record that a remote lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// Its name.
    pub name: RecordName,
    /// The time of the last write; `None` if the remote does not know it (a registry).
    pub modified: Option<SystemTime>,
}

/// A data file that a remote lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredData {
    /// Its name and size.
    pub file: DataFile,
    /// The time of the last write, or of the last [`Remote::touch`].
    pub modified: SystemTime,
}

/// An open remote.
pub struct Remote {
    address: Address,
    backend: Box<dyn Backend>,
}

impl Remote {
    /// Opens a remote. A directory must exist. Other remotes get no request yet.
    pub fn open(address: Address, options: &Options<'_>) -> Result<Remote, Error> {
        let backend: Box<dyn Backend> = match &address {
            Address::Directory(path) => Box::new(Directory::open(path, Arc::clone(&options.interrupt))?),
            _ => Box::new(Network::open(&address, options)?),
        };
        Ok(Remote { address, backend })
    }

    /// Creates the directory of a remote that is one, if it is missing and the directory above
    /// holds something. The mount point of a disk that is not mounted is empty: bases that are
    /// written there fill another disk, and vanish below the mount. Other remotes need nothing.
    pub fn create(address: &Address) -> Result<(), Error> {
        match address {
            Address::Directory(path) => directory::create(path),
            _ => Ok(()),
        }
    }

    /// Returns the address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the directory of a remote that is one.
    pub fn directory(&self) -> Option<&Path> {
        match &self.address {
            Address::Directory(path) => Some(path),
            _ => None,
        }
    }

    /// Returns true if the remote has the data file.
    pub fn has(&self, digest: &Digest) -> Result<bool, Error> {
        self.backend.has(digest)
    }

    /// Reads the bytes of a range of a data file. Returns exactly as many as the range has, or an
    /// error: [`Error::Missing`] if the file is not there, [`Error::Wrong`] if it is too short.
    pub fn read(&self, digest: &Digest, range: Range<u64>) -> Result<Vec<u8>, Error> {
        self.backend.read(digest, range)
    }

    /// Writes a data file from the file at `path`, unless it is there. Fails with
    /// [`Error::WrongDigest`] if the file's digest is another, and publishes nothing then.
    pub fn write(&self, digest: &Digest, path: &Path) -> Result<(), Error> {
        self.backend.write(digest, path)
    }

    /// Reads a record; `None` if it is not there.
    pub fn record(&self, name: &RecordName) -> Result<Option<Vec<u8>>, Error> {
        self.backend.record(name)
    }

    /// Writes or replaces a record. `files` are the data files that must stay as long as the record
    /// does: a registry keeps no others. All of them must be there already.
    pub fn set_record(&self, name: &RecordName, bytes: &[u8], files: &[DataFile]) -> Result<(), Error> {
        self.backend.set_record(name, bytes, files)
    }

    /// Removes a record. One that is not there is no error.
    pub fn remove_record(&self, name: &RecordName) -> Result<(), Error> {
        self.backend.remove_record(name)
    }

    /// Lists the records of a kind, sorted by name. A web server cannot
    /// ([`Error::Unsupported`]).
    pub fn records(&self, kind: RecordKind) -> Result<Vec<StoredRecord>, Error> {
        self.backend.records(kind)
    }

    /// Lists the data files that [`Remote::remove`] may remove, sorted by digest. The list of
    /// a registry is empty, because a registry itself collects the files that no record names.
    pub fn data(&self) -> Result<Vec<StoredData>, Error> {
        self.backend.data()
    }

    /// Removes a data file. One that is not there is no error.
    pub fn remove(&self, digest: &Digest) -> Result<(), Error> {
        self.backend.remove(digest)
    }

    /// Renews the time of a data file. Fails with [`Error::Missing`] if the file is not there.
    pub fn touch(&self, digest: &Digest) -> Result<(), Error> {
        self.backend.touch(digest)
    }

    /// Removes what killed writers left in a directory before `time`. Servers do so themselves.
    pub fn remove_leftovers(&self, time: SystemTime) -> Result<(), Error> {
        self.backend.remove_leftovers(time)
    }
}
