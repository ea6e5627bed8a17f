//! sapwood's own HTTP client against a real server.

mod packs;
mod tunnel;

use std::sync::Mutex;

use testkit::{
    Repo, Sandbox,
    servers::{Nginx, NginxOptions},
};
use wire::{Beginning, Client, ConnectOptions, Error, Resume};

use crate::RepoSettings;

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
        sandbox.repo("client").git(&["config", "sapwood.http", "builtin"]);
        sandbox.repo("client").git(&["config", "http.sslCAInfo", &ca]);
        Ground { sandbox, server }
    }

    fn client(&self) -> Repo<'_> {
        self.sandbox.repo("client")
    }

    fn set(&self, key: &str, value: &str) {
        self.client().git(&["config", "--add", key, value]);
    }

    /// Lists refs with sapwood, with more variables in the environment. Returns the output in the
    /// format of `git ls-remote`, or the error's text.
    fn list_with(&self, url: &str, variables: &[(&str, &str)]) -> Result<String, String> {
        let mut repo = RepoSettings::of(&self.client());
        repo.variables.extend(variables.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        repo.print = remember;
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

    /// Compares the error messages; Git's begin with `fatal: `.
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
    // The server's file contains no refs.
    ground.same_error(&ground.server.url("files/a/.git/HEAD?"));
    // No process listens on port 1.
    let url = "http://127.0.0.1:1/a";
    let repo = RepoSettings::of(&ground.client());
    let client = Client::of(&repo);
    let error = client.connect(&client.url(url.into()), &ConnectOptions::default());
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

/// `openssl req -x509` makes a certificate that says that it is an authority. Git takes it from a
/// server if it is one of the trusted ones.
#[test]
fn a_server_may_have_signed_its_own_certificate() {
    let ground = Ground::with(NginxOptions { self_signed: true, ..NginxOptions::default() });
    ground.same(&ground.server.tls_url("git/a"));
    let named = format!("https://localhost:{}/git/a", ground.server.tls_port());
    assert!(ground.list(&named).is_err(), "the certificate holds for 127.0.0.1");
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
        // Method, URL, status, size, version, authorization, agent, cookie, ..., X-Test, type.
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

/// Creates a helper that logs its input and prints the given lines.
fn helper(ground: &Ground, answer: &str) {
    let log = ground.client().join("log").display().to_string();
    let script =
        format!("#!/bin/sh\necho \"$1\" >>{log}\ncat >>{log}\ntest \"$1\" = get && cat <<EOF\n{answer}EOF\n");
    ground.client().write_executable("helper", script);
    let helper = ground.client().join("helper").display().to_string();
    ground.client().git(&["config", "credential.helper", &helper]);
    ground.client().write_executable("askpass", "#!/bin/sh\necho \"$1\" >>$0.log\nexit 1\n");
}

/// Returns the log of the helper, and removes it.
fn take_log(ground: &Ground) -> String {
    let client = ground.client();
    let log = if client.exists("log") { client.read("log").to_string() } else { String::new() };
    if !log.is_empty() {
        client.remove("log");
    }
    log
}

/// Lists refs with Git and with sapwood and the same helper; compares results and the helper's
/// input.
#[track_caller]
fn same_with_helper(ground: &Ground, path: &str, user: &str, answer: &str) -> String {
    helper(ground, answer);
    let url = ground.server.url(path).replace("http://", &format!("http://{user}"));
    let run = ground
        .client()
        .command(std::path::Path::new("git"))
        .env("GIT_TERMINAL_PROMPT", "0")
        .args(["ls-remote", &url])
        .output()
        .expect("Git runs");
    let expected = if run.status.success() {
        Ok(String::from_utf8_lossy(&run.stdout).into_owned())
    } else {
        let text = String::from_utf8_lossy(&run.stderr).into_owned();
        Err(text.split_once("fatal: ").map_or(text.clone(), |(_, text)| text.trim_end().to_owned()))
    };
    let asked = take_log(ground);
    assert_eq!(ground.list_with(&url, &[("GIT_TERMINAL_PROMPT", "0")]), expected, "{url} {answer}");
    assert_eq!(take_log(ground), asked, "{url} {answer}");
    asked
}

#[test]
fn helpers_are_asked_and_told_as_by_git() {
    let ground = Ground::new();
    let good = "username=alice\npassword=open sesame\n";
    let asked = same_with_helper(&ground, "auth/a", "", good);
    assert!(asked.contains("wwwauth[]=Basic realm=\"the vault\""), "{asked}");
    assert!(asked.contains("store\n"), "{asked}");
    let refused = same_with_helper(&ground, "auth/a", "", "username=alice\npassword=wrong\n");
    assert!(refused.contains("erase\n"), "{refused}");
    same_with_helper(&ground, "auth/a", "alice@", "password=open sesame\n");
    same_with_helper(&ground, "auth/a", "alice:open%20sesame@", "");
    same_with_helper(&ground, "auth/a", "alice:wrong@", "");
    same_with_helper(&ground, "auth/a", "", "");
    same_with_helper(&ground, "auth/a", "alice@", "");
    same_with_helper(&ground, "auth/a", "", "quit=1\n");
    same_with_helper(&ground, "git/a", "alice:open%20sesame@", "");
    let basic = "capability[]=authtype\nauthtype=Basic\ncredential=YWxpY2U6b3BlbiBzZXNhbWU=\n";
    same_with_helper(&ground, "auth/a", "", basic);
    let bearer = format!("capability[]=authtype\nauthtype=Bearer\ncredential={}\n", Nginx::TOKEN);
    same_with_helper(&ground, "bearer/a", "", &bearer);
    same_with_helper(&ground, "bearer/a", "", &format!("{bearer}ephemeral=1\n"));
    let refused = same_with_helper(&ground, "bearer/a", "", good);
    assert!(refused.contains("erase\n"), "{refused}");
    assert!(
        ground.server.requests().iter().all(|line| !line.contains("bearer/a") || !line.contains("|Basic "))
    );
    same_with_helper(&ground, "status/401/a", "", good);
    ground.set("credential.useHttpPath", "true");
    same_with_helper(&ground, "auth/a", "", good);
    ground.set(&format!("credential.http://127.0.0.1:{}.username", ground.server.port()), "alice");
    same_with_helper(&ground, "auth/a", "", "password=open sesame\n");
}

#[test]
fn a_program_is_asked() {
    let ground = Ground::new();
    let url = ground.server.url("auth/a");
    let script =
        "#!/bin/sh\necho \"$1\" >>$0.log\ncase $1 in U*) echo alice;; *) echo 'open sesame';; esac\n";
    ground.client().write_executable("askpass", script);
    let program = ground.client().join("askpass").display().to_string();
    ground.set("core.askPass", &program);
    ground.same(&url);
    let log = ground.client().read("askpass.log").to_string();
    let (first, second) = log.split_at(log.len() / 2);
    assert_eq!(first, second);
    assert!(first.starts_with("Username for 'http://127.0.0.1:"), "{first}");
    assert_eq!(
        ground.list_with(&url, &[("GIT_ASKPASS", ""), ("GIT_TERMINAL_PROMPT", "0")]),
        Err(format!(
            "could not read Username for 'http://127.0.0.1:{}': terminal prompts disabled",
            ground.server.port()
        ))
    );
}

#[test]
fn secrets_stay_with_their_server() {
    let ground = Ground::new();
    let other = Nginx::start(&ground.sandbox.path().join("root"));
    let directives =
        format!("location /away/ {{ return 302 {}; }}", other.url("git/a/info/refs?service=git-upload-pack"));
    let first = Nginx::with(
        &ground.sandbox.path().join("root"),
        NginxOptions { directives: &directives, ..NginxOptions::default() },
    );
    ground.set("http.extraHeader", "Authorization: Basic c2VjcmV0");
    ground.set("http.extraHeader", "X-Test: shown");
    let url = first.url("away/a").replace("http://", "http://alice:secret@");
    ground.list(&url).expect("the other server asks for no password");
    assert!(first.requests().iter().all(|line| line.contains("|Basic c2VjcmV0|")));
    for line in other.requests() {
        assert!(!line.contains("Basic") && line.contains("|shown|"), "{line}");
    }
}

#[test]
fn older_versions_are_spoken() {
    let ground = Ground::new();
    ground.same(&ground.server.url("v0/a"));
    for version in ["0", "1"] {
        ground.client().git(&["config", "protocol.version", version]);
        ground.same(&ground.server.url("git/a"));
    }
}

#[test]
fn plain_http_goes_through_a_proxy() {
    let ground = Ground::with(NginxOptions {
        // One server for every host name, to see the requests that a proxy receives.
        directives: "location /proxied/ { if ($http_proxy_authorization = '') { return 407; } return 204; }",
        ..NginxOptions::default()
    });
    ground.set("http.proxy", &format!("http://127.0.0.1:{}", ground.server.port()));
    let listed = ground.list("http://unknown.invalid/git/a").expect("the proxy answers");
    assert!(listed.contains("refs/tags/v1"), "{listed}");
    assert!(ground.list_with("http://unknown.invalid/git/a", &[("no_proxy", "invalid")]).is_err());
    ground.set("http.proxy", "");
    let proxy = format!("127.0.0.1:{}", ground.server.port());
    ground.client().git(&["config", "--unset-all", "http.proxy"]);
    assert!(ground.list_with("http://unknown.invalid/git/a", &[("http_proxy", &proxy)]).is_ok());
    let with_user = format!("http://u:p@{proxy}");
    assert!(ground.list_with("http://unknown.invalid/proxied/a", &[("http_proxy", &with_user)]).is_err());
    ground.set("http.proxySSLCAInfo", &ground.server.ca_file().display().to_string());
    // The connection to the proxy can have TLS.
    let proxy = ground.server.tls_url("");
    assert!(ground.list_with("http://unknown.invalid/git/a", &[("http_proxy", &proxy)]).is_ok());
}

/// `http.sslVerify` and `http.sslCAInfo` are about the server, `http.proxySSLCAInfo` is about the
/// proxy, which gets a password.
#[test]
fn a_proxy_with_tls_is_verified_in_any_case() {
    let ground = Ground::new();
    let place = format!("u:p@127.0.0.1:{}", ground.server.tls_port());
    let proxy = format!("https://{place}");
    ground.set("http.sslVerify", "false");
    let ca = ground.server.ca_file().display().to_string();
    for url in ["http://unknown.invalid/git/a", "https://unknown.invalid/git/a"] {
        let error = ground.list_with(url, &[("http_proxy", &proxy), ("https_proxy", &proxy)]);
        let error = error.expect_err("nobody knows the authority");
        assert!(error.contains("unable to get local issuer certificate"), "{error}");
    }
    assert_eq!(ground.server.requests(), Vec::<String>::new());
    let (certificate, key) = ground.server.client_certificate();
    let (certificate, key) = (certificate.display().to_string(), key.display().to_string());
    let variables = [
        ("http_proxy", proxy.as_str()),
        ("GIT_PROXY_SSL_CAINFO", &ca),
        ("GIT_PROXY_SSL_CERT", &certificate),
        ("GIT_PROXY_SSL_KEY", &key),
    ];
    assert!(ground.list_with("http://unknown.invalid/git/a", &variables[..2]).is_ok());
    // The proxy's own request for a certificate.
    assert!(ground.list_with("http://unknown.invalid/cert/a", &variables[..2]).is_err());
    assert!(ground.list_with("http://unknown.invalid/cert/a", &variables).is_ok());
}

#[test]
fn a_header_with_a_line_end_names_its_setting() {
    let ground = Ground::new();
    let url = ground.server.url("git/a");
    let refused = |name: &str| Err(format!("bad value of {name}: it has a line end or a NUL"));
    assert_eq!(ground.list_with(&url, &[("GIT_HTTP_USER_AGENT", "a\nX: y")]), refused("GIT_HTTP_USER_AGENT"));
    for (key, value) in [("http.userAgent", "a\r\nX: y"), ("http.extraHeader", "X-Test: a\nX-Other: y")] {
        ground.set(key, value);
        assert_eq!(ground.list(&url), refused(&key.to_lowercase()));
        ground.client().git(&["config", "--unset-all", key]);
    }
    // A language is a variable of the system, which has no name here.
    let error = ground.list_with(&url, &[("LANGUAGE", "de\nX: y")]).expect_err("refused");
    assert_eq!(error, "the header 'Accept-Language' has a line end or a NUL");
    assert_eq!(ground.server.requests(), Vec::<String>::new());
}

#[test]
fn bad_urls_are_shown_without_passwords() {
    let ground = Ground::new();
    let blank = ground.server.url("git/a b");
    assert_eq!(ground.client().try_git(&["ls-remote", &blank]).code, 128, "Git encodes no blanks either");
    for url in [&blank, "http://alice:secret@h:x/", "http://alice:sec/secret@h/", "http://alice:secret@h/a b"]
    {
        let error = ground.list(url).expect_err("no URL");
        assert!(error.contains("URL rejected") && !error.contains("secret"), "{error}");
    }
}

/// Downloads the rest of a file; returns the start and the downloaded bytes.
fn download(ground: &Ground, url: &str, resume: &Resume) -> Result<(Beginning, Vec<u8>), String> {
    let repo = RepoSettings::of(&ground.client());
    let (mut begun, mut bytes) = (None, Vec::new());
    let mut begin = |beginning: &Beginning| {
        begun = Some(beginning.clone());
        Ok(())
    };
    let came =
        Client::of(&repo).download(url.into(), &ConnectOptions::default(), resume, &mut begin, &mut bytes);
    let came = came.map_err(|error| error.to_string())?;
    assert_eq!(came, bytes.len() as u64);
    Ok((begun.expect("called before the first byte"), bytes))
}

#[test]
fn downloads_go_on_where_they_ended() {
    let ground = Ground::new();
    let content: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    ground.sandbox.repo("root").write("big", &content);
    let url = ground.server.url("files/big");
    let (begun, bytes) = download(&ground, &url, &Resume::default()).expect("the file is there");
    assert!(bytes == content);
    assert_eq!((begun.offset, begun.size), (0, Some(1_200_000)));
    let resume = Resume { offset: 1_000_000, validator: begun.validator.clone() };
    let (again, bytes) = download(&ground, &url, &resume).expect("the file is there");
    assert_eq!((again.offset, again.size), (1_000_000, Some(1_200_000)));
    assert!(bytes == content[1_000_000..]);
    for resume in [
        Resume { validator: Some("\"another\"".into()), ..resume.clone() },
        Resume { validator: None, ..resume.clone() },
        Resume { offset: 2_000_000, ..resume },
    ] {
        let (begun, bytes) = download(&ground, &url, &resume).expect("the file is there");
        assert_eq!(begun.offset, 0, "{resume:?}");
        assert!(bytes == content);
    }
    let missing = download(&ground, &ground.server.url("files/missing"), &Resume::default());
    assert!(missing.is_err_and(|text| text.contains("not found")));
}

#[test]
fn netrc_and_strange_settings_are_read() {
    let ground = Ground::new();
    let url = ground.server.url("auth/a");
    let netrc = "machine 127.0.0.1 login alice password sesame\n";
    ground.sandbox.repo("home").write(".netrc", netrc);
    ground.set("http.pinnedPubkey", "sha256//x");
    let error = ground.list(&url).expect_err("only Git's helper knows the setting");
    assert!(error.contains("'http.pinnedpubkey=sha256//x'"), "{error}");
    ground.client().git(&["config", "--unset-all", "http.pinnedPubkey"]);
    helper(&ground, "username=alice\npassword=open sesame\n");
    ground.same(&url);
    let script = ground.client().join("helper").display().to_string();
    ground.client().git(&["config", "--unset-all", "credential.helper", &script]);
    let netrc = "machine 127.0.0.1 login bob password x\n";
    ground.sandbox.repo("home").write(".netrc", netrc);
    let refused = ground.list_with(&url, &[("GIT_TERMINAL_PROMPT", "0")]);
    assert!(refused.is_err_and(|text| text.contains("could not read Username")));
}

#[test]
fn a_server_that_stalls_or_is_busy_is_noticed() {
    let ground = Ground::with(NginxOptions {
        directives: "location /busy/ { return 429; }",
        ..NginxOptions::default()
    });
    let silent = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let url = format!("http://{}/a", silent.local_addr().expect("bound"));
    let limits = [("GIT_HTTP_LOW_SPEED_LIMIT", "1000"), ("GIT_HTTP_LOW_SPEED_TIME", "1")];
    let error = ground.list_with(&url, &limits).expect_err("nobody answers");
    assert!(
        error.contains("Operation too slow. Less than 1000 bytes/sec transferred the last 1 seconds"),
        "{error}"
    );

    ground.same_error(&ground.server.url("busy/a"));
    ground.set("http.maxRetries", "2");
    ground.server.clear_requests();
    ground.list(&ground.server.url("busy/a")).expect_err("the server stays busy");
    assert_eq!(ground.server.requests().len(), 3);
}

#[test]
fn an_interrupt_ends_a_wait() {
    let ground = Ground::new();
    let silent = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let url = format!("http://{}/a", silent.local_addr().expect("bound"));
    let repo = RepoSettings::of(&ground.client());
    let flag = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let connect = ConnectOptions { interrupt: Some(flag), ..ConnectOptions::default() };
    let client = Client::of(&repo);
    let ended = client.connect(&client.url(url.as_str().into()), &connect);
    assert!(ended.is_err_and(|error| error.to_string() == "interrupted"));
}
