//! The system calls and the flushes of a checkpoint, counted with `strace`.

use std::{fs, path::Path};

use bstr::ByteSlice as _;
use testkit::{NoMountsBelow, Repo, Sandbox};

use super::{done, run};
use crate::{SAPWOOD, full};

/// The calls of a run.
#[derive(Clone, Copy, Debug)]
struct Calls {
    all: usize,
    flushes: usize,
    /// Objects that exist get a new time before an entry refers to them.
    freshened: usize,
}

fn traced(repo: &Repo<'_>, args: &[&str]) -> Calls {
    testkit::need_program("strace");
    let common = repo.git(&["rev-parse", "--path-format=absolute", "--git-common-dir"]).stdout;
    let trace = Path::new(common.to_str().expect("a plain path").trim()).join("trace");
    let mut command = repo.command(Path::new("strace"));
    command.args(["-f", "-o"]).arg(&trace).arg(SAPWOOD).args(args);
    let output = command.output().expect("strace is there");
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(&trace).expect("it wrote it");
    let count = |names: &[&str]| {
        let calls = text
            .lines()
            .map(|line| line.trim_start_matches(|char: char| char.is_ascii_digit() || char == ' '));
        calls.filter(|call| names.iter().any(|name| call.starts_with(name))).count()
    };
    Calls {
        all: text.lines().count(),
        flushes: count(&["fsync(", "fdatasync(", "syncfs(", "sync_file_range("]),
        freshened: count(&["utimensat("]),
    }
}

fn repository(sandbox: &Sandbox, files: usize) -> Repo<'_> {
    filled(sandbox.init("repo"), files)
}

fn filled(repo: Repo<'_>, files: usize) -> Repo<'_> {
    for number in 0..files {
        repo.write(format!("d{}/f{number}", number / 100), format!("{number}\n"));
    }
    repo.commit("all");
    repo
}

/// Changes ten files, in five directories or fewer, and stores them.
fn ten_changes(repo: &Repo<'_>, round: usize) -> Calls {
    for number in 0..10 {
        repo.write(format!("d{}/f{}", number % 3, (number % 3) * 100 + number), format!("round {round}\n"));
    }
    traced(repo, &["checkpoint", "-q"])
}

/// The pack, its index, their directory; the ref, its reflog, their directories.
const FLUSHES: usize = 7;

#[test]
fn an_entry_costs_the_same_flushes_for_any_change() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox, 300);
    done(&repo, &["checkpoint", "-q"]);
    assert_eq!(ten_changes(&repo, 1).flushes, FLUSHES);
    assert_eq!(traced(&repo, &["checkpoint", "-q"]).flushes, FLUSHES);
    for number in 0..60 {
        repo.write(format!("many/{number}"), format!("{number}\n"));
    }
    assert_eq!(traced(&repo, &["checkpoint", "-q"]).flushes, FLUSHES);
}

/// The trees of directories without changes come from the cache-tree: no one builds them again, and
/// looks for the result.
#[test]
fn trees_without_changes_are_not_built() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    // The objects stay loose, so each tree that is found costs a call.
    repo.git(&["config", "maintenance.auto", "false"]);
    let repo = filled(repo, 2_500);
    done(&repo, &["checkpoint", "-q"]);
    for calls in [traced(&repo, &["checkpoint", "-q"]), ten_changes(&repo, 1), ten_changes(&repo, 2)] {
        assert!(calls.freshened < 10, "25 directories: {calls:?}");
    }
}

/// In a workspace, the calls do not depend on the number of files.
#[test]
fn a_checkpoint_in_a_workspace_depends_on_the_changes() {
    let sizes: &[usize] = if full() { &[300, 3_000, 30_000] } else { &[300, 3_000] };
    let mut found = Vec::new();
    for &files in sizes {
        let sandbox = Sandbox::new();
        let _mounts = NoMountsBelow::new(&sandbox.path());
        let repo = repository(&sandbox, files);
        let created = run(&repo, &["workspace", "create", "-q", "w", "--backend", "overlay"]);
        if created.code != 0 {
            println!("skipped: {}", created.stderr);
            return;
        }
        let workspace = sandbox.repo("repo.workspaces/w");
        ten_changes(&workspace, 1);
        ten_changes(&workspace, 2);
        let lists =
            || fs::read_dir(repo.join(".git/sapwood/workspaces/w/snapshots")).map_or(0, Iterator::count);
        let before = lists();
        found.push((files, ten_changes(&workspace, 3)));
        assert_eq!(lists(), before, "no index has the token of a list");
        done(&repo, &["workspace", "remove", "--force", "w"]);
    }
    println!("{found:?}");
    let (_, small) = found[0];
    for (files, calls) in &found {
        assert_eq!(calls.flushes, FLUSHES, "{found:?}");
        assert!(calls.all < small.all + 150, "{files}: {found:?}");
    }
}
