//! Single entries of the index, compared with `git update-index`.

use sapwood::{
    ObjectId, PlanError, Silent,
    index::Stage,
    update_index::{self, Allow, Change, NewEntry, Request, Rules, Whole},
};
use testkit::{Repo, Sandbox};

use crate::{Heard, open};

fn files<'s>(sandbox: &'s Sandbox, name: &str) -> Repo<'s> {
    let repo = sandbox.init(name);
    ["one", "two", "dir/three"].iter().for_each(|path| repo.write(path, "1\n"));
    repo.commit("first");
    repo.write("one", "22\n");
    repo.remove("two");
    repo.write("new", "4\n");
    repo
}

fn entries(repo: &Repo<'_>) -> String {
    repo.git(&["ls-files", "--stage", "-v"]).stdout.to_string()
}

fn path(path: &str) -> Change {
    Change::Path(path.into())
}

#[test]
fn changes_what_git_changes() {
    let oid = "d00491fd7e5bb6fa28c517a0bb32b8b506539d4d";
    let entry = || {
        let oid = ObjectId::from_hex(sapwood::HashKind::Sha1, oid.as_bytes()).expect("a name");
        Change::Entry(NewEntry { path: "entry".into(), mode: 0o100644, oid, stage: Stage::Normal })
    };
    let adding = Rules { allow: Allow { new: true, replacing: false }, ..Rules::default() };
    let removing = Rules { remove: true, ..Rules::default() };
    let executable = Rules { chmod: Some(true), ..Rules::default() };
    let assumed = Rules { assume_valid: Some(true), ..Rules::default() };
    let info = format!("100644,{oid},entry");
    let cases: [(Vec<Change>, &[&str]); 6] = [
        (vec![path("one")], &["one"]),
        (vec![Change::Rules(adding), path("new"), entry()], &["--add", "new", "--cacheinfo", &info]),
        (vec![Change::Rules(removing), path("two")], &["--remove", "two"]),
        (vec![Change::Rules(executable), path("one")], &["--chmod=+x", "one"]),
        (vec![Change::Rules(assumed), path("one")], &["--assume-unchanged", "one"]),
        (vec![Change::Rules(removing), Change::Again(Default::default())], &["--remove", "-g"]),
    ];
    for (changes, args) in cases {
        let sandbox = Sandbox::new();
        let (repo, other) = (files(&sandbox, "ours"), files(&sandbox, "theirs"));
        if args.contains(&"-g") {
            for repo in [&repo, &other] {
                repo.git(&["rm", "-q", "--cached", "dir/three"]);
                repo.git(&["update-index", "--add", "one"]);
                repo.write("one", "333\n");
            }
        }
        other.git(&[&["update-index"], args].concat());
        let before = entries(&repo);
        let repository = open(&repo);
        let plan = update_index::plan(&repository, Request { changes, ..Request::default() });
        let plan = plan.expect("a plan");
        assert!(plan.is_changed());
        assert_eq!(entries(&repo), before, "the plan of {args:?} has changed the index");
        assert!(plan.run(&Silent).expect("a run").is_complete());
        assert_eq!(entries(&repo), entries(&other), "{args:?}");
        assert_eq!(repo.git(&["fsck", "--connectivity-only"]).code, 0);
    }
}

#[test]
fn an_error_changes_nothing() {
    let sandbox = Sandbox::new();
    let repo = files(&sandbox, "repo");
    let (before, repository) = (entries(&repo), open(&repo));
    let loose = || repo.git(&["count-objects"]).stdout;
    let objects = loose();
    let changes = vec![path("one"), path("new")];
    let Err(PlanError::Failed(error)) =
        update_index::plan(&repository, Request { changes, ..Request::default() })
    else {
        panic!("a new file without the rule")
    };
    assert_eq!(error.to_string(), "Unable to process path new");
    // A plan that is dropped releases the lock, and its objects are gone.
    let changes = vec![path("one")];
    drop(update_index::plan(&repository, Request { changes, ..Request::default() }).expect("a plan"));
    assert_eq!((entries(&repo), loose()), (before, objects));
    assert!(!repo.join(".git/index.lock").exists());
}

#[test]
fn findings_and_the_version_are_values() {
    let sandbox = Sandbox::new();
    let repo = files(&sandbox, "repo");
    let repository = open(&repo);
    let whole = Whole { version: Some(4), split: Some(true), ..Whole::default() };
    let changes = vec![Change::Refresh { really: false }];
    let plan = update_index::plan(&repository, Request { changes, whole }).expect("a plan");
    let report = plan.run(&Silent).expect("a run");
    assert_eq!(report.findings.len(), 2, "{report:?}");
    assert!(!report.is_complete());
    assert_eq!(repo.git(&["update-index", "--show-index-version"]).stdout, "4\n");
    repo.git(&["config", "core.splitIndex", "true"]);
    let repository = open(&repo);
    let whole = Whole { split: Some(false), ..Whole::default() };
    let plan = update_index::plan(&repository, Request { whole, ..Request::default() }).expect("a plan");
    let heard = Heard::default();
    plan.run(&heard).expect("a run");
    assert!(heard.0.borrow()[0].starts_with("core.splitIndex is set to true;"), "{:?}", heard.0);
}
