//! Symbolic refs, compared with `git symbolic-ref`.

use sapwood::{
    Error, PlanError, Silent,
    symbolic_ref::{self, Request},
};
use testkit::Repo;

use crate::{open, silent_oracle};

fn history(repo: &Repo<'_>) {
    repo.write("a", "1\n");
    repo.commit("one");
    repo.git(&["branch", "side"]);
    repo.git(&["pack-refs", "--all"]);
    repo.write("a", "2\n");
    repo.commit("two");
    repo.git(&["symbolic-ref", "refs/heads/link", "refs/heads/side"]);
    repo.git(&["symbolic-ref", "refs/heads/links", "refs/heads/link"]);
    repo.git(&["symbolic-ref", "refs/heads/dangling", "refs/heads/nowhere"]);
    let script = "#!/bin/sh\necho $1 >>../hooked; cat >>../hooked\n";
    repo.write_executable(".git/hooks/reference-transaction", script);
}

fn to(name: &str, target: &str) -> Request {
    Request { name: name.into(), target: Some(target.into()), ..Request::default() }
}

fn without(name: &str) -> Request {
    Request { name: name.into(), ..Request::default() }
}

fn hooked(repo: &Repo<'_>) -> String {
    let log = repo.path.parent().expect("it is below the sandbox").join("hooked");
    std::fs::read_to_string(log).expect("the hook has run")
}

#[test]
fn writes_deletes_and_runs_the_hook_as_git_does() {
    let logged = Request { message: "to  side\n".into(), ..to("HEAD", "refs/heads/side") };
    let cases: [(&[&str], Request); 6] = [
        (&["-m", "to  side\n", "HEAD", "refs/heads/side"], logged),
        (&["HEAD", "refs/heads/unborn"], to("HEAD", "refs/heads/unborn")),
        (&["refs/heads/new/link", "refs/heads/main"], to("refs/heads/new/link", "refs/heads/main")),
        (&["refs/heads/main", "refs/heads/side"], to("refs/heads/main", "refs/heads/side")),
        (&["-d", "refs/heads/links"], without("refs/heads/links")),
        (&["-d", "refs/heads/dangling"], without("refs/heads/dangling")),
    ];
    for (args, request) in cases {
        let oracle = silent_oracle(history);
        let (git, ours) = (oracle.git(), oracle.ours());
        git.git(&[&["symbolic-ref"], args].concat());
        let repository = open(&ours);
        let plan = symbolic_ref::plan(&repository, request).expect("a plan");
        assert!(!ours.exists("../hooked"), "{args:?}: a plan runs no hook");
        plan.run(&Silent).expect("a run");
        assert_eq!(hooked(&ours), hooked(&git), "{args:?}");
        oracle.same_state(args);
    }
}

#[test]
fn reads_as_git_does() {
    let oracle = silent_oracle(history);
    let repo = oracle.ours();
    let repository = open(&repo);
    for name in ["HEAD", "refs/heads/links", "refs/heads/dangling", "refs/heads/main", "refs/heads/a..b"] {
        for (recurse, option) in [(true, "--recurse"), (false, "--no-recurse")] {
            let theirs = repo.try_git(&["symbolic-ref", "-q", option, name]);
            let ours = symbolic_ref::read(&repository, name.into(), recurse);
            let (code, text) = match ours {
                Ok(Some(target)) => (0, format!("{target}\n")),
                Ok(None) => (1, String::new()),
                Err(error) => (128, format!("fatal: {error}\n")),
            };
            let theirs = (theirs.code, format!("{}{}", theirs.stdout, theirs.stderr));
            assert_eq!((code, text), theirs, "{name} {option}");
        }
    }
}

#[test]
fn refusals_change_nothing() {
    let oracle = silent_oracle(history);
    let repo = oracle.ours();
    let repository = open(&repo);
    for (request, text) in [
        (to("HEAD", "main"), "Refusing to point HEAD outside of refs/"),
        (to("HEAD", "refs/heads/"), "Refusing to set 'HEAD' to invalid ref 'refs/heads/'"),
        (to("FETCH_HEAD", "refs/heads/main"), "refusing to update pseudoref 'FETCH_HEAD'"),
        (to("lower", "refs/heads/main"), "refusing to update ref with bad name 'lower'"),
        (without("HEAD"), "deleting 'HEAD' is not allowed"),
        (without("refs/heads/main"), "Cannot delete refs/heads/main, not a symbolic ref"),
        (without("refs/heads/a..b"), "No such ref: refs/heads/a..b"),
    ] {
        let plan = symbolic_ref::plan(&repository, request).map(drop);
        assert!(matches!(&plan, Err(PlanError::Failed(error)) if error.to_string() == text), "{plan:?}");
    }
    for request in [to("refs/heads/a..b", "refs/heads/main"), to("refs/heads/x", "lower")] {
        let plan = symbolic_ref::plan(&repository, request).map(drop);
        assert!(matches!(plan, Err(PlanError::Unsupported(_))), "{plan:?}");
    }
    let plan = || symbolic_ref::plan(&repository, to("HEAD", "refs/heads/side")).expect("a plan");
    drop(plan());
    repo.write(".git/HEAD.lock", "");
    let locked = plan().run(&Silent).expect_err("HEAD is locked").to_string();
    assert!(locked.starts_with("cannot lock ref 'HEAD': Unable to create '"), "{locked}");
    std::fs::remove_file(repo.join(".git/HEAD.lock")).expect("it is there");
    repo.write_executable(".git/hooks/reference-transaction", "#!/bin/sh\nexit 1\n");
    let error = Error::from(plan().run(&Silent).expect_err("the hook forbids it"));
    assert!(matches!(&error, Error::Refs(error) if error.is_veto()), "{error}");
    assert_eq!(repo.read(".git/HEAD"), "ref: refs/heads/main\n");
}
