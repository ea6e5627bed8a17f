//! The refs of a server, compared with `git ls-remote`.

use sapwood::{
    Error, PlanError, Silent,
    ls_remote::{self, Order, Ref, Request},
};
use testkit::{Repo, Sandbox};

use crate::open;

fn server(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.init("repo");
    repo.write("a", "1\n");
    repo.commit("one");
    repo.git(&["tag", "light"]);
    repo.git(&["tag", "-a", "-m", "tag", "v1"]);
    repo.git(&["branch", "side/one"]);
    repo.git(&["remote", "add", "self", "."]);
    repo
}

fn of(name: &str) -> Request {
    Request { repository: Some(name.into()), ..Request::default() }
}

#[test]
fn lists_what_git_lists() {
    let sandbox = Sandbox::new();
    let repo = server(&sandbox);
    let repository = open(&repo);
    let cases: [(&[&str], Request); 8] = [
        (&["."], of(".")),
        (&["self"], of("self")),
        (&[], Request::default()),
        (&["--tags", "."], Request { tags: true, ..of(".") }),
        (&["--heads", "."], Request { branches: true, ..of(".") }),
        (&["--refs", "."], Request { refs: true, ..of(".") }),
        (&["--sort=-refname", "."], Request { order: Order::NameReversed, ..of(".") }),
        (&[".", "v*", "one"], Request { patterns: vec!["v*".into(), "one".into()], ..of(".") }),
    ];
    for (args, request) in cases {
        let report = ls_remote::plan(&repository, request).expect("a plan").run(&Silent).expect("refs");
        let line = |found: &Ref| format!("{}\t{}\n", found.id, found.name);
        let ours: String = report.refs.iter().map(line).collect();
        assert_eq!(ours, repo.git(&[&["ls-remote"], args].concat()).stdout.to_string(), "{args:?}");
        assert_eq!(report.url, ".");
    }
    let report = ls_remote::plan(&repository, of(".")).expect("a plan").run(&Silent).expect("refs");
    let head = report.refs.iter().find(|found| found.name == "HEAD").expect("it is a ref");
    assert_eq!(head.symref.as_ref().expect("it is symbolic"), "refs/heads/main");
}

#[test]
fn refuses_servers_that_are_not_there_and_bundles() {
    let sandbox = Sandbox::new();
    let repo = server(&sandbox);
    let repository = open(&repo);
    let plan = |name: &str| ls_remote::plan(&repository, of(name)).err().expect("no plan");
    assert!(matches!(plan("nowhere"), PlanError::Failed(Error::Fetch(_))));
    assert_eq!(plan("").to_string(), "bad repository ''");
    repo.git(&["bundle", "create", "all.bundle", "--all"]);
    assert!(matches!(plan("all.bundle"), PlanError::Unsupported("bundles")));
    repo.git(&["config", "remote.foreign.vcs", "x"]);
    let planned = ls_remote::plan(&open(&repo), of("foreign"));
    assert!(matches!(planned, Err(PlanError::Unsupported("remote.<name>.vcs"))));
}
