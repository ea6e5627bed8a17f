//! Formats of a later sapwood: the program says what it met, and changes nothing
//! (docs/design/versions.md).

use std::fs;

use bstr::ByteSlice as _;
use testkit::{Repo, Run, Sandbox};

use crate::{SAPWOOD, base::Fleet, workspace::create::Place};

fn run(repo: &Repo<'_>, args: &[&str]) -> Run {
    repo.run(SAPWOOD.as_ref(), args)
}

/// Every name, mode and content below a directory. Locks of commands are empty files that may come.
fn everything(repo: &Repo<'_>) -> String {
    let script = "find . -type f ! -name lock ! -path './.git/sapwood/locks/*' -printf '%p %m ' -exec sha256sum {} \\; \
                  | sort; find . -type l -printf '%p %l\\n' | sort";
    let run = repo.run("/bin/sh".as_ref(), &["-ec", script]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.stdout.to_string()
}

#[test]
fn a_newer_record_of_a_workspace_is_refused() {
    let place = Place::new();
    let repo = place.repo();
    place.done(&["create", "-q", "--backend", "copy", "one"]);
    place.workspace("one").write("file", "unsaved\n");
    let record = repo.join(".git/sapwood/workspaces/one/record");
    let content = fs::read_to_string(&record).expect("a record");
    // The version of this program may be written too.
    fs::write(&record, format!("{content}\tversion = 1\n")).expect("written");
    assert_eq!(place.json()[0]["name"], "one");
    fs::write(&record, format!("{content}\tversion = 2\n\tnewThing = x\n")).expect("written");
    let (before, files) = (everything(&repo), everything(&place.workspace("one")));
    let words = "has version 2, and this sapwood reads version 1: use a newer sapwood";
    for args in [
        &["list"][..],
        &["mount", "one"],
        &["unmount", "one"],
        &["remove", "-f", "one"],
        &["move", "one", "../other"],
        &["rebase", "one", "HEAD~1"],
        &["freeze", "one"],
        &["land", "one"],
        &["gc"],
        &["gc", "--all"],
    ] {
        let run = place.run(args);
        // Those that look at all workspaces go on with the others.
        let is_told = run.code != 0 || ["list", "gc"].contains(&args[0]);
        assert!(is_told && run.stderr.contains_str(words), "{args:?}: {} {}", run.code, run.stderr);
        assert_eq!(everything(&repo), before, "{args:?}");
        assert_eq!(everything(&place.workspace("one")), files, "{args:?}");
    }
    fs::write(&record, content).expect("written");
    place.done(&["remove", "-f", "one"]);
}

#[test]
fn a_newer_checkpoint_is_named_and_stays() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("a", "1\n");
    repo.commit("one");
    assert_eq!(run(&repo, &["checkpoint", "-q"]).code, 0);
    repo.write("a", "2\n");
    assert_eq!(run(&repo, &["checkpoint", "-q"]).code, 0);
    // The second entry as a later sapwood would write it.
    let entry = "refs/sapwood/checkpoints/main/2";
    let script = format!(
        "blob=$(git cat-file blob {entry}:info | sed 's/^version 1$/version 2/' | git hash-object -w --stdin)
         tree=$(git ls-tree {entry} | sed \"s/[0-9a-f]\\{{40,\\}}\\tinfo/$blob\\tinfo/\" | git mktree)
         git update-ref {entry} $tree"
    );
    let made = repo.run("/bin/sh".as_ref(), &["-ec", &script]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let refs = repo.git(&["for-each-ref"]).stdout;
    let words = "a newer sapwood wrote it, in version 2 of the format";
    let undo = run(&repo, &["undo", "--to", "2"]);
    assert!(undo.code == 128 && undo.stderr.contains_str(words), "{}: {}", undo.code, undo.stderr);
    let listed = run(&repo, &["checkpoints"]);
    assert!(listed.stderr.contains_str(words), "{}{}", listed.stdout, listed.stderr);
    assert_eq!(repo.git(&["for-each-ref"]).stdout, refs);
    assert_eq!(repo.read("a"), "2\n");
    // The others work, and the newer one stays beside them.
    repo.write("a", "3\n");
    let undo = run(&repo, &["undo", "--to", "1"]);
    assert_eq!((undo.code, repo.read("a")), (0, "1\n".into()), "{}", undo.stderr);
    let now = repo.git(&["for-each-ref"]).stdout;
    assert!(refs.lines().all(|line| now.lines().any(|other| other == line)), "{now}");
}

#[test]
fn a_newer_base_of_a_remote_is_refused() {
    let fleet = Fleet::new();
    fleet.push();
    let head = fleet.commit("HEAD");
    let manifest = fleet.dir().join("commits").join(&head);
    let content = fs::read_to_string(&manifest).expect("the manifest");
    let newer = content.replacen("\"version\": 1", "\"version\": 2", 1);
    assert_ne!(newer, content);
    fs::write(&manifest, newer).expect("written");
    let host = fleet.host("host");
    let remote = fleet.remote();
    let before = (everything(&host), fleet.stored(""));
    for (repo, args) in
        [(&host, &["base", "pull", "-q", &remote, &head][..]), (&host, &["base", "verify", &remote, &head])]
    {
        let run = run(repo, args);
        let said = format!("{}{}", run.stdout, run.stderr);
        assert!(
            run.code != 0 && said.contains("it has version 2; this program reads version 1"),
            "{args:?}: {said}"
        );
        assert_eq!((everything(&host), fleet.stored("")), before, "{args:?}");
    }
}
