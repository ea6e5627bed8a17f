//! The list of refs, compared with Git.

use sapwood::{
    PlanError, Silent,
    bstr::BString,
    for_each_ref::{self, Commits, Format, Quoting, Request, SortKey},
};
use testkit::{Repo, Sandbox};

use crate::open;

fn history(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.init("repo");
    for (number, tag) in ["v1.2", "v1.10", "V2"].iter().enumerate() {
        repo.write("a", number.to_string());
        repo.commit(&format!("commit {number}\n\nbody"));
        repo.git(&["tag", "-a", "-m", tag, tag]);
        repo.git(&["branch", &format!("topic/{number}")]);
    }
    repo
}

fn text(repo: &Repo<'_>, request: Request) -> BString {
    let repository = open(repo);
    let plan = for_each_ref::plan(&repository, request).expect("a plan");
    plan.run(&Silent).expect("a list").text
}

#[test]
fn lists_what_git_lists() {
    let format = |text: &str| Format::parse(text.into()).expect("a format");
    let key = |text: &str| SortKey::parse(text.into()).expect("a key");
    let sandbox = Sandbox::new();
    let repo = history(&sandbox);
    let oid = |name: &str| {
        let hex = repo.git(&["rev-parse", name]).stdout;
        sapwood::ObjectId::from_hex(sapwood::HashKind::Sha1, hex.trim_ascii_end()).expect("an object")
    };
    let cases: Vec<(&[&str], Request)> = vec![
        (&[], Request::default()),
        (
            &["refs/heads/topic", "refs/tags/v*"],
            Request {
                patterns: vec!["refs/heads/topic".into(), "refs/tags/v*".into()],
                ..Request::default()
            },
        ),
        (
            &["--count=2", "--sort=-version:refname", "--format=%(refname:short)", "refs/tags"],
            Request {
                count: 2,
                keys: vec![key("-version:refname")],
                format: format("%(refname:short)"),
                patterns: vec!["refs/tags".into()],
                ..Request::default()
            },
        ),
        (
            &["--shell", "--format=%(refname) %(*contents:subject) %(authordate:iso8601)"],
            Request {
                quoting: Quoting::Shell,
                format: format("%(refname) %(*contents:subject) %(authordate:iso8601)"),
                ..Request::default()
            },
        ),
        (
            &["--merged=topic/1", "--exclude=refs/heads/topic"],
            Request {
                commits: Commits { merged: vec![oid("topic/1")], ..Commits::default() },
                excluded: vec!["refs/heads/topic".into()],
                ..Request::default()
            },
        ),
        (
            &["--contains=topic/1", "--ignore-case"],
            Request {
                commits: Commits { contained: vec![oid("topic/1")], ..Commits::default() },
                icase: true,
                ..Request::default()
            },
        ),
    ];
    for (args, request) in cases {
        let theirs = repo.git(&[&["for-each-ref"], args].concat()).stdout;
        assert!(!theirs.is_empty());
        assert_eq!(text(&repo, request), theirs, "{args:?}");
    }
}

/// Only Git knows the width of such a text. Nothing is listed, so a caller can start Git.
#[test]
fn a_list_that_only_git_can_print() {
    let sandbox = Sandbox::new();
    let repo = history(&sandbox);
    repo.git(&["branch", "\u{e4}"]);
    let format = Format::parse("%(align:20)%(refname)%(end)".into()).expect("a format");
    let repository = open(&repo);
    let planned = for_each_ref::plan(&repository, Request { format, ..Request::default() });
    assert!(matches!(
        planned.map(drop),
        Err(PlanError::Unsupported("alignments of texts that are not ASCII"))
    ));
    assert!(Format::parse("%(nothing)".into()).is_none());
}
