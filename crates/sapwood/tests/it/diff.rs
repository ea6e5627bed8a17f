//! Lists of differences, compared with `git diff-files` and `git diff-index`.

use sapwood::{
    PlanError, Silent,
    diff::{self, Detect, Filter, FirstPath, Needle, Presence, Report, Request},
};
use testkit::{Repo, Sandbox};

use crate::{open, pathspecs};

fn changes(repo: &Repo<'_>) {
    let text: String = (0..40).map(|number| format!("line {number}\n")).collect();
    for file in ["a", "b", "dir/c", "moved", "removed"] {
        repo.write(file, format!("{file}\n{text}"));
    }
    repo.commit("one");
    repo.write("a", "needle\n");
    repo.write("dir/c", format!("other\n{text}"));
    repo.git(&["mv", "moved", "dir/target"]);
    repo.git(&["rm", "-q", "--cached", "removed"]);
    repo.write("new", "needle\n");
    repo.git(&["add", "new", "dir"]);
    repo.write("order", "dir/*\n");
}

/// Returns the lines of `--name-status`.
fn lines(report: &Report) -> String {
    let mut lines = String::new();
    for pair in &report.pairs {
        lines.push(char::from(pair.status.letter()));
        if pair.score > 0 {
            lines += &format!("{:03}", u64::from(pair.score) * 100 / u64::from(diff::MAX_SCORE));
        }
        if let Some(source) = &pair.source {
            lines += &format!("\t{source}");
        }
        lines += &format!("\t{}\n", pair.path);
    }
    lines
}

fn filter(classes: &str) -> Filter {
    let mut filter = Filter::default();
    filter.add(classes.as_bytes()).expect("known classes");
    filter
}

#[test]
fn lists_what_git_lists() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    changes(&repo);
    let repository = open(&repo);
    let tree = Some(repository.resolve("HEAD").expect("a commit"));
    let of_tree = Request { tree, ..Request::default() };
    let staged = Request { cached: true, ..of_tree.clone() };
    let renames = Request { detect: Some(Detect::Renames), ..staged.clone() };
    let cases: [(&[&str], Request); 11] = [
        (&["diff-files"], Request::default()),
        (&["diff-files", "-R"], Request { reverse: true, ..Request::default() }),
        (&["diff-index", "HEAD"], of_tree.clone()),
        (&["diff-index", "HEAD", "--", "dir"], Request { pathspecs: pathspecs(&["dir"]), ..of_tree.clone() }),
        (&["diff-index", "--cached", "HEAD"], staged.clone()),
        (&["diff-index", "--cached", "-M", "HEAD"], renames.clone()),
        (
            &["diff-index", "--cached", "-M", "--diff-filter=ad", "HEAD"],
            Request { filter: filter("ad"), ..renames.clone() },
        ),
        (
            &["diff-index", "-Sneedle", "HEAD"],
            Request { needle: Some(Needle::Text("needle".into())), ..of_tree.clone() },
        ),
        (
            &["diff-index", "-Gne+dle", "HEAD"],
            Request { needle: Some(Needle::Lines("ne+dle".into())), ..of_tree.clone() },
        ),
        (
            &["diff-index", "-Oorder", "HEAD"],
            Request { order_files: vec![("order".into(), Presence::Needed)], ..of_tree.clone() },
        ),
        (
            &["diff-index", "--skip-to=dir/c", "HEAD"],
            Request { from: Some((FirstPath::Skip, "dir/c".into())), ..of_tree },
        ),
    ];
    for (args, request) in cases {
        let report = diff::plan(&repository, request).expect("a plan").run(&Silent).expect("a report");
        let args = [&args[..1], &["--name-status"], &args[1..]].concat();
        assert_eq!(lines(&report), repo.git(&args).stdout.to_string(), "{args:?}");
    }
}

#[test]
fn refuses_what_it_cannot_list() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    changes(&repo);
    let from = Some((FirstPath::Rotate, "nothing".into()));
    let refused = match diff::plan(&open(&repo), Request { from, ..Request::default() }) {
        Err(PlanError::Failed(error)) => format!("fatal: {error}\n"),
        other => panic!("{:?}", other.map(drop)),
    };
    assert_eq!(refused, repo.try_git(&["diff-files", "--rotate-to=nothing"]).stderr.to_string());
    repo.git(&["config", "core.autocrlf", "input"]);
    let needle = Some(Needle::Text("needle".into()));
    let request = Request { needle, detect: Some(Detect::Renames), ..Request::default() };
    let planned = diff::plan(&open(&repo), request).map(drop);
    assert!(matches!(planned, Err(PlanError::Unsupported(_))), "{planned:?}");
}
