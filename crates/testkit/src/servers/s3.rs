//! A server for S3: `s3s-fs`, in threads of the test.

use std::{ffi::OsString, fs, net::SocketAddr, path::Path};

use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use s3s::{auth::SimpleAuth, service::S3ServiceBuilder};
use tempfile::TempDir;
use tokio::{net::TcpListener, runtime::Runtime};

use super::s3_files::Files;

/// A running server with one empty bucket.
pub struct S3 {
    address: SocketAddr,
    dir: TempDir,
    /// Ends the server when it is dropped.
    _runtime: Runtime,
}

impl S3 {
    /// The bucket.
    pub const BUCKET: &'static str = "bases";
    /// The key that may read and write.
    pub const KEY: &'static str = "AKTESTKEY";
    /// Its secret.
    pub const SECRET: &'static str = "open-sesame";

    /// Starts a server.
    pub fn start() -> S3 {
        let dir = tempfile::Builder::new().prefix("s3-").tempdir().expect("a temporary directory");
        fs::create_dir(dir.path().join(S3::BUCKET)).expect("the directory is writable");
        let mut builder = S3ServiceBuilder::new(Files::new(dir.path()));
        builder.set_auth(SimpleAuth::from_single(S3::KEY, S3::SECRET));
        let service = builder.build().into_shared();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("threads can be started");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        runtime.spawn(async move {
            let server = auto::Builder::new(TokioExecutor::new());
            while let Ok((socket, _)) = listener.accept().await {
                // Responses consist of many small writes.
                let _ = socket.set_nodelay(true);
                let connection = server.serve_connection(TokioIo::new(socket), service.clone()).into_owned();
                // A client may hang up at any time.
                tokio::spawn(async move { drop(connection.await) });
            }
        });
        S3 { address, dir, _runtime: runtime }
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the directory that holds the objects of the bucket as files.
    pub fn objects(&self) -> std::path::PathBuf {
        self.dir.path().join(S3::BUCKET)
    }

    /// Returns the environment variables with which clients connect to a server at `address`: this
    /// one, or a proxy before it.
    pub fn variables(address: SocketAddr) -> Vec<(&'static str, OsString)> {
        vec![
            ("AWS_ACCESS_KEY_ID", S3::KEY.into()),
            ("AWS_SECRET_ACCESS_KEY", S3::SECRET.into()),
            ("AWS_REGION", "us-east-1".into()),
            ("AWS_ENDPOINT_URL", format!("http://{address}").into()),
            ("AWS_ALLOW_HTTP", "true".into()),
        ]
    }

    /// Returns the file of an object.
    pub fn object(&self, key: impl AsRef<Path>) -> std::path::PathBuf {
        self.objects().join(key)
    }
}
