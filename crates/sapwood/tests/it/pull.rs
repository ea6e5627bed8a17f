//! Pulls as an operation, compared with Git.

use sapwood::{
    Error, PlanError, RunError, Silent, fetch,
    pull::{self, Outcome, Report, Request},
};
use testkit::{Repo, Sandbox};

use crate::open;

/// A source, and two repositories that are a commit behind it.
struct Scene {
    sandbox: Sandbox,
}

impl Scene {
    fn new() -> Scene {
        let scene = Scene { sandbox: Sandbox::new() };
        let source = scene.sandbox.init("source");
        source.write("a", "1\n");
        source.write("dir/b", "1\n");
        source.commit("one");
        for name in ["theirs", "ours"] {
            let repo = scene.sandbox.init(name);
            repo.git(&["remote", "add", "origin", "../source"]);
            repo.git(&["fetch", "-q"]);
            repo.git(&["reset", "-q", "--hard", "origin/main"]);
            repo.git(&["branch", "-q", "--set-upstream-to=origin/main"]);
        }
        source.write("a", "2\n");
        source.remove("dir");
        source.write_executable("new", "2\n");
        source.commit("two");
        scene
    }

    fn repo(&self, name: &str) -> Repo<'_> {
        self.sandbox.repo(name)
    }

    fn both(&self, step: impl Fn(&Repo<'_>)) {
        ["theirs", "ours"].iter().for_each(|name| step(&self.repo(name)));
    }

    fn pull(&self, request: Request) -> Result<Report, RunError> {
        pull::plan(&open(&self.repo("ours")), request).expect("a plan").run(&Silent)
    }

    /// Compares refs, reflogs, files and `FETCH_HEAD`.
    #[track_caller]
    fn same(&self, context: &str) {
        let look = |name: &str| {
            let repo = self.repo(name);
            let mut text = String::new();
            for args in [
                &["for-each-ref"][..],
                &["status", "--porcelain", "--branch"],
                &["ls-files", "--stage"],
                &["reflog", "show", "--format=%H %gs", "HEAD"],
            ] {
                text += &repo.git(args).stdout.to_string();
            }
            for file in ["FETCH_HEAD", "ORIG_HEAD"] {
                let content = std::fs::read_to_string(repo.path.join(".git").join(file));
                text += &format!("{file}: {}\n", content.unwrap_or_default());
            }
            text.replace(repo.path.to_str().expect("text"), "")
        };
        assert_eq!(look("theirs"), look("ours"), "{context}: git left, ours right");
    }
}

/// The request whose reflogs have the text of `git pull` with these arguments.
fn request(args: &[&str]) -> Request {
    let action = [&["pull"][..], args].concat().join(" ").into();
    let fetch = fetch::Request { action, quiet: true, ..fetch::Request::default() };
    Request { fetch, ..Request::default() }
}

#[test]
fn forwards_the_branch_and_its_files() {
    for (key, value) in [("fetch.prune", "false"), ("pull.rebase", "true"), ("pull.ff", "only")] {
        let scene = Scene::new();
        scene.both(|repo| drop(repo.git(&["config", key, value])));
        scene.repo("theirs").git(&["pull", "-q"]);
        let report = scene.pull(request(&["-q"])).expect("a pull");
        scene.same(key);
        assert!(matches!(report.outcome, Outcome::Forwarded(_)), "{key}: {:?}", report.outcome);
        scene.repo("theirs").git(&["pull", "-q"]);
        let report = scene.pull(request(&["-q"])).expect("a pull");
        scene.same(&format!("{key}, again"));
        assert_eq!(report.outcome, Outcome::UpToDate);
    }
}

#[test]
fn begins_a_branch_and_follows_one_that_the_fetch_moves() {
    let scene = Scene::new();
    scene.both(|repo| {
        repo.git(&["switch", "-q", "--orphan", "void"]);
    });
    let args = ["-q", "origin", "main"];
    let mut pull = request(&args);
    pull.fetch.remote = Some("origin".into());
    pull.fetch.refspecs = vec!["main".into()];
    scene.repo("theirs").git(&[&["pull"][..], &args].concat());
    scene.pull(pull).expect("a pull");
    scene.same("an unborn branch");

    let scene = Scene::new();
    let args = ["-q", "origin", "main:main"];
    let mut pull = request(&args);
    pull.fetch.remote = Some("origin".into());
    pull.fetch.refspecs = vec!["main:main".into()];
    scene.repo("theirs").git(&[&["pull"][..], &args].concat());
    scene.pull(pull).expect("a pull");
    scene.same("the branch of HEAD");
}

/// The fetch is done, and HEAD and its files stay.
#[test]
fn names_commits_that_have_diverged() {
    let scene = Scene::new();
    let ours = scene.repo("ours");
    ours.git(&["commit", "-q", "--allow-empty", "-m", "ours"]);
    let head = ours.git(&["rev-parse", "HEAD"]).stdout;
    for (config, default) in [("", true), ("false", false), ("true", false)] {
        if !config.is_empty() {
            ours.git(&["config", "pull.rebase", config]);
        }
        match scene.pull(request(&[])).map_err(Error::from) {
            Err(Error::Diverged { ours, theirs, must_choose }) => {
                assert_eq!(format!("{ours}\n"), head.to_string());
                let source = scene.repo("source").git(&["rev-parse", "main"]).stdout;
                assert_eq!(format!("{theirs}\n"), source.to_string());
                assert_eq!(must_choose, default);
            }
            other => panic!("{config}: {other:?}"),
        }
        assert_eq!(ours.git(&["rev-parse", "HEAD"]).stdout, head);
        assert_eq!(ours.git(&["status", "--porcelain"]).stdout, "");
    }
}

/// Nothing is fetched.
#[test]
fn refuses_before_it_fetches() {
    let scene = Scene::new();
    let ours = scene.repo("ours");
    let refs = ours.git(&["for-each-ref"]).stdout;
    let refused = || pull::plan(&open(&ours), Request::default()).err().expect("it is refused");
    ours.git(&["config", "submodule.recurse", "true"]);
    assert!(matches!(refused(), PlanError::Unsupported(_)));
    ours.git(&["config", "submodule.recurse", "false"]);
    ours.write("a", "mine\n");
    ours.git(&["config", "pull.rebase", "true"]);
    let text = "cannot pull with rebase: You have unstaged changes.\nPlease commit or stash them.";
    assert_eq!(refused().to_string(), text);
    ours.git(&["config", "pull.rebase", "preserve"]);
    assert_eq!(refused().to_string(), "invalid value for 'pull.rebase': 'preserve'");
    ours.git(&["config", "--unset", "pull.rebase"]);
    ours.git(&["config", "pull.ff", "false"]);
    assert!(matches!(refused(), PlanError::Unsupported("merges with a new commit")));
    ours.git(&["config", "--unset", "pull.ff"]);
    ours.write_executable(".git/hooks/reference-transaction", "#!/bin/sh\nexit 1\n");
    assert!(matches!(refused(), PlanError::Unsupported("hooks 'reference-transaction'")));
    ours.remove(".git/hooks/reference-transaction");
    assert_eq!(ours.git(&["for-each-ref"]).stdout, refs);
    assert!(!ours.exists(".git/index.lock"));
}
