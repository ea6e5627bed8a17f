//! The servers, and remotes on them.

use std::{
    ffi::OsString,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use base_store::{Address, Error, Options, Remote};
use format::base_files::{Digest, RecordKind, RecordName};
use tempfile::TempDir;
use testkit::servers::{Nginx, Registry, RegistryAccess, S3};

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    S3,
    Registry,
    /// Shows the files of a directory.
    Web,
}

enum Running {
    None,
    S3(S3),
    Registry(Registry),
    Web(Nginx),
}

/// A running server, and files to send.
pub(crate) struct Server {
    pub(crate) kind: Kind,
    pub(crate) dir: TempDir,
    running: Running,
}

/// Changes to the defaults.
pub(crate) struct Tuning {
    pub(crate) interrupt: Arc<AtomicBool>,
    pub(crate) timeout: Duration,
    pub(crate) retries: u32,
    pub(crate) patience: Duration,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            interrupt: Arc::default(),
            timeout: Duration::from_secs(20),
            retries: 4,
            patience: Duration::ZERO,
        }
    }
}

impl Server {
    pub(crate) fn start(kind: Kind) -> Server {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(dir.path().join("remote")).expect("a directory");
        let running = match kind {
            Kind::Directory => Running::None,
            Kind::S3 => Running::S3(S3::start()),
            Kind::Registry => Running::Registry(Registry::start(RegistryAccess::Open)),
            Kind::Web => Running::Web(Nginx::start(&dir.path().join("remote"))),
        };
        Server { kind, dir, running }
    }

    /// Returns the socket of the server.
    pub(crate) fn socket(&self) -> SocketAddr {
        match &self.running {
            Running::None => panic!("a directory has no socket"),
            Running::S3(server) => server.address(),
            Running::Registry(server) => server.address(),
            Running::Web(server) => ([127, 0, 0, 1], server.port()).into(),
        }
    }

    pub(crate) fn open(&self) -> Remote {
        match self.kind {
            Kind::Directory => open(&self.files().display().to_string(), &[], &Tuning::default()),
            _ => self.open_at(self.socket(), &Tuning::default()),
        }
        .expect("it can be opened")
    }

    /// Opens the remote through another socket.
    pub(crate) fn open_at(&self, at: SocketAddr, tuning: &Tuning) -> Result<Remote, Error> {
        match self.kind {
            Kind::Directory => panic!("a directory has no socket"),
            Kind::S3 => open(&format!("s3://{}/some/prefix", S3::BUCKET), &S3::variables(at), tuning),
            Kind::Registry => open(&format!("oci://{at}/some/name"), &[], tuning),
            Kind::Web => open(&format!("http://{at}/files"), &[], tuning),
        }
    }

    /// Opens a remote that can write to where this one reads.
    pub(crate) fn open_to_write(&self) -> Remote {
        match self.kind {
            Kind::Web => open(&self.files().display().to_string(), &[], &Tuning::default()),
            _ => Ok(self.open()),
        }
        .expect("it can be opened")
    }

    /// Returns the directory of a remote that is one, or that a web server shows.
    pub(crate) fn files(&self) -> PathBuf {
        self.dir.path().join("remote")
    }

    /// Returns the file in which the server keeps a data file.
    pub(crate) fn stored(&self, digest: &Digest) -> PathBuf {
        match &self.running {
            Running::None | Running::Web(_) => self.files().join(digest.path()),
            Running::S3(server) => server.object("some/prefix").join(digest.path()),
            Running::Registry(server) => server.blob(&digest.to_string()),
        }
    }

    /// Writes a file to send.
    pub(crate) fn source(&self, bytes: &[u8]) -> PathBuf {
        let path = self.dir.path().join("source");
        std::fs::write(&path, bytes).expect("the directory is writable");
        path
    }

    /// Writes a data file to the remote.
    pub(crate) fn store(&self, bytes: &[u8]) -> Digest {
        let digest = Digest::of(bytes);
        self.open_to_write().write(&digest, &self.source(bytes)).expect("written");
        digest
    }
}

pub(crate) fn open(address: &str, variables: &[(&str, OsString)], tuning: &Tuning) -> Result<Remote, Error> {
    let address = Address::parse(address.into(), Path::new("/"))?;
    let variable =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
    let mut options = Options::new(&variable, Arc::clone(&tuning.interrupt));
    options.timeout = tuning.timeout;
    options.retries = tuning.retries;
    options.patience = tuning.patience;
    options.pause = Duration::from_millis(10);
    Remote::open(address, &options)
}

pub(crate) fn name(kind: RecordKind, id: &str) -> RecordName {
    RecordName::new(kind, id).expect("a valid id")
}
