//! TLS with servers and proxies.

use std::{
    io::Write as _,
    net::TcpStream,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use http::{
    Cause, Client, Parts,
    tls::{ClientConfig, TlsSettings},
};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use tempfile::TempDir;
use testkit::servers::Acceptor;

use crate::server::{get, parts, serve};

/// A server with a certificate of its own.
struct TlsServer {
    acceptor: Acceptor,
    requests: Arc<Mutex<Vec<String>>>,
    dir: TempDir,
}

type Connection = StreamOwned<ServerConnection, TcpStream>;

impl TlsServer {
    /// `end` gets each connection after the last answer on it.
    fn start(answer: &'static str, end: impl Fn(Connection) + Send + Sync + 'static) -> TlsServer {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("valid names");
        std::fs::write(dir.path().join("ca.pem"), cert.pem()).expect("written");
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has all of them")
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .expect("they belong together");
        let config = Arc::new(config);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let acceptor = Acceptor::start(move |stream, _| {
            let session = ServerConnection::new(Arc::clone(&config)).expect("a good configuration");
            let mut stream = StreamOwned::new(session, stream);
            // A client that refuses the certificate is no error.
            let _ = serve(&mut stream, &seen, &|_| answer.to_owned());
            end(stream);
        });
        TlsServer { acceptor, requests, dir }
    }

    fn url(&self) -> String {
        format!("https://127.0.0.1:{}/", self.acceptor.port())
    }

    fn ca_file(&self) -> Option<PathBuf> {
        Some(self.dir.path().join("ca.pem"))
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no panic").clone()
    }
}

fn config(ca_file: Option<PathBuf>, verify: bool) -> Arc<ClientConfig> {
    TlsSettings { ca_file, verify, ..TlsSettings::default() }.load().expect("the file is there")
}

#[test]
fn a_server_is_verified_unless_nothing_is() {
    const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood";
    let server = TlsServer::start(ANSWER, drop);
    let other = TlsServer::start(ANSWER, drop);
    let ask = |tls| get(&Client::new(Parts { tls, ..parts("") }), &server.url());
    assert_eq!(ask(config(server.ca_file(), true)).expect("trusted"), "good");
    for tls in [config(other.ca_file(), true), http::tls::trusting(Vec::new()).expect("TLS can be set up")] {
        let broken = ask(tls).expect_err("not trusted");
        assert!(matches!(broken.cause, Cause::Certificate(_)), "{broken:?}");
    }
    assert_eq!(ask(config(None, false)).expect("not verified"), "good");
}

/// `http.sslVerify=false` is about the server. The proxy would get the password of the user.
#[test]
fn a_proxy_is_verified_in_any_case() {
    const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nrelayed";
    let proxy = TlsServer::start(ANSWER, drop);
    let url = format!("https://u:p@127.0.0.1:{}", proxy.acceptor.port());
    let ask = |target: &str, ca_file: Option<PathBuf>| {
        let proxy_tls = TlsSettings { ca_file, ..TlsSettings::default() };
        get(&Client::new(Parts { tls: config(None, false), proxy_tls, ..parts(&url) }), target)
    };
    for target in ["http://h.invalid/", "https://h.invalid/"] {
        let broken = ask(target, None).expect_err("not trusted");
        let Cause::ProxyCertificate(place, _) = &broken.cause else { panic!("{broken:?}") };
        assert_eq!(*place, format!("127.0.0.1:{}", proxy.acceptor.port()));
    }
    assert_eq!(proxy.requests(), Vec::<String>::new(), "no password was sent");
    assert_eq!(ask("http://h.invalid/", proxy.ca_file()).expect("trusted"), "relayed");
    assert!(proxy.requests()[0].contains("Proxy-Authorization: Basic dTpw\r\n"));
    let broken = ask("http://h.invalid/", Some(Path::new("/nowhere").into())).expect_err("no such file");
    assert!(matches!(broken.cause, Cause::Setting) && broken.text.contains("/nowhere"), "{broken:?}");
}

/// Anybody on the way can close a connection. Only the message of TLS says that a body without a
/// length is complete.
#[test]
fn a_body_that_ends_without_a_close_message_is_an_error() {
    const ENDS: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\ngood";
    let ask = |server: &TlsServer| {
        get(&Client::new(Parts { tls: config(server.ca_file(), true), ..parts("") }), &server.url())
    };
    let polite = TlsServer::start(ENDS, |mut stream| {
        stream.conn.send_close_notify();
        // The client has all it needs.
        let _ = stream.flush();
    });
    assert_eq!(ask(&polite).expect("complete"), "good");
    let cut = ask(&TlsServer::start(ENDS, drop)).expect_err("it may be cut");
    assert!(cut.text.contains("without a close message"), "{cut:?}");
    const LENGTH: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\ngood";
    assert_eq!(ask(&TlsServer::start(LENGTH, drop)).expect("the length says so"), "good");
}
