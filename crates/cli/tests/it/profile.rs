//! `--profile`: its counts compared with those of `strace` and `perf trace`, and the format of its
//! output.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Output},
};

use testkit::{Repo, Sandbox, has_program};

use crate::SAPWOOD;

/// Creates two branches with files, links, an executable, deep directories and converted line
/// endings. One branch lacks half of them.
fn two_branches(repo: &Repo<'_>) {
    repo.write(".gitattributes", "*.txt text eol=crlf\n");
    for number in 0..120 {
        repo.write(format!("kept/{}/file-{number}", number % 7), format!("{number}\n").repeat(number));
    }
    repo.commit("first");
    repo.git(&["branch", "few"]);
    for number in 0..150 {
        let dir = number % 11;
        repo.write(format!("gone/{dir}/{}/file-{number}.txt", dir % 3), format!("{number}\n").repeat(number));
    }
    repo.write("kept/1/file-1", "changed\n");
    repo.write_executable("gone/run", "#!/bin/sh\n");
    repo.symlink("kept/1/file-1", "gone/link");
    repo.commit("many");
}

/// The lines of the table: count, milliseconds in total, on and off the CPU, and the share.
type Table = BTreeMap<String, Vec<f64>>;

fn table(output: &Output) -> Table {
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    let from = said.find("profile: ").expect("the table's head");
    let (above, rest) = said[from..].split_once("threads  ").expect("its last line");
    let last = rest.lines().next().unwrap_or_default();
    let lines = above.lines().skip(2).map(str::to_owned).chain([format!("threads {last}")]);
    let line = |line: String| {
        let mut words = line.split_whitespace();
        let name = words.next().expect("a name").to_owned();
        (name, words.map(|word| word.parse().expect("a number")).collect())
    };
    lines.map(line).collect()
}

/// Returns the phase that a system call belongs to.
fn phase(call: &str) -> Option<&'static str> {
    Some(match call {
        "open" | "openat" | "openat2" | "creat" => "open",
        "read" | "pread64" => "read",
        "write" | "pwrite64" | "writev" | "ftruncate" | "fchmod" | "utimensat" => "write",
        "stat" | "lstat" | "fstat" | "newfstatat" | "statx" | "fstatfs" | "faccessat2" => "stat",
        "getdents64" => "list",
        "close" => "close",
        "unlink" | "unlinkat" | "rmdir" => "remove",
        "mkdir" | "mkdirat" => "mkdir",
        "symlink" | "symlinkat" | "link" | "linkat" | "rename" | "renameat" | "renameat2" => "link",
        "fsync" | "fdatasync" | "sync_file_range" => "sync",
        _ => return None,
    })
}

/// Returns the calls between the first read of the thread's clock, where the profile begins, and
/// the last one, where it ends.
fn traced(trace: &Path) -> Vec<String> {
    let text = fs::read_to_string(trace).expect("written by strace");
    // A line is "123 openat(..." or "123 <... openat resumed>...". The second form is the end of a
    // call.
    let calls =
        text.lines().filter_map(|line| line.split_once(' ').map(|(_, call)| call.trim_start().to_owned()));
    let calls: Vec<String> = calls.filter(|call| !call.starts_with('<')).collect();
    let is_border = |call: &String| call.contains("CLOCK_THREAD_CPUTIME_ID");
    let first = calls.iter().position(is_border).expect("the beginning");
    let last = calls.iter().rposition(is_border).expect("the end");
    calls[first..=last].to_vec()
}

/// Writes to standard error directly: the output of a test that passes is not shown.
fn skipped(test: &str, why: &str) {
    writeln!(std::io::stderr(), "SKIPPED profile::{test}: {why}").expect("standard error is open");
}

fn can_trace() -> bool {
    if !has_program("strace") {
        return false;
    }
    let can = Command::new("strace")
        .args(["-o", "/dev/null", "true"])
        .status()
        .is_ok_and(|status| status.success());
    if !can {
        skipped("counts_equal_those_of_strace", "strace cannot be run");
    }
    can
}

/// Runs the command under `strace` with `--profile`, and compares the counts.
fn compare(repo: &Repo<'_>, trace: &Path, args: &[&str]) {
    let mut command = repo.command("strace".as_ref());
    command.args(["-f", "-y", "-o"]).arg(trace).args([SAPWOOD, "--profile"]).args(args);
    let output = command.output().expect("strace can be run");
    let told = table(&output);
    let mut seen: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for call in traced(trace) {
        if let Some(phase) = phase(call.split('(').next().unwrap_or_default()) {
            seen.entry(phase).or_default().push(call);
        }
    }
    for phase in ["write", "list", "open", "read", "stat", "close", "remove", "mkdir", "link", "sync"] {
        let told = told.get(phase).map_or(0.0, |line| line[0]) as usize;
        let seen = seen.remove(phase).unwrap_or_default();
        let least = match phase {
            "write" | "remove" | "mkdir" | "link" | "sync" => seen.len(),
            _ => seen.iter().filter(|call| is_counted(call, &repo.path)).count(),
        };
        let context =
            || format!("{phase} of {args:?}: {told}, seen {least} to {}:\n{}", seen.len(), seen.join("\n"));
        assert!((least..=seen.len()).contains(&told), "{}", context());
    }
}

/// Returns true if a call is certainly made by sapwood: in the worktree, at the index or at
/// objects. Calls of gix and of the standard library concern other files: refs, the configuration,
/// and repository discovery.
fn is_counted(call: &str, root: &Path) -> bool {
    // In "openat(AT_FDCWD</where/we/are>, "path", ..." only the path after the `>` names the file.
    let call = match call.split_once("AT_FDCWD<") {
        Some((_, rest)) => rest.split_once('>').map_or(rest, |(_, rest)| rest),
        None => call,
    };
    let root = root.to_str().expect("made for the test");
    let git = format!("{root}/.git");
    call.contains(root)
        && (!call.contains(&git)
            || ["index", "objects/"].iter().any(|name| call.contains(&format!("{git}/{name}"))))
}

#[test]
fn counts_equal_those_of_strace() {
    if !can_trace() {
        return;
    }
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    two_branches(&repo);
    let trace = sandbox.path().join("trace");
    for workers in ["1", "8"] {
        let workers = format!("checkout.workers={workers}");
        let with = |args: &[&'static str]| {
            [&["-c", &workers, "-c", "checkout.thresholdForParallelism=1"], args].concat()
        };
        for name in ["kept", "gone", ".gitattributes", ".git/index"] {
            let path = repo.path.join(name);
            fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path)).expect("removed");
        }
        compare(&repo, &trace, &with(&["reset", "-q", "--hard"]));
        repo.git(&["status"]);
        compare(&repo, &trace, &with(&["switch", "-q", "few"]));
        compare(&repo, &trace, &with(&["switch", "-q", "-"]));
        repo.write("kept/1/file-1", "local\n");
        repo.write("kept/1/file-8", "local\n");
        compare(&repo, &trace, &with(&["reset", "-q", "--hard"]));
        assert_eq!(repo.git(&["status", "--porcelain"]).stdout, "");
    }
}

fn perf(repo: &Repo<'_>, summary: &Path) -> Command {
    let mut command = repo.command("perf".as_ref());
    // Without sorting, a call whose end is reported before its beginning is not counted.
    command.args(["trace", "--summary", "--sort-events", "-o"]).arg(summary).arg("--");
    command
}

/// Returns the calls by phase, for all threads together; `None` if events were lost. A line is
/// `openat 77 36 1.334 ...`.
fn summed(summary: &Path) -> Option<BTreeMap<&'static str, usize>> {
    let text = fs::read_to_string(summary).unwrap_or_default();
    let mut calls = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(Ok(count))) = (words.next(), words.next().map(str::parse::<usize>)) else {
            continue;
        };
        if let Some(phase) = phase(name) {
            *calls.entry(phase).or_default() += count;
        }
    }
    (!calls.is_empty() && !text.contains("LOST")).then_some(calls)
}

/// Returns the profile's count and `perf`'s count of each phase; `None` if `perf` is missing, or
/// loses events each time.
fn perfed(
    repo: &Repo<'_>,
    summary: &Path,
    args: &[&str],
    prepare: impl Fn(),
) -> Option<BTreeMap<&'static str, (usize, usize)>> {
    for _ in 0..10 {
        prepare();
        let output = perf(repo, summary).args([SAPWOOD, "--profile"]).args(args).output().ok()?;
        let Some(seen) = summed(summary) else { continue };
        let table = table(&output);
        let both = |phase: &'static str| {
            let told = table.get(phase).map_or(0.0, |line| line[0]) as usize;
            (phase, (told, seen.get(phase).copied().unwrap_or_default()))
        };
        let phases = ["write", "list", "open", "read", "stat", "close", "remove", "mkdir", "link", "sync"];
        return Some(phases.into_iter().map(both).collect());
    }
    None
}

/// A summary has no order, so it includes the calls before and after the profile and those of the
/// standard library. A run that does nothing shows how many these are.
#[test]
fn counts_equal_those_of_perf() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    let summary = sandbox.path().join("summary");
    two_branches(&repo);
    let emptied = || {
        for name in ["kept", "gone", ".gitattributes", ".git/index"] {
            let path = repo.path.join(name);
            let gone = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
            assert!(gone.is_ok() || !path.exists(), "{name}");
        }
    };
    let refreshed = || drop(repo.git(&["status"]));
    for workers in ["checkout.workers=1", "checkout.workers=8"] {
        let args = ["-c", workers, "-c", "checkout.thresholdForParallelism=1", "reset", "-q", "--hard"];
        let filled = perfed(&repo, &summary, &args, emptied);
        let idle = perfed(&repo, &summary, &args, refreshed);
        let (Some(filled), Some(idle)) = (filled, idle) else {
            skipped("counts_equal_those_of_perf", "perf trace cannot be run, or loses events");
            return;
        };
        for (phase, (told, seen)) in &filled {
            let more = seen.checked_sub(*told);
            let always = idle[phase].1.checked_sub(idle[phase].0);
            let context =
                || format!("{phase} with {workers}: told {told}, seen {seen}\n{filled:?}\n{idle:?}");
            let (Some(more), Some(always)) = (more, always) else { panic!("{}", context()) };
            match *phase {
                "remove" | "mkdir" | "link" | "sync" => assert_eq!(more, 0, "{}", context()),
                _ => assert!(more.abs_diff(always) <= 8, "{}", context()),
            }
        }
        assert!(["write", "open", "close"].iter().all(|phase| filled[phase].0 > 250), "{filled:?}");
    }
}

fn profiled(repo: &Repo<'_>, args: &[&str]) -> Output {
    let mut command: Command = repo.command(SAPWOOD.as_ref());
    command.args(args).output().expect("can be run")
}

#[test]
fn phases_add_up_to_the_total() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    two_branches(&repo);
    let args = [
        "-c",
        "checkout.workers=4",
        "-c",
        "checkout.thresholdForParallelism=1",
        "--profile",
        "switch",
        "few",
    ];
    let mut table = table(&profiled(&repo, &args));
    let threads = table.remove("threads").expect("the last line");
    for column in 1..4 {
        let sum: f64 =
            table.iter().map(|(name, line)| line[if name == "other" { column - 1 } else { column }]).sum();
        // Each line is rounded to a microsecond.
        assert!((sum - threads[column - 1]).abs() <= 0.001 * table.len() as f64, "{table:?} {threads:?}");
    }
    for phase in ["plan", "execute", "decode", "convert", "index", "open", "write", "stat", "close", "remove"]
    {
        assert!(table.get(phase).is_some_and(|line| line[0] > 0.0), "{phase} in {table:?}");
    }
}

#[test]
fn draws_a_well_formed_picture_and_overwrites_no_other_file() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    two_branches(&repo);
    let picture = sandbox.path().join("a & <b>.svg");
    let option = format!("--profile={}", picture.display());
    for branch in ["few", "-"] {
        table(&profiled(&repo, &[&option, "switch", branch]));
        let text = fs::read_to_string(&picture).expect("written");
        let document = roxmltree::Document::parse(&text).expect("well-formed");
        let root = document.root_element();
        assert_eq!(
            (root.tag_name().name(), root.tag_name().namespace()),
            ("svg", Some("http://www.w3.org/2000/svg"))
        );
        for phase in ["plan", "index", "open", "write", "stat", "close"] {
            let bar = root.children().find(|node| node.attribute("id") == Some(phase));
            assert!(
                bar.is_some_and(|bar| bar.children().filter(|node| node.is_element()).count() == 4),
                "{phase}"
            );
            let title =
                root.descendants().any(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "title")));
            assert!(title, "{phase}");
        }
        assert!(text.len() < 200_000, "{}", text.len());
    }
    let own = repo.path.join("own.svg");
    fs::write(&own, "mine").expect("written");
    let refused = profiled(&repo, &["--profile=own.svg", "switch", "few"]);
    assert_eq!(refused.status.code(), Some(128));
    assert_eq!(
        String::from_utf8_lossy(&refused.stderr),
        format!("fatal: '{}' exists and is no profile\n", own.display())
    );
    assert_eq!(fs::read_to_string(&own).expect("still there"), "mine");
    assert_eq!(repo.git(&["branch", "--show-current"]).stdout, "main\n");
    let unwritten = profiled(&repo, &["--profile=no/where.svg", "switch", "-q", "few"]);
    table(&unwritten);
    let said = String::from_utf8_lossy(&unwritten.stderr);
    assert!(said.ends_with("where.svg': No such file or directory\n"), "{said}");
}

#[test]
fn has_no_profile_option_under_the_name_git() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    two_branches(&repo);
    let mut command = repo.command(SAPWOOD.as_ref());
    std::os::unix::process::CommandExt::arg0(&mut command, "git");
    let output = command
        .env("SAPWOOD_SHIM", "native-only")
        .args(["--profile", "switch", "few"])
        .output()
        .expect("can be run");
    assert!(!output.status.success());
    assert_eq!(repo.git(&["branch", "--show-current"]).stdout, "main\n");
}
