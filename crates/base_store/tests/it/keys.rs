//! Keys of S3, their sources, and the names of objects.

use std::{ffi::OsString, path::Path};

use base_store::Error;
use format::base_files::{Digest, RecordKind};
use testkit::servers::{Nginx, S3};

use crate::{
    answers::{Answering, response},
    servers::{Tuning, name, open},
};

type Variable = (&'static str, OsString);

/// Reads a record of a bucket; returns the error's text.
fn failure(variables: &[Variable]) -> String {
    let opened = open("s3://bases", variables, &Tuning { retries: 1, ..Tuning::default() });
    let read = opened.and_then(|remote| remote.record(&name(RecordKind::Branch, "main")));
    read.expect_err("refused").to_string()
}

#[test]
fn half_of_a_pair_of_keys_is_an_error() {
    let all = S3::variables(Answering::by(|_, _| response("200 OK", "", "good")).acceptor.address());
    for (without, expected) in [
        ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not"),
        ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY is set, and AWS_ACCESS_KEY_ID is not"),
    ] {
        let variables: Vec<Variable> = all.iter().filter(|(name, _)| *name != without).cloned().collect();
        assert_eq!(failure(&variables), expected);
    }
}

#[test]
fn a_variable_with_a_line_end_is_named() {
    let server = Answering::by(|_, _| response("200 OK", "", "good"));
    for (variable, value) in [
        ("AWS_SESSION_TOKEN", "token\nX-Other: x"),
        ("AWS_SESSION_TOKEN", "token\r"),
        ("AWS_SECRET_ACCESS_KEY", "secret\n"),
        ("AWS_ACCESS_KEY_ID", "key\n"),
    ] {
        let mut variables = S3::variables(server.acceptor.address());
        variables.retain(|(name, _)| *name != variable);
        variables.push((variable, value.into()));
        let error = failure(&variables);
        assert_eq!(error, format!("bad value of {variable}: it has a line end or a NUL"));
    }
    assert_eq!(server.heads(), Vec::<String>::new());
}

/// The service of a pod may have a certificate of the cluster's authority.
#[test]
fn a_service_of_keys_may_have_tls() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let json =
        r#"{"AccessKeyId":"AKPOD","SecretAccessKey":"s","Token":"t","Expiration":"2999-01-01T00:00:00Z"}"#;
    std::fs::write(dir.path().join("keys"), json).expect("written");
    let service = Nginx::start(dir.path());
    let server = Answering::by(|_, _| response("200 OK", "", "good"));
    let variables = |ca_file: &Path| {
        [
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", service.tls_url("files/keys").into()),
            ("AWS_ENDPOINT_URL", format!("http://{}", server.acceptor.address()).into()),
            ("AWS_CA_BUNDLE", ca_file.into()),
        ]
    };
    let remote = open("s3://bases", &variables(&service.ca_file()), &Tuning::default()).expect("opened");
    let read = remote.record(&name(RecordKind::Branch, "main")).expect("read");
    assert_eq!(read.as_deref(), Some(&b"good"[..]));
    assert!(server.heads()[0].contains("Credential=AKPOD/"), "{:?}", server.heads());
    let other = Nginx::start(dir.path());
    let error = failure(&variables(&other.ca_file()));
    assert!(error.contains("files/keys: the server's certificate is refused"), "{error}");
    assert!(error.contains(&format!("'{}' (AWS_CA_BUNDLE)", other.ca_file().display())), "{error}");
}

/// The store is not the one that fails.
#[test]
fn a_service_of_keys_that_fails_is_named() {
    let token = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(token.path(), "pod-token").expect("written");
    for (status, body, says) in [
        ("503 Service Unavailable", "busy", "503 Service Unavailable: busy"),
        ("403 Forbidden", "", "403 Forbidden"),
        ("404 Not Found", "", "it does not know the role"),
        ("200 OK", "nothing", "it sent no keys"),
    ] {
        let service = Answering::by(move |head, _| {
            if head.starts_with("PUT ") {
                response("200 OK", "", "ticket")
            } else {
                response(status, "", body)
            }
        });
        let url = format!("http://{}", service.acceptor.address());
        for (place, more) in [
            ("AWS_METADATA_ENDPOINT", None),
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", None),
            ("AWS_ENDPOINT_URL_STS", Some(token.path())),
        ] {
            let mut variables =
                vec![(place, url.clone().into()), ("AWS_ENDPOINT_URL", "http://x.invalid".into())];
            variables.extend(more.into_iter().flat_map(|token| {
                [("AWS_WEB_IDENTITY_TOKEN_FILE", token.into()), ("AWS_ROLE_ARN", "arn:role".into())]
            }));
            let error = failure(&variables);
            assert!(error.contains(&format!("no credentials from '{url}' ({place}): {says}")), "{error}");
            assert!(!error.contains("AWS_ACCESS_KEY_ID"), "{error}");
        }
    }
}

/// Bases that an earlier release pushed have these keys.
#[test]
fn keys_of_objects_are_encoded_as_before() {
    let server = S3::start();
    let variables = S3::variables(server.address());
    let remote = open("s3://bases/a~b#\u{e4}/c d", &variables, &Tuning::default()).expect("opened");
    let branch = name(RecordKind::Branch, "main");
    remote.set_record(&branch, b"1", &[]).expect("written");
    let source = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(source.path(), "x").expect("written");
    remote.write(&Digest::of(b"x"), source.path()).expect("written");
    let object = server.object("a%7Eb%23%C3%A4/c d/branches/main");
    assert_eq!(std::fs::read(&object).unwrap_or_else(|error| panic!("{}: {error}", object.display())), b"1");
    assert_eq!(remote.record(&branch).expect("read").as_deref(), Some(&b"1"[..]));
    assert_eq!(remote.records(RecordKind::Branch).expect("listed").len(), 1);
    assert_eq!(remote.data().expect("listed").len(), 1);
    let opened = open("s3://bases/\u{e4}~", &variables, &Tuning::default()).expect("opened");
    assert!(matches!(opened.record(&branch), Ok(None) | Err(Error::Missing { .. })));
}
