//! Sealed workspaces beside worktrees of their name, beside commands that are making them, and
//! beside a repository that changes while it is copied.

use std::{fs, process::Command};

use testkit::{
    Repo,
    crash::{Crash, CrashPoints},
};

use super::super::create::{Place, leftovers};
use crate::killed::{ALL, Most, at_crash_points, sapwood};

/// Adds an ordinary worktree whose administrative directory is called `name`.
fn worktree(place: &Place, name: &str) {
    place.repo().git(&["worktree", "add", "-q", "--detach", &format!("../plain/{name}")]);
    assert!(place.repo().exists(format!(".git/worktrees/{name}")));
}

#[test]
fn a_worktree_of_the_same_name_is_another_one() {
    for backend in ["overlay", "copy"] {
        let place = Place::new();
        let repo = place.repo();
        place.done(&["create", "-q", "--sealed", "one", "--backend", backend]);
        worktree(&place, "one");
        let plain = place.sandbox.repo("plain/one");
        let (sealed, other) = (place.workspace("one"), || plain.git(&["rev-parse", "HEAD"]).stdout);
        let before = other();
        sealed.write("own", "own\n");
        sealed.commit("own");
        // Each command of the workspace means the sealed one.
        let all = place.json();
        assert_eq!((all.as_array().map(Vec::len), &all[0]["branch"]), (Some(1), &"one".into()), "{all}");
        assert_eq!((&all[0]["moved"], &all[0]["locked"]), (&false.into(), &true.into()), "{all}");
        assert_eq!(place.done(&["gc", "--json"]), "[]\n");
        place.done(&["gc", "--landed", "--idle", "0s"]);
        let landed = place.done(&["land", "--json", "one"]);
        assert!(landed.contains("created"), "{landed}");
        assert_eq!(repo.git(&["show", "one:own"]).stdout, "own\n");
        for args in [&["rebase", "one", "HEAD~1"][..], &["move", "one", "../elsewhere"]] {
            assert_ne!(place.run(args).code, 0, "{args:?}");
        }
        // Commands of the worktree mean the other one, and treat it as no workspace.
        let run = |args: &[&str]| repo.run(crate::SAPWOOD.as_ref(), args);
        assert_eq!(run(&["worktree", "lock", "../plain/one"]).code, 0);
        assert_eq!(fs::read(repo.join(".git/worktrees/one/locked")).expect("a lock"), b"");
        assert_eq!(run(&["worktree", "unlock", "../plain/one"]).code, 0);
        plain.write("file", "edited\n");
        let status = plain.run(crate::SAPWOOD.as_ref(), &["status", "--porcelain"]);
        assert_eq!((status.code, status.stdout.to_string()), (0, " M file\n".to_owned()));
        assert_eq!(plain.run(crate::SAPWOOD.as_ref(), &["commit", "-qam", "edited"]).code, 0);
        assert_ne!(other(), before);
        assert_eq!(run(&["worktree", "move", "../plain/one", "../plain/two"]).code, 0);
        place.done(&["remove", "one"]);
        assert!(repo.exists(".git/worktrees/one/HEAD"), "{backend}: the other one has lost its directory");
        let moved = place.sandbox.repo("plain/two");
        assert_eq!(moved.git(&["status", "--porcelain"]).stdout, "", "{backend}");
        // The name is taken, in both ways.
        let refused = place.run(&["create", "--sealed", "one"]);
        assert_eq!(refused.code, 128, "{backend}: {}", refused.stderr);
        assert!(refused.stderr.to_string().contains("a worktree 'one' exists"), "{}", refused.stderr);
        place.done(&["create", "-q", "--sealed", "three", "--backend", backend]);
        let refused = place.run(&["create", "three"]);
        assert_eq!(refused.code, 128, "{backend}: {}", refused.stderr);
        assert_eq!(run(&["worktree", "remove", "../plain/two"]).code, 0);
        assert_eq!(place.workspace("three").git(&["status", "--porcelain"]).stdout, "");
        place.done(&["remove", "three"]);
        assert!(leftovers(&place).is_empty(), "{backend}: {:?}", leftovers(&place));
    }
}

#[test]
fn the_rest_of_a_linked_workspace_takes_nothing_from_a_sealed_one() {
    let place = Place::new();
    let repo = place.repo();
    place.done(&["create", "-q", "--sealed", "one", "--backend", "overlay"]);
    place.workspace("one").write("mine", "mine\n");
    place.done(&["unmount", "-q", "one"]);
    // As a killed removal of a linked workspace in this directory leaves it.
    let admin = repo.join(".git/worktrees/one");
    fs::create_dir_all(&admin).expect("a directory");
    let gitfile = place.workspace("one").join(".git");
    for (name, content) in [
        ("locked", "sapwood workspace".to_owned()),
        ("gitdir", format!("{}\n", gitfile.display())),
        ("commondir", "../..\n".to_owned()),
        ("HEAD", "ref: refs/heads/one\n".to_owned()),
    ] {
        fs::write(admin.join(name), content).expect("written");
    }
    place.done(&["gc", "-q"]);
    assert!(!admin.exists() && gitfile.is_file(), "the mark of the unmounted workspace is gone");
    place.done(&["mount", "-q", "one"]);
    assert_eq!(place.workspace("one").git(&["status", "--porcelain"]).stdout, "?? mine\n");
}

/// Changes a line of the record of a workspace.
fn edit_record(place: &Place, name: &str, edit: impl Fn(&str) -> String) {
    let record = place.repo().join(format!(".git/sapwood/workspaces/{name}/record"));
    let content = fs::read_to_string(&record).expect("a record");
    fs::write(record, edit(&content)).expect("written");
}

#[test]
fn a_workspace_that_is_being_made_is_left_alone() {
    for backend in ["overlay", "copy"] {
        let place = Place::new();
        place.done(&["create", "-q", "--sealed", "one", "--backend", backend]);
        place.done(&["create", "-q", "two"]);
        // A process that runs is making it.
        let pid = std::process::id();
        edit_record(&place, "one", |content| format!("{content}\tbegun = {pid}\n"));
        let workspace = place.workspace("one");
        workspace.write("half", "half\n");
        for args in [
            &["land", "one"][..],
            &["mount", "one"],
            &["unmount", "one"],
            &["freeze", "one"],
            &["thaw", "one"],
            &["exec", "one", "--", "true"],
            &["sync", "one"],
            &["remove", "one"],
            &["remove", "--force", "one"],
        ] {
            if backend == "copy" && matches!(args[0], "mount" | "unmount" | "freeze" | "thaw") {
                continue;
            }
            let run = place.run(args);
            assert_ne!(run.code, 0, "{backend}: {args:?}: {}", run.stdout);
            let said = run.stderr.to_string();
            assert!(said.contains(&format!("is being created by process {pid}")), "{args:?}: {said}");
        }
        let all = place.json();
        assert_eq!((&all[0]["begun"], &all[1]["begun"]), (&true.into(), &false.into()), "{all}");
        assert_eq!(all[0]["commit"], serde_json::Value::Null);
        assert!(place.done(&["list"]).contains("being created"));
        let found: serde_json::Value =
            serde_json::from_str(&place.run(&["conflicts", "--json"]).stdout.to_string()).expect("JSON");
        assert!(found["notExamined"][0]["reason"].to_string().contains("being created"), "{found}");
        for args in [&["mount", "--all"][..], &["gc"], &["gc", "--landed"], &["sync", "--all"]] {
            place.done(args);
        }
        let landed = place.done(&["land", "--all", "--json"]);
        assert!(!landed.contains("\"one\"") && landed.contains("\"two\""), "{landed}");
        assert_eq!(fs::read_to_string(workspace.join("half")).expect("it stays"), "half\n");
        // The process is gone, and there are files: gc keeps the workspace.
        edit_record(&place, "one", |content| content.replace(&format!("begun = {pid}"), "begun = 4194304"));
        let refused = place.run(&["land", "one"]);
        assert!(refused.stderr.to_string().contains("was interrupted"), "{}", refused.stderr);
        if backend == "overlay" {
            place.done(&["gc", "-q"]);
            assert_eq!(workspace.git(&["status", "--porcelain"]).stdout, "?? half\n");
            place.done(&["land", "one"]);
        }
    }
}

#[test]
fn gc_removes_what_a_killed_check_has_left() {
    let place = Place::new();
    let repo = place.repo();
    repo.git(&["branch", "trunk"]);
    place.done(&["create", "-q", "--sealed", "one", "--backend", "overlay"]);
    // A user may call a workspace as a check is called. The number is of no process.
    place.done(&["create", "-q", "land-check-4194304", "--backend", "overlay"]);
    place.workspace("one").write("own", "own\n");
    place.workspace("one").commit("own");
    let land = || {
        let mut land = sapwood(&repo, &["workspace", "land", "-q", "one", "--onto", "trunk"]);
        // The shell ends its parent, the landing, which has the lowest number of the two.
        land.args(["--check", "kill -KILL $PPID; sleep 0.1"]);
        land.status().expect("it runs")
    };
    assert!(!land().success());
    let names = |all: &serde_json::Value| -> Vec<String> {
        let all = all.as_array().expect("a list");
        all.iter().map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names(&place.json()).len(), 3, "the kill has left no workspace");
    let before = repo.git(&["rev-parse", "trunk"]).stdout;
    assert_eq!(before, repo.git(&["rev-parse", "HEAD"]).stdout, "a killed check landed something");
    let found = place.done(&["gc", "--json"]);
    assert!(found.contains("the check of a landing was interrupted"), "{found}");
    assert_eq!(names(&place.json()), ["land-check-4194304", "one"]);
    // The next check removes it too, and lands.
    assert!(!land().success());
    place.done(&["land", "-q", "one", "--onto", "trunk", "--check", "test -e own"]);
    assert_eq!(names(&place.json()), ["land-check-4194304", "one"]);
    place.done(&["land", "-q", "--all", "--onto", "trunk"]);
    assert_eq!(place.done(&["gc", "--json"]), "[]\n");
}

/// A workspace in which a check runs belongs to the landing.
#[test]
fn a_running_check_is_no_workspace_of_the_user() {
    let place = Place::new();
    place.repo().git(&["branch", "trunk"]);
    place.done(&["create", "-q", "--sealed", "one"]);
    place.workspace("one").write("own", "own\n");
    place.workspace("one").commit("own");
    // The pair of this workspace and that of the check would be listed.
    place.done(&["create", "-q", "two"]);
    place.workspace("two").write("own", "other\n");
    place.workspace("two").commit("other");
    let repo = place.repo();
    let inner = |command: &str| format!("{} -C {} workspace {command}", crate::SAPWOOD, repo.path.display());
    let record = repo.join(".git/sapwood/workspaces/$(basename \"$PWD\")/record");
    // In another namespace of processes, the number is of no process.
    let check = format!(
        "sed -i 's/check = .*/check = 4194304/' {} && {} && test -e own && test -e ../two && {} >../said; \
         test $? -le 2 && ! grep land-check ../said",
        record.display(),
        inner("gc --landed --idle 0s"),
        inner("conflicts --json"),
    );
    place.done(&["land", "-q", "one", "--onto", "trunk", "--check", &check]);
    assert_eq!(place.json().as_array().expect("a list").len(), 2);
    let said = fs::read_to_string(repo.join("../repo.workspaces/said")).expect("an answer");
    assert!(said.contains("notExamined"), "{said}");
}

/// A layer that cannot be read may hold anything.
#[test]
fn an_upper_layer_that_cannot_be_read_is_no_unchanged_one() {
    let place = Place::new();
    place.done(&["create", "-q", "one", "--backend", "overlay"]);
    let upper = place.repo().join(".git/sapwood/workspaces/one/upper");
    fs::create_dir(upper.join("empty")).expect("a directory");
    let mount = |args: &[&str]| Command::new(args[0]).args(&args[1..]).arg(upper.join("empty")).status();
    let mounted = mount(&["mount", "-t", "tmpfs", "none"]).expect("mount runs");
    assert!(mounted.success(), "a tmpfs can be mounted");
    let refused = place.run(&["remove", "one"]);
    let unmounted = mount(&["umount"]).expect("umount runs");
    assert!(unmounted.success());
    assert_ne!(refused.code, 0, "{}", refused.stdout);
    assert!(refused.stderr.to_string().contains("another file system is mounted"), "{}", refused.stderr);
    place.done(&["remove", "one"]);
}

/// Commits, deletes a branch and collects garbage, as another process may at any time.
fn disturb(repo: &Repo<'_>, number: usize) {
    repo.write("file", format!("{number}\n"));
    repo.git(&["commit", "-qam", "meanwhile"]);
    repo.git(&["branch", "-qf", "moves"]);
    repo.git(&["branch", "-qD", "goes"]);
    repo.git(&["reflog", "expire", "--expire=now", "--all"]);
    repo.git(&["gc", "-q", "--prune=now"]);
}

#[test]
fn the_copy_is_connected_whatever_the_repository_does_meanwhile() {
    let place = Place::new();
    let repo = place.repo();
    let start = repo.git(&["rev-parse", "HEAD~1"]).stdout.to_string();
    let start = start.trim_end();
    let args = ["workspace", "create", "-q", "--sealed", "--backend", "copy", "one", start];
    let create = sapwood(&repo, &args);
    let prepare = || {
        // A branch with objects of its own, partly loose and partly packed.
        repo.git(&["checkout", "-q", "-B", "goes"]);
        for number in 0..2 {
            repo.write("gone", format!("{number}, {}\n", std::process::id()));
            repo.commit("gone");
            repo.git(&["repack", "-q"]);
        }
        repo.write("gone", "loose\n");
        repo.commit("gone");
        repo.git(&["checkout", "-q", "-"]);
    };
    repo.git(&["checkout", "-q", "-b", "work"]);
    prepare();
    let points = CrashPoints::of(&create);
    place.done(&["remove", "--force", "one"]);
    let workspace = place.workspace("one");
    at_crash_points(&points, &Most(24, ALL), |number| {
        prepare();
        let happens = Crash::beside(number, &create, &|| disturb(&repo, number));
        let context = format!("{happens}: {}", happens.stderr());
        assert_eq!(happens.code(), 0, "{context}");
        let fsck = workspace.try_git(&["fsck", "--strict", "--no-dangling"]);
        assert_eq!((fsck.code, fsck.stdout.to_string()), (0, String::new()), "{context}: {}", fsck.stderr);
        workspace.git(&["rev-list", "--objects", "--all"]);
        assert_eq!(workspace.git(&["status", "--porcelain"]).stdout, "", "{context}");
        assert_eq!(workspace.git(&["rev-parse", "HEAD"]).stdout.to_string().trim_end(), start, "{context}");
        place.done(&["remove", "--force", "one"]);
        happens.happened()
    });
}

#[test]
fn copies_of_objects_are_synced_before_the_record_is_whole() {
    if !testkit::has_program("strace") {
        return;
    }
    for way in ["copy", "link"] {
        let place = Place::new();
        let repo = place.repo();
        repo.git(&["gc", "-q"]);
        repo.write("loose", "loose\n");
        repo.commit("three");
        let trace = place.sandbox.path().join("trace");
        let mut create = sapwood(&repo, &[]);
        let program = create.get_program().to_owned();
        let envs: Vec<_> = create
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
            .collect();
        create = Command::new("strace");
        create.args(["-f", "-y", "-s", "4096", "-o"]).arg(&trace);
        create.args(["-e", "trace=fsync,fdatasync,rename,renameat,renameat2,linkat"]).arg(program);
        create.args([
            "workspace",
            "create",
            "-q",
            "--sealed",
            "--backend",
            "overlay",
            "--objects",
            way,
            "one",
        ]);
        let run = create.env_clear().envs(envs).current_dir(&repo.path).output().expect("strace runs");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let log = fs::read_to_string(&trace).expect("a trace");
        let lines: Vec<&str> = log.lines().collect();
        let whole = lines.iter().rposition(|line| line.contains("rename") && line.contains("/record\""));
        let whole = whole.expect("the record is written");
        let objects = place.repo().join(".git/sapwood/workspaces/one/git/objects");
        let mut files = Vec::new();
        let mut pending = vec![objects];
        while let Some(dir) = pending.pop() {
            for entry in fs::read_dir(dir).expect("a directory") {
                let path = entry.expect("an entry").path();
                if path.is_dir() { pending.push(path) } else { files.push(path) }
            }
        }
        assert!(files.iter().any(|path| path.extension().is_some_and(|end| end == "pack")));
        for path in files {
            let shown = format!("<{}>", path.canonicalize().expect("a path").display());
            let found = lines[..whole].iter().any(|line| line.contains("sync(") && line.contains(&shown));
            assert_eq!(found, way == "copy", "{way}: {shown} is synced: {found}");
        }
    }
}
