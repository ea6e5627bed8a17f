use super::*;

fn parts(text: &str) -> (Scheme, String, String, String) {
    let url = Url::parse(text.into());
    let port = url.port.unwrap_or_default().to_string();
    (url.scheme, url.host.to_string(), port, url.path.to_string())
}

/// Source: the table of Git's test t5500, which prints the parts of a URL.
#[test]
fn hosts_ports_and_paths() {
    for (text, host, port, path) in [
        ("ssh://host/repo", "host", "", "/repo"),
        ("ssh://user@host/repo", "user@host", "", "/repo"),
        ("ssh://user@host:22/~repo", "user@host", "22", "~repo"),
        ("git+ssh://host:22/re:po", "host", "22", "/re:po"),
        ("ssh+git://[::1]/repo", "::1", "", "/repo"),
        ("ssh://[::1]:23/~repo", "::1", "23", "~repo"),
        ("ssh://user@[::1]:23/repo", "user@::1", "23", "/repo"),
        ("ssh://[user@::1]:23/repo", "user@::1", "23", "/repo"),
        ("ssh://host:/repo", "host", "", "/repo"),
        ("ssh://host:port/repo", "host:port", "", "/repo"),
        ("ssh://ho%73t/re%20po", "host", "", "/re po"),
        ("host:repo", "host", "", "repo"),
        ("user@host:~/repo", "user@host", "", "~/repo"),
        ("host:/~repo", "host", "", "~repo"),
        ("[host]:repo", "host", "", "repo"),
        ("[host:22]:repo", "host", "22", "repo"),
        ("[user@host:22]:repo", "user@host", "22", "repo"),
        ("user@[::1]:repo", "user@::1", "", "repo"),
        ("[::1]:repo", "::1", "", "repo"),
        ("[user@::1]:/~repo", "user@::1", "", "~repo"),
        ("host:22/repo", "host", "", "22/repo"),
        ("nohost:12:repo", "nohost", "", "12:repo"),
    ] {
        assert_eq!(parts(text), (Scheme::Ssh, host.into(), port.into(), path.into()), "{text}");
    }
    for (text, host, port, path) in [
        ("git://host/repo", "host", "", "/repo"),
        ("git://host:9/~repo", "host", "9", "~repo"),
        ("git://[::1]:9/repo", "::1", "9", "/repo"),
    ] {
        assert_eq!(parts(text), (Scheme::Git, host.into(), port.into(), path.into()), "{text}");
    }
}

#[test]
fn files_and_helpers() {
    for (text, path) in [
        ("/srv/repo", "/srv/repo"),
        ("./host:repo", "./host:repo"),
        ("repo", "repo"),
        ("file:///srv/a%20b%2", "/srv/a b%2"),
        ("file://host/srv", "/srv"),
        ("file:///srv/%00", "/srv/%00"),
    ] {
        let (scheme, _, _, found) = parts(text);
        assert_eq!((scheme, found.as_str()), (Scheme::File, path), "{text}");
    }
    let helper = |text: &str| match Url::parse(text.into()) {
        Url { scheme: Scheme::Helper(name) | Scheme::Http(name), path, .. } => {
            (name.to_string(), path.to_string())
        }
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(helper("ext::sh -c x"), ("ext".into(), "sh -c x".into()));
    assert_eq!(helper("https::x"), ("https".into(), "x".into()));
    assert_eq!(helper("testgit://a/b"), ("testgit".into(), "testgit://a/b".into()));
    assert_eq!(helper("http://u:p@a/b"), ("http".into(), "http://u:p@a/b".into()));
}

#[test]
fn refuses_what_programs_take_for_options() {
    for (text, words) in [
        ("ssh://-oProxyCommand=x/repo", "strange hostname '-oProxyCommand=x' blocked"),
        ("-oProxyCommand=x:repo", "strange hostname '-oProxyCommand=x' blocked"),
        ("[-oProxyCommand=x]:repo", "strange hostname '-oProxyCommand=x' blocked"),
        ("host:-repo", "strange pathname '-repo' blocked"),
        ("git://-x/repo", "strange hostname '-x' blocked"),
        ("git://host/a\nb", "newline is forbidden in git:// hosts and repo paths"),
        ("ssh://host", "no path specified; see 'git help pull' for valid url syntax"),
    ] {
        let refused = Url::parse(text.into()).check().expect_err(text);
        assert_eq!(refused.to_string(), words, "{text}");
    }
    assert!(Url::parse("user@-host:repo".into()).check().is_ok());
}

#[test]
fn credentials_are_not_shown() {
    let shown = |text: &str| without_credentials(text.into()).to_string();
    assert_eq!(shown("https://user:secret@host/a@b"), "https://host/a@b");
    assert_eq!(shown("ssh://git@host/x"), "ssh://host/x");
    assert_eq!(shown("git@host:x"), "git@host:x");
    assert_eq!(shown("https://host"), "https://host");
}
