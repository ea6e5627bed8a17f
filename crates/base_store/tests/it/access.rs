//! Credentials, certificates and permissions.

use std::{ffi::OsString, os::unix::fs::PermissionsExt, path::Path, sync::Arc};

use base_store::{Address, Error, Options, Remote};
use format::base_files::{Digest, RecordKind};
use testkit::servers::{Acceptor, Nginx, NginxOptions, Registry, RegistryAccess, S3};

use crate::servers::{Kind, Server, Tuning, name, open};

fn no_variable(_: &str) -> Option<OsString> {
    None
}

#[test]
fn wrong_keys_are_denied() {
    let server = Server::start(Kind::S3);
    let mut variables = S3::variables(server.socket());
    variables[1].1 = "another-secret".into();
    let remote = open(&format!("s3://{}", S3::BUCKET), &variables, &Tuning::default()).expect("opened");
    let branch = name(RecordKind::Branch, "main");
    let source = server.source(b"x");
    for error in [
        remote.record(&branch).err(),
        remote.set_record(&branch, b"1", &[]).err(),
        remote.write(&Digest::of(b"x"), &source).err(),
        remote.records(RecordKind::Branch).err(),
    ] {
        let error = error.expect("denied");
        assert!(matches!(error, Error::Denied { .. }), "{error:?}");
        assert!(!error.to_string().contains("another-secret"), "{error}");
    }
}

#[test]
fn a_machine_without_keys_is_told_which_variable_to_set() {
    let nobody = Acceptor::start(|_, _| {}).address();
    let variables = [
        ("AWS_METADATA_ENDPOINT", format!("http://{nobody}").into()),
        ("AWS_ENDPOINT_URL", format!("http://{nobody}").into()),
        ("AWS_ALLOW_HTTP", "true".into()),
    ];
    let remote = open("s3://bases", &variables, &Tuning::default()).expect("opened");
    let error = remote.record(&name(RecordKind::Branch, "main")).expect_err("no keys");
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    assert!(error.to_string().contains("AWS_ACCESS_KEY_ID is not set"), "{error}");
}

#[test]
fn a_registry_gets_the_password_of_docker() {
    let registry = Registry::start(RegistryAccess::Password);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let at = registry.address();
    let address = format!("oci://{at}/some/name");
    let branch = name(RecordKind::Branch, "main");
    let variables = [("DOCKER_CONFIG", dir.path().into()), ("PATH", dir.path().into())];
    let config = |text: String| std::fs::write(dir.path().join("config.json"), text).expect("writable");
    let helper = |script: &str| {
        let path = dir.path().join("docker-credential-test");
        testkit::write_program(&path, format!("#!/bin/sh\n{script}\n"));
    };
    let remote = || open(&address, &variables, &Tuning::default()).expect("opened");

    let error = remote().record(&branch).expect_err("no password");
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    // alice:open sesame
    config(format!(r#"{{"auths":{{"{at}":{{"auth":"YWxpY2U6b3BlbiBzZXNhbWU="}}}}}}"#));
    remote().set_record(&branch, b"1", &[]).expect("written");
    assert_eq!(remote().record(&branch).expect("read").as_deref(), Some(&b"1"[..]));
    // alice:wrong
    config(format!(r#"{{"auths":{{"http://{at}":{{"auth":"YWxpY2U6d3Jvbmc="}}}}}}"#));
    let error = remote().record(&branch).expect_err("a wrong password");
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    assert!(!error.to_string().contains("wrong"), "{error}");

    helper(
        r#"read -r host; echo "{\"Username\":\"alice\",\"Secret\":\"open sesame\",\"ServerURL\":\"$host\"}""#,
    );
    for text in [format!(r#"{{"credHelpers":{{"{at}":"test"}}}}"#), r#"{"credsStore":"test"}"#.into()] {
        config(text);
        assert_eq!(remote().record(&branch).expect("read").as_deref(), Some(&b"1"[..]));
    }
    helper("echo 'credentials not found in native keychain'; exit 1");
    let error = remote().record(&branch).expect_err("no password");
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    helper("exit 3");
    let error = remote().record(&branch).expect_err("a helper that fails").to_string();
    assert!(error.contains("docker-credential-test"), "{error}");
    config("{".into());
    let error = remote().record(&branch).expect_err("a bad file").to_string();
    assert!(error.contains("config.json"), "{error}");
}

#[test]
fn a_registry_that_keeps_all_says_so() {
    let registry = Registry::start(RegistryAccess::KeepsAll);
    let address = format!("oci://{}/some/name", registry.address());
    let remote = open(&address, &[], &Tuning::default()).expect("opened");
    let branch = name(RecordKind::Branch, "main");
    remote.set_record(&branch, b"1", &[]).expect("written");
    let error = remote.remove_record(&branch).expect_err("nothing may be removed").to_string();
    assert!(error.contains("branches/main"), "{error}");
    assert!(remote.record(&branch).expect("read").is_some());
}

#[test]
fn a_web_server_with_tls_and_a_password() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let files = open(&dir.path().display().to_string(), &[], &Tuning::default()).expect("opened");
    let branch = name(RecordKind::Branch, "main");
    files.set_record(&branch, b"1", &[]).expect("written");
    let server = Nginx::start(dir.path());
    let ask = |address: &str, change: &dyn Fn(&mut Options<'_>)| {
        let address = Address::parse(address.into(), Path::new("/")).expect("an address");
        let mut options = Options::new(&no_variable, Arc::default());
        options.ca_file = Some(server.ca_file());
        change(&mut options);
        Remote::open(address, &options).and_then(|remote| remote.record(&branch))
    };
    let found = |read: Result<Option<Vec<u8>>, Error>| {
        assert_eq!(read.expect("read").as_deref(), Some(&b"1"[..]));
    };
    found(ask(&server.tls_url("files"), &|_| {}));
    let error = ask(&server.tls_url("files"), &|options| options.ca_file = None).expect_err("not trusted");
    assert!(error.to_string().contains("certificate"), "{error}");
    assert!(!error.to_string().contains("tried"), "nobody trusts it later: {error}");
    let Error::Certificate { reason, authorities, .. } = &error else { panic!("{error:?}") };
    assert!(reason.contains("no trusted authority") && authorities.contains("of the system"), "{error}");
    assert!(error.advice().expect("a remedy").contains("http.sslCAInfo"));
    // Another authority, and another name.
    let other = Nginx::start(dir.path());
    let error = ask(&server.tls_url("files"), &|options| options.ca_file = Some(other.ca_file()));
    let error = error.expect_err("not trusted").to_string();
    assert!(
        error.contains(&format!("'{}' (http.sslCAInfo or GIT_SSL_CAINFO)", other.ca_file().display())),
        "{error}"
    );
    let by_name = server.tls_url("files").replace("127.0.0.1", "localhost");
    let error = ask(&by_name, &|_| {}).expect_err("another name").to_string();
    assert!(error.contains("for a server with another name"), "{error}");

    let secret = server.tls_url("auth-files");
    let error = ask(&secret, &|_| {}).expect_err("no password");
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    let with_user = secret.replace("https://", "https://alice:open%20sesame@");
    found(ask(&with_user, &|_| {}));
    let error = ask(&with_user.replace("sesame", "secret"), &|_| {}).expect_err("a wrong password");
    assert!(matches!(error, Error::Denied { .. }) && !error.to_string().contains("secret"), "{error}");
    let pair = || Some((Nginx::USER.to_owned(), Nginx::PASSWORD.to_owned()));
    found(ask(&secret, &|options| options.credentials = pair()));
    let header = || vec!["Authorization: Basic YWxpY2U6b3BlbiBzZXNhbWU=".to_owned()];
    found(ask(&secret, &|options| options.headers = header()));
    found(ask(&server.url("moved/302/files"), &|_| {}));
    for status in ["403", "429", "500"] {
        let quick = |options: &mut Options<'_>| options.retries = 1;
        let error = ask(&server.url(&format!("status/{status}")), &quick).expect_err(status).to_string();
        assert!(error.contains(status) && error.contains("branches/main"), "{error}");
    }
}

/// Git accepts a server whose certificate, which is that of an authority, is the trusted one.
#[test]
fn a_server_that_signed_its_own_certificate() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let files = open(&dir.path().display().to_string(), &[], &Tuning::default()).expect("opened");
    let branch = name(RecordKind::Branch, "main");
    files.set_record(&branch, b"1", &[]).expect("written");
    let server = Nginx::with(dir.path(), NginxOptions { self_signed: true, ..NginxOptions::default() });
    let other = Nginx::with(dir.path(), NginxOptions { self_signed: true, ..NginxOptions::default() });
    let ask = |url: &str, ca_file| {
        let address = Address::parse(url.into(), Path::new("/")).expect("an address");
        let options = Options { ca_file: Some(ca_file), ..Options::new(&no_variable, Arc::default()) };
        Remote::open(address, &options).and_then(|remote| remote.record(&branch))
    };
    let url = server.tls_url("files");
    assert_eq!(ask(&url, server.ca_file()).expect("accepted").as_deref(), Some(&b"1"[..]));
    let error = ask(&url, other.ca_file()).expect_err("the certificate of another server");
    assert!(matches!(error, Error::Certificate { .. }), "{error:?}");
    let error = ask(&url.replace("127.0.0.1", "localhost"), server.ca_file()).expect_err("another name");
    assert!(matches!(error, Error::Certificate { .. }), "{error:?}");
}

#[test]
fn a_directory_of_somebody_else_is_an_error() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let missing = dir.path().join("missing").display().to_string();
    let error = open(&missing, &[], &Tuning::default()).err().expect("it is not there");
    assert!(error.to_string().contains(&missing), "{error}");
    if rustix::process::geteuid().is_root() {
        // Root may write everywhere but on a file system that nobody may write to.
        let remote = open("/proc", &[], &Tuning::default()).expect("opened");
        let error =
            remote.set_record(&name(RecordKind::Branch, "main"), b"1", &[]).expect_err("not writable");
        assert!(error.to_string().contains("/proc/tmp"), "{error}");
        return;
    }
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o555)).expect("its owner");
    let remote = open(&dir.path().display().to_string(), &[], &Tuning::default()).expect("opened");
    let error = remote.set_record(&name(RecordKind::Branch, "main"), b"1", &[]).expect_err("not writable");
    assert!(error.to_string().contains("Permission denied"), "{error}");
}
