//! Rules that ignore paths, compared with `git check-ignore`.

use sapwood::{
    PlanError, Silent,
    check_ignore::{self, Answer, Request},
};
use testkit::{Repo, Sandbox};

use crate::{Heard, open};

fn rules(repo: &Repo<'_>) {
    repo.write("users", "# comment\n*.user\n");
    repo.git(&["config", "core.excludesFile", "users"]);
    repo.write(".git/info/exclude", "*.info\n/top\n");
    repo.write(".gitignore", "*.o\n!keep.o\nout/\n/a/b\n");
    repo.write("a/.gitignore", "!*.o\nlocal\n");
    repo.write("a/tracked.user", "1\n");
    repo.git(&["add", "-f", "."]);
    repo.git(&["commit", "-qm", "first"]);
    repo.symlink("a", "link");
}

/// Returns the line that `check-ignore -v -n` prints.
fn line(answer: &Answer) -> String {
    let Some(rule) = &answer.rule else { return format!("::\t{}\n", answer.path) };
    let (bang, slash) = (if rule.negative { "!" } else { "" }, if rule.directory { "/" } else { "" });
    format!("{}:{}:{bang}{}{slash}\t{}\n", rule.source, rule.line, rule.pattern, answer.path)
}

#[test]
fn names_the_rules_that_git_names() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    rules(&repo);
    let paths = [
        "x.o",
        "keep.o",
        "a/x.o",
        "a/local",
        "a/b/c.o",
        "out",
        "out/",
        "out/sub/y",
        "x.user",
        "a/tracked.user",
        "x.info",
        "top",
        "a/top",
        "a",
        "./a/../x.o",
    ];
    let repository = open(&repo);
    for (no_index, options) in [(false, &["-v", "-n"][..]), (true, &["-v", "-n", "--no-index"][..])] {
        let paths_to_check = paths.iter().map(|path| (*path).into()).collect();
        let plan = check_ignore::plan(&repository, Request { paths: paths_to_check, no_index });
        let report = plan.expect("a plan").run(&Silent).expect("answers");
        let ours: String = report.answers.iter().map(line).collect();
        let theirs = repo.git(&[&["check-ignore"], options, &paths[..]].concat()).stdout;
        assert_eq!(ours, theirs.to_string(), "{options:?}");
    }
}

#[test]
fn refuses_and_warns_as_git_does() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    rules(&repo);
    repo.git(&["init", "-q", "module"]);
    repo.git(&["-C", "module", "commit", "-q", "--allow-empty", "-m", "one"]);
    repo.git(&["-c", "advice.addEmbeddedRepo=false", "add", "module"]);
    let repository = open(&repo);
    for path in ["link/x.o", "module/x", "../x", ":(glob)x"] {
        let request = Request { paths: vec!["x.o".into(), path.into()], no_index: false };
        let refused = match check_ignore::plan(&repository, request) {
            Err(PlanError::Failed(error)) => format!("fatal: {error}\n"),
            other => panic!("{path}: {:?}", other.map(drop)),
        };
        let theirs = repo.try_git(&["check-ignore", "x.o", path]);
        assert_eq!((refused, 128), (theirs.stderr.to_string(), theirs.code), "{path}");
    }
    repo.write("loop/x", "1\n");
    repo.symlink(".gitignore", "loop/.gitignore");
    let request = Request { paths: vec!["loop/x.o".into()], no_index: false };
    let plan = check_ignore::plan(&repository, request).expect("a plan");
    let heard = Heard::default();
    plan.run(&heard).expect("answers");
    let heard: String = heard.0.take().iter().map(|text| format!("warning: {text}\n")).collect();
    let theirs = repo.git(&["check-ignore", "loop/x.o"]).stderr.to_string();
    assert!(!heard.is_empty() && theirs.contains(&heard), "{heard}{theirs}");
}
