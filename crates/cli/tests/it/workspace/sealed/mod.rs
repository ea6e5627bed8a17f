//! Sealed workspaces: Git works with nothing but their directory, and `land` brings commits back.

mod beside;
mod checks;
mod hostile;
mod hostile_objects;
mod killed;
mod links;
mod rebase;
mod sandbox;
mod unsaved;

use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

use super::create::{Place, leftovers};

/// The backends that serve a sealed workspace on any disk.
const BACKENDS: [&str; 4] = ["image", "overlay", "fuse", "copy"];

/// Returns all files and directories below `dir`, with their modes and contents. Their times may
/// change: Git marks an object as fresh that a commit uses again, and the file has another link.
fn listing(dir: &Path) -> Vec<(String, u32, Vec<u8>)> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(above) = pending.pop() {
        for entry in fs::read_dir(&above).expect("a directory") {
            let path = entry.expect("an entry").path();
            let stat = fs::symlink_metadata(&path).expect("metadata");
            let content = if stat.is_file() { fs::read(&path).expect("a file") } else { Vec::new() };
            found.push((path.display().to_string(), stat.mode(), content));
            if stat.is_dir() {
                pending.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_sealed_workspace_is_a_repository_of_its_own() {
    for backend in BACKENDS {
        let place = Place::new();
        let repo = place.repo();
        repo.git(&["gc", "-q"]);
        repo.write("loose", "loose\n");
        repo.commit("three");
        repo.git(&["tag", "-m", "text", "v1"]);
        repo.git(&["branch", "other", "HEAD~1"]);
        place.done(&["create", "-q", "--sealed", "one", "--backend", backend]);
        let workspace = place.workspace("one");
        assert!(workspace.join(".git").is_dir(), "{backend}");
        assert!(!repo.join(".git/worktrees").exists(), "{backend}");
        for absent in ["objects/info/alternates", "commondir", "gitdir", "config.worktree"] {
            assert!(!workspace.join(".git").join(absent).exists(), "{backend}: {absent}");
        }
        let git = |args: &[&str]| workspace.git(args).stdout.to_string();
        assert_eq!(git(&["status", "--porcelain", "--ignored", "-b"]), "## one\n", "{backend}");
        assert_eq!(git(&["rev-parse", "HEAD", "origin/other", "v1^{}"]), {
            repo.git(&["rev-parse", "HEAD", "other", "v1^{}"]).stdout.to_string()
        });
        assert_eq!(git(&["fsck", "--strict", "--no-dangling"]), "");
        let all = place.json();
        assert_eq!((&all[0]["sealed"], &all[0]["branch"]), (&true.into(), &"one".into()), "{all}");
        workspace.write("new/file", "mine\n");
        workspace.commit("mine");
        // Nothing of the repository is lost or known there.
        repo.git(&["gc", "-q", "--prune=now"]);
        assert_eq!(git(&["fsck", "--strict", "--no-dangling"]), "");
        let refused = place.run(&["remove", "one"]);
        assert_ne!(refused.code, 0, "{backend}: {}", refused.stderr);
        assert!(refused.stderr.to_string().contains("land it"), "{}", refused.stderr);
        if backend != "copy" {
            place.done(&["unmount", "-q", "one"]);
            assert!(!workspace.exists("file") && workspace.join(".git").is_file());
            place.done(&["mount", "-q", "one"]);
        }
        assert_eq!(git(&["log", "--format=%s", "-2"]), "mine\nthree\n", "{backend}");
        let landed = place.done(&["land", "--json", "one"]);
        let landed: serde_json::Value = serde_json::from_str(&landed).expect("JSON");
        assert_eq!((&landed[0]["change"], &landed[0]["objects"]), (&"created".into(), &4.into()), "{landed}");
        assert_eq!(repo.git(&["show", "one:new/file"]).stdout, "mine\n");
        assert_eq!(repo.git(&["fsck", "--strict", "--no-dangling"]).stdout, "");
        let log = repo.git(&["reflog", "one"]).stdout.to_string();
        assert!(log.contains("workspace land: one: created"), "{log}");
        workspace.write("untracked", "x");
        assert_ne!(place.run(&["remove", "one"]).code, 0, "{backend}: an untracked file");
        workspace.remove("untracked");
        workspace.write("file", "edited\n");
        assert_ne!(place.run(&["remove", "one"]).code, 0, "{backend}: an edited file");
        workspace.git(&["checkout", "-q", "file"]);
        workspace.write("ignored.o", "x");
        let removed = place.run(&["remove", "one"]);
        assert_eq!(removed.code, 0, "{backend}: {}", removed.stderr);
        assert!(leftovers(&place).is_empty(), "{backend}: {:?}", leftovers(&place));
    }
}

#[test]
fn landing_moves_forward_merges_or_changes_nothing() {
    let place = Place::new();
    let repo = place.repo();
    repo.git(&["checkout", "-q", "-b", "work"]);
    repo.git(&["branch", "trunk"]);
    for name in ["a", "b", "c"] {
        place.done(&["create", "-q", "--sealed", name, "trunk"]);
    }
    place.done(&["create", "-q", "d", "trunk", "-b", "d"]);
    place.workspace("a").write("a", "a\n");
    place.workspace("b").write("b", "b\n");
    place.workspace("c").write("a", "other\n");
    place.workspace("c").write("dir/deep/file", "also\n");
    place.workspace("d").write("d", "d\n");
    for name in ["a", "b", "c", "d"] {
        place.workspace(name).commit(name);
    }
    let refs = repo.git(&["for-each-ref"]).stdout;
    let failed = place.run(&["land", "a", "--onto", "work"]);
    assert_eq!(failed.code, 128, "{}", failed.stderr);
    assert!(failed.stderr.to_string().contains("checked out"), "{}", failed.stderr);
    let failed = place.run(&["land", "a", "--onto", "trunk", "--check", "test ! -e a"]);
    assert_eq!(failed.code, 1, "{}", failed.stderr);
    assert_eq!(repo.git(&["for-each-ref"]).stdout, refs, "a check that failed changed a ref");
    assert_eq!(place.json().as_array().expect("a list").len(), 4, "a check left its workspace");
    let all = place.run(&["land", "--all", "--onto", "trunk", "--check", "test -e a", "--json"]);
    assert_eq!(all.code, 1, "{}", all.stderr);
    let report: serde_json::Value = serde_json::from_str(&all.stdout.to_string()).expect("JSON");
    let changes: Vec<_> = (0..4).map(|at| report[at]["change"].clone()).collect();
    assert_eq!(changes, ["fast-forward".into(), "merge".into(), serde_json::Value::Null, "merge".into()]);
    assert_eq!(report[2]["conflicts"], serde_json::json!(["a"]), "{report}");
    let files = repo.git(&["ls-tree", "-r", "--name-only", "trunk"]).stdout.to_string();
    assert!(files.contains("a\nb\nd\n"), "{files}");
    assert_eq!(repo.git(&["show", "trunk:a"]).stdout, "a\n");
    assert_eq!(repo.git(&["fsck", "--strict", "--no-dangling"]).stdout, "");
    // A second time there is nothing to do.
    let before = repo.git(&["rev-parse", "trunk"]).stdout;
    place.done(&["land", "a", "b", "d", "--onto", "trunk"]);
    assert_eq!(repo.git(&["rev-parse", "trunk"]).stdout, before);
}

#[test]
fn a_workspace_gets_settings_and_hooks_of_its_own() {
    let place = Place::new();
    let repo = place.repo();
    repo.git(&["config", "user.name", "Somebody"]);
    repo.write_executable(".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n");
    repo.write_executable("../own/pre-commit", "#!/bin/sh\necho own >&2\n");
    let commits = |name: &str| {
        let workspace = place.workspace(name);
        workspace.write("f", name);
        workspace.git(&["add", "f"]);
        let run = workspace.try_git(&["commit", "-q", "-m", "x"]);
        (run.code, run.stderr.to_string())
    };
    for (kind, name) in [(&["--sealed"][..], "s"), (&[], "l")] {
        let made = |suffix: &str, hooks: &[&str]| {
            let name = format!("{name}-{suffix}");
            let args = [&["create", "-q", &name], kind, &["--config", "a.b=c d"], hooks].concat();
            place.done(&args);
            let value = place.workspace(&name).git(&["config", "a.b"]).stdout.to_string();
            assert_eq!(value, "c d\n");
            commits(&name)
        };
        assert_eq!(made("none", &["--hooks", "none"]).0, 0);
        assert_eq!(made("repository", &["--hooks", "repository"]).0, 1);
        assert_eq!(made("own", &["--hooks", "../own"]), (0, "own\n".to_owned()));
        assert_eq!(made("default", &[]).0, i32::from(kind.is_empty()));
    }
    assert_ne!(repo.try_git(&["config", "a.b"]).code, 0);
    let name = place.workspace("s-none").git(&["config", "--local", "user.name"]).stdout;
    assert_eq!(name, "Somebody\n");
}

#[test]
fn objects_come_from_alternates_too_and_in_the_wanted_way() {
    let place = Place::new();
    let repo = place.repo();
    let sandbox = &place.sandbox;
    let path = repo.path.to_str().expect("a plain name").to_owned();
    sandbox.repo("").git(&["clone", "-q", "--shared", &path, "borrower"]);
    let borrower = sandbox.repo("borrower");
    borrower.git(&["config", "sapwood.baseDir", place.bases().to_str().expect("a plain name")]);
    borrower.write("more", "more\n");
    borrower.commit("more");
    for (way, links) in [("link", 2), ("copy", 1), ("auto", 2)] {
        let args = ["workspace", "create", "-q", "--sealed", "--objects", way, "--backend", "copy", way];
        let run = borrower.run(crate::SAPWOOD.as_ref(), &args);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let workspace = sandbox.repo(&format!("borrower.workspaces/{way}"));
        assert_eq!(workspace.git(&["fsck", "--strict", "--no-dangling"]).stdout, "");
        let oid = borrower.git(&["rev-parse", "HEAD"]).stdout.to_string();
        let file = workspace.join(format!(".git/objects/{}/{}", &oid[..2], oid[2..].trim_end()));
        let found = fs::metadata(file).expect("a loose object").nlink();
        assert!(found == links || way == "auto", "{way}: {found} links");
    }
    let run = borrower.run(crate::SAPWOOD.as_ref(), &["workspace", "create", "--objects", "copy", "x"]);
    assert_eq!(run.code, 128, "{}", run.stderr);
}

#[test]
fn commands_that_do_not_serve_a_sealed_workspace_say_so() {
    let place = Place::new();
    place.done(&["create", "-q", "--sealed", "one"]);
    for args in [
        &["rebase", "one", "HEAD~1"][..],
        &["move", "one", "elsewhere"],
        &["exec", "--at", "/tmp", "one", "true"],
    ] {
        let run = place.run(args);
        assert_eq!(run.code, 128, "{args:?}: {}", run.stderr);
        assert!(run.stderr.to_string().contains("is sealed"), "{args:?}: {}", run.stderr);
    }
    for option in ["--recurse-submodules", "--at=/tmp/x"] {
        assert_eq!(place.run(&["create", "--sealed", option, "two"]).code, 128);
    }
    assert_eq!(place.run(&["create", "--sealed", "--backend", "overlay-user", "two"]).code, 128);
    place.done(&["freeze", "-q", "one"]);
    place.done(&["thaw", "-q", "one"]);
    assert_eq!(place.workspace("one").git(&["status", "--porcelain"]).stdout, "");
    assert_eq!(place.done(&["gc", "--json"]), "[]\n");
    place.done(&["exec", "one", "--", "true"]);
    place.done(&["create", "-q", "--sealed", "--exec", "three", "--", "sh", "-c", "test -d .git"]);
    assert_eq!(place.json().as_array().expect("a list").len(), 1);
}

#[test]
fn a_setting_makes_worktrees_sealed() {
    let place = Place::new();
    let repo = place.repo();
    repo.git(&["config", "sapwood.worktree", "workspace"]);
    repo.git(&["config", "sapwood.sealed", "true"]);
    let add = |args: &[&str]| repo.run(crate::SAPWOOD.as_ref(), &[&["worktree", "add"], args].concat());
    let run = add(&["../agent", "HEAD~1"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let agent = place.sandbox.repo("agent");
    assert_eq!(agent.git(&["status", "--porcelain", "-b"]).stdout, "## agent\n");
    assert_eq!(agent.git(&["rev-parse", "HEAD"]).stdout, repo.git(&["rev-parse", "HEAD~1"]).stdout);
    assert_eq!(place.json()[0]["sealed"], true);
    assert_eq!(add(&["--orphan", "../other"]).code, 128);
    place.done(&["remove", "agent"]);
}

/// The filter puts a directory in the way of the record, which the creation writes at its end.
#[test]
fn a_creation_that_fails_at_its_end_leaves_nothing() {
    let place = Place::new();
    let repo = place.repo();
    repo.write(".gitattributes", "file filter=x\n");
    repo.commit("attributes");
    let lock = repo.join(".git/sapwood/workspaces/one/record.lock/x");
    repo.git(&["config", "--global", "filter.x.smudge", &format!("mkdir -p {}; cat", lock.display())]);
    let args = ["create", "-q", "--sealed", "one", "--backend", "copy"];
    let failed = place.run(&args);
    assert!(failed.code != 0 && failed.stderr.to_string().contains("record.lock"), "{}", failed.stderr);
    assert!(leftovers(&place).is_empty(), "{:?}", leftovers(&place));
    repo.git(&["config", "--global", "--unset", "filter.x.smudge"]);
    place.done(&args);
}
