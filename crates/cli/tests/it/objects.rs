//! Objects that are stored elsewhere or replaced: alternates and `refs/replace/`.

use std::path::Path;

use bstr::ByteSlice as _;
use testkit::{Oracle, Repo, Sandbox};

use crate::SAPWOOD;

/// Creates `main` and `topic` with two files, and three commits on `spare` to replace others with.
fn history(repo: &Repo<'_>) {
    let commit = |word: &str| {
        repo.write("a", format!("{word}\n"));
        repo.write("dir/b", format!("{word} b\n"));
        repo.commit(word);
    };
    commit("first");
    repo.git(&["branch", "topic"]);
    commit("second");
    repo.git(&["switch", "-q", "-c", "spare"]);
    for word in ["one", "two", "three"] {
        commit(word);
    }
    repo.git(&["switch", "-q", "main"]);
}

#[test]
fn reports_missing_alternates_and_continues() {
    let oracle = Oracle::new(SAPWOOD, history);
    oracle.both(|repo| {
        repo.write(
            ".git/objects/info/alternates",
            "# gone\n/nowhere/objects\n../../gone\n\"../../g\\157ne\"\n",
        );
        repo.write("sub/.keep", "");
    });
    for args in [
        &["switch", "topic"][..],
        &["switch", "-"],
        &["checkout", "-b", "new"],
        &["switch", "-c", "newer"],
        &["switch", "-d", "topic"],
        &["checkout", "main", "--", "a"],
        &["checkout", "--", "a"],
        &["restore", "--staged", "."],
        &["reset", "--hard"],
        &["reset", "--soft", "topic"],
        &["reset", "-q", "--", "a"],
        &["status"],
        &["status", "-s", "--", "nosuch"],
        // These commands read no object.
        &["ls-files", "-s"],
        &["switch", "nosuch"],
        &["switch"],
        &["checkout", "nosuch"],
        &["checkout", "--", "nosuch"],
        &["restore", "nosuch"],
    ] {
        oracle.same(args);
    }
    let said = oracle.same_in("sub", &["checkout", "-f", "main"]).stderr;
    assert!(
        said.contains_str("error: unable to normalize alternate object path: /nowhere/objects\n"),
        "{said}"
    );
    let gone = "/repo/gone does not exist; check .git/objects/info/alternates\n";
    assert_eq!(said.find_iter(gone).count(), 2, "{said}");
}

#[test]
fn continues_without_an_unreadable_list_of_alternates() {
    let oracle = Oracle::new(SAPWOOD, history);
    oracle.both(|repo| repo.write(".git/objects/info/alternates/in-its-place", ""));
    for args in [
        &["status"][..],
        &["switch", "topic"],
        &["checkout", "main", "--", "a"],
        &["reset", "--hard"],
        &["diff-index", "HEAD"],
        &["ls-files", "-s"],
    ] {
        oracle.same(args);
    }
    let said = oracle.same(&["status", "-s"]).stderr;
    assert!(said.contains_str("warning: unable to access '.git/objects/info/alternates': "), "{said}");
}

/// Alternates and replacements are read when the first object is read.
#[test]
fn reads_alternates_and_replacements_only_with_the_first_object() {
    let oracle = Oracle::new(SAPWOOD, history);
    oracle.both(|repo| {
        repo.symlink("alternates", ".git/objects/info/alternates");
        repo.git(&["pack-refs", "--all"]);
        std::fs::remove_dir_all(repo.join(".git/refs/replace")).ok();
        repo.symlink("replace", ".git/refs/replace");
        repo.write("new", "new\n");
    });
    for args in [
        &["ls-files", "-s"][..],
        &["ls-files", "-o", "--exclude-standard"],
        &["diff-files"],
        &["update-index", "--refresh"],
        &["check-ignore", "-v", "new"],
        &["check-attr", "text", "a"],
    ] {
        oracle.same(args);
    }
    // Git ignores replacements that it cannot read. sapwood fails, because the replacement might be
    // another object.
    let run = oracle.ours().run(Path::new(SAPWOOD), &["status"]);
    assert_eq!(run.code, 128, "{run:?}");
    assert!(run.stderr.contains_str("refs/replace/': Too many levels of symbolic links"), "{run:?}");
}

#[test]
fn replaces_commits_and_trees() {
    let oracle = Oracle::new(SAPWOOD, history);
    oracle.both(|repo| {
        repo.git(&["replace", "topic", "spare~2"]);
        repo.git(&["replace", "main^{tree}", "spare^{tree}"]);
        repo.git(&["replace", "topic:dir", "spare:dir"]);
        repo.git(&["update-ref", "refs/other/replaced", "spare"]);
        // The replacements are in packed-refs as well as in loose refs.
        repo.git(&["pack-refs", "--all"]);
        repo.git(&["replace", "spare~1", "main~1"]);
        repo.git(&["update-index", "-q", "--refresh"]);
    });
    for args in [
        &["checkout", "-f", "main"][..],
        &["switch", "topic"],
        &["-c", "core.useReplaceRefs=false", "switch", "main"],
        &["--no-replace-objects", "reset", "--hard"],
        &["reset", "--hard", "main"],
        &["checkout", "topic", "--", "."],
        &["checkout", "-f", "spare~1"],
        &["reset", "--keep", "topic"],
        &["restore", "--source=main", "--staged", "--worktree", "."],
    ] {
        oracle.same(args);
    }
    oracle.same(&["checkout", "-f", "-q", "main"]);
    assert_eq!(oracle.ours().read("a"), "three\n");
    oracle.same(&["--no-replace-objects", "checkout", "-f", "-q", "main"]);
    assert_eq!(oracle.ours().read("a"), "second\n");
}

/// The file has the replacement's content, and the index has the id of the replaced blob. If Git
/// compares the content later, it reports the file as changed. So `status` depends on the clock and
/// is not compared.
#[test]
fn replaces_blobs_in_the_worktree_only() {
    let oracle = Oracle::new(SAPWOOD, history);
    oracle.both(|repo| {
        repo.git(&["switch", "-q", "topic"]);
        repo.git(&["replace", "main:a", "spare:a"]);
        // A replacement may itself be replaced.
        repo.git(&["replace", "spare:a", "spare~1:a"]);
    });
    for args in [&["switch", "main"][..], &["checkout", "-f", "topic"], &["checkout", "main", "--", "a"]] {
        let theirs = oracle.git().try_git(args);
        let ours = oracle.ours().run(Path::new(SAPWOOD), args);
        assert_eq!(theirs, ours, "{args:?}: git left, ours right");
        let [theirs, ours] = [oracle.git(), oracle.ours()].map(|repo| oracle.snapshot(&repo));
        assert_eq!(theirs.worktree, ours.worktree, "{args:?}: git left, ours right");
        assert_eq!(theirs.index, ours.index, "{args:?}: git left, ours right");
    }
    assert_eq!(oracle.ours().read("a"), "two\n");
    let staged = |rev: &str| oracle.ours().git(&["--no-replace-objects", "rev-parse", rev]).stdout;
    assert_eq!(staged(":a"), staged("main:a"));
}

#[test]
fn reads_replacements_from_another_namespace() {
    let sandbox = Sandbox::new();
    let made: Vec<Repo<'_>> = ["git", "ours"].map(|name| sandbox.init(name)).into();
    let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned());
    for (base, no_replace) in [("refs/mine/", None), ("refs/mine/", Some("1"))] {
        let run = |repo: &Repo<'_>, program: &str, args: &[&str]| {
            let mut command = repo.command(Path::new(program));
            command.env("GIT_REPLACE_REF_BASE", base).args(args);
            if let Some(value) = no_replace {
                command.env("GIT_NO_REPLACE_OBJECTS", value);
            }
            let output = command.output().expect("can be run");
            (output.status.code(), output.stderr.to_str_lossy().into_owned())
        };
        let said: Vec<_> = made
            .iter()
            .zip([git.as_str(), SAPWOOD])
            .map(|(repo, program)| {
                if !repo.exists("a") {
                    history(repo);
                    let main = repo.git(&["rev-parse", "main"]).stdout.trim().to_str_lossy().into_owned();
                    repo.git(&["update-ref", &format!("refs/mine/below/{main}"), "spare"]);
                    repo.git(&["update-ref", "refs/mine/not-a-name", "spare"]);
                }
                let answer = run(repo, program, &["checkout", "-f", "main"]);
                (answer, repo.read("a"))
            })
            .collect();
        assert_eq!(said[0], said[1], "{base} {no_replace:?}: git left, ours right");
        let replaced = no_replace.is_none();
        assert_eq!(said[1].1, if replaced { "three\n" } else { "second\n" });
        assert_eq!(said[1].0.1.contains("warning: bad replace ref name: "), replaced, "{}", said[1].0.1);
    }
}

#[test]
fn resolves_alternates_of_the_environment_at_the_top_of_the_worktree() {
    let sandbox = Sandbox::new();
    let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned());
    let answers = [("git", git.as_str()), ("ours", SAPWOOD)].map(|(name, program)| {
        let repo = sandbox.init(name);
        history(&repo);
        repo.write("sub/keep", "");
        std::fs::rename(repo.join(".git/objects"), repo.join("lent")).expect("on one file system");
        std::fs::create_dir(repo.join(".git/objects")).expect("its place is free");
        let mut command = repo.command(Path::new(program));
        command.current_dir(repo.join("sub")).env("GIT_ALTERNATE_OBJECT_DIRECTORIES", "lent");
        let output = command.args(["checkout", "topic"]).output().expect("can be run");
        (output.status.code(), output.stderr.to_str_lossy().into_owned(), repo.read("a"))
    });
    assert_eq!(answers[0], answers[1], "git left, ours right");
    assert_eq!(answers[1].0, Some(0), "{}", answers[1].1);
}
