//! Servers that answer wrongly, slowly or in unusual ways; a server of tokens.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use base_store::{Error, Remote};
use format::base_files::{Digest, RecordKind};
use testkit::servers::{Acceptor, S3};

use crate::servers::{Tuning, name, open};

/// A server that answers each request by a closure, which gets the head and the request's number.
pub(crate) struct Answering {
    pub(crate) acceptor: Acceptor,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Answering {
    pub(crate) fn by(answer: impl Fn(&str, usize) -> String + Send + Sync + 'static) -> Answering {
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&heads);
        let number = AtomicUsize::new(0);
        let acceptor = Acceptor::start(move |mut stream, _| {
            let mut head = String::new();
            let mut reader = BufReader::new(stream.try_clone().expect("an open socket"));
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|read| read > 0) {}
            seen.lock().expect("no panic").push(head.clone());
            let answer = answer(&head, number.fetch_add(1, Ordering::SeqCst));
            let _ = stream.write_all(answer.as_bytes());
        });
        Answering { acceptor, heads }
    }

    fn web(&self) -> Remote {
        open(&format!("http://{}", self.acceptor.address()), &[], &Tuning::default()).expect("opened")
    }

    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("no panic").clone()
    }
}

pub(crate) fn response(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())
}

#[test]
fn wrong_ranges_are_errors_that_name_the_file() {
    let digest = Digest::of(b"x");
    for (answer, says) in [
        (
            response("206 Partial Content", "Content-Range: bytes 2-5/10\r\n", "xx"),
            "asked for 4 bytes, got 2",
        ),
        (response("206 Partial Content", "Content-Range: bytes 0-3/10\r\n", "xxxx"), "got bytes 0-3/10"),
        (response("206 Partial Content", "", "xxxx"), "got no range"),
        (response("206 Partial Content", "Content-Range: bytes 2-5/10\r\n", "xxxxx"), "more than 4 bytes"),
        (response("200 OK", "", "xxxxxxxxxx"), "got the whole file"),
        (response("200 OK", "", "xxxx"), "got the whole file"),
        (response("416 Range Not Satisfiable", "", ""), "shorter"),
    ] {
        let sent = answer.clone();
        let server = Answering::by(move |_, _| sent.clone());
        let error = server.web().read(&digest, 2..6).expect_err("a wrong answer");
        assert!(matches!(error, Error::Wrong { .. }), "{answer}: {error:?}");
        let text = error.to_string();
        assert!(text.contains(says) && text.contains(&digest.to_string()), "{answer}: {text}");
        assert_eq!(server.heads().len(), 1, "{answer}: nothing to repeat");
        assert!(server.heads()[0].to_lowercase().contains("range: bytes=2-5\r\n"), "{:?}", server.heads());
    }
    // A server without ranges can send a whole file that is asked for as a whole.
    let server = Answering::by(|_, _| response("200 OK", "", "xxxx"));
    assert_eq!(server.web().read(&digest, 0..4).expect("read"), b"xxxx");
}

#[test]
fn failures_that_may_pass_are_followed_by_another_try() {
    for (answer, pause) in [
        (response("503 Service Unavailable", "", "busy"), Duration::ZERO),
        (response("500 Internal Server Error", "", ""), Duration::ZERO),
        (response("429 Too Many Requests", "Retry-After: 1\r\n", ""), Duration::from_secs(1)),
        // The body is cut.
        ("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nx".into(), Duration::ZERO),
        // No answer at all.
        (String::new(), Duration::ZERO),
    ] {
        let sent = answer.clone();
        let server = Answering::by(move |_, number| match number {
            0 | 1 => sent.clone(),
            _ => response("200 OK", "", "good"),
        });
        let start = Instant::now();
        let read = server.web().record(&name(RecordKind::Branch, "main"));
        assert_eq!(read.expect("read at last").as_deref(), Some(&b"good"[..]), "{answer}");
        assert_eq!(server.heads().len(), 3, "{answer}");
        assert!(start.elapsed() >= 2 * pause, "{answer}: {:?}", start.elapsed());
    }
}

#[test]
fn the_message_of_a_server_is_shown() {
    let body = "it is\nbroken".to_owned() + &"!".repeat(10_000);
    let server = Answering::by(move |_, _| response("503 Service Unavailable", "", &body));
    let error =
        server.web().record(&name(RecordKind::Branch, "main")).expect_err("it never passes").to_string();
    assert!(error.contains("503 Service Unavailable: it is broken!!!"), "{error}");
    assert!(error.ends_with("!!! (tried 5 times)"), "{error}");
    assert!(error.len() < 500, "{error}");
    assert_eq!(server.heads().len(), 5);
}

#[test]
fn a_registry_gets_a_token_for_each_kind_of_access() {
    let server = Answering::by(|head, _| {
        let host = head.lines().find_map(|line| line.strip_prefix("Host: ")).expect("a host");
        let authorization = head.lines().find_map(|line| line.strip_prefix("Authorization: "));
        let line = head.lines().next().expect("a request");
        if line.contains("/token?") {
            assert_eq!(authorization, Some("Basic YWxpY2U6b3BlbiBzZXNhbWU="));
            assert!(
                line.contains("service=the+registry") && line.contains("scope=repository%3Ax%3Apull "),
                "{line}"
            );
            return response("200 OK", "", r#"{"token":"for-reading"}"#);
        }
        match authorization {
            Some("Bearer for-reading") if line.contains("n=1000") => {
                let next = "Link: </v2/x/tags/list?n=1000&last=branch-a>; rel=\"next\"\r\n";
                if line.contains("last=") {
                    response("200 OK", "", r#"{"tags":["branch-b","latest"]}"#)
                } else {
                    response("200 OK", next, r#"{"tags":["branch-a","commit-1"]}"#)
                }
            }
            Some(_) => response("403 Forbidden", "", "no"),
            None => {
                let challenge = format!(
                    "WWW-Authenticate: Bearer realm=\"http://{host}/token\",service=\"the registry\",\
                     scope=\"repository:x:pull\"\r\n"
                );
                response("401 Unauthorized", &challenge, "")
            }
        }
    });
    let dir = tempfile::tempdir().expect("a temporary directory");
    let at = server.acceptor.address();
    let config = format!(r#"{{"auths":{{"{at}":{{"auth":"YWxpY2U6b3BlbiBzZXNhbWU="}}}}}}"#);
    std::fs::write(dir.path().join("config.json"), config).expect("writable");
    let variables = [("DOCKER_CONFIG", dir.path().into())];
    let remote = open(&format!("oci://{at}/x"), &variables, &Tuning::default()).expect("opened");
    for _ in 0..2 {
        let found = remote.records(RecordKind::Branch).expect("listed");
        assert_eq!(found.iter().map(|record| record.name.id()).collect::<Vec<_>>(), ["a", "b"]);
    }
    // A refusal, the token, and two pages each.
    assert_eq!(server.heads().len(), 6, "{:#?}", server.heads());
    let error = remote.record(&name(RecordKind::Commit, "1")).expect_err("forbidden");
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    assert!(!error.to_string().contains("for-reading"), "{error}");
}

#[test]
fn a_missing_bucket_is_not_an_empty_one() {
    let server = Answering::by(|_, _| {
        let text = "<?xml version=\"1.0\"?><Error><Code>NoSuchBucket</Code><Message>gone</Message></Error>";
        response("404 Not Found", "Content-Type: application/xml\r\n", text)
    });
    let variables = S3::variables(server.acceptor.address());
    let remote = open("s3://nowhere/x", &variables, &Tuning::default()).expect("opened");
    let branch = name(RecordKind::Branch, "main");
    for error in [
        remote.record(&branch).err(),
        remote.set_record(&branch, b"1", &[]).err(),
        remote.records(RecordKind::Branch).err(),
        remote.read(&Digest::of(b"x"), 0..1).err(),
    ] {
        let error = error.expect("there is no bucket");
        assert!(matches!(error, Error::NoBucket { .. }), "{error:?}");
        assert!(error.to_string().contains("NoSuchBucket: gone"), "{error}");
        assert!(error.advice().expect("a remedy").contains("AWS_ENDPOINT_URL"));
    }
}

/// A server gets a password only if the address names it.
#[test]
fn another_server_gets_no_password() {
    let other = Answering::by(|_, _| response("200 OK", "", "good"));
    let to = other.acceptor.address();
    let server = Answering::by(move |_, _| {
        response("302 Found", &format!("Location: http://{to}/there\r\n"), "look there")
    });
    let url = format!("http://alice:secret@{}", server.acceptor.address());
    let remote = open(&url, &[], &Tuning::default()).expect("opened");
    let read = remote.record(&name(RecordKind::Branch, "main")).expect("read");
    assert_eq!(read.as_deref(), Some(&b"good"[..]));
    assert!(server.heads()[0].contains("Authorization: Basic YWxpY2U6c2VjcmV0"), "{:?}", server.heads());
    let heads = other.heads();
    assert!(heads[0].starts_with("GET /there HTTP/1.1"), "{heads:?}");
    assert!(!heads[0].to_lowercase().contains("authorization"), "{heads:?}");
}

#[test]
fn endless_redirects_and_endless_heads_are_errors() {
    let there = Answering::by(|_, _| response("302 Found", "Location: /again\r\n", ""));
    let error = there.web().record(&name(RecordKind::Branch, "main")).expect_err("it never ends");
    assert!(error.to_string().contains("redirects"), "{error}");
    assert_eq!(there.heads().len(), 11);
    let elsewhere = Answering::by(|_, _| response("302 Found", "Location: file:///etc/passwd\r\n", ""));
    let error = elsewhere.web().record(&name(RecordKind::Branch, "main")).expect_err("not HTTP");
    assert!(error.to_string().contains("file:///etc/passwd"), "{error}");
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(400 << 10));
    let long = Answering::by(move |_, _| long.clone());
    let error = long.web().record(&name(RecordKind::Branch, "main")).expect_err("too long");
    assert!(error.to_string().contains("Too large response headers"), "{error}");
}

/// A server that gives keys, and that is the store, too.
fn giver() -> Answering {
    Answering::by(|head, _| {
        let line = head.lines().next().expect("a request");
        let json = r#"{"Code":"Success","AccessKeyId":"AKGIVEN","SecretAccessKey":"s","Token":"given-token",
            "Expiration":"2999-01-01T00:00:00Z"}"#;
        let xml = "<R><Credentials><AccessKeyId>AKGIVEN</AccessKeyId><SecretAccessKey>s</SecretAccessKey>\
            <SessionToken>given-token</SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration></Credentials></R>";
        match line {
            _ if line.starts_with("PUT /latest/api/token ") => response("200 OK", "", "ticket"),
            _ if line.contains("/security-credentials/role") => response("200 OK", "", json),
            _ if line.contains("/security-credentials/ ") => {
                assert!(head.contains("X-aws-ec2-metadata-token: ticket\r\n"), "{head}");
                response("200 OK", "", "role")
            }
            _ if line.starts_with("GET /container ") => {
                assert!(head.contains("Authorization: pod-token\r\n"), "{head}");
                response("200 OK", "", json)
            }
            _ if line.contains("AssumeRoleWithWebIdentity") => {
                assert!(line.contains("RoleArn=arn%3Arole&RoleSessionName=WebIdentitySession&"), "{line}");
                assert!(line.contains("WebIdentityToken=pod-token"), "{line}");
                response("200 OK", "", xml)
            }
            _ => response("200 OK", "", "good"),
        }
    })
}

#[test]
fn services_give_the_keys_of_s3() {
    let token = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(token.path(), "pod-token\n").expect("written");
    let token = token.path();
    for (kind, requests) in [("machine", 3), ("container", 1), ("identity", 1)] {
        let server = giver();
        let url = format!("http://{}", server.acceptor.address());
        let mut variables =
            vec![("AWS_ENDPOINT_URL", url.as_str().into()), ("AWS_REGION", "eu-north-1".into())];
        match kind {
            "machine" => variables.push(("AWS_METADATA_ENDPOINT", url.as_str().into())),
            "container" => variables.extend([
                ("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{url}/container").into()),
                ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.into()),
            ]),
            _ => variables.extend([
                ("AWS_WEB_IDENTITY_TOKEN_FILE", token.into()),
                ("AWS_ROLE_ARN", "arn:role".into()),
                ("AWS_ENDPOINT_URL_STS", url.as_str().into()),
            ]),
        }
        let remote = open("s3://bases", &variables, &Tuning::default()).expect("opened");
        for _ in 0..2 {
            let read = remote.record(&name(RecordKind::Branch, "main"));
            assert_eq!(read.expect("read").as_deref(), Some(&b"good"[..]), "{kind}");
        }
        // The keys are asked for once.
        let heads = server.heads();
        assert_eq!(heads.len(), requests + 2, "{kind}: {heads:#?}");
        let last = heads.last().expect("a request");
        assert!(last.starts_with("GET /bases/branches/main "), "{kind}: {last}");
        assert!(
            last.contains("Credential=AKGIVEN/") && last.contains("/eu-north-1/s3/aws4_request"),
            "{last}"
        );
        assert!(last.contains("x-amz-security-token: given-token\r\n"), "{kind}: {last}");
    }
}
