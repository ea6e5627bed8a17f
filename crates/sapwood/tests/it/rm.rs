//! The removal of files, and moves, as operations.

use sapwood::{Error, PlanError, Silent, mv, rm};
use testkit::{Repo, Sandbox};

use crate::open;

fn files<'s>(sandbox: &'s Sandbox, name: &str) -> Repo<'s> {
    let repo = sandbox.init(name);
    ["one", "two", "dir/three", "dir/four"].iter().for_each(|path| repo.write(path, "1\n"));
    repo.commit("first");
    repo
}

fn state(repo: &Repo<'_>) -> (String, String) {
    let text = |args: &[&str]| repo.git(args).stdout.to_string();
    (text(&["ls-files", "--stage"]), text(&["status", "-s", "-uall"]))
}

#[test]
fn removes_what_git_removes() {
    let cases: [(&[&str], rm::Request, &[&str]); 3] = [
        (&["one"], rm::Request::default(), &["rm", "-q", "one"]),
        (&["dir"], rm::Request { recursive: true, ..Default::default() }, &["rm", "-q", "-r", "dir"]),
        (&["two"], rm::Request { cached: true, ..Default::default() }, &["rm", "-q", "--cached", "two"]),
    ];
    for (paths, request, theirs) in cases {
        let sandbox = Sandbox::new();
        let (repo, other) = (files(&sandbox, "ours"), files(&sandbox, "theirs"));
        other.git(theirs);
        let repository = open(&repo);
        let pathspecs = repository.pathspecs(paths).expect("pathspecs");
        let plan = rm::plan(&repository, rm::Request { pathspecs, ..request }).expect("a plan");
        let planned = plan.paths().to_vec();
        let report = plan.run(&Silent).expect("a removal");
        assert_eq!(report, rm::Report { paths: planned, ..rm::Report::default() });
        assert_eq!(state(&repo), state(&other), "{theirs:?}");
    }
}

#[test]
fn keeps_what_would_be_lost() {
    let sandbox = Sandbox::new();
    let repo = files(&sandbox, "repo");
    repo.write("one", "22\n");
    let before = state(&repo);
    let repository = open(&repo);
    let request = |patterns: &[&str]| {
        let pathspecs = repository.pathspecs(patterns).expect("pathspecs");
        rm::Request { pathspecs, ..rm::Request::default() }
    };
    let Err(PlanError::Failed(Error::WouldLose(losses))) = rm::plan(&repository, request(&["one"])) else {
        panic!("it was not refused")
    };
    assert_eq!(losses.local, ["one"]);
    assert_eq!((losses.both.len(), losses.staged.len()), (0, 0));
    let refused = rm::plan(&repository, request(&["dir"])).err().expect("a refusal");
    assert_eq!(refused.to_string(), "not removing 'dir' recursively without -r");
    // A file that changes after the plan stays.
    let plan = rm::plan(&repository, request(&["two"])).expect("a plan");
    repo.write("two", "333\n");
    let report = plan.run(&Silent).expect("a removal");
    assert_eq!(report.kept, ["two"]);
    assert_eq!(repo.read("two"), "333\n");
    assert_eq!(state(&repo).1, before.1 + "D  two\n?? two\n");
}

#[test]
fn moves_what_git_moves() {
    let sandbox = Sandbox::new();
    let (repo, other) = (files(&sandbox, "ours"), files(&sandbox, "theirs"));
    other.git(&["mv", "dir", "new"]);
    let repository = open(&repo);
    let request = mv::Request {
        sources: vec!["dir".into()],
        names: vec!["dir".into()],
        destination: "new".into(),
        ..mv::Request::default()
    };
    let plan = mv::plan(&repository, request.clone()).expect("a plan");
    assert_eq!(plan.moves().len(), 3);
    plan.run(&Silent).expect("a move");
    assert_eq!(state(&repo), state(&other));
    let refused = mv::plan(&repository, request).err().expect("a refusal");
    assert_eq!(refused.to_string(), "bad source, source=dir, destination=new/dir");
    assert!(!repo.exists(".git/index.lock"));
}
