//! Uploads of files that change, and proxies.

use std::{
    ffi::OsString,
    fs::File,
    path::Path,
    sync::{Arc, Mutex, mpsc},
};

use base_store::{Address, Error, Options, Remote};
use format::base_files::{Digest, RecordKind};
use testkit::{
    noise,
    servers::{Acceptor, Nginx},
};

use crate::{
    answers::{Answering, response},
    servers::{Tuning, name, open},
};

/// The server waits for the rest of the file, so the client must not wait for its answer.
#[test]
fn a_file_that_becomes_shorter_during_the_upload_is_named() {
    let source = tempfile::NamedTempFile::new().expect("a file");
    let bytes = noise(1 << 20, 1);
    std::fs::write(source.path(), &bytes).expect("written");
    let path = source.path().to_owned();
    let (over, waits) = mpsc::channel::<()>();
    let waits = Mutex::new(waits);
    let server = Answering::by(move |head, _| match head.split(' ').next() {
        Some("HEAD") => response("404 Not Found", "", ""),
        Some("POST") => {
            let file = File::options().write(true).open(&path).expect("it is there");
            file.set_len(0).expect("it is writable");
            response("202 Accepted", "Location: /upload\r\n", "")
        }
        _ => {
            let _ = waits.lock().expect("no panic").recv();
            response("201 Created", "", "")
        }
    });
    let address = format!("oci://{}/x", server.acceptor.address());
    let remote = open(&address, &[], &Tuning::default()).expect("opened");
    let error = remote.write(&Digest::of(&bytes), source.path()).expect_err("too short");
    assert!(matches!(error, Error::Io { .. }), "{error:?}");
    let expected =
        format!("could not read '{}': the file became shorter while it was sent", source.path().display());
    assert_eq!(error.to_string(), expected);
    drop(over);
    let begun = server.heads().iter().filter(|head| head.starts_with("POST ")).count();
    assert_eq!(begun, 1, "it is not repeated: {:?}", server.heads());
}

#[test]
fn a_proxy_that_cannot_be_used_is_a_setting_without_its_password() {
    let nobody = Acceptor::start(|_, _| {}).address();
    for proxy in ["socks5://alice:secret@h", "alice:secret@h x", "http://alice:sec/secret@h"] {
        let variables: [(&str, OsString); 1] = [("http_proxy", proxy.into())];
        let remote = open(&format!("http://{nobody}"), &variables, &Tuning::default()).expect("opened");
        let error = remote.record(&name(RecordKind::Branch, "main")).expect_err("no such proxy");
        assert!(matches!(error, Error::Setting(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("proxy") && !text.contains("secret") && !text.contains("tried"), "{text}");
    }
}

/// The authorities of the server say nothing about the proxy, as in Git.
#[test]
fn a_proxy_with_tls_has_its_own_authorities() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let files = open(&dir.path().display().to_string(), &[], &Tuning::default()).expect("opened");
    let branch = name(RecordKind::Branch, "main");
    files.set_record(&branch, b"1", &[]).expect("written");
    // nginx serves requests that are meant for a proxy as its own.
    let proxy = Nginx::start(dir.path());
    let ask = |change: &dyn Fn(&mut Options<'_>)| {
        let address = Address::parse("http://base.invalid/files".into(), Path::new("/")).expect("an address");
        let mut options = Options::new(&|_| None, Arc::default());
        options.proxy = Some(proxy.tls_url("").replace("https://", "https://alice:secret@"));
        change(&mut options);
        Remote::open(address, &options).and_then(|remote| remote.record(&branch))
    };
    let error = ask(&|options| options.ca_file = Some(proxy.ca_file())).expect_err("not trusted");
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    let text = error.to_string();
    let place = format!("the certificate of the proxy '127.0.0.1:{}' is refused", proxy.tls_port());
    assert!(text.contains(&place) && text.contains("http.proxySSLCAInfo"), "{text}");
    assert!(!text.contains("secret") && !text.contains("tried"), "{text}");
    assert_eq!(proxy.requests(), Vec::<String>::new());
    let read = ask(&|options| options.proxy_ca_file = Some(proxy.ca_file()));
    assert_eq!(read.expect("trusted").as_deref(), Some(&b"1"[..]));
}
