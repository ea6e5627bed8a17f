//! Entries of the index as files, compared with `git checkout-index`.

use std::collections::BTreeMap;

use sapwood::{
    Error, PlanError, Silent,
    checkout_index::{self, Options, Request, Stages},
    index::Stage,
};
use testkit::Repo;

use crate::{Heard, open, silent_oracle};

/// Files, and a conflict in `both`.
fn conflict(repo: &Repo<'_>) {
    ["a", "dir/b", "both"].iter().for_each(|path| repo.write(path, "1\n"));
    repo.commit("first");
    repo.git(&["switch", "-q", "-c", "topic"]);
    repo.write("both", "2\n");
    repo.commit("second");
    repo.git(&["switch", "-q", "main"]);
    repo.write("both", "3\n");
    repo.commit("third");
    repo.git_command().args(["merge", "-q", "topic"]).output().expect("git runs");
    repo.remove("a");
    repo.write("dir/b", "mine\n");
}

/// All files of the worktree.
fn files(repo: &Repo<'_>) -> BTreeMap<String, String> {
    let listed = repo.git(&["ls-files", "-z", "--cached", "--others"]).stdout.to_string();
    let read = |path: &str| std::fs::read_to_string(repo.join(path)).unwrap_or_default();
    listed.split('\0').map(|path| (path.to_owned(), read(path))).collect()
}

#[test]
fn writes_what_git_writes() {
    let cases: [(Request, &[&str]); 4] = [
        (Request { paths: vec!["a".into()], ..Request::default() }, &["-f", "a"]),
        (
            Request {
                options: Options { force: true, prefix: "out/to-".into(), ..Options::default() },
                ..Request::default()
            },
            &["-f", "-a", "--prefix=out/to-"],
        ),
        (
            Request {
                paths: vec!["both".into()],
                options: Options { stages: Stages::One(Stage::Theirs), force: true, ..Options::default() },
                ..Request::default()
            },
            &["-f", "--stage=3", "both"],
        ),
        (
            Request {
                options: Options { force: true, records_stat: true, ..Options::default() },
                ..Request::default()
            },
            &["-f", "-u", "-a"],
        ),
    ];
    for (request, args) in cases {
        let oracle = silent_oracle(conflict);
        let (git, ours) = (oracle.git(), oracle.ours());
        git.git(&[&["checkout-index"], args].concat());
        let before = files(&ours);
        let repository = open(&ours);
        let plan = checkout_index::plan(&repository, request).expect("a plan");
        assert_eq!(files(&ours), before, "the plan of {args:?} has changed something");
        assert!(plan.run(&Silent).expect("a run").is_complete);
        assert_eq!(files(&ours), files(&git), "{args:?}");
        assert!(!ours.join(".git/index.lock").exists());
        let changed = |repo: &Repo<'_>| repo.git(&["diff-files"]).stdout;
        assert_eq!(changed(&ours), changed(&git), "{args:?}");
    }
}

#[test]
fn files_in_the_way_stay_and_stages_get_names() {
    let oracle = silent_oracle(conflict);
    let repo = oracle.ours();
    let repository = open(&repo);
    let paths = vec!["dir/b".into(), "absent".into(), "a".into()];
    let plan = checkout_index::plan(&repository, Request { paths, ..Request::default() }).expect("a plan");
    let heard = Heard::default();
    assert!(!plan.run(&heard).expect("a run").is_complete);
    assert_eq!((repo.read("dir/b"), repo.read("a")), ("mine\n".into(), "1\n".into()));
    assert_eq!(
        heard.0.into_inner(),
        ["dir/b already exists, no checkout", "git checkout-index: absent is not in the cache"]
    );
    let options = Options { stages: Stages::All, ..Options::default() };
    let request = Request { paths: vec!["both".into()], temporary: true, options };
    let report = checkout_index::plan(&repository, request).expect("a plan").run(&Silent).expect("a run");
    let [file] = &report.temporaries[..] else { panic!("{report:?}") };
    let content = |stage: Stage| file.names[stage as usize].as_ref().map(|name| repo.read(name.to_string()));
    assert_eq!(
        [Stage::Normal, Stage::Base, Stage::Ours, Stage::Theirs].map(content),
        [None, Some("1\n".into()), Some("3\n".into()), Some("2\n".into())]
    );
}

#[test]
fn a_bare_repository_has_no_files() {
    let sandbox = testkit::Sandbox::new();
    let repo = sandbox.init("repo");
    repo.git(&["config", "core.bare", "true"]);
    let failed = checkout_index::plan(&open(&repo), Request::default()).err();
    assert!(matches!(failed, Some(PlanError::Failed(Error::NoWorktree))));
}
