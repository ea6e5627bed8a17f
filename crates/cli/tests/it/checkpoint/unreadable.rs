//! Files and directories that the user cannot read. Root runs the program without the capabilities
//! that override permissions.

use std::{fs::Permissions, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use serde_json::{Value, json};
use testkit::{Repo, Run, Sandbox};

use super::repository;
use crate::SAPWOOD;

/// Root without these has the rights of an ordinary owner.
const POWERLESS: [&str; 2] = ["--bounding-set=-dac_override,-dac_read_search", "--"];

fn run(repo: &Repo<'_>, args: &[&str]) -> Run {
    if sys::user::effective_uid() == 0 {
        repo.run(Path::new("setpriv"), &[&POWERLESS[..], &[SAPWOOD], args].concat())
    } else {
        repo.run(SAPWOOD.as_ref(), args)
    }
}

fn done(repo: &Repo<'_>, args: &[&str]) -> (String, String) {
    let run = run(repo, args);
    assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
    (run.stdout.to_string(), run.stderr.to_string())
}

fn refused(repo: &Repo<'_>, args: &[&str]) -> String {
    let run = run(repo, args);
    assert_eq!((run.code, run.stdout.as_slice()), (128, &b""[..]), "{args:?}");
    run.stderr.to_string()
}

/// Returns false if root cannot give up its capabilities here.
fn may_test() -> bool {
    let succeeds = |command: &mut Command| command.status().is_ok_and(|status| status.success());
    if sys::user::effective_uid() != 0 || succeeds(Command::new("setpriv").args(POWERLESS).arg("true")) {
        return true;
    }
    println!("skipped: root cannot give up its capabilities");
    false
}

fn set_mode(repo: &Repo<'_>, path: &str, mode: u32) {
    std::fs::set_permissions(repo.join(path), Permissions::from_mode(mode)).expect("ours");
}

fn warning(path: &str) -> String {
    format!("warning: '{path}' is not in the checkpoint: Permission denied\n")
}

/// The tracked and the untracked files of a directory without any permission are unknown, not gone.
#[test]
fn the_content_of_an_unreadable_directory_stays() {
    if !may_test() {
        return;
    }
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    repo.write("dir/b", "never committed\n");
    repo.write("dir/untracked", "never committed\n");
    repo.write("hidden/file", "never committed\n");
    done(&repo, &["checkpoint"]);
    repo.write("a", "2\n");
    for mode in [0, 0o111, 0o600] {
        set_mode(&repo, "dir", mode);
        set_mode(&repo, "hidden", mode);
        let (stdout, stderr) = done(&repo, &["checkpoint"]);
        assert!(stdout.starts_with("Checkpoint "), "{stdout}");
        for path in ["dir/", "hidden/"] {
            let warned = stderr.contains(&warning(path));
            // The names of a directory can be read without those of its files.
            assert!(warned || (mode == 0o600 && stderr.contains(&warning("dir/b"))), "{mode:o}: {stderr}");
        }
        set_mode(&repo, "dir", 0o755);
        set_mode(&repo, "hidden", 0o755);
    }
    repo.write("a", "3\n");
    let before = repo.git(&["ls-files", "--stage"]).stdout;
    for entry in ["2", "3", "4"] {
        done(&repo, &["undo", "-q", "--to", entry]);
        assert_eq!(repo.read("a"), "2\n", "{entry}");
        for file in ["dir/b", "dir/untracked", "hidden/file"] {
            assert_eq!(repo.read(file), "never committed\n", "{file} of {entry}");
        }
        assert_eq!(repo.git(&["ls-files", "--stage"]).stdout, before, "{entry}");
    }
    assert_eq!(repo.git(&["status", "--porcelain"]).stdout, " M a\n M dir/b\n?? dir/untracked\n?? hidden/\n");
    assert_eq!(repo.git(&["fsck", "--strict"]).stderr, "");
}

/// The index of a state is restored although a file of it was unreadable.
#[test]
fn the_index_of_an_unreadable_file_comes_back() {
    if !may_test() {
        return;
    }
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    repo.write("a", "staged\n");
    repo.git(&["add", "a"]);
    repo.write("a", "above\n");
    repo.write("new", "untracked\n");
    let index = repo.git(&["ls-files", "--stage"]).stdout;
    set_mode(&repo, "a", 0);
    set_mode(&repo, "new", 0);
    let (_, stderr) = done(&repo, &["checkpoint"]);
    assert_eq!(stderr, warning("a") + &warning("new"));
    set_mode(&repo, "a", 0o644);
    set_mode(&repo, "new", 0o644);
    repo.write("a", "later\n");
    repo.git(&["add", "a", "new"]);
    done(&repo, &["undo", "-q", "--to", "1"]);
    assert_eq!(repo.git(&["ls-files", "--stage"]).stdout, index);
    assert_eq!((repo.read("a"), repo.read("new")), ("later\n".into(), "untracked\n".into()));
    // The state before has its entry.
    done(&repo, &["undo", "-q", "--to", "2"]);
    assert_eq!(repo.git(&["status", "--porcelain"]).stdout, "M  a\nA  new\n");
}

/// An undo that would change a file that cannot be read now changes nothing.
#[test]
fn an_undo_does_not_touch_what_it_cannot_read() {
    if !may_test() {
        return;
    }
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    repo.write("dir/b", "then\n");
    repo.write("dir/untracked", "then\n");
    done(&repo, &["checkpoint"]);
    repo.write("a", "now\n");
    repo.write("dir/b", "now\n");
    repo.remove("dir/untracked");
    set_mode(&repo, "dir", 0);
    let message = "fatal: 'dir/b' cannot be read, so no checkpoint holds it: Permission denied\n";
    assert_eq!(refused(&repo, &["undo"]), message);
    set_mode(&repo, "dir", 0o755);
    repo.git(&["checkout", "-q", "dir/b"]);
    repo.write("dir/b", "then\n");
    repo.git(&["add", "dir/b"]);
    set_mode(&repo, "dir", 0);
    let message = "fatal: 'dir/untracked' cannot be read, so no checkpoint holds it: Permission denied\n";
    assert_eq!(refused(&repo, &["undo"]), message);
    set_mode(&repo, "dir", 0o755);
    assert_eq!((repo.read("a"), repo.read("dir/b")), ("now\n".into(), "then\n".into()));
    done(&repo, &["undo"]);
    assert_eq!((repo.read("a"), repo.read("dir/untracked")), ("1\n".into(), "then\n".into()));
}

/// Without its rules, an ignored file would count as untracked, and an undo would remove it.
#[test]
fn unreadable_rules_are_an_error() {
    if !may_test() {
        return;
    }
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    repo.write("new/.gitignore", "*.o\n");
    repo.write("new/big.o", "ignored\n");
    set_mode(&repo, "new/.gitignore", 0);
    let message = "fatal: cannot read the ignore rules in 'new/.gitignore': Permission denied\n";
    for args in [&["checkpoint"][..], &["undo"]] {
        assert_eq!(refused(&repo, args), message, "{args:?}");
    }
    assert_eq!(repo.git(&["for-each-ref", "refs/sapwood"]).stdout, "");
}

/// The present state cannot hold an ignored file that the user cannot read.
#[test]
fn an_unreadable_ignored_file_in_the_way_stays() {
    if !may_test() {
        return;
    }
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    repo.write("out", "then\n");
    done(&repo, &["checkpoint"]);
    repo.write(".gitignore", "out\n");
    repo.write("out", "now\n");
    set_mode(&repo, "out", 0);
    let message = "fatal: 'out' cannot be read, so no checkpoint holds it: Permission denied\n";
    assert_eq!(refused(&repo, &["undo", "--to", "1"]), message);
    set_mode(&repo, "out", 0o644);
    assert_eq!(repo.read("out"), "now\n");
}

/// The paths stand in the document too.
#[test]
fn unreadable_files_are_in_the_document() {
    if !may_test() {
        return;
    }
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    repo.write("secret", "1\n");
    set_mode(&repo, "secret", 0);
    let (stdout, _) = done(&repo, &["checkpoint", "--json"]);
    let document: Value = serde_json::from_str(&stdout).expect("a document");
    assert_eq!(document["leftOut"], json!([{ "path": "secret", "reason": "Permission denied" }]));
}
