//! The servers of testkit serve the real Git, and the proxy injects the specified faults.

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use testkit::{
    Repo, Sandbox,
    servers::{Acceptor, Daemon, Fault, Line, Moment, Nginx, NginxOptions, Proxy, Sshd, Trouble},
};

fn source(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.init("served/source");
    repo.write("file", "content\n");
    repo.commit("one");
    repo
}

#[test]
fn a_daemon_serves_what_is_below_its_directory() {
    let sandbox = Sandbox::new();
    let head = source(&sandbox).git(&["rev-parse", "HEAD"]).stdout;
    let daemon = Daemon::start(&sandbox, "served");
    for number in 1..4 {
        let copy = format!("copy{number}");
        sandbox.repo("").git(&["clone", "-q", &daemon.url("source"), &copy]);
        assert_eq!(sandbox.repo(&copy).git(&["rev-parse", "HEAD"]).stdout, head);
        assert_eq!(daemon.connections(), number);
    }
    let refused = sandbox.repo("").try_git(&["clone", &daemon.url("nowhere"), "none"]);
    assert_eq!(refused.code, 128);
    assert!(refused.stderr.to_string().contains("no such repository"), "{}", refused.stderr);
    assert!(daemon.log().contains("does not appear to be a git repository"), "{}", daemon.log());
}

#[test]
fn sshd_serves_its_user_alone() {
    let sandbox = Sandbox::new();
    let repo = source(&sandbox);
    let Some(sshd) = Sshd::start(&sandbox) else { return };
    let head = repo.git(&["rev-parse", "HEAD"]).stdout;
    for (address, copy) in
        [(sshd.url(&repo.path), "by-url"), (sshd.scp_like(&repo.path.display().to_string()), "scp-like")]
    {
        let mut clone = sandbox.repo("").git_command();
        clone.args(["clone", "-q", &address, copy]).env("GIT_SSH_COMMAND", sshd.ssh());
        let output = clone.output().expect("git can be run");
        assert!(output.status.success(), "{output:?}\n{}", sshd.log());
        assert_eq!(sandbox.repo(copy).git(&["rev-parse", "HEAD"]).stdout, head);
    }
    let ran = format!("version=2 git-upload-pack '{}'\n", repo.path.display());
    assert_eq!(sshd.commands(), ran.repeat(2));
    assert_eq!(sshd.connections(), 2);

    let settings = sandbox.repo("sshd");
    let text = settings.read("ssh_config").to_string();
    settings.write("ssh_config", text.replace("/sshd/key", "/sshd/none"));
    let mut without_key = sandbox.repo("").git_command();
    without_key.args(["ls-remote", &sshd.url(&repo.path)]).env("GIT_SSH_COMMAND", sshd.ssh());
    assert!(!without_key.output().expect("git can be run").status.success());
    assert_eq!(sshd.commands(), ran.repeat(2));
}

/// Returns a server that sends `bytes` and waits for the end of the connection.
fn sender(bytes: Vec<u8>) -> Acceptor {
    Acceptor::start(move |mut stream, _| {
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    })
}

/// Returns all bytes up to the end of the connection.
fn receive(from: SocketAddr) -> Vec<u8> {
    let mut stream = TcpStream::connect(from).expect("somebody listens");
    let mut bytes = Vec::new();
    // A cut may return an error.
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

fn pattern(length: u32) -> Vec<u8> {
    (0..length).map(|number| (number * 7 + number / 251) as u8).collect()
}

#[test]
fn a_proxy_passes_everything_on() {
    let echo = Acceptor::start(|mut stream, _| {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        let _ = stream.write_all(&all);
    });
    let proxy = Proxy::to(echo.address());
    let bytes = pattern(3_000_000);
    let mut stream = TcpStream::connect(proxy.address()).expect("somebody listens");
    stream.write_all(&bytes).expect("the proxy reads");
    stream.shutdown(std::net::Shutdown::Write).expect("open");
    let mut back = Vec::new();
    stream.read_to_end(&mut back).expect("the proxy writes");
    assert!(back == bytes);
    assert_eq!((proxy.sent(), proxy.received(), proxy.connections()), (3_000_000, 3_000_000, 1));
}

#[test]
fn a_proxy_cuts_stalls_and_corrupts() {
    let bytes = pattern(1_000_000);
    let server = sender(bytes.clone());
    let proxy = Proxy::to(server.address());

    proxy.once(Fault::Cut, 600_001);
    assert!(receive(proxy.address()) == bytes[..600_001]);
    assert!(!proxy.is_troubled());
    assert!(receive(proxy.address()) == bytes, "it happens once");

    proxy.once(Fault::Cut, 1_500_000);
    assert!(receive(proxy.address()) == bytes);
    assert!(receive(proxy.address()) == bytes[..500_000], "all connections count");

    proxy.set(Some(Trouble { after: 10, moment: Moment::EachConnection, fault: Fault::Cut }));
    for _ in 0..3 {
        assert_eq!(receive(proxy.address()), bytes[..10]);
    }

    proxy.once(Fault::Corrupt, 70_000);
    let received = receive(proxy.address());
    let differing: Vec<usize> = (0..bytes.len()).filter(|place| received[*place] != bytes[*place]).collect();
    assert_eq!((received.len(), differing), (bytes.len(), vec![70_000]));

    proxy.once(Fault::Stall, 100_000);
    let mut stream = TcpStream::connect(proxy.address()).expect("somebody listens");
    stream.set_read_timeout(Some(Duration::from_millis(300))).expect("a time");
    let mut received = Vec::new();
    let error = stream.read_to_end(&mut received).expect_err("the end does not come");
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    assert!(received == bytes[..100_000]);
}

#[test]
fn a_proxy_limits_rate_and_adds_latency() {
    let server = sender(pattern(400_000));
    let line = Line { rate: Some(1_000_000), latency: Duration::from_millis(50) };
    let proxy = Proxy::on(line, server.address());
    let began = Instant::now();
    assert_eq!(receive(proxy.address()).len(), 400_000);
    let took = began.elapsed();
    // A busy machine may take longer, but never less.
    assert!(took >= Duration::from_millis(440), "{took:?}");
}

/// Returns the inode of the socket that listens at an IPv4 address.
fn listener(address: SocketAddr) -> Option<u64> {
    let SocketAddr::V4(address) = address else { panic!("{address} is no IPv4 address") };
    let ip = u32::from_ne_bytes(address.ip().octets());
    let (local, listens) = (format!("{ip:08X}:{:04X}", address.port()), "0A");
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the sockets");
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (fields[1] == local && fields[3] == listens).then(|| fields[9].parse().expect("a number"))
    })
}

#[test]
fn nothing_serves_after_the_drop() {
    let sandbox = Sandbox::new();
    source(&sandbox);
    let daemon = Daemon::start(&sandbox, "served");
    let address = daemon.address();
    let mut waiting = TcpStream::connect(address).expect("somebody listens");
    while daemon.connections() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let socket = listener(address).expect("somebody listens");
    drop(daemon);
    // The socket of another test may have the port by now.
    assert_ne!(listener(address), Some(socket));
    waiting.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
    let mut rest = Vec::new();
    // The end or a reset, but not a timeout.
    if let Err(error) = waiting.read_to_end(&mut rest) {
        assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock);
    }
}

fn repository(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.init("root/a");
    repo.write("file", "content\n");
    repo.commit("one");
    sandbox.repo("root/a")
}

#[test]
fn nginx_serves_git_over_http_and_https() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    let server = Nginx::start(&sandbox.path().join("root"));
    let ca = format!("http.sslCAInfo={}", server.ca_file().display());
    let (certificate, key) = server.client_certificate();
    let certificate = format!("http.sslCert={}", certificate.display());
    let key = format!("http.sslKey={}", key.display());
    let head = repo.git(&["rev-parse", "HEAD"]).stdout;
    let list = |url: &str| {
        let run = repo.git(&["-c", &ca, "-c", &certificate, "-c", &key, "ls-remote", url, "HEAD"]);
        assert!(run.stdout.starts_with(head.trim_ascii_end()), "{url}: {}", run.stdout);
    };
    list(&server.url("git/a"));
    list(&server.tls_url("git/a"));
    list(&server.url("moved/302/git/a"));
    list(&server.tls_url("cert/a"));
    let with_password = format!("alice:open%20sesame@127.0.0.1:{}", server.port());
    list(&format!("http://{with_password}/auth/a"));
    let before = server.requests();
    assert!(before.iter().any(|line| line.starts_with("GET|/git/a/info/refs?service=git-upload-pack|200|")));
    server.clear_requests();
    list(&server.url("v0/a"));
    assert_eq!(server.requests().len(), 1, "protocol version 0 needs one request to list refs");

    let refused = repo.try_git(&["-c", "core.askPass=true", "ls-remote", &server.url("auth/a")]);
    assert_eq!(refused.code, 128, "{}", refused.stderr);
}

#[test]
fn nginx_takes_directives_and_settings() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    let server = Nginx::with(
        &sandbox.path().join("root"),
        NginxOptions {
            directives: "location ~ ^/own(?<repository>/.*)$ { $backend }",
            config: &[("uploadpack.hideRefs", "refs/heads")],
            ..NginxOptions::default()
        },
    );
    let run = repo.git(&["ls-remote", &server.url("own/a")]);
    assert!(!run.stdout.to_string().contains("refs/heads"), "{}", run.stdout);
}
