//! Clone as an operation, compared with Git.

use std::{collections::HashMap, ffi::OsString};

use sapwood::{
    Error, PlanError, Silent,
    clone::{self, Plan, Report, Request},
};
use testkit::{Repo, Sandbox};

/// A source with two branches, a tag, a link and an executable file.
fn source(sandbox: &Sandbox) -> Repo<'_> {
    let source = sandbox.init("source");
    source.write("a", "1\n");
    source.write("dir/b", "2\n");
    source.write_executable("tool", "#!/bin/sh\n");
    source.symlink("a", "link");
    source.git(&["config", "uploadpack.allowFilter", "true"]);
    source.commit("one");
    source.git(&["tag", "v1"]);
    source.git(&["branch", "topic"]);
    source.write("a", "2\n");
    source.commit("two");
    source
}

fn plan(repo: &Repo<'_>, request: Request) -> Result<Plan, PlanError> {
    let command = repo.git_command();
    let variables = command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    let variables: HashMap<OsString, OsString> = variables.collect();
    clone::plan(repo.path.parent().expect("a parent"), variables, request)
}

fn run(repo: &Repo<'_>, request: Request) -> Report {
    plan(repo, request).expect("a plan").run(&Silent).expect("a clone")
}

/// Returns refs, files, settings and the index of a clone.
fn look(repo: &Repo<'_>) -> String {
    let mut text = repo.git(&["for-each-ref"]).stdout.to_string();
    for args in [&["ls-files", "--stage"][..], &["status", "--porcelain", "--branch"], &["fsck"]] {
        text += &repo.try_git(args).stdout.to_string();
    }
    let git_dir = repo.git(&["rev-parse", "--absolute-git-dir"]).stdout.to_string();
    for file in ["HEAD", "config", "shallow", "logs/HEAD", "description"] {
        let content = std::fs::read_to_string(std::path::Path::new(git_dir.trim_end()).join(file));
        text += &format!("{file}: {}\n", content.unwrap_or_default());
    }
    text
}

#[test]
fn clones_what_git_clones() {
    let cases: Vec<(&[&str], Request)> = vec![
        (&[], Request::default()),
        (&["--bare"], Request { bare: true, ..Request::default() }),
        (&["--mirror"], Request { mirror: true, ..Request::default() }),
        (&["-b", "topic"], Request { branch: Some("topic".into()), ..Request::default() }),
        (&["-b", "v1"], Request { branch: Some("v1".into()), ..Request::default() }),
        (&["-n"], Request { no_checkout: true, ..Request::default() }),
        (&["--single-branch"], Request { single_branch: Some(true), ..Request::default() }),
        (
            &["--no-tags", "-o", "up"],
            Request { no_tags: true, origin: Some("up".into()), ..Request::default() },
        ),
        (&["-c", "core.eol=lf"], Request { config: vec!["core.eol=lf".into()], ..Request::default() }),
        (
            &["--no-local", "--filter=blob:none"],
            Request {
                local: Some(false),
                filter: clone::Filter::parse("blob:none".into()).ok(),
                ..Request::default()
            },
        ),
        (
            &["--no-local", "--depth", "1"],
            Request { local: Some(false), depth: Some(1), ..Request::default() },
        ),
    ];
    for (args, request) in cases {
        let sandbox = Sandbox::new();
        let source = source(&sandbox);
        let path = source.path.to_str().expect("text");
        // Both clones have one name, so that their reflogs are equal.
        source.git(&[&["clone", "-q"], args, &[path, "../made"]].concat());
        let theirs = look(&sandbox.repo("made"));
        std::fs::remove_dir_all(sandbox.path().join("made")).expect("a clone");
        let request = Request { source: path.into(), directory: Some("made".into()), ..request };
        let report = run(&source, request);
        let made = sandbox.repo("made");
        assert_eq!(theirs, look(&made), "{args:?}: git left, ours right");
        let has_files = report.commit.is_some();
        assert_eq!(has_files, made.path.join("dir").exists(), "{args:?}");
        assert_eq!(report.written, if has_files { 4 } else { 0 });
        assert_eq!(report.work_tree.is_some(), !(args.contains(&"--bare") || args.contains(&"--mirror")));
    }
}

#[test]
fn a_plan_makes_nothing() {
    let sandbox = Sandbox::new();
    let source = source(&sandbox);
    let request = |directory: &str| Request {
        source: "source".into(),
        directory: Some(directory.into()),
        ..Request::default()
    };
    let made = plan(&source, request("made")).expect("a plan");
    assert!(made.to_string().ends_with(" into made\n"), "{made}");
    assert!(!sandbox.path().join("made").exists());
    drop(made);
    source.write("../full/x", "");
    let refused = plan(&source, request("full")).err().expect("it is refused");
    let full = "destination path 'full' already exists and is not an empty directory.";
    assert_eq!(refused.to_string(), full);
    let unknown = Request { source: "nowhere".into(), ..request("made") };
    let refused = plan(&source, unknown).err().expect("it is refused").to_string();
    assert!(refused.contains("nowhere"), "{refused}");
}

/// A failure of the objects leaves nothing, one of the files leaves the clone, and the same request
/// finishes it.
#[test]
fn a_failure_leaves_nothing_or_a_clone() {
    let sandbox = Sandbox::new();
    let source = source(&sandbox);
    let request = Request { source: "source".into(), directory: Some("made".into()), ..Request::default() };
    let missing = Request { branch: Some("none".into()), ..request.clone() };
    let error = plan(&source, missing).expect("a plan").run(&Silent).expect_err("there is no such branch");
    assert!(matches!(error.0, Error::Clone(_)), "{error}");
    assert!(!sandbox.path().join("made").exists());
    let filtered = Request {
        config: vec!["filter.f.smudge=false".into(), "filter.f.required=true".into()],
        ..request.clone()
    };
    source.write(".gitattributes", "a filter=f\n");
    source.commit("three");
    plan(&source, filtered).expect("a plan").run(&Silent).expect_err("a filter fails");
    let made = sandbox.repo("made");
    assert_eq!(made.git(&["log", "--format=%s", "-1"]).stdout, "three\n");
    for name in ["filter.f.smudge", "filter.f.clean"] {
        made.git(&["config", name, "cat"]);
    }
    let head = source.git(&["rev-parse", "HEAD"]).stdout.to_string();
    assert_eq!(run(&source, request).commit.map(|oid| format!("{oid}\n")), Some(head));
    assert_eq!((made.read("a"), made.git(&["status", "--porcelain"]).stdout), ("2\n".into(), "".into()));
}
