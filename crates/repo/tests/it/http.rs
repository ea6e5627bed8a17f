//! sapwood's own HTTP client, with a real server.

use std::{collections::HashMap, sync::Mutex};

use repo::{
    MessageSink, OpenOptions, Repository,
    wire::{Client, ConnectOptions, Error},
};
use testkit::{
    Repo, Sandbox,
    servers::{Nginx, NginxOptions},
};

use crate::options;

/// A server with the repository `a`, and a client's repository.
struct Ground {
    sandbox: Sandbox,
    server: Nginx,
}

impl Ground {
    fn new() -> Ground {
        Ground::with(NginxOptions::default())
    }

    fn with(changes: NginxOptions<'_>) -> Ground {
        let sandbox = Sandbox::new();
        let repo = sandbox.init("root/a");
        repo.write("file", "content\n");
        repo.commit("one");
        repo.git(&["tag", "-a", "-m", "tag", "v1"]);
        sandbox.init("client");
        let server = Nginx::with(&sandbox.path().join("root"), changes);
        let ca = server.ca_file().display().to_string();
        sandbox.repo("client").git(&["config", "http.sslCAInfo", &ca]);
        Ground { sandbox, server }
    }

    fn client(&self) -> Repo<'_> {
        self.sandbox.repo("client")
    }

    fn set(&self, key: &str, value: &str) {
        self.client().git(&["config", "--add", key, value]);
    }

    /// Lists refs by sapwood, with more variables in the environment. The result is in the format
    /// of `git ls-remote`, or the error's text.
    fn list_with(&self, url: &str, variables: &[(&str, &str)]) -> Result<String, String> {
        let options = options(&self.client());
        let mut env: HashMap<_, _> = options.env.clone();
        env.extend(variables.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        let options = OpenOptions { env, message_sink: MessageSink(remember), ..options };
        let repo = Repository::open(&options).expect("a repository");
        let client = Client::of(&repo);
        let listed =
            client.connect(&client.url(url.into()), &ConnectOptions::default()).and_then(|mut connection| {
                let listed = connection.list_refs(&[])?;
                Ok(listed)
            });
        match listed {
            Ok(listed) => {
                let line =
                    |name: &dyn std::fmt::Display, oid: &dyn std::fmt::Display| format!("{oid}\t{name}\n");
                Ok(listed
                    .refs
                    .iter()
                    .flat_map(|found| {
                        let peeled = found.peeled.as_ref();
                        [
                            Some(line(&found.name, &found.oid)),
                            peeled.map(|oid| line(&format!("{}^{{}}", found.name), oid)),
                        ]
                    })
                    .flatten()
                    .collect())
            }
            Err(error) => Err(text_of(&error)),
        }
    }

    fn list(&self, url: &str) -> Result<String, String> {
        self.list_with(url, &[])
    }

    /// Compares the refs that sapwood lists with those of Git.
    #[track_caller]
    fn same(&self, url: &str) {
        let expected = self.client().git(&["ls-remote", url]).stdout.to_string();
        assert!(expected.contains("refs/tags/v1^{}"), "{expected}");
        assert_eq!(self.list(url), Ok(expected), "{url}");
    }

    /// Compares the errors; Git has `fatal: ` before it.
    #[track_caller]
    fn same_error(&self, url: &str) {
        let run = self.client().try_git(&["ls-remote", url]);
        assert_eq!(run.code, 128, "{}", run.stderr);
        let text = run.stderr.to_string();
        let fatal = text.split_once("fatal: ").map(|(_, text)| text.trim_end().to_owned());
        assert_eq!(self.list(url).map_err(Some), Err(fatal), "{url}: {text}");
    }
}

fn text_of(error: &Error) -> String {
    error.to_string()
}

static MESSAGES: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn remember(line: &str) {
    MESSAGES.lock().expect("no test panics while it holds the lock").push(line.to_owned());
}

#[test]
fn lists_refs_over_http_and_https() {
    let ground = Ground::new();
    ground.same(&ground.server.url("git/a"));
    ground.same(&ground.server.url("git/a/"));
    ground.same(&ground.server.tls_url("git/a"));
    let requests = ground.server.requests();
    let versions = requests.iter().filter(|line| line.contains("|version=2|")).count();
    assert_eq!(versions, 12, "each listing takes two requests, by Git and by sapwood: {requests:#?}");
}

#[test]
fn failures_have_gits_words() {
    let ground = Ground::new();
    for path in ["git/missing", "status/403/x", "status/404/x", "status/500/x", "status/503/x"] {
        ground.same_error(&ground.server.url(path));
    }
    // The server's file says nothing of refs.
    ground.same_error(&ground.server.url("files/a/.git/HEAD?"));
    let closed = ground.server.port();
    drop(ground.server);
    let url = format!("http://127.0.0.1:{closed}/a");
    let options = options(&ground.sandbox.repo("client"));
    let repo = Repository::open(&options).expect("a repository");
    let client = Client::of(&repo);
    let error = client.connect(&client.url(url.as_str().into()), &ConnectOptions::default());
    let text = error.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(
        text.contains(&format!("unable to access '{url}/': Failed to connect to 127.0.0.1 port")),
        "{text}"
    );
}

#[test]
fn certificates_are_checked() {
    let ground = Ground::new();
    let url = ground.server.tls_url("git/a");
    let named = format!("https://localhost:{}/git/a", ground.server.tls_port());
    let error = ground.list(&named).expect_err("the certificate holds for 127.0.0.1");
    assert!(error.contains("no alternative certificate subject name matches"), "{error}");
    ground.client().git(&["config", "--unset-all", "http.sslCAInfo"]);
    let error = ground.list(&url).expect_err("nobody knows the authority");
    assert!(error.contains("SSL certificate problem: unable to get local issuer certificate"), "{error}");
    let with = |name: &str, value: &str| ground.list_with(&url, &[(name, value)]);
    assert!(with("GIT_SSL_NO_VERIFY", "1").is_ok());
    assert!(with("GIT_SSL_CAINFO", &ground.server.ca_file().display().to_string()).is_ok());
    ground.set(&format!("http.https://127.0.0.1:{}.sslVerify", ground.server.tls_port()), "false");
    assert!(ground.list(&url).is_ok());
    assert!(ground.list(&named).is_err());
}

#[test]
fn the_client_has_a_certificate() {
    let ground = Ground::new();
    let url = ground.server.tls_url("cert/a");
    ground.same_error(&url);
    let (certificate, key) = ground.server.client_certificate();
    ground.set("http.sslCert", &certificate.display().to_string());
    ground.set("http.sslKey", &key.display().to_string());
    ground.same(&url);
}

#[test]
fn redirects_are_followed_once_and_only_to_http() {
    let ground = Ground::with(NginxOptions {
        directives: "location /file/ { return 302 file:///etc/passwd; }
            location /loop/ { return 302 $request_uri; }
            location /elsewhere/ { return 302 /files/a/file; }
            location /nowhere/ { return 302 /git/a/other; }",
        ..NginxOptions::default()
    });
    for code in [301, 302, 303, 307, 308] {
        ground.same(&ground.server.url(&format!("moved/{code}/git/a")));
    }
    ground.same(&ground.server.url("tls/git/a"));
    assert!(ground.list(&ground.server.url("file/a")).is_err_and(|text| text.contains("disabled")));
    ground.same_error(&ground.server.url("loop/a"));
    ground.same_error(&ground.server.url("elsewhere/a"));
    ground.same_error(&ground.server.url("nowhere/a"));
    ground.set("http.followRedirects", "false");
    ground.same_error(&ground.server.url("moved/302/git/a"));
}

#[test]
fn headers_are_sent_as_git_sends_them() {
    let ground = Ground::new();
    let url = ground.server.url("git/a");
    ground.client().write("cookies", "127.0.0.1\tFALSE\t/\tFALSE\t0\tname\tvalue\n");
    ground.set("http.cookieFile", &ground.client().join("cookies").display().to_string());
    ground.set("http.extraHeader", "X-Test: first");
    ground.set("http.extraHeader", "");
    ground.set("http.extraHeader", "X-Test: second");
    ground.set(&format!("http.http://127.0.0.1:{}/git.userAgent", ground.server.port()), "own/1");
    let seen = |server: &Nginx| -> Vec<String> {
        let lines = server.requests();
        // Method, address, status, size, version, authorization, agent, cookie, ..., X-Test, type.
        let columns = |line: &String| {
            let fields: Vec<&str> = line.split('|').collect();
            [0, 1, 2, 4, 5, 6, 7, 10, 14].map(|at| fields[at]).join("|")
        };
        lines.iter().map(columns).collect()
    };
    ground.client().git(&["ls-remote", &url]);
    let git = seen(&ground.server);
    ground.server.clear_requests();
    ground.list(&url).expect("the server answers");
    assert_eq!(seen(&ground.server), git);
    assert!(git[0].contains("|own/1|name=value|second|"), "{git:?}");
}
