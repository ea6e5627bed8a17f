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
    let is_flush = |line: &&str| {
        let call = line.trim_start_matches(|char: char| char.is_ascii_digit() || char == ' ');
        ["fsync(", "fdatasync(", "syncfs(", "sync_file_range("].iter().any(|name| call.starts_with(name))
    };
    Calls { all: text.lines().count(), flushes: text.lines().filter(is_flush).count() }
}

fn repository(sandbox: &Sandbox, files: usize) -> Repo<'_> {
    let repo = sandbox.init("repo");
    for number in 0..files {
        repo.write(format!("d{}/f{number}", number / 100), format!("{number}\n"));
    }
    repo.commit("all");
    repo
}

/// Changes ten files, in five directories or fewer, and stores them.
fn ten_changes(repo: &Repo<'_>, round: usize) -> Calls {
    for number in 0..10 {
        repo.write(format!("d{}/f{}", number % 3, (number % 3) * 100 + number), format!("{round}\n"));
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
        found.push((files, ten_changes(&workspace, 3)));
        done(&repo, &["workspace", "remove", "--force", "w"]);
    }
    println!("{found:?}");
    let (_, small) = found[0];
    for (files, calls) in &found {
        assert_eq!(calls.flushes, FLUSHES, "{found:?}");
        assert!(calls.all < small.all + 150, "{files}: {found:?}");
    }
}
