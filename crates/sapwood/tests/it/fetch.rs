//! Fetch as an operation, compared with Git.

use std::sync::atomic::Ordering;

use sapwood::{
    Error, PlanError, Silent,
    fetch::{self, FetchHeadPolicy, Limits, Request, Tags, several},
};
use testkit::{Repo, Sandbox};

use crate::{Heard, open};

/// A source with branches and tags, and two repositories with it as `origin`.
struct Scene {
    sandbox: Sandbox,
}

impl Scene {
    fn new() -> Scene {
        let scene = Scene { sandbox: Sandbox::new() };
        let source = scene.sandbox.init("source");
        source.write("a", "1\n");
        source.commit("one");
        for name in ["theirs", "ours"] {
            let repo = scene.sandbox.init(name);
            repo.git(&["remote", "add", "origin", "../source"]);
            repo.git(&["fetch", "-q"]);
            repo.git(&["reset", "-q", "--hard", "origin/main"]);
        }
        source.git(&["tag", "v1"]);
        source.write("a", "2\n");
        source.commit("two");
        source.git(&["tag", "-a", "-m", "two", "v2"]);
        source.git(&["branch", "topic"]);
        scene
    }

    fn repo(&self, name: &str) -> Repo<'_> {
        self.sandbox.repo(name)
    }

    /// Compares refs, reflogs, `FETCH_HEAD`, the configuration and the shallow roots.
    #[track_caller]
    fn same(&self, context: &str) {
        let look = |name: &str| {
            let repo = self.repo(name);
            let mut text = repo.git(&["for-each-ref"]).stdout.to_string();
            text += &repo.git(&["status", "--porcelain", "--branch"]).stdout.to_string();
            for file in ["FETCH_HEAD", "shallow", "config", "logs/refs/remotes/origin/main"] {
                let content = std::fs::read_to_string(repo.path.join(".git").join(file));
                text += &format!("{file}: {}\n", content.unwrap_or_default());
            }
            assert_eq!(repo.git(&["fsck", "--no-dangling"]).stdout, "");
            text.replace(repo.path.to_str().expect("text"), "")
        };
        assert_eq!(look("theirs"), look("ours"), "{context}: git left, ours right");
    }
}

fn list(texts: &[&str]) -> Vec<sapwood::bstr::BString> {
    texts.iter().map(|text| (*text).into()).collect()
}

#[test]
fn fetches_what_git_fetches() {
    let plain = || Request { remote: Some("origin".into()), quiet: true, ..Request::default() };
    let cases: Vec<(&[&str], Request)> = vec![
        (&["origin"], plain()),
        (&[], Request { remote: None, ..plain() }),
        (&["--no-tags", "origin"], Request { tags: Some(Tags::None), ..plain() }),
        (&["--tags", "origin"], Request { tags: Some(Tags::All), ..plain() }),
        (&["origin", "topic"], Request { refspecs: list(&["topic"]), ..plain() }),
        (&["origin", "topic:new"], Request { refspecs: list(&["topic:new"]), ..plain() }),
        (&["--no-write-fetch-head", "origin"], Request { fetch_head: FetchHeadPolicy::Leave, ..plain() }),
        (&["--prune", "origin"], Request { prune: Some(true), ..plain() }),
        (&["--dry-run", "origin"], Request { dry_run: true, ..plain() }),
        (&["--atomic", "origin"], Request { atomic: true, ..plain() }),
        (
            &["--set-upstream", "origin", "main"],
            Request { set_upstream: true, refspecs: list(&["main"]), ..plain() },
        ),
        (
            &["--refmap=refs/heads/*:refs/other/*", "origin", "topic"],
            Request {
                refmap: Some(list(&["refs/heads/*:refs/other/*"])),
                refspecs: list(&["topic"]),
                ..plain()
            },
        ),
    ];
    for (args, request) in cases {
        let scene = Scene::new();
        for name in ["theirs", "ours"] {
            scene.repo(name).git(&["update-ref", "refs/remotes/origin/gone", "HEAD"]);
        }
        let request = Request { action: format!("fetch -q {}", args.join(" ")).trim().into(), ..request };
        scene.repo("theirs").git(&[&["fetch", "-q"], args].concat());
        let repository = open(&scene.repo("ours"));
        let report = fetch::plan(&repository, request).expect("a plan").run(&Silent).expect("a fetch");
        scene.same(&args.join(" "));
        assert!(!report.fetched.has_failures);
        let pruned: Vec<String> = report.pruned.iter().map(|update| update.ours.to_string()).collect();
        assert_eq!(
            pruned,
            if args.contains(&"--prune") { vec!["refs/remotes/origin/gone"] } else { Vec::new() }
        );
    }
}

#[test]
fn limits_the_history() {
    let scene = Scene::new();
    let url = format!("file://{}", scene.repo("source").path.display());
    for name in ["theirs", "ours"] {
        scene.repo(name).git(&["config", "remote.origin.url", &url]);
    }
    scene.repo("source").write("a", "3\n");
    scene.repo("source").commit("three");
    scene.repo("theirs").git(&["fetch", "-q", "--depth", "1", "origin"]);
    let request = Request {
        limits: Limits { depth: Some(1), ..Limits::default() },
        action: "fetch -q --depth 1 origin".into(),
        ..Request::default()
    };
    let repository = open(&scene.repo("ours"));
    fetch::plan(&repository, request).expect("a plan").run(&Silent).expect("a fetch");
    scene.same("--depth 1");
}

/// A ref that would lose commits is rejected, and the others change.
#[test]
fn reports_rejected_refs() {
    let scene = Scene::new();
    let ours = scene.repo("ours");
    ours.git(&["commit", "-q", "--allow-empty", "-m", "mine"]);
    ours.git(&["branch", "mine"]);
    let repository = open(&ours);
    let request = Request { refspecs: list(&["main:mine", "topic:new"]), ..Request::default() };
    let before = ours.git(&["rev-parse", "mine"]).stdout;
    let plan = fetch::plan(&repository, request).expect("a plan");
    assert_eq!(plan.to_string(), "fetch ../source\nmain:mine\ntopic:new\n");
    let report = plan.run(&Silent).expect("a fetch");
    assert!(report.fetched.has_failures);
    assert_eq!(ours.git(&["rev-parse", "mine"]).stdout, before);
    assert_eq!(
        ours.git(&["rev-parse", "new"]).stdout,
        scene.repo("source").git(&["rev-parse", "topic"]).stdout
    );
}

/// A plan contacts nobody. A run that fails leaves the refs.
#[test]
fn a_failure_leaves_the_refs() {
    let scene = Scene::new();
    let ours = scene.repo("ours");
    ours.git(&["remote", "add", "nowhere", "../nowhere"]);
    let before = ours.git(&["for-each-ref"]).stdout;
    let repository = open(&ours);
    let request = Request { remote: Some("nowhere".into()), ..Request::default() };
    let error = fetch::plan(&repository, request).expect("a plan").run(&Silent).expect_err("nobody is there");
    assert!(matches!(error.0, Error::Fetch(_)), "{error}");
    assert_eq!(ours.git(&["for-each-ref"]).stdout, before);
    ours.write(".git/remotes/old", "URL: ../source\n");
    let request = Request { remote: Some("old".into()), ..Request::default() };
    match fetch::plan(&repository, request) {
        Err(PlanError::Unsupported(what)) => assert_eq!(what, "remotes in 'remotes'"),
        _ => panic!("Git has to do it"),
    }
    let wrong = Request { refspecs: list(&["a:b:c"]), ..Request::default() };
    assert!(matches!(fetch::plan(&repository, wrong), Err(PlanError::Failed(_))));
}

/// A plan leaves a repository to Git in which only Git fetches as it should.
#[test]
fn leaves_some_repositories_to_git() {
    let scene = Scene::new();
    let ours = scene.repo("ours");
    let is_left = || matches!(fetch::plan(&open(&ours), Request::default()), Err(PlanError::Unsupported(_)));
    assert!(!is_left());
    ours.write(".git/packed-refs.new", "");
    assert!(is_left());
    ours.remove(".git/packed-refs.new");
    ours.git(&["config", "fetch.uriProtocols", "https"]);
    assert!(!is_left(), "the server sends the objects itself then");
}

/// Warnings of the fetch come with the run.
#[test]
fn notices_come_with_the_run() {
    let scene = Scene::new();
    let repository = open(&scene.repo("ours"));
    let request = Request { negotiation_tips: list(&["refs/none/*"]), ..Request::default() };
    let plan = fetch::plan(&repository, request).expect("a plan");
    let heard = Heard::default();
    plan.run(&heard).expect("a fetch");
    let ignored = "ignoring --negotiation-restrict=refs/none/* because it does not match any refs";
    assert_eq!(heard.0.into_inner().first().map(String::as_str), Some(ignored));
}

/// Each remote, without those that are to be skipped. One that fails does not affect the others.
#[test]
fn fetches_from_several_remotes() {
    let scene = Scene::new();
    let other = scene.sandbox.init("other");
    other.write("b", "1\n");
    other.commit("other");
    for name in ["theirs", "ours"] {
        let repo = scene.repo(name);
        repo.git(&["remote", "add", "other", "../other"]);
        repo.git(&["remote", "add", "skipped", "../other"]);
        repo.git(&["config", "remote.skipped.skipFetchAll", "true"]);
        repo.git(&["config", "remotes.both", "origin other"]);
        repo.git(&["config", "fetch.writeCommitGraph", "false"]);
    }
    scene.repo("theirs").git(&["fetch", "-q", "--all"]);
    let repository = open(&scene.repo("ours"));
    let fetched = |remotes: &[&str]| {
        let each = Request { action: "fetch -q --all".into(), quiet: true, ..Request::default() };
        several::plan(&repository, several::Request { remotes: list(remotes), each })
    };
    let plan = fetched(&[]).expect("a plan");
    assert_eq!(plan.to_string(), "fetch origin\nfetch other\n");
    let report = plan.run(&Silent).expect("a fetch");
    let names: Vec<String> = report.remotes.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(names, ["origin", "other"]);
    let look = |name: &str| {
        let repo = scene.repo(name);
        let heads = std::fs::read_to_string(repo.path.join(".git/FETCH_HEAD")).expect("it is there");
        repo.git(&["for-each-ref"]).stdout.to_string() + &heads
    };
    assert_eq!(look("theirs"), look("ours"));
    scene.repo("source").git(&["branch", "late"]);
    scene.repo("ours").git(&["config", "remote.other.url", "../nowhere"]);
    let repository = open(&scene.repo("ours"));
    let request = several::Request { remotes: list(&["other", "both"]), each: Request::default() };
    let report = several::plan(&repository, request).expect("a plan").run(&Silent).expect("a fetch");
    let done: Vec<(String, bool)> =
        report.remotes.iter().map(|(name, done)| (name.to_string(), done.is_ok())).collect();
    assert_eq!(done, [("other".to_owned(), false), ("origin".to_owned(), true)]);
    scene.repo("ours").git(&["rev-parse", "--verify", "origin/late"]);
    // A remote that is refused while planning does not affect the others either.
    let ours = scene.repo("ours");
    ours.git(&["config", "remote.other.url", "https://user:secret@127.0.0.1:9/none"]);
    ours.git(&["config", "transfer.credentialsInUrl", "die"]);
    scene.repo("source").git(&["branch", "later"]);
    let repository = open(&ours);
    let request = several::Request { remotes: list(&["other", "both"]), each: Request::default() };
    let report = several::plan(&repository, request).expect("a plan").run(&Silent).expect("a fetch");
    assert_eq!(report.remotes.iter().map(|(_, done)| done.is_ok()).collect::<Vec<_>>(), [false, true]);
    ours.git(&["rev-parse", "--verify", "origin/later"]);
    // An interrupt ends the whole fetch, and is not the failure of one remote.
    let request = several::Request { remotes: list(&["origin"]), each: Request::default() };
    let plan = several::plan(&repository, request).expect("a plan");
    repository.interrupt().store(true, Ordering::Relaxed);
    assert!(matches!(plan.run(&Silent).map_err(Error::from), Err(Error::Interrupted)));
    repository.interrupt().store(false, Ordering::Relaxed);
    let unknown = fetched(&["none"]).err().expect("it is refused").to_string();
    assert_eq!(unknown, "no such remote or remote group: none");
    let atomic =
        several::Request { each: Request { atomic: true, ..Request::default() }, remotes: Vec::new() };
    assert!(matches!(several::plan(&repository, atomic), Err(PlanError::Failed(_))));
}
