//! The servers serve real Git.
#![allow(clippy::disallowed_methods)]

use testkit::{
    Repo, Sandbox,
    servers::{Nginx, NginxOptions},
};

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
        },
    );
    let run = repo.git(&["ls-remote", &server.url("own/a")]);
    assert!(!run.stdout.to_string().contains("refs/heads"), "{}", run.stdout);
}
