//! Settings, compared with `git config`.

use sapwood::{
    ConfigError, Error, PlanError, Silent,
    config::{self, Change, Edit, Kind, Location, Origin, Plan, Query, Record, Request, Search, Url, Values},
};
use testkit::{Repo, Sandbox};

use crate::{open, silent_oracle};

const OWN: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\
    [remote \"origin\"]\n\turl = /srv/a\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
    [Sect]\n\tFlag\n\tNumber = 3k\n\tBad = maybe\n\tEmpty =\n\tPath = ~/x\n\tDate = never\n\
    \tColor = bold red\n\tMany = one\n\tmany = two # kept\n\tMANY = one more\n\
    [sect \"Sub.X\"]\n\tkey = \"a ; b\"\n\
    [include]\n\tpath = ../extra\n";

const URLS: &str = "[http]\n\tproxy = p\n\tverify\n\
    [http \"https://Example.com\"]\n\tproxy = q\n\tverify = false\n\
    [http \"https://*.com/a\"]\n\tproxy = r\n\
    [http \"https://me@example.com:443/a/\"]\n\tproxy = s\n";

fn configured(repo: &Repo<'_>) {
    repo.write(".git/config", OWN);
    repo.write("extra", "[extra]\n\tkey = included\n[user]\n\tname = Bob\n");
    repo.write("urls", URLS);
}

fn value(record: &Record<'_>, lead: &str) -> String {
    let text = record.value.as_ref().map(|value| format!("{lead}{}", String::from_utf8_lossy(&value.text())));
    text.unwrap_or_default()
}

fn change(name: &str, value: Option<&str>) -> Change {
    Change { name: name.into(), value: value.map(Into::into), ..Change::default() }
}

fn planned(repo: &Repo<'_>, edit: Edit) -> Result<Plan, PlanError> {
    config::plan(&open(repo), Request { location: Location::Local, edit })
}

fn refusal(repo: &Repo<'_>, edit: Edit) -> ConfigError {
    match planned(repo, edit) {
        Err(PlanError::Failed(Error::Entries(error))) => *error,
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("it is not refused"),
    }
}

#[test]
fn finds_settings_with_their_sources_as_git_does() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    configured(&repo);
    sandbox.repo("home").write(".gitconfig", "[user]\n\temail = a@example.com\n");
    let repository = open(&repo);
    let found = config::read(&repository, Location::Everywhere).expect("settings");
    let listed = found.list(None).expect("a list");
    let line = |record: &Record<'_>| {
        assert_eq!(record.origin, Origin::File);
        let scope = format!("{:?}", record.scope).to_lowercase();
        format!("{scope}\tfile:{}\t{}{}\n", record.source, record.key, value(record, "="))
    };
    let ours: String = listed.records.iter().map(line).collect();
    assert_eq!(ours, repo.git(&["config", "-l", "--show-scope", "--show-origin"]).stdout.to_string());

    let urls = Location::File { path: repo.join("urls"), name: "urls".into() };
    let found = config::read(&repository, urls).expect("settings");
    for text in ["https://me@example.com/a", "https://x.com/a", "https://example.com/ab", "http://x.org"] {
        let url = Url::parse(text.into()).expect("a plain URL");
        let listed = found.for_url("http".into(), None, &url, None).expect("a list");
        let line = |record: &Record<'_>| format!("{}{}\n", record.key, value(record, " "));
        let ours: String = listed.records.iter().map(line).collect();
        let theirs = repo.git(&["config", "-f", "urls", "--get-urlmatch", "http", text]).stdout.to_string();
        assert_eq!(ours, theirs, "{text}");
    }
}

#[test]
fn reads_types_and_patterns_as_git_does() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    configured(&repo);
    let repository = open(&repo);
    let found = config::read(&repository, Location::Local).expect("settings");
    let search = |query: Query| {
        let search = Search::new(query).expect("a valid query");
        let records = found.search(&search);
        records.map(|records| records.iter().map(|record| value(record, "") + "\n").collect::<String>())
    };
    let typed = |kind: &str, name: &str| Query {
        name: name.into(),
        kind: Some(Kind::named(kind.into()).expect("a type")),
        ..Query::default()
    };
    for (kind, name) in [
        ("bool", "Sect.FLAG"),
        ("bool", "sect.number"),
        ("int", "sect.number"),
        ("bool-or-int", "sect.flag"),
        ("bool-or-int", "sect.number"),
        ("bool-or-str", "sect.many"),
        ("bool-or-str", "sect.Sub.X.key"),
        ("path", "sect.path"),
        ("expiry-date", "sect.date"),
        ("color", "sect.color"),
    ] {
        let theirs = repo.git(&["config", "--local", "--type", kind, "--get-all", name]).stdout;
        assert_eq!(search(typed(kind, name)).expect("values"), theirs.to_string(), "{kind} {name}");
    }
    for (kind, name) in [("bool", "sect.bad"), ("int", "sect.bad"), ("color", "sect.bad")] {
        let theirs = repo.try_git(&["config", "--local", "--type", kind, name]).stderr.to_string();
        let message = match search(typed(kind, name)).expect_err("a bad value") {
            PlanError::Failed(Error::Entries(error)) => match *error {
                ConfigError::BadValue { message, place } => format!("error: {message}\nfatal: {place}\n"),
                other => panic!("another error: {other}"),
            },
            other => format!("fatal: {other}\n"),
        };
        assert_eq!(message, theirs, "{kind} {name}");
    }
    let values = Values::Matching("!two".into());
    let query = Query { name: "^SECT\\..*Y$".into(), is_regexp: true, values, ..Query::default() };
    let theirs = repo.git(&["config", "--local", "--get-regexp", "^SECT\\..*Y$", "!two"]).stdout;
    let theirs = theirs.to_string();
    let records = theirs.lines().map(|line| line.split_once(' ').map_or("", |(_, value)| value));
    assert_eq!(search(query).expect("values"), records.map(|value| format!("{value}\n")).collect::<String>());
    let query = Query { default: Some("1k".into()), ..typed("int", "nothing.here") };
    assert_eq!(search(query).expect("the default"), "1024\n");
}

#[test]
fn changes_a_file_under_its_lock_as_git_does() {
    let added = Change { values: Values::None, ..change("sect.many", Some("x")) };
    let replaced =
        Change { values: Values::Matching("one".into()), all: true, ..change("sect.many", Some("x")) };
    let unset = Change { values: Values::Exactly("two".into()), ..change("sect.many", None) };
    let all = Change { all: true, ..change("sect.many", None) };
    let number = Change { kind: Some(Kind::Int), ..change("sect.number", Some("1m")) };
    let renamed = Edit::Section { old: "sect.Sub.X".into(), new: Some("x.y.z".into()) };
    let cases: [(&[&str], Edit); 8] = [
        (&["New.Sub.Key", " padded "], Edit::Entries(change("New.Sub.Key", Some(" padded ")))),
        (&["--add", "sect.many", "x"], Edit::Entries(added)),
        (&["--replace-all", "sect.many", "x", "one"], Edit::Entries(replaced)),
        (&["--unset", "sect.many", "^two$"], Edit::Entries(unset)),
        (&["--unset-all", "sect.many"], Edit::Entries(all)),
        (&["--int", "sect.number", "1m"], Edit::Entries(number)),
        (&["--rename-section", "sect.Sub.X", "x.y.z"], renamed),
        (&["--remove-section", "remote.origin"], Edit::Section { old: "remote.origin".into(), new: None }),
    ];
    for (args, edit) in cases {
        let oracle = silent_oracle(configured);
        let (git, ours) = (oracle.git(), oracle.ours());
        git.git(&[&["config", "--local"], args].concat());
        let plan = planned(&ours, edit).expect("a plan");
        assert_eq!(ours.read(".git/config"), OWN, "{args:?}: a plan changes no file");
        assert!(ours.exists(".git/config.lock"), "{args:?}: a plan holds the lock");
        plan.run(&Silent).expect("a run");
        assert_eq!(ours.read(".git/config"), git.read(".git/config"), "{args:?}");
        assert!(!ours.exists(".git/config.lock"), "{args:?}");
    }
}

#[test]
fn refuses_what_git_refuses_and_releases_the_lock() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    configured(&repo);
    let entries = |name: &str, value: Option<&str>| Edit::Entries(change(name, value));
    let several = refusal(&repo, entries("sect.many", Some("x")));
    assert!(matches!(several, ConfigError::Multiple(key) if key == "sect.many"));
    assert!(matches!(refusal(&repo, entries("sect.nothing", None)), ConfigError::Nothing));
    let lacking = refusal(&repo, entries("key", Some("x")));
    assert!(matches!(lacking, ConfigError::Key { is_incomplete: true, .. }), "{lacking}");
    let invalid = refusal(&repo, entries("a.1", Some("x")));
    assert!(matches!(invalid, ConfigError::Key { is_incomplete: false, .. }), "{invalid}");
    drop(planned(&repo, entries("a.b", Some("c"))).expect("a plan"));
    assert!(!repo.exists(".git/config.lock") && repo.read(".git/config") == OWN);

    repo.write(".git/config.lock", "");
    let theirs = repo.try_git(&["config", "a.b", "c"]).stderr.to_string();
    assert_eq!(format!("error: {}\n", refusal(&repo, entries("a.b", Some("c")))), theirs);

    repo.write("bad", "[a]\n?\n");
    let location = Location::File { path: repo.join("bad"), name: "bad".into() };
    let planned = config::plan(&open(&repo), Request { location, edit: entries("a.b", Some("c")) });
    assert!(matches!(planned, Err(PlanError::Unsupported("files with mistakes"))));
    assert!(!repo.exists("bad.lock"));
}
