//! Transactions of refs, compared with `git update-ref --stdin`.

use sapwood::{
    Error, HashKind, ObjectId, PlanError, Silent,
    update_ref::{self, Edit, Failures, Follow, New, Old, Rejection, Request},
};
use testkit::Repo;

use crate::{open, silent_oracle};

fn history(repo: &Repo<'_>) {
    repo.write("a", "1\n");
    repo.commit("one");
    repo.git(&["tag", "one"]);
    repo.git(&["branch", "side"]);
    repo.git(&["pack-refs", "--all"]);
    repo.write("a", "2\n");
    repo.commit("two");
    repo.git(&["tag", "two"]);
    repo.git(&["symbolic-ref", "refs/heads/link", "refs/heads/side"]);
}

fn id(repo: &Repo<'_>, name: &str) -> ObjectId {
    let name = repo.git(&["rev-parse", name]).stdout;
    ObjectId::from_hex(HashKind::Sha1, name.trim_ascii()).expect("the name of an object")
}

fn set(name: &str, new: ObjectId) -> Edit {
    Edit::set(name.into(), new, "why".into())
}

fn refs(repo: &Repo<'_>) -> String {
    let list = repo.git(&["for-each-ref", "--format=%(refname) %(objectname) %(symref)"]);
    format!("{}{}", list.stdout, repo.read(".git/HEAD"))
}

/// Installs a hook that logs its stages and edits beside the repository, and fails in one stage.
fn hook(repo: &Repo<'_>, fails_in: &str) {
    let script = format!("#!/bin/sh\necho $1 >>../hooked; cat >>../hooked; test $1 != {fails_in}\n");
    repo.write_executable(".git/hooks/reference-transaction", script);
}

fn hooked(repo: &Repo<'_>) -> String {
    let log = repo.path.parent().expect("it is below the sandbox").join("hooked");
    std::fs::read_to_string(log).expect("the hook has run")
}

#[test]
fn changes_refs_and_runs_the_hook_as_git_does() {
    let oracle = silent_oracle(history);
    oracle.both(|repo| hook(repo, "never"));
    let (git, ours) = (oracle.git(), oracle.ours());
    let talk = "git update-ref -m why --stdin <<EOF
create refs/heads/new one
option no-deref
update refs/heads/link two
update HEAD one two
symref-create refs/remotes/origin/HEAD refs/tags/two
delete refs/heads/side
verify refs/tags/one one
EOF";
    assert!(git.command("sh".as_ref()).args(["-c", talk]).status().expect("a shell").success());
    let (one, two, null) = (id(&ours, "one"), id(&ours, "two"), ObjectId::null(HashKind::Sha1));
    let edits = vec![
        Edit { old: Old::Id(null), ..set("refs/heads/new", one) },
        Edit { follow: Follow::No, ..set("refs/heads/link", two) },
        Edit { old: Old::Id(two), ..set("HEAD", one) },
        Edit {
            new: New::Symbolic("refs/tags/two".into()),
            old: Old::Id(null),
            ..set("refs/remotes/origin/HEAD", null)
        },
        set("refs/heads/side", null),
        Edit { new: New::Keep, old: Old::Id(one), ..set("refs/tags/one", null) },
    ];
    let (before, repository) = (refs(&ours), open(&ours));
    let plan = update_ref::plan(&repository, Request { edits, ..Request::default() }).expect("a plan");
    assert_eq!(refs(&ours), before, "a plan changes nothing");
    assert!(plan.run(&Silent).expect("a run").rejected.is_empty());
    assert_eq!(hooked(&ours), hooked(&git));
    oracle.same_state(&["update-ref"]);
}

#[test]
fn an_error_changes_nothing_and_a_batch_skips_edits() {
    let oracle = silent_oracle(history);
    let repo = oracle.ours();
    let (before, repository) = (refs(&repo), open(&repo));
    let (one, two) = (id(&repo, "one"), id(&repo, "two"));
    let absent = ObjectId::from_hex(HashKind::Sha1, &[b'1'; 40]).expect("a name");
    let wrong = || Edit { old: Old::Id(two), ..set("refs/heads/side", two) };
    let edits = || vec![set("refs/heads/new", one), wrong()];
    let run = |edits, failures| {
        let plan = update_ref::plan(&repository, Request { edits, failures });
        plan.map(|plan| plan.run(&Silent))
    };
    let Err(PlanError::Failed(error)) = run(vec![set("refs/heads/x", absent)], Failures::EndAll) else {
        panic!("the object is missing");
    };
    let missing = format!("trying to write ref 'refs/heads/x' with nonexistent object {absent}");
    assert_eq!(error.to_string(), missing);
    let error = run(edits(), Failures::EndAll).expect("a plan").expect_err("the old value is wrong");
    assert!(error.to_string().starts_with("cannot lock ref 'refs/heads/side': is at "), "{error}");
    hook(&repo, "prepared");
    let error = run(vec![set("refs/heads/new", one)], Failures::EndAll).expect("a plan");
    let error = Error::from(error.expect_err("the hook forbids it"));
    assert!(matches!(&error, Error::Refs(error) if error.is_veto()), "{error}");
    assert_eq!(refs(&repo), before);
    hook(&repo, "never");
    let all = [vec![set("refs/heads/x", absent)], edits()].concat();
    let report = run(all, Failures::RejectOne).expect("a plan").expect("a run");
    let kinds: Vec<Rejection> = report.rejected.iter().map(|rejected| rejected.kind).collect();
    assert_eq!(kinds, [Rejection::InvalidNewValue, Rejection::IncorrectOldValue]);
    assert_eq!(report.rejected[0].message, missing);
    assert_eq!(id(&repo, "refs/heads/new"), one);
}

/// Git runs a hook of the configuration, and changes the branch that a link in the place of HEAD
/// leads to.
#[test]
fn states_that_only_git_serves_are_unsupported() {
    let oracle = silent_oracle(history);
    let repo = oracle.ours();
    let is_unsupported = |what: &str| {
        let edits = vec![set("refs/heads/new", id(&repo, "one"))];
        let plan = update_ref::plan(&open(&repo), Request { edits, ..Request::default() }).map(drop);
        assert!(matches!(plan, Err(PlanError::Unsupported(it)) if it == what), "{plan:?}");
    };
    repo.git(&["config", "hook.mine.event", "reference-transaction"]);
    repo.git(&["config", "hook.mine.command", "true"]);
    is_unsupported("configured hooks 'reference-transaction'");
    repo.git(&["config", "hook.mine.enabled", "false"]);
    std::fs::remove_file(repo.join(".git/HEAD")).expect("it is there");
    repo.symlink("refs/heads/main", ".git/HEAD");
    is_unsupported("symbolic links as HEAD");
}
