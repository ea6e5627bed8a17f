//! File system monitors: they save work, their failures are reported with Git's messages, and a
//! file is compared before it is overwritten even with a monitor. The module `edits` checks that
//! results are equal with and without a monitor.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    thread,
};

use bstr::ByteSlice as _;
use testkit::{Oracle, Repo, Run, Sandbox};

use crate::{SAPWOOD, shim::Shim};

/// A monitor that reports the test's own changes: each line of `.git/changes` is a path, and the
/// token is the number of lines.
const HONEST: &str = "\
#!/bin/sh
test \"$1\" = 2 || exit 1
known=$(wc -l <.git/changes)
printf '%s\\0' $known
case $2 in
?????????*|'') printf '/\\0';;
*) tail -n +$(($2 + 1)) .git/changes | tr '\\n' '\\0';;
esac
";

/// Returns Git's output for the same worktree without any cache. Git writes nothing.
fn truth(repo: &Repo<'_>, args: &[&str]) -> Run {
    let plain = ["-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false", "--no-optional-locks"];
    let mut line = plain.to_vec();
    line.extend(args);
    repo.git(&line)
}

fn begin(repo: &Repo<'_>) {
    for name in ["a", "b", "d/a", "d/b", "d/e/a", "d/e/f/a", "x/y/z"] {
        repo.write(name, "1\n");
    }
    repo.commit("first");
    repo.write("a", "2\n");
    repo.write("x/y/z", "2\n");
    repo.commit("second");
}

/// Listings of files show entries marked as valid, and modified files, as Git does.
#[test]
fn lists_files_under_a_monitor_as_git_does() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    begin(&repo);
    repo.write(".git/changes", "");
    repo.write_executable(".git/monitor", HONEST);
    repo.git(&["config", "core.fsmonitor", ".git/monitor"]);
    let same = |what: &str| {
        for options in [&["-f"][..], &["-f", "-s"], &["-v", "-f"], &["-m"], &["-m", "-d", "-t"], &["--debug"]]
        {
            for globals in [&[][..], &["-c", "core.fsmonitor=false"]] {
                let args = [globals, &["ls-files"], options].concat();
                assert_eq!(repo.run(SAPWOOD.as_ref(), &args), repo.git(&args), "{what}: {args:?}");
            }
        }
    };
    same("without a token");
    repo.git(&["update-index", "--fsmonitor"]);
    repo.git(&["status"]);
    same("all clean");
    repo.write("d/a", "changed\n");
    repo.remove("x/y/z");
    repo.write("b", "nobody tells\n");
    repo.write(".git/changes", "d/a\nx/y/z\n");
    same("two changes");
    repo.git(&["status"]);
    same("two changes that are known");
    let shim = Shim::new();
    assert_eq!(shim.run(&repo, &["ls-files", "-f"]), repo.git(&["ls-files", "-f"]));
    shim.was_native(&["ls-files", "-f"]);
}

/// Git's daemon in a repository. It is stopped on drop.
struct Daemon<'a>(&'a Repo<'a>);

impl<'a> Daemon<'a> {
    /// Starts the daemon. Returns `None`, and prints a line, where it cannot be started.
    fn start(repo: &'a Repo<'a>) -> Option<Daemon<'a>> {
        let started = repo.try_git(&["fsmonitor--daemon", "start"]);
        if started.code != 0 {
            println!("skipped: Git's daemon does not start: {}", started.stderr);
            return None;
        }
        Some(Daemon(repo))
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        drop(self.0.try_git(&["fsmonitor--daemon", "stop"]));
    }
}

#[test]
fn restarts_a_daemon_that_is_gone() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    begin(&repo);
    let Some(daemon) = Daemon::start(&repo) else { return };
    repo.git(&["config", "core.fsmonitor", "true"]);
    let answers = |content: &str| {
        repo.write("d/a", content);
        let args = ["status", "--porcelain=v2"];
        let run = repo.run(SAPWOOD.as_ref(), &args);
        assert_eq!((run.code, run.stdout), (0, truth(&repo, &args).stdout), "{content}: {}", run.stderr);
    };
    answers("before\n");
    drop(daemon);
    let _daemon = Daemon(&repo);
    answers("after\n");
    assert_eq!(repo.try_git(&["fsmonitor--daemon", "status"]).code, 0);
}

/// Counts system calls instead of time: paths that the monitor does not report are not read.
#[test]
fn reads_in_proportion_to_changes() {
    let looks = |files: usize, changed: usize| {
        let sandbox = Sandbox::new();
        let repo = sandbox.init("repo");
        for number in 0..files {
            repo.write(format!("d{}/f{number}", number % 20), "1\n");
        }
        repo.commit("all");
        repo.write(".git/changes", "");
        repo.write_executable(".git/monitor", HONEST);
        repo.git(&["config", "core.fsmonitor", ".git/monitor"]);
        let status = |options: &[&str]| {
            let line = [options, &["status", "-s", "-uno"]].concat();
            let run = repo.run(SAPWOOD.as_ref(), &line);
            assert_eq!(run.code, 0, "{}", run.stderr);
            run
        };
        // The first run reads everything; the second run finds all files older than the index.
        let later = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
        for number in 0..files {
            let file =
                fs::OpenOptions::new().append(true).open(repo.join(format!("d{}/f{number}", number % 20)));
            file.expect("there").set_modified(later).expect("aged");
        }
        status(&[]);
        status(&[]);
        for number in 0..changed {
            let name = format!("d{}/f{number}", number % 20);
            repo.write(&name, "changed\n");
            let file = fs::OpenOptions::new().append(true).open(repo.join(".git/changes"));
            writeln!(file.expect("there"), "{name}").expect("written");
        }
        let run = status(&["--profile"]);
        assert_eq!(run.stdout.lines().count(), changed);
        let count = |name: &str| {
            let line =
                run.stderr.lines().find(|line| line.starts_with_str(name)).unwrap_or_default().as_bstr();
            let number =
                line.to_str_lossy().split_whitespace().nth(1).and_then(|word| word.parse::<usize>().ok());
            number.unwrap_or(0)
        };
        count("stat") + count("open") + count("list")
    };
    let (few, many, changed) = (looks(100, 0), looks(800, 0), looks(800, 10));
    assert_eq!(few, many);
    assert!(changed <= few + 10 * 8, "{few} looks, and {changed} after 10 changes");
}

#[test]
fn reports_failing_monitors_as_git_does() {
    let hooks = [
        ("#!/bin/sh\ntest $1 = 1 || exit 1\nprintf 'a\\0'\n", None),
        ("#!/bin/sh\ntest $1 = 1 || exit 1\nprintf '/\\0'\n", Some("1")),
        ("#!/bin/sh\nprintf 'token\\0a\\0'\n", Some("2")),
        ("#!/bin/sh\nprintf 'token\\0a\\0'\n", Some("3")),
        ("#!/bin/sh\nprintf 'token\\0/\\0'\n", None),
        ("#!/bin/sh\nexit 0\n", None),
        ("#!/bin/sh\necho no >&2\nexit 3\n", None),
        ("#!/bin/sh\nexit 3\n", Some("2")),
        ("printf 'token\\0a\\0'\n", None),
    ];
    let oracle = Oracle::new(SAPWOOD, |repo| {
        begin(repo);
        repo.git(&["config", "core.fsmonitor", ".git/monitor"]);
    });
    let marks = |repo: &Repo<'_>| repo.git(&["ls-files", "-f"]).stdout;
    for (hook, version) in hooks {
        oracle.both(|repo| {
            repo.write_executable(".git/monitor", hook);
            drop(repo.try_git(&["config", "--unset", "core.fsmonitorHookVersion"]));
            if let Some(version) = version {
                repo.git(&["config", "core.fsmonitorHookVersion", version]);
            }
        });
        for _ in 0..2 {
            oracle.same_as(hook, &["status", "-s"]);
            oracle.same_as(hook, &["reset", "-q"]);
            assert_eq!(marks(&oracle.git()), marks(&oracle.ours()), "{hook}");
        }
        oracle.both(|repo| repo.write("a", hook));
        oracle.same_as(hook, &["status", "-s"]);
        assert_eq!(marks(&oracle.git()), marks(&oracle.ours()), "{hook}");
    }
    for program in [".git/nowhere", "nowhere", "nowhere here", ".git/config", "printf 'token\\0b\\0'; :"] {
        oracle.both(|repo| drop(repo.git(&["config", "core.fsmonitor", program])));
        oracle.same_as(program, &["status", "-s"]);
    }
    oracle.both(|repo| drop(repo.git(&["config", "--unset", "core.fsmonitor"])));
    oracle.same(&["status", "-s"]);
    oracle.same(&["reset", "-q"]);
    let has_token = |repo: &Repo<'_>| fs::read(repo.join(".git/index")).expect("there").contains_str("FSMN");
    assert_eq!((has_token(&oracle.git()), has_token(&oracle.ours())), (false, false));
}

/// A socket that sends invalid or truncated responses is not trusted: every file is compared.
#[test]
fn distrusts_a_daemon_with_invalid_responses() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    begin(&repo);
    repo.git(&["config", "core.fsmonitor", "true"]);
    let socket = repo.join(".git/fsmonitor--daemon.ipc");
    for (answer, complains) in [
        (&b"000dtoken\0a\0\0"[..], true),
        (b"", true),
        (b"zzzz", true),
        (b"0010token\0a\0b/c\x000000", false),
        (b"0000", false),
    ] {
        let listener = UnixListener::bind(&socket).expect("a path that is short enough");
        let served = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a question");
            let mut question = Vec::new();
            let mut byte = [0];
            while !question.ends_with(b"0000") && stream.read_exact(&mut byte).is_ok() {
                question.push(byte[0]);
            }
            // The client may have disconnected.
            drop(stream.write_all(answer));
            question
        });
        repo.write("d/a", format!("{answer:?}"));
        let run = repo.run(SAPWOOD.as_ref(), &["status", "-s"]);
        // Unblocks the server if there was no client.
        drop(UnixStream::connect(&socket));
        let question = served.join().expect("served");
        fs::remove_file(&socket).expect("it is there");
        assert!(
            question.starts_with(b"0010builtin:fake0000") || question.starts_with(b"0009token"),
            "{question:?}"
        );
        assert_eq!((run.code, run.stdout), (0, truth(&repo, &["status", "-s"]).stdout));
        assert_eq!(run.stderr.contains_str("could not read IPC response"), complains, "{}", run.stderr);
    }
}

/// A monitor that misses a change hides it from status, but the file is compared before it is
/// overwritten.
#[test]
fn overwrites_no_file_that_a_monitor_missed() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    begin(&repo);
    repo.write_executable(".git/monitor", "#!/bin/sh\nprintf 'token\\0'\n");
    repo.git(&["config", "core.fsmonitor", ".git/monitor"]);
    repo.git(&["status"]);
    repo.git(&["status"]);
    repo.write("a", "mine\n");
    assert_eq!(repo.run(SAPWOOD.as_ref(), &["status", "-s"]).stdout, "");
    assert_eq!(repo.run(SAPWOOD.as_ref(), &["switch", "--detach", "HEAD~1"]).code, 1);
    assert_eq!(repo.read("a"), "mine\n");
}

/// An empty directory becomes a repository, and the monitor reports the paths inside its `.git`.
#[test]
fn shows_a_new_nested_repository() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    begin(&repo);
    repo.write(".git/changes", "");
    repo.write_executable(".git/monitor", HONEST);
    for (name, value) in [("fsmonitor", ".git/monitor"), ("untrackedCache", "true")] {
        repo.git(&["config", &format!("core.{name}"), value]);
    }
    fs::create_dir_all(repo.join("n/empty")).expect("made");
    let status = || repo.run(SAPWOOD.as_ref(), &["status", "-s"]).stdout;
    for dir in ["n/empty", "n", "d/e/f", "d/e", "d", "x/y", "x", ""] {
        let later = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
        fs::File::open(repo.join(dir)).and_then(|dir| dir.set_modified(later)).expect("aged");
    }
    assert_eq!([status(), status()], ["", ""]);
    for dir in ["objects", "refs/heads"] {
        fs::create_dir_all(repo.join("n/.git").join(dir)).expect("made");
    }
    repo.write("n/.git/HEAD", "ref: refs/heads/main\n");
    repo.write("new", "1\n");
    repo.write(".git/changes", "n/.git\nn/.git/objects\nn/.git/refs\nn/.git/refs/heads\nn/.git/HEAD\nnew\n");
    assert_eq!(status(), "?? n/\n?? new\n");
    assert_eq!(truth(&repo, &["status", "-s"]).stdout, "?? n/\n?? new\n");
}

#[test]
fn hands_over_a_monitor_in_a_bare_repository() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    begin(&repo);
    repo.git(&["clone", "-q", "--bare", ".", "bare"]);
    let args = ["-C", "bare", "-c", "core.fsmonitor=true", "read-tree", "HEAD"];
    let run = shim.run(&repo, &args);
    assert_eq!(run.code, 0, "{}", run.stderr);
    shim.was_handed_over(&args, "file system monitor");
    let args = ["-c", "core.fsmonitor=.git/monitor", "switch", "-q", "-c", "new"];
    shim.run(&repo, &args);
    shim.was_native(&args);
}

/// Entries are read from the index file on demand. If another program truncates the file in place,
/// the command fails instead of returning a wrong result.
#[test]
fn fails_when_the_monitor_truncates_the_index() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    begin(&repo);
    // The content does not fit into one write.
    let blob = repo.git(&["rev-parse", "HEAD:a"]).stdout;
    let lines: String =
        (0..2000).map(|n| format!("100644 {} 0\tmore/{n:060}\n", blob.trim_end().as_bstr())).collect();
    crate::index_info(&repo, &lines);
    repo.write_executable(".git/monitor", "#!/bin/sh\nprintf 'token\\0/\\0'\n");
    repo.git(&["config", "core.fsmonitor", ".git/monitor"]);
    repo.git(&["status"]);
    let index = fs::read(repo.join(".git/index")).expect("there");
    repo.write_executable(".git/monitor", "#!/bin/sh\n: >.git/index\nprintf 'token\\0/\\0'\n");
    for args in [&["status"][..], &["status", "-uno", "-s"], &["diff-files"], &["ls-files", "-m"]] {
        repo.write(".git/index", &index);
        let run = repo.run(SAPWOOD.as_ref(), args);
        assert_eq!(run.code, 128, "{args:?}: {run:?}");
        assert!(run.stderr.contains_str("/.git/index': Input/output error"), "{args:?}: {run:?}");
        assert_eq!(run.stdout.len(), 0, "{args:?} tells of what it could not read");
        assert_eq!(fs::read(repo.join(".git/index")).expect("there"), b"");
    }
}
