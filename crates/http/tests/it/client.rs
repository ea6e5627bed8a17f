//! Headers, bodies, redirects, kept connections and proxies.

use std::{fs::File, io::Read as _, time::Duration};

use http::{Body, Cause, Client, Watch};

use crate::server::{Server, get, ok, parts, request};

fn client() -> Client {
    Client::new(parts(""))
}

#[test]
fn a_header_with_a_line_end_is_not_sent() {
    let server = Server::start(|_| ok("good"));
    let mut bad = request("GET", &server.url(""), Body::Empty);
    bad.headers.push(("X-Token".into(), "a\r\nX-Other: b".into()));
    let broken = client().send(bad).err().expect("refused");
    assert!(matches!(broken.cause, Cause::Setting), "{broken:?}");
    assert!(broken.text.contains("'X-Token'"), "{broken:?}");
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[test]
fn another_server_gets_public_headers_alone() {
    let other = Server::start(|_| ok("there"));
    let to = other.url("x");
    let server = Server::start(move |head| {
        let to = if head.starts_with("GET /same ") { "/again" } else { to.as_str() };
        format!("HTTP/1.1 307 Moved\r\nContent-Length: 0\r\nLocation: {to}\r\n\r\n")
    });
    let mut asked = request("GET", &server.url("same"), Body::Empty);
    for (name, value) in [
        ("Accept", "*/*"),
        ("Range", "bytes=0-1"),
        ("Authorization", "Basic x"),
        ("X-Amz-Security-Token", "x"),
        ("Private-Token", "x"),
    ] {
        asked.headers.push((name.into(), value.into()));
    }
    let mut text = String::new();
    client().send(asked).expect("sent").read_to_string(&mut text).expect("read");
    assert_eq!(text, "there");
    let [first, second] = server.requests().try_into().expect("two requests");
    assert!(first.contains("Private-Token: x\r\n") && second.contains("Private-Token: x\r\n"), "{second}");
    let [last] = other.requests().try_into().expect("one request");
    assert!(last.contains("Accept: */*\r\n") && last.contains("Range: bytes=0-1\r\n"), "{last}");
    assert!(["Basic", "oken"].iter().all(|secret| !last.contains(secret)), "{last}");
}

#[test]
fn another_server_gets_no_body() {
    let other = Server::start(|_| ok(""));
    let to = other.url("x");
    let server = Server::start(move |head| {
        let to = if head.starts_with("PUT /same ") { "/away" } else { to.as_str() };
        format!("HTTP/1.1 307 Moved\r\nContent-Length: 0\r\nLocation: {to}\r\n\r\n")
    });
    let client = client();
    let sent = client.send(request("PUT", &server.url("same"), Body::Bytes(b"bytes")));
    let broken = sent.err().expect("refused");
    assert!(matches!(broken.cause, Cause::Redirect), "{broken:?}");
    assert!(broken.text.contains(&other.acceptor.address().to_string()), "{broken:?}");
    let [first, second] = server.requests().try_into().expect("two requests");
    assert!(first.ends_with("\r\n\r\nbytes") && second.ends_with("\r\n\r\nbytes"), "the same server");
    assert_eq!(other.requests(), Vec::<String>::new());
}

#[test]
fn a_redirect_that_nobody_follows_shows_no_password() {
    let server = Server::start(|_| {
        "HTTP/1.1 302 Moved\r\nContent-Length: 0\r\nLocation: ftp://u:secret@h/\r\n\r\n".to_owned()
    });
    let broken = get(&client(), &server.url("")).expect_err("not HTTP");
    assert!(matches!(broken.cause, Cause::Redirect), "{broken:?}");
    assert_eq!(broken.text, "a redirect to 'ftp://h/'");
}

/// The server waits for the rest of the body, which never comes.
#[test]
fn a_file_that_becomes_shorter_is_an_error_that_names_it() {
    let server = Server::start(|_| ok(""));
    let source = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(source.path(), "short").expect("written");
    let file = File::open(source.path()).expect("it is there").into();
    let body = Body::File { file: &file, path: source.path(), size: 1 << 20 };
    let broken = client().send(request("PUT", &server.url(""), body)).err().expect("too short");
    let Cause::Body { path, source: error } = &broken.cause else { panic!("{broken:?}") };
    assert_eq!(path, source.path());
    assert!(error.to_string().contains("became shorter"), "{error}");
}

#[test]
fn connections_are_kept_until_one_is_too_slow() {
    let server = Server::start(|head| if head.contains("/silence ") { String::new() } else { ok("good") });
    let watch = Watch { idle: Some(Duration::from_millis(300)), ..Watch::default() };
    let client = Client::new(http::Parts { watch, ..parts("") });
    let good = server.url("good");
    for _ in 0..3 {
        assert_eq!(get(&client, &good).expect("read"), "good");
    }
    assert_eq!(server.acceptor.accepted(), 1);
    // Two at once need two connections.
    let first = client.send(request("GET", &good, Body::Empty)).expect("sent");
    let second = client.send(request("GET", &good, Body::Empty)).expect("sent");
    drop((first, second));
    assert_eq!(server.acceptor.accepted(), 2);
    let broken = get(&client, &server.url("silence")).expect_err("no answer");
    assert!(matches!(broken.cause, Cause::TimedOut), "{broken:?}");
    assert_eq!(get(&client, &good).expect("read"), "good");
    assert_eq!(server.acceptor.accepted(), 3, "the other connection is not used any more");
}

#[test]
fn a_closed_connection_is_replaced() {
    let server = Server::start(|_| ok("good"));
    let client = client();
    assert_eq!(get(&client, &server.url("")).expect("read"), "good");
    server.acceptor.cut();
    assert_eq!(get(&client, &server.url("")).expect("read"), "good");
    assert_eq!(server.acceptor.accepted(), 2);
}

#[test]
fn a_proxy_gets_a_user_without_a_password() {
    let proxy = Server::start(|_| ok("relayed"));
    let url = format!("http://u@{}", proxy.acceptor.address());
    assert_eq!(get(&Client::new(parts(&url)), "http://h.invalid/x").expect("read"), "relayed");
    let [head] = proxy.requests().try_into().expect("one request");
    assert!(head.starts_with("GET http://h.invalid/x HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nProxy-Authorization: Basic dTo=\r\n"), "{head}");
}

#[test]
fn a_bad_proxy_is_named_without_its_password() {
    let broken = get(&Client::new(parts("socks5://u:secret@h")), "http://h.invalid/").expect_err("refused");
    assert!(matches!(broken.cause, Cause::Setting), "{broken:?}");
    assert!(broken.text.contains("socks5://h") && !broken.text.contains("secret"), "{broken:?}");
}
