//! Settings and variables that sapwood does not serve: the shim hands the command over, and
//! `sapwood` refuses it with a message that names them. It never ignores them silently.

use testkit::Sandbox;

use crate::SAPWOOD;

/// An assignment of a variable, or of a setting; the command line; the name in the message.
const REFUSED: &[(&str, &[&str], &str)] = &[
    ("GIT_DIR=../x.git", &["init"], "GIT_DIR"),
    ("GIT_DIR=x", &["init", "new"], "GIT_DIR"),
    ("GIT_WORK_TREE=w", &["init", "new"], "GIT_WORK_TREE"),
    ("GIT_COMMON_DIR=c", &["init", "new"], "GIT_COMMON_DIR"),
    ("GIT_OBJECT_DIRECTORY=o", &["init", "new"], "GIT_OBJECT_DIRECTORY"),
    ("GIT_DEFAULT_HASH=sha256", &["init", "new"], "GIT_DEFAULT_HASH"),
    ("GIT_DEFAULT_REF_FORMAT=reftable", &["init", "new"], "GIT_DEFAULT_REF_FORMAT"),
    ("GIT_REFERENCE_BACKEND=reftable", &["init", "new"], "GIT_REFERENCE_BACKEND"),
    ("init.defaultObjectFormat=sha256", &["init", "new"], "init.defaultObjectFormat"),
    ("init.defaultRefFormat=reftable", &["init", "new"], "init.defaultRefFormat"),
    ("init.defaultSubmodulePathConfig=true", &["init", "new"], "init.defaultSubmodulePathConfig"),
    ("feature.experimental=true", &["init", "new"], "feature.experimental"),
    ("core.bare=true", &["init", "new"], "core.bare"),
    ("core.worktree=w", &["init", "new"], "core.worktree"),
    ("GIT_NAMESPACE=n", &["clone", "repo", "new"], "GIT_NAMESPACE"),
    ("init.defaultSubmodulePathConfig=true", &["clone", "repo", "new"], "init.defaultSubmodulePathConfig"),
    ("GIT_REF_PARANOIA=0", &["-C", "repo", "show-ref"], "GIT_REF_PARANOIA"),
    ("GIT_REF_PARANOIA=0", &["-C", "repo", "for-each-ref"], "GIT_REF_PARANOIA"),
    ("GIT_REF_PARANOIA=0", &["-C", "repo", "fetch", "."], "GIT_REF_PARANOIA"),
    ("GIT_GRAFT_FILE=g", &["-C", "repo", "status"], "GIT_GRAFT_FILE"),
    ("GIT_SHALLOW_FILE=s", &["-C", "repo", "rev-parse", "HEAD"], "GIT_SHALLOW_FILE"),
    ("GIT_REFERENCE_BACKEND=reftable", &["-C", "repo", "show-ref"], "GIT_REFERENCE_BACKEND"),
    ("GIT_SHALLOW_FILE=s", &["-C", "repo", "config", "user.name"], "GIT_SHALLOW_FILE"),
    ("GIT_QUARANTINE_PATH=q", &["-C", "repo", "update-ref", "refs/new", "HEAD"], "quarantine"),
    ("GIT_QUARANTINE_PATH=q", &["-C", "repo", "commit", "--allow-empty", "-m", "new"], "quarantine"),
    ("GIT_QUARANTINE_PATH=q", &["-C", "repo", "switch", "-c", "new"], "quarantine"),
    ("GIT_QUARANTINE_PATH=q", &["-C", "repo", "fetch", ".", "HEAD:refs/new"], "quarantine"),
    ("notes.rewriteRef=refs/notes/*", &["-C", "repo", "commit", "--amend", "--no-edit"], "notes.rewriteRef"),
    (
        "GIT_NOTES_REWRITE_REF=refs/notes/x",
        &["-C", "repo", "commit", "--amend", "-m", "x"],
        "GIT_NOTES_REWRITE_REF",
    ),
    (
        "transfer.credentialsInUrl=die",
        &["ls-remote", "http://u:p@localhost:1/x"],
        "http://u:<redacted>@localhost:1/x",
    ),
    ("transfer.credentialsInUrl=die", &["clone", "http://u:p@localhost:1/x", "new"], "<redacted>"),
    ("transfer.credentialsInUrl=die", &["-C", "repo", "fetch", "http://u:p@localhost:1/x"], "<redacted>"),
    ("A=1", &["init", "new", "other"], "usage: sapwood init"),
    ("A=1", &["clone", "-u", "false", "repo", "new"], "--upload-pack"),
    ("A=1", &["-C", "repo", "hash-object", "-t", "commit", "a"], "--literally"),
    ("A=1", &["-C", "repo", "commit-graph", "verify", "x"], "usage: sapwood commit-graph"),
    ("A=1", &["-C", "repo", "multi-pack-index", "write", "x"], "usage: sapwood multi-pack-index"),
];

#[test]
fn sapwood_refuses_what_it_does_not_serve() {
    let mut failed = Vec::new();
    for (given, args, named) in REFUSED {
        let sandbox = Sandbox::new();
        let repo = sandbox.init("repo");
        repo.write("a", "1\n");
        repo.commit("one");
        let refs = repo.git(&["show-ref", "--head"]).stdout;
        let (name, value) = given.split_once('=').expect("an assignment");
        let mut command = repo.command(SAPWOOD.as_ref());
        command.current_dir(sandbox.path());
        if name.contains('.') {
            command.args(["-c", given]);
        } else {
            command.env(name, value);
        }
        let output = command.args(*args).output().expect("sapwood runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        let is_refused = matches!(output.status.code(), Some(128 | 129)) && stderr.contains(named);
        let left: Vec<_> = std::fs::read_dir(sandbox.path()).expect("listed").flatten().collect();
        let is_unchanged = repo.git(&["show-ref", "--head"]).stdout == refs
            && !left.iter().any(|entry| ["new", "x.git", ".git"].iter().any(|it| entry.file_name() == *it));
        if !is_refused || !is_unchanged {
            failed.push(format!("{given} {args:?}: {:?} {stderr}", output.status.code()));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Values that change nothing are served.
#[test]
fn sapwood_serves_values_without_effect() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("a", "1\n");
    repo.commit("one");
    for (number, (given, args)) in [
        ("GIT_DIR=", &["init", "-q"][..]),
        ("GIT_DEFAULT_HASH=sha1", &["init", "-q"]),
        ("GIT_DEFAULT_REF_FORMAT=files", &["init", "-q"]),
        ("init.defaultObjectFormat=SHA1", &["init", "-q"]),
        ("feature.experimental=false", &["init", "-q"]),
        ("GIT_NAMESPACE=", &["clone", "-q", "repo"]),
    ]
    .into_iter()
    .enumerate()
    {
        let (name, value) = given.split_once('=').expect("an assignment");
        let mut command = repo.command(SAPWOOD.as_ref());
        command.current_dir(sandbox.path());
        if name.contains('.') {
            command.args(["-c", given]);
        } else {
            command.env(name, value);
        }
        let output = command.args(args).arg(format!("new-{number}")).output().expect("sapwood runs");
        assert!(output.status.success(), "{given}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Walks of history would have to follow grafts.
#[test]
fn grafts_are_refused_where_history_is_walked() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("a", "1\n");
    repo.commit("one");
    repo.write("a", "2\n");
    repo.commit("two");
    repo.write(".git/info/grafts", "");
    for args in [&["fetch", "."][..], &["reset", "HEAD^"]] {
        let run = repo.run(SAPWOOD.as_ref(), args);
        assert_eq!(run.code, 128, "{args:?}: {}", run.stderr);
        assert!(run.stderr.to_string().contains("info/grafts"), "{args:?}: {}", run.stderr);
    }
    assert_eq!(repo.run(SAPWOOD.as_ref(), &["status", "-s"]).code, 0);
}

/// The hook may forbid a change of a ref, so a command that does not run it changes none.
#[test]
fn a_hook_for_refs_is_not_skipped() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("a", "1\n");
    repo.commit("one");
    repo.write_executable(".git/hooks/reference-transaction", "#!/bin/sh\nexit 1\n");
    let refs = repo.git(&["show-ref", "--head"]).stdout;
    for args in [
        &["commit", "--allow-empty", "-m", "two"][..],
        &["switch", "-c", "new"],
        &["checkout", "--detach"],
        &["reset", "--soft", "HEAD"],
        &["symbolic-ref", "HEAD", "refs/heads/new"],
        &["worktree", "add", "../new"],
        &["update-ref", "refs/heads/new", "HEAD"],
        &["fetch", ".", "HEAD:refs/heads/new"],
    ] {
        let run = repo.run(SAPWOOD.as_ref(), args);
        assert_ne!(run.code, 0, "{args:?}");
        assert_eq!(repo.git(&["show-ref", "--head"]).stdout, refs, "{args:?}: {}", run.stderr);
    }
}
