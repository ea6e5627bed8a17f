//! Refs and their objects, compared with `git show-ref`.

use sapwood::{
    PlanError, Silent,
    show_ref::{self, Report, Request},
};
use testkit::{Repo, Sandbox};

use crate::open;

fn history(repo: &Repo<'_>) {
    repo.write("f", "1\n");
    repo.commit("one");
    repo.git(&["tag", "-a", "-m", "packed", "packed"]);
    repo.git(&["tag", "-a", "-m", "tag of a tag", "twice", "packed"]);
    repo.git(&["branch", "packed"]);
    repo.git(&["pack-refs", "--all"]);
    repo.write("f", "2\n");
    repo.commit("two");
    repo.git(&["tag", "-a", "-m", "loose", "loose"]);
    repo.git(&["branch", "dir/deep"]);
    repo.git(&["symbolic-ref", "refs/heads/dangling", "refs/heads/nowhere"]);
}

/// Returns the lines that `show-ref` prints.
fn lines(report: &Report) -> String {
    let mut lines = String::new();
    for found in &report.refs {
        lines += &format!("{} {}\n", found.id, found.name);
        lines += &found.peeled.map_or(String::new(), |id| format!("{id} {}^{{}}\n", found.name));
    }
    lines
}

#[test]
fn shows_the_refs_that_git_shows() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    history(&repo);
    let repository = open(&repo);
    let named = |name: &str| Request { names: vec![name.into()], ..Request::default() };
    let cases: [(&[&str], Request); 6] = [
        (&[], Request::default()),
        (&["--head", "-d"], Request { head: true, dereference: true, ..Request::default() }),
        (&["--tags", "--branches"], Request { tags: true, branches: true, ..Request::default() }),
        (&["-d", "packed"], Request { dereference: true, ..named("packed") }),
        (&["heads/dir/deep"], named("heads/dir/deep")),
        (
            &["--verify", "-d", "refs/tags/loose", "HEAD"],
            Request {
                names: vec!["refs/tags/loose".into(), "HEAD".into()],
                verify: true,
                dereference: true,
                ..Request::default()
            },
        ),
    ];
    for (args, request) in cases {
        let report = show_ref::plan(&repository, request).expect("a plan").run(&Silent).expect("refs");
        let theirs = repo.git(&[&["show-ref"], args].concat());
        assert_eq!(lines(&report), theirs.stdout.to_string(), "{args:?}");
    }
}

#[test]
fn checks_names_as_git_does() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    history(&repo);
    let repository = open(&repo);
    for name in ["HEAD", "refs/heads/main", "refs/heads/dangling", "refs/heads", "refs/heads/main/below"] {
        let code = repo.try_git(&["show-ref", "--exists", name]).code;
        let ours = match show_ref::exists(&repository, name.into()) {
            Ok(true) => 0,
            Ok(false) => 2,
            Err(_) => 1,
        };
        assert_eq!(ours, code, "{name}");
    }
    for name in ["main", "refs/heads/dangling", "refs/heads/missing"] {
        let request = Request { names: vec![name.into()], verify: true, ..Request::default() };
        let refused = match show_ref::plan(&repository, request) {
            Err(PlanError::Failed(error)) => format!("fatal: {error}\n"),
            other => panic!("{name}: {:?}", other.map(drop)),
        };
        assert_eq!(refused, repo.try_git(&["show-ref", "--verify", name]).stderr.to_string(), "{name}");
    }
}
