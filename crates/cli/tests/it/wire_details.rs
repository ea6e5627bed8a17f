//! Details of ssh, HTTP and credential helpers: command lines of ssh compared with Git's, and
//! sapwood's own HTTP client against a small server.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    sync::{Arc, Mutex},
};

use testkit::{Repo, Run, Sandbox};

use crate::SAPWOOD;

#[test]
fn ssh_is_asked_as_by_git() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    let log = repo.join("log");
    // The program's name does not tell its variant, so it is asked for its configuration.
    let script = format!("#!/bin/sh\necho \"$*|$GIT_PROTOCOL\" >>'{}'\ntest \"$1\" = -G\n", log.display());
    repo.write_executable("other", script);
    let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned());
    for url in ["h:", "h:x", "u@h:", "ssh://h/x", "ssh://h:22/~/x"] {
        for version in ["2", "1", "0"] {
            let logs = [git.as_str(), SAPWOOD].map(|program| {
                drop(std::fs::remove_file(&log));
                let mut command = repo.command(program.as_ref());
                command.args(["-c", &format!("protocol.version={version}"), "ls-remote", url]);
                let output = command.env("GIT_SSH", repo.join("other")).output().expect("it runs");
                assert_eq!(output.status.code(), Some(128));
                std::fs::read_to_string(&log).expect("the program was started")
            });
            assert_eq!(logs[0], logs[1], "{url} {version}: git left, sapwood right");
        }
    }
}

/// A server that answers each request by a function of its path and headers.
struct Server {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new(answer: fn(&str) -> String) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        // The thread ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let head = head.join("\n");
                let text = answer(&head);
                // A client that has the answer may end, and the test may count the requests.
                seen.lock().expect("no panic").push(head);
                let _ = stream.write_all(text.as_bytes());
            }
        });
        Server { url, requests }
    }

    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().expect("no panic"))
    }
}

fn response(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}")
}

fn fetch(repo: &Repo<'_>, settings: &[&str], args: &[&str]) -> Run {
    let settings = settings.iter().flat_map(|setting| ["-c", setting]);
    let args: Vec<&str> =
        ["-c", "sapwood.http=builtin"].into_iter().chain(settings).chain(args.iter().copied()).collect();
    repo.run(SAPWOOD.as_ref(), &args)
}

#[test]
fn a_server_explains_its_refusal() {
    let server = Server::new(|head| {
        let kind = if head.starts_with("GET /html") { "text/html" } else { "text/plain; charset=utf-8" };
        response(
            "403 Forbidden",
            &format!("Content-Type: {kind}\r\n"),
            "\n  No \x1b[1mentry.\r\nAsk Ann.\n\n",
        )
    });
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    let run = fetch(&repo, &[], &["ls-remote", &format!("{}/x", server.url)]);
    assert_eq!(run.code, 128);
    let expected = "remote: No ?[1mentry.\nremote: Ask Ann.\nfatal: unable to access";
    assert!(run.stderr.starts_with(expected.as_bytes()), "{}", run.stderr);
    let run = fetch(&repo, &[], &["ls-remote", &format!("{}/html", server.url)]);
    assert!(!run.stderr.to_string().contains("remote:"), "{}", run.stderr);
}

#[test]
fn cookies_and_redirects() {
    let server = Server::new(|head| {
        if head.starts_with("GET /old/") {
            response(
                "302 Found",
                "Set-Cookie: name=value; Path=/\r\nLocation: /new/info/refs?service=git-upload-pack\r\n",
                "",
            )
        } else {
            response("404 Not Found", "", "")
        }
    });
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    let url = format!("{}/old", server.url);
    for (settings, sent) in
        [(&[][..], false), (&["http.cookieFile="], true), (&["http.cookieFile=none"], true)]
    {
        let run = fetch(&repo, settings, &["fetch", &url]);
        assert_eq!(run.code, 128, "{}", run.stderr);
        assert!(run.stderr.to_string().contains("warning: redirecting to "), "{}", run.stderr);
        let requests = server.requests();
        assert_eq!(requests.len(), 2, "{requests:?}");
        assert_eq!(requests[1].contains("Cookie: name=value"), sent, "{settings:?} {requests:?}");
    }
    let run = fetch(&repo, &[], &["fetch", "-q", &url]);
    assert!(!run.stderr.to_string().contains("redirecting"), "{}", run.stderr);
}

#[test]
fn a_path_from_a_helper_is_told_to_all() {
    let server = Server::new(|head| {
        if head.contains("Authorization: Basic ") {
            response("200 OK", "Content-Type: application/x-git-upload-pack-advertisement\r\n", "0000")
        } else {
            response("401 Unauthorized", "WWW-Authenticate: Basic realm=\"x\"\r\n", "")
        }
    });
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    let script = "#!/bin/sh\necho \"[$1]\" >>log\ncat >>log\n\
        test \"$1\" != get || printf 'username=u\\npassword=p\\npath=from/helper\\n'\n";
    repo.write_executable("helper", script);
    let helper = format!("credential.helper={}", repo.join("helper").display());
    fetch(&repo, &[&helper], &["ls-remote", &format!("{}/x", server.url)]);
    let log = std::fs::read_to_string(repo.join("log")).expect("the helper was asked");
    let (get, store) = log.split_once("[store]\n").expect("the credential was accepted");
    assert!(get.starts_with("[get]\n") && !get.contains("path="), "{log}");
    assert!(store.contains("path=from/helper\n"), "{log}");
}

/// The setting of one remote has precedence.
#[test]
fn a_remote_has_its_own_proxy() {
    let server = Server::new(|_| response("403 Forbidden", "", ""));
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.git(&["remote", "add", "far", "http://far.invalid/x"]);
    let proxy = format!("remote.far.proxy={}", server.url);
    let run = fetch(&repo, &["http.proxy=http://127.0.0.1:1", &proxy], &["fetch", "far"]);
    assert_eq!(run.code, 128, "{}", run.stderr);
    let requests = server.requests();
    assert!(requests.iter().any(|head| head.starts_with("GET http://far.invalid/x/")), "{requests:?}");
}
