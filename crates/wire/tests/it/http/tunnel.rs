//! https through a proxy that requires a password.

use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use super::{Ground, helper};

/// The requests to the proxy.
type Seen = Arc<Mutex<Vec<String>>>;

/// Starts a proxy with the user `u` and the password `p`; returns its port. It runs until the
/// process ends.
fn proxy(seen: &Seen) -> u16 {
    let socket = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = socket.local_addr().expect("bound").port();
    let seen = Arc::clone(seen);
    thread::spawn(move || {
        for client in socket.incoming().flatten() {
            let seen = Arc::clone(&seen);
            thread::spawn(move || serve(client, &seen));
        }
    });
    port
}

fn serve(mut client: TcpStream, seen: &Seen) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    seen.lock().expect("no thread panics").push(head.clone());
    if !head.contains("Proxy-Authorization: Basic dTpw\r\n") {
        let refusal = "HTTP/1.1 407 Who are you\r\nProxy-Authenticate: Basic realm=\"p\"\r\n\
            Content-Length: 0\r\nConnection: close\r\n\r\n";
        return client.write_all(refusal.as_bytes());
    }
    let target = head.split(' ').nth(1).unwrap_or_default();
    let mut server = TcpStream::connect(target)?;
    client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n")?;
    let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    io::copy(&mut server, &mut client).map(drop)
}

#[test]
fn https_goes_through_a_proxy_with_a_password() {
    let ground = Ground::new();
    let seen = Seen::default();
    let port = proxy(&seen);
    let url = ground.server.tls_url("git/a");
    let listed =
        |address: &str| ground.list_with(&url, &[("https_proxy", address), ("GIT_TERMINAL_PROMPT", "0")]);
    let expected = ground.list(&url).expect("the server answers");
    assert_eq!(listed(&format!("http://u:p@127.0.0.1:{port}")), Ok(expected.clone()));
    let heads = seen.lock().expect("no thread panics").clone();
    assert!(heads.iter().all(|head| head.starts_with("CONNECT 127.0.0.1:")), "{heads:?}");
    let refused = listed(&format!("http://u:wrong@127.0.0.1:{port}"));
    assert!(refused.is_err_and(|text| text.contains("CONNECT tunnel failed, response 407")));
    helper(&ground, "password=p\n");
    assert_eq!(listed(&format!("http://u@127.0.0.1:{port}")), Ok(expected));
}
