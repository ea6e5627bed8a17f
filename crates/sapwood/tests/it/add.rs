//! Add as an operation.

use sapwood::{
    Error, Silent,
    add::{self, Request, Task},
    commit,
    events::{Events, Staged},
};
use testkit::{Repo, Sandbox};

use crate::open;

/// A repository with a changed, a removed, a new, and an ignored file.
fn changed(sandbox: &Sandbox, name: &str) -> String {
    let repo = sandbox.init(name);
    repo.write(".gitignore", "*.o\n");
    ["kept", "edited", "gone", "dir/edited"].iter().for_each(|path| repo.write(path, "1\n"));
    repo.commit("one");
    repo.write("edited", "22\n");
    repo.write("dir/edited", "22\n");
    std::fs::remove_file(repo.join("gone")).expect("removed");
    repo.write("new/file", "new\n");
    repo.write("a.o", "");
    name.to_owned()
}

fn entries(repo: &Repo<'_>) -> String {
    repo.git(&["ls-files", "--stage"]).stdout.to_string()
}

#[test]
fn adds_what_git_adds() {
    let cases: [(Task, &[&str], &[&str]); 4] = [
        (Task::Add, &[], &["add", "-A"]),
        (Task::Update, &[], &["add", "-u"]),
        (Task::Add, &["dir", "new"], &["add", "dir", "new"]),
        (Task::Refresh, &[], &["add", "--refresh", "."]),
    ];
    for (task, paths, theirs) in cases {
        let sandbox = Sandbox::new();
        let (ours, other) = (changed(&sandbox, "ours"), changed(&sandbox, "theirs"));
        let (repo, other) = (sandbox.repo(&ours), sandbox.repo(&other));
        other.git(theirs);
        let repository = open(&repo);
        let pathspecs = repository.pathspecs(paths).expect("pathspecs");
        let request = Request { task, pathspecs, ..Request::default() };
        let report = add::plan(&repository, request).expect("a plan").run(&Silent).expect("an add");
        assert!(report.is_complete(), "{report:?}");
        assert_eq!(entries(&repo), entries(&other), "{theirs:?}");
        assert_eq!(repo.git(&["status", "-s"]).stdout, other.git(&["status", "-s"]).stdout);
    }
}

/// Keeps the paths that were staged.
#[derive(Default)]
struct Paths(std::cell::RefCell<Vec<String>>);

impl Events for Paths {
    fn staged(&self, staged: Staged<'_>) {
        self.0.borrow_mut().push(format!("{staged:?}"));
    }
}

#[test]
fn tells_what_it_stages() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo(&changed(&sandbox, "repo"));
    let repository = open(&repo);
    let options = add::Options { verbose: true, ..add::Options::default() };
    let plan = add::plan(&repository, Request { options, ..Request::default() }).expect("a plan");
    let planned: Vec<String> = plan.paths().map(ToString::to_string).collect();
    let expected = ["dir/edited", "edited", "gone", "new/file"];
    assert!(expected.iter().all(|path| planned.contains(&(*path).to_owned())), "{planned:?}");
    let paths = Paths::default();
    plan.run(&paths).expect("an add");
    let staged = ["Added(\"dir/edited\")", "Added(\"edited\")", "Removed(\"gone\")", "Added(\"new/file\")"];
    assert_eq!(paths.0.into_inner(), staged);
}

#[test]
fn a_plan_that_is_dropped_changes_nothing_and_unlocks() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo(&changed(&sandbox, "repo"));
    let before = (entries(&repo), std::fs::read(repo.join(".git/index")).expect("an index"));
    let repository = open(&repo);
    let plan = add::plan(&repository, Request::default()).expect("a plan");
    assert!(repo.exists(".git/index.lock"));
    drop(plan);
    assert!(!repo.exists(".git/index.lock"));
    let after = std::fs::read(repo.join(".git/index")).expect("an index");
    assert_eq!((entries(&repo), after), before);
}

#[test]
fn refuses_paths_that_are_not_there() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo(&changed(&sandbox, "repo"));
    let repository = open(&repo);
    let pathspecs = repository.pathspecs(&["nowhere"]).expect("pathspecs");
    let request = Request { pathspecs, ..Request::default() };
    let refused = add::plan(&repository, request).err().expect("a refusal");
    assert_eq!(refused.to_string(), "pathspec 'nowhere' did not match any files");
    let pathspecs = repository.pathspecs(&["new/file"]).expect("pathspecs");
    let request = Request { task: Task::Update, must_be_tracked: true, pathspecs, ..Request::default() };
    let refused = add::plan(&repository, request).err().expect("a refusal");
    let sapwood::PlanError::Failed(Error::Unmatched(paths)) = refused else { panic!("{refused}") };
    assert_eq!(paths, ["new/file"]);
}

/// A racy file is compared by the attributes in the new index, whose object must exist by then.
#[test]
fn adds_attributes_beside_a_racy_file() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    for path in ["racy", ".gitattributes"] {
        repo.write(path, "1\n");
    }
    let at_once = |path: &str| {
        let file = std::fs::File::options().append(true).open(repo.join(path)).expect("opened");
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1 << 30)).expect("set");
    };
    at_once("racy");
    repo.git(&["add", "."]);
    at_once(".git/index");
    for (path, text) in [(".gitattributes", "racy text\n"), ("dir/.gitattributes", "f text\n")] {
        repo.write(path, text);
    }
    let repository = open(&repo);
    let paths = || repository.pathspecs(&[".gitattributes", "dir"]).expect("pathspecs");
    let request = Request { pathspecs: paths(), ..Request::default() };
    let report = add::plan(&repository, request).expect("a plan").run(&Silent).expect("an add");
    assert!(report.is_complete(), "{report:?}");
    repo.git(&["fsck", "--no-dangling"]);
    assert_eq!(repo.git(&["show", ":.gitattributes"]).stdout, "racy text\n");
    repo.write(".gitattributes", "racy -text\n");
    at_once(".git/index");
    let mut request = commit::Request::staged("one");
    request.selection.pathspecs = paths();
    commit::plan(&repository, request).expect("a plan").run(&Silent).expect("a commit");
    assert_eq!(repo.git(&["show", "HEAD:.gitattributes"]).stdout, "racy -text\n");
}
