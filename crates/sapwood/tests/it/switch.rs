//! Switch as an operation.

use sapwood::{
    Error, PlanError, Repository, Silent,
    switch::{self, Discard, NewBranch, NewBranchKind, Report, Request, Rules},
    transaction::Done,
};
use testkit::Repo;

use crate::{Heard, open, silent_oracle};

/// `main` and `topic`, which differ in a file, a kind and an executable file.
fn history(repo: &Repo<'_>) {
    repo.write("a", "one\n");
    repo.write("dir/b", "one\n");
    repo.write("kept", "kept\n");
    repo.commit("first");
    repo.git(&["switch", "-q", "-c", "topic"]);
    repo.write("a", "topic\n");
    repo.remove("dir");
    repo.write("dir", "a file\n");
    repo.write_executable("tool", "#!/bin/sh\n");
    repo.commit("on topic");
    repo.git(&["switch", "-q", "main"]);
}

fn to(target: &str) -> Request {
    Request { target: Some(target.into()), ..Request::default() }
}

fn new_branch(name: &str, kind: NewBranchKind) -> Request {
    Request { new_branch: Some(NewBranch { name: name.into(), kind }), ..Request::default() }
}

fn run(repository: &Repository, request: Request) -> Report {
    switch::plan(repository, request).expect("a plan").run(&Silent).expect("a switch")
}

fn refused(repository: &Repository, request: Request) -> Error {
    match switch::plan(repository, request) {
        Err(PlanError::Failed(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it is refused"),
    }
}

/// Each request leaves what a command of Git leaves.
#[test]
fn switches_where_git_switches() {
    let checkout = |request| Request { rules: Rules::Checkout, ..request };
    let detached = Request { detach: true, ..to("topic") };
    let forced = Request { discard: Discard::ChangesAndUntracked, ..to("topic") };
    let at_topic = Request { target: Some("topic".into()), ..new_branch("new", NewBranchKind::Create) };
    let cases: Vec<(&[&str], Request)> = vec![
        (&["switch", "topic"], to("topic")),
        (&["switch", "-"], to("-")),
        (&["switch", "--detach", "topic"], detached),
        (&["checkout", "topic^{commit}"], checkout(to("topic^{commit}"))),
        (&["checkout", "-f", "topic"], checkout(forced)),
        (&["switch", "-c", "new"], new_branch("new", NewBranchKind::Create)),
        (&["switch", "-c", "new", "topic"], at_topic),
        (
            &["switch", "-C", "main", "topic"],
            Request { target: Some("topic".into()), ..new_branch("main", NewBranchKind::Reset) },
        ),
        (&["switch", "--orphan", "new"], new_branch("new", NewBranchKind::Orphan)),
        (&["checkout", "--orphan", "new"], checkout(new_branch("new", NewBranchKind::Orphan))),
    ];
    for (command, request) in cases {
        let oracle = silent_oracle(history);
        oracle.both(|repo| {
            if !command.contains(&"--orphan") {
                repo.write("kept", "changed\n");
            }
            repo.write("untracked", "");
            repo.write(".git/CHERRY_PICK_HEAD", repo.git(&["rev-parse", "topic"]).stdout);
            if command[0] == "switch" {
                repo.remove(".git/CHERRY_PICK_HEAD");
            }
        });
        oracle.git().git(command);
        let ours = oracle.ours();
        let report = run(&open(&ours), request);
        oracle.same_state(command);
        assert_eq!(report.done, Done::Complete, "{command:?}");
        assert_eq!(report.old.branch, Some("refs/heads/main".into()), "{command:?}");
        let branch = ours.try_git(&["symbolic-ref", "-q", "HEAD"]).stdout;
        assert_eq!(
            report.new.branch.map(|full| format!("{full}\n")),
            Some(branch.to_string()).filter(|name| !name.is_empty())
        );
        assert_eq!(report.ended.cherry_pick, command[0] == "checkout", "{command:?}");
    }
}

#[test]
fn changes_the_name_of_an_unborn_branch() {
    let oracle = silent_oracle(|_| {});
    oracle.git().git(&["switch", "-c", "new"]);
    let repository = open(&oracle.ours());
    let plan = switch::plan(&repository, new_branch("new", NewBranchKind::Create)).expect("a plan");
    assert_eq!(plan.to_string(), "HEAD -> refs/heads/new\n");
    let report = plan.run(&Silent).expect("a switch");
    assert!(report.new.is_unborn);
    oracle.same_state(&["unborn"]);
}

#[test]
fn sets_the_upstream_of_a_new_branch() {
    let oracle = silent_oracle(history);
    oracle.both(|repo| {
        repo.git(&["remote", "add", "origin", "/nowhere"]);
        repo.git(&["update-ref", "refs/remotes/origin/far", "topic"]);
    });
    oracle.git().git(&["switch", "-c", "far", "origin/far"]);
    let request = Request { target: Some("origin/far".into()), ..new_branch("far", NewBranchKind::Create) };
    let report = run(&open(&oracle.ours()), request);
    oracle.same_state(&["upstream"]);
    let upstream = report.upstream.expect("an upstream").upstream;
    assert_eq!(
        (upstream.remote, &upstream.merge[..]),
        (Some("origin".into()), &["refs/heads/far".into()][..])
    );
}

/// The local changes that are left, the hook and its exit code.
#[test]
fn reports_changes_and_the_hook() {
    let oracle = silent_oracle(history);
    oracle.both(|repo| {
        repo.write("kept", "changed\n");
        repo.write_executable(".git/hooks/post-checkout", "#!/bin/sh\necho \"$@\" >hook\nexit 3\n");
    });
    oracle.git().try_git(&["switch", "topic"]);
    let request = Request { list_changes: true, ..to("topic") };
    let report = run(&open(&oracle.ours()), request);
    oracle.same_state(&["hook"]);
    assert_eq!(report.hook, 3);
    let changes: Vec<String> = report.changes.iter().map(|pair| pair.path.to_string()).collect();
    assert_eq!((changes, report.written), (vec!["kept".to_owned()], 3));
}

/// Each refusal is Git's, and nothing has changed after it.
#[test]
fn a_refusal_changes_nothing() {
    let oracle = silent_oracle(history);
    oracle.both(|repo| {
        repo.write("a", "changed\n");
        repo.git(&["tag", "v1", "topic"]);
        repo.git(&["worktree", "add", "-q", "../other", "-b", "elsewhere"]);
    });
    let repository = open(&oracle.ours());
    let refuse = |request: Request, text: &str| {
        let error = refused(&repository, request);
        assert!(error.to_string().contains(text), "{error}");
        oracle.same_state(&[text]);
        error
    };
    let would = "would be overwritten by checkout";
    assert!(matches!(refuse(to("topic"), would), Error::Refused(_)));
    refuse(to("nowhere"), "invalid reference: nowhere");
    refuse(to("v1"), "a branch is expected, got tag 'v1'");
    refuse(to("topic^{tree}"), "Cannot switch branch to a non-commit");
    refuse(to("elsewhere"), "'elsewhere' is already used by worktree at ");
    refuse(Request::default(), "missing branch or commit argument");
    refuse(new_branch("topic", NewBranchKind::Create), "a branch named 'topic' already exists");
    refuse(new_branch("a..b", NewBranchKind::Create), "'a..b' is not a valid branch name");
    oracle.both(|repo| repo.write(".git/HEAD.lock", ""));
    let locked = refuse(new_branch("new", NewBranchKind::Create), "update_ref failed");
    assert!(matches!(locked, Error::CannotMoveHead { .. }), "{locked}");
    oracle.both(|repo| {
        repo.remove(".git/HEAD.lock");
        repo.write(".git/MERGE_HEAD", "");
    });
    refuse(to("topic"), "cannot switch branch while merging");
}

/// A plan locks the index and shows its steps. Once it is dropped, nothing has changed.
#[test]
fn a_dropped_plan_leaves_no_lock() {
    let oracle = silent_oracle(history);
    let ours = oracle.ours();
    let before = ours.read(".git/index");
    let repository = open(&ours);
    let plan = switch::plan(&repository, to("topic")).expect("a plan");
    assert!(ours.exists(".git/index.lock"));
    let object = |name: &str| ours.git(&["rev-parse", name]).stdout.to_string().trim_end().to_owned();
    let (a, dir, tool) = (object("topic:a"), object("topic:dir"), object("topic:tool"));
    let steps =
        format!("remove dir/b\nwrite 100644 {a} a\nwrite 100644 {dir} dir\nwrite 100755 {tool} tool\n");
    assert_eq!(plan.to_string(), steps);
    drop(plan);
    assert_eq!(ours.read(".git/index"), before);
    oracle.same_state(&["a dropped plan"]);
}

/// The notices of planning wait until the plan runs, and those of the steps come after them.
#[test]
fn notices_come_with_the_run() {
    let oracle = silent_oracle(history);
    let ours = oracle.ours();
    ours.write(".git/BISECT_LOG", "");
    let repository = open(&ours);
    let plan = switch::plan(&repository, to("topic")).expect("a plan");
    // Another program puts a file in the way.
    ours.write("tool", "mine\n");
    let heard = Heard::default();
    let report = plan.run(&heard).expect("a switch");
    assert_eq!(
        heard.0.into_inner(),
        ["you are switching branch while bisecting", "'tool' was changed meanwhile: left as it is"]
    );
    assert_eq!((report.done, ours.read("tool")), (Done::Incomplete, "mine\n".into()));
    assert_eq!(report.new.branch, Some("refs/heads/topic".into()));
}

/// The index records what was done, HEAD stays, and the same request does the rest.
#[test]
fn a_resumable_switch_goes_on() {
    let oracle = silent_oracle(|repo| {
        history(repo);
        repo.git(&["rm", "-q", "-r", "dir"]);
        repo.commit("without the directory");
    });
    oracle.git().git(&["switch", "topic"]);
    let ours = oracle.ours();
    let repository = open(&ours);
    let request = Request { resumable: true, ..to("topic") };
    let plan = switch::plan(&repository, request.clone()).expect("a plan");
    // The object of a file cannot be read for a while.
    let object = ours.git(&["rev-parse", "topic:tool"]).stdout.to_string();
    let object = format!(".git/objects/{}/{}", &object[..2], object[2..].trim_end());
    std::fs::rename(ours.join(&object), ours.join("object")).expect("an object");
    ours.write(format!("{object}/file"), "");
    let report = plan.run(&Silent).expect("a switch");
    assert_eq!(report.new.branch, Some("refs/heads/main".into()));
    assert_eq!((report.done, ours.read("a")), (Done::Unfinished, "topic\n".into()));
    ours.remove(&object);
    std::fs::rename(ours.join("object"), ours.join(&object)).expect("an object");
    assert_eq!(run(&repository, request).done, Done::Complete);
    oracle.same_state(&["resumed"]);
}
