//! The commit-graph, compared with Git's file byte for byte.

use sapwood::{
    Silent,
    commit_graph::{self, Request, Split, Start, verify},
};
use testkit::Repo;

use crate::{Heard, open, silent_oracle};

fn history(repo: &Repo<'_>) {
    for number in 0..5 {
        repo.write("a", format!("{number}\n"));
        repo.commit(&format!("commit {number}"));
    }
    repo.git(&["tag", "-a", "-m", "annotated", "v1"]);
    repo.git(&["repack", "-a", "-d", "-q"]);
}

fn graph(repo: &Repo<'_>) -> Option<Vec<u8>> {
    std::fs::read(repo.join(".git/objects/info/commit-graph")).ok()
}

fn layers(repo: &Repo<'_>) -> Option<String> {
    std::fs::read_to_string(repo.join(".git/objects/info/commit-graphs/commit-graph-chain")).ok()
}

#[test]
fn writes_the_file_of_git() {
    let all = || Request { start: Start::Reachable, ..Request::default() };
    let cases: [(Request, &[&str]); 4] = [
        (Request::default(), &[]),
        (all(), &["--reachable"]),
        (Request { changed_paths: Some(true), ..all() }, &["--reachable", "--changed-paths"]),
        (Request { split: Some(Split::Merge), ..all() }, &["--reachable", "--split"]),
    ];
    for (request, args) in cases {
        let oracle = silent_oracle(history);
        let (git, ours) = (oracle.git(), oracle.ours());
        git.git(&[&["commit-graph", "write"], args].concat());
        let repository = open(&ours);
        let plan = commit_graph::plan(&repository, request).expect("a plan");
        assert!(plan.is_needed() && graph(&ours).is_none() && layers(&ours).is_none());
        assert_eq!(plan.run(&Silent).expect("a run").commit_count, 5);
        assert_eq!((graph(&ours), layers(&ours)), (graph(&git), layers(&git)), "{args:?}");
        assert_eq!(ours.git(&["commit-graph", "verify"]).code, 0);
    }
}

#[test]
fn a_damaged_file_has_flaws_and_a_dropped_plan_releases_the_lock() {
    let oracle = silent_oracle(history);
    let repo = oracle.ours();
    let repository = open(&repo);
    let checked = || {
        let plan = verify::plan(&open(&repo), verify::Request::default()).expect("a plan");
        plan.run(&Silent).expect("a run")
    };
    assert!(checked().is_none());
    let request = || Request { start: Start::Reachable, ..Request::default() };
    drop(commit_graph::plan(&repository, request()).expect("a plan"));
    assert_eq!((graph(&repo), repo.join(".git/objects/info/commit-graph.lock").exists()), (None, false));
    commit_graph::plan(&repository, request()).expect("a plan").run(&Silent).expect("a run");
    assert!(checked().expect("a graph").is_sound());
    let mut content = graph(&repo).expect("a graph");
    let last = content.len() - 30;
    content[last] ^= 1;
    let file = repo.join(".git/objects/info/commit-graph");
    std::fs::remove_file(&file).and_then(|()| std::fs::write(&file, content)).expect("written");
    assert!(!checked().expect("a graph").is_sound());
    repo.git(&["config", "core.commitGraph", "false"]);
    let repository = open(&repo);
    let plan = commit_graph::plan(&repository, request()).expect("a plan");
    assert!(!plan.is_needed());
    let heard = Heard::default();
    plan.run(&heard).expect("a run");
    assert_eq!(
        heard.0.into_inner(),
        ["attempting to write a commit-graph, but 'core.commitGraph' is disabled"]
    );
}
