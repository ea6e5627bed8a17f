//! The handover to the real Git: it keeps the process and never loops.

use std::{
    fs,
    io::Write as _,
    os::unix::{fs::symlink, process::ExitStatusExt as _},
    path::Path,
    process::{Command, Stdio},
};

use bstr::ByteSlice as _;
use testkit::{Oracle, Sandbox, has_program};

use super::{Shim, finished, late::hold_a_name_twice, one, oracle_path, same};
use crate::{SAPWOOD, switch::two_branches};

#[test]
fn standard_input_is_left_to_who_reads_it() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    let fed = |script: &str, input: &str| {
        let mut command = repo.command("sh".as_ref());
        let path = format!("{}:{}", shim.path("bin").display(), oracle_path(&repo));
        command.args(["-c", script]).env("PATH", path);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
        child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("read in the end");
        child.wait_with_output().expect("it ends").stdout
    };
    repo.write("a", "changed\n");
    fed("git checkout --pathspec-from-file=-", "a\n");
    assert_eq!(repo.read("a"), "two\n");
    assert_eq!(fed("git hash-object --stdin", "one\n"), b"5626abf0f72e58d7a153368ba57db4c673c0e171\n");
    // A native command leaves standard input to the next command.
    assert_eq!(fed("git reset -q --hard; git switch -q topic; cat", "left\n"), b"left\n");
}

/// A message that was read from a pipe cannot be read again, so the command is not handed over when
/// it meets a tree that only Git can read.
#[test]
fn consumed_input_is_not_handed_over() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    let fed = |script: &str| {
        let path = format!("{}:{}", shim.path("bin").display(), oracle_path(&repo));
        let mut command = repo.command("bash".as_ref());
        finished(command.args(["-c", script]).env("PATH", path))
    };
    hold_a_name_twice(&repo);
    let head = repo.git(&["rev-parse", "HEAD"]).stdout;
    for script in ["echo message | git commit -F -", "git commit -F <(echo message)"] {
        let run = fed(script);
        assert_eq!(run.code, 128, "{script}: {}", run.stderr);
        assert!(run.stderr.contains_str("are not supported yet"), "{script}: {}", run.stderr);
        assert_eq!(repo.git(&["rev-parse", "HEAD"]).stdout, head, "{script}");
    }
    assert_eq!(fed("git commit -q -m message").code, 0);
    assert_eq!(repo.git(&["log", "-1", "--format=%s"]).stdout, "message\n");
}

/// The handover is an `exec`: the process stays, so signals, terminal and exit code are Git's own.
#[test]
fn handing_over_is_becoming() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    let mut child = shim
        .command(&repo)
        .args(["-c", "alias.parent=!echo $PPID", "parent"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let id = child.id();
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.stdout.trim_end(), id.to_string().as_bytes());

    // Only signal masks: the number of queued signals (`SigQ`) depends on other processes of the
    // user.
    let signals = ["-c", "alias.signals=!grep '^Sig[BCIP]' /proc/self/status", "signals"];
    // Started by a shell, like the shim here: the way a program is started affects the signals that
    // it ignores.
    let theirs =
        finished(repo.command("/bin/sh".as_ref()).args(["-c", "exec git \"$@\"", "sh"]).args(signals));
    assert_eq!(theirs, shim.run(&repo, &signals), "git left, shim right");
    let environment =
        ["-c", "alias.environment=!env | grep -v ^PATH= | grep -v SHIM_LOG= | sort", "environment"];
    same(&shim, &repo, &environment);

    child =
        shim.command(&repo).args(["hash-object", "--stdin"]).stdin(Stdio::piped()).spawn().expect("it runs");
    while shim.log().is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let killed = Command::new("kill").arg("-TERM").arg(child.id().to_string()).status();
    assert!(killed.expect("kill can be run").success());
    assert_eq!(child.wait().expect("it ends").signal(), Some(15));
}

/// The shim has written its log when it hands over, and handles signals by then.
#[test]
fn ignored_signals_stay_ignored() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    let ignoring = |program: &Path| {
        let mut command = repo.command("env".as_ref());
        command.arg("--ignore-signal=HUP,INT,QUIT,PIPE,TERM").arg(program);
        command
    };
    // Git itself changes SIGPIPE, which a script in its place does not.
    let script = shim.path("script");
    testkit::write_program(&script, "#!/bin/sh\nexec grep '^Sig[BCIP]' /proc/self/status\n");
    let signals = ["-c", "alias.signals=!grep '^Sig[BCIP]' /proc/self/status", "signals"];
    let run = shim.path("run");
    let theirs = finished(ignoring("git".as_ref()).args(signals));
    assert_eq!(theirs, finished(ignoring(&run).args(signals)), "git left, shim right");
    let theirs = finished(&mut ignoring(&script));
    let ours = finished(ignoring(&run).arg("signals").env("SAPWOOD_GIT", &script));
    assert_eq!(theirs, ours, "script left, shim right");
}

/// On a terminal: a handed-over command inherits it, and native hints have Git's colours.
#[test]
fn terminals() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    if !has_program("script") {
        return;
    }
    let on_terminal = |path: &str, line: &str| {
        let mut command = repo.command("script".as_ref());
        command.args(["-qec", line, "/dev/null"]).env("PATH", path).env("TERM", "xterm").stdin(Stdio::null());
        finished(&mut command)
    };
    let theirs = oracle_path(&repo);
    let ours = format!("{}:{theirs}", shim.path("bin").display());
    for line in [
        "git -c alias.t='!test -t 1 && echo yes' t",
        "git -c core.pager=cat log --oneline -1",
        "git switch v1",
        "git -c color.ui=false switch v1",
        "git checkout -q main",
    ] {
        assert_eq!(on_terminal(&theirs, line), on_terminal(&ours, line), "{line}");
    }
    assert!(on_terminal(&ours, "git switch v1").stdout.contains_str("\x1b[33mhint: If you want"));
}

/// The shim never calls itself in a loop, whatever PATH contains.
#[test]
fn no_circles() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    // Git's own child processes, with the shim first on PATH.
    same(&shim, &repo, &["-c", "alias.x=!git rev-parse HEAD && git switch -q - && git switch -q -", "x"]);
    same(&shim, &repo, &["submodule", "status"]);
    same(&shim, &repo, &["for-each-repo", "--config=no.such"]);

    // Another copy of sapwood after this one on PATH, and the reverse.
    let other = shim.path("other");
    fs::create_dir(&other).expect("made");
    testkit::copy_program(SAPWOOD.as_ref(), &other.join("git"));
    let oracle = oracle_path(&repo);
    let [first, second] = [shim.path("bin"), other.clone()].map(|path| path.display().to_string());
    let version = repo.git(&["version"]);
    for path in [
        format!("{first}:{second}:{oracle}"),
        format!("{second}:{first}:{oracle}"),
        format!("{first}:{second}:{first}:{oracle}"),
        format!("{oracle}:{first}:{second}"),
    ] {
        for program in [shim.path("bin/git"), other.join("git")] {
            let run = finished(repo.command(&program).arg("version").env("PATH", &path));
            assert_eq!(run, version, "{} {path}", program.display());
        }
    }
    let elsewhere = format!("{second}:{oracle}");
    assert_eq!(finished(repo.command(&shim.path("bin/git")).arg("version").env("PATH", elsewhere)), version);
    let calls = |path: &str, program: &Path| finished(repo.command(program).arg("version").env("PATH", path));
    for path in [format!("{first}:{second}"), format!("{second}:{first}"), first.clone()] {
        let lost = calls(&path, &shim.path("bin/git"));
        assert_eq!(lost.code, 128, "{path}: {}", lost.stderr);
    }

    // Named explicitly: a script that calls the shim again.
    let script = shim.path("script");
    let text = format!("#!/bin/sh\nexec '{}' \"$@\"\n", shim.path("bin/git").display());
    testkit::write_program(&script, &text);
    let named = |git: &Path| finished(shim.command(&repo).arg("version").env("SAPWOOD_GIT", git));
    let circle = named(&script);
    assert_eq!(circle.code, 128);
    assert!(circle.stderr.contains_str("leads back to sapwood"), "{}", circle.stderr);
    // A script that waits instead of using `exec`: each round is a new process.
    testkit::write_program(&script, text.replace("exec ", ""));
    let circle = named(&script);
    assert_eq!(circle.code, 128);
    assert!(circle.stderr.contains_str("leads back to sapwood"), "{}", circle.stderr);
    assert!(named(&shim.path("bin/git")).stderr.contains_str("not a program other than sapwood"));
    assert!(named(Path::new("/nowhere")).stderr.contains_str("SAPWOOD_GIT names '/nowhere'"));
    testkit::write_program(&script, "#!/bin/sh\necho \"$0 $*\"\n");
    assert!(named(&script).stdout.ends_with(b"script version\n"));
    // No setting names the real Git.
    repo.git(&["config", "sapwood.git", "/nowhere"]);
    assert_eq!(shim.run(&repo, &["version"]), version);
}

#[test]
fn called_by_other_names() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    for name in ["git-checkout", "git-rev-parse", "git-log"] {
        symlink(SAPWOOD, shim.path("bin").join(name)).expect("linked");
    }
    let path = format!("{}:{}", shim.path("bin").display(), oracle_path(&repo));
    let call = |name: &str, args: &[&str]| {
        let program = shim.path("bin").join(name);
        let mut command = repo.command(&program);
        finished(command.args(args).env("PATH", &path).env("SAPWOOD_SHIM_LOG", shim.path("log")))
    };
    assert_eq!(call("git-checkout", &["topic"]).stderr, "Switched to branch 'topic'\n");
    shim.was_native(&[]);
    assert_eq!(call("git-rev-parse", &["HEAD"]), repo.git(&["rev-parse", "HEAD"]));
    shim.was_native(&[]);
    assert_eq!(call("git", &["rev-parse", "HEAD"]), repo.git(&["rev-parse", "HEAD"]));
}

/// Hooks and filters find Git's own programs, as when Git starts them.
#[test]
fn hooks_find_gits_programs() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), |repo| {
        two_branches(repo);
        repo.write_executable(".git/hooks/post-checkout", "#!/bin/sh\n. git-sh-setup && echo \"$GIT_DIR\"\n");
    });
    oracle.same(&["switch", "topic"]);
    shim.was_native(&[]);
}

/// Commands that only Git serves cost one search for Git: only the candidates on PATH and the
/// program itself are examined.
#[test]
fn handing_over_costs_one_search_on_path() {
    if !has_program("strace") {
        return;
    }
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    let trace = shim.path("trace");
    let path = format!("{}:{}:/usr/bin:/nowhere", shim.path("bin").display(), oracle_path(&repo));
    let mut command = repo.command("strace".as_ref());
    command.arg("-o").arg(&trace).arg(shim.path("bin/git")).arg("log").env("PATH", &path);
    command.env("SAPWOOD_SHIM_LOG", "");
    if !command.output().is_ok_and(|output| output.status.success()) {
        println!("skipped: strace cannot be run");
        return;
    }
    let text = fs::read_to_string(&trace).expect("written");
    let is_handover = |line: &&str| line.starts_with("execve(") && line.contains("\"log\"");
    let own: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with("fcntl(0, F_GETFD"))
        .take_while(|line| !is_handover(line))
        .collect();
    let count = |call: &str| own.iter().filter(|line| line.starts_with(call)).count();
    let entries = path.split(':').count();
    // One `stat` for the program itself, each entry of PATH, and the Git that was found.
    assert!(count("stat") <= entries + 2, "{}", own.join("\n"));
    // One `open` to read the first bytes of the Git that was found, in case it is a script.
    assert!(count("open") <= 1, "{}", own.join("\n"));
    assert!(own.len() <= 17 + entries && own.len() > entries, "{} calls:\n{}", own.len(), own.join("\n"));
    assert!(!text.lines().take_while(|line| !is_handover(line)).any(|line| line.contains("/proc/self/maps")));
}
