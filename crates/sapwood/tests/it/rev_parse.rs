//! Revisions and facts about the repository, compared with `git rev-parse`.

use sapwood::{
    PlanError, Silent,
    rev_parse::{self, Answer, Class, PathFormat, Query, Report, Request, Word},
};
use testkit::{Repo, Sandbox};

use crate::open;

fn history(repo: &Repo<'_>) {
    repo.write("a", "1\n");
    repo.write("dir/b", "2\n");
    repo.commit("one");
    repo.git(&["branch", "topic"]);
    repo.git(&["tag", "-a", "-m", "a tag", "v1"]);
    repo.write("a", "3\n");
    repo.commit("two");
}

fn answer(repo: &Repo<'_>, words: Vec<Word<'_>>) -> Result<Report, PlanError> {
    let plan = rev_parse::plan(&open(repo), Request { words })?;
    Ok(plan.run(&Silent).expect("answers"))
}

fn line(answer: &Answer) -> String {
    let mark = |is_reversed: bool| if is_reversed { "^" } else { "" };
    match answer {
        Answer::Object { id, is_reversed } => format!("{}{id}\n", mark(*is_reversed)),
        Answer::Name { name, is_reversed } => format!("{}{name}\n", mark(*is_reversed)),
        Answer::Fact(fact) => format!("{fact}\n"),
    }
}

#[test]
fn answers_as_git_does() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    history(&repo);
    let revision = |name: &'static str| Word::Revision(name.into());
    let (head, all) = (revision("HEAD"), Word::Refs { prefix: "refs/", is_trimmed: false });
    let branches = Word::Refs { prefix: "refs/heads/", is_trimmed: true };
    let cases: [(&[&str], Vec<Word<'_>>); 11] = [
        (
            &["HEAD~1", "^v1", "--not", "topic"],
            vec![revision("HEAD~1"), revision("^v1"), Word::Not, revision("topic")],
        ),
        (&["main:dir/b", "v1^{tree}"], vec![revision("main:dir/b"), revision("v1^{tree}")]),
        (&["topic..", "topic...main"], vec![revision("topic.."), revision("topic...main")]),
        (&["--verify", "v1^{}"], vec![Word::Verify, revision("v1^{}")]),
        (&["--short=7", "HEAD"], vec![Word::Short(Some(7)), head]),
        (&["--default", "HEAD"], vec![Word::Default("HEAD".into())]),
        (&["--abbrev-ref", "HEAD", "v1"], vec![Word::AbbrevRef(None), head, revision("v1")]),
        (&["--symbolic-full-name", "--all"], vec![Word::SymbolicFullName, all]),
        (&["--symbolic", "--branches"], vec![Word::Symbolic, branches]),
        (
            &["--revs-only", "HEAD", "--", "a"],
            vec![Word::LeaveOut(Class::Others), head, Word::Mark("--".into()), Word::File("a".into())],
        ),
        (
            &["--show-toplevel", "--path-format=absolute", "--git-dir", "--git-path", "MERGE_HEAD"],
            vec![
                Word::Query(Query::TopLevel),
                Word::PathFormat(PathFormat::Canonical),
                Word::Query(Query::GitDir),
                Word::GitPath("MERGE_HEAD".into()),
            ],
        ),
    ];
    for (args, words) in cases {
        let report = answer(&repo, words).expect("a plan");
        assert!(!report.lacks_revision, "{args:?}");
        let ours: String = report.answers.iter().map(line).collect();
        assert_eq!(ours, repo.git(&[&["rev-parse"], args].concat()).stdout.to_string(), "{args:?}");
    }
}

#[test]
fn refusals_and_words_that_are_left_to_git() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    history(&repo);
    let revision = |name: &'static str| Word::Revision(name.into());
    for words in [
        vec![Word::Verify],
        vec![Word::Verify, revision("nothing"), revision(":a")],
        vec![Word::Verify, revision("HEAD"), revision("main")],
    ] {
        let report = answer(&repo, words).expect("a plan");
        assert_eq!(report, Report { lacks_revision: true, ..Report::default() });
    }
    for word in ["nothing", "a", ":a", "HEAD^!", "HEAD@{yesterday}", "HEAD^{/one}", ".."] {
        let answered = answer(&repo, vec![revision(word)]);
        assert!(matches!(answered, Err(PlanError::Unsupported(_))), "{word}: {answered:?}");
    }
    let moved = answer(&repo, vec![Word::GitPath("index".into())]);
    assert!(matches!(moved, Err(PlanError::Unsupported(_))), "{moved:?}");
}
