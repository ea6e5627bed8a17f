//! Runs one script in a directory of its own, with a time limit.
//!
//! A script is the leader of a process group. The group is killed when the script ends, exceeds its
//! time, or the referee is interrupted (`testkit::wait_for_group`).

use std::{
    fs::{self, File},
    io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use testkit::{
    shim::{self, Invocation},
    wait_for_group,
};

use crate::{Error, tap::Tap};

/// The Git that a script runs.
#[derive(Debug, Clone)]
pub(crate) struct Side {
    /// The name for log files.
    pub(crate) name: String,
    /// The directory of the `git` under test, without spaces: Git's scripts do not quote it.
    pub(crate) bin: PathBuf,
    /// The directory of the real Git, which is put in front of `PATH` for the shim.
    pub(crate) behind: PathBuf,
    /// The number of checkout workers that the shim must use.
    pub(crate) workers: Option<u32>,
}

/// The limits and options of runs.
pub(crate) struct Bounds<'a> {
    /// A script that takes longer is killed.
    pub(crate) timeout: Duration,
    /// The parent of the scripts' directories.
    pub(crate) scratch: &'a Path,
    /// The directory for the output and traces of scripts, if they are kept.
    pub(crate) logs: Option<&'a Path>,
    /// Set to stop the run.
    pub(crate) stop: &'a AtomicBool,
}

/// The result of one run of a script.
#[derive(Debug, Default)]
pub(crate) struct Played {
    pub(crate) tap: Tap,
    pub(crate) took: Duration,
    pub(crate) timed_out: bool,
    /// The shim's log; empty for the real Git.
    pub(crate) invocations: Vec<Invocation>,
}

/// Runs `file`, a script in Git's `t/`, in `dir`, which is created for it and removed afterwards.
pub(crate) fn run(file: &Path, side: &Side, dir: &Path, bounds: &Bounds<'_>) -> Result<Played, Error> {
    fs::create_dir_all(dir).map_err(|source| Error::io("create", dir, source))?;
    let said = dir.join("stdout");
    let log = dir.join("invocations");
    let began = Instant::now();
    let mut child = command(file, side, dir, bounds, &said, &log)?
        .spawn()
        .map_err(|source| Error::io("run", file, source))?;
    let in_time = wait_for_group(&mut child, began + bounds.timeout, bounds.stop)
        .map_err(|source| Error::io("wait for", file, source))?;
    let took = began.elapsed();
    if bounds.stop.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    // The output may be cut off in the middle of a character.
    let text = fs::read(&said).map_err(|source| Error::io("read", &said, source))?;
    let tap = Tap::parse(&String::from_utf8_lossy(&text));
    let invocations = shim::read(&log).map_err(|source| Error::io("read", &log, source))?;
    if let Some(logs) = bounds.logs {
        keep(dir, &logs.join(&side.name), file)?;
    }
    // A directory that a script made undeletable is removed with the scratch directory, or stays.
    // This does not affect the results.
    let _ = fs::remove_dir_all(dir);
    Ok(Played { tap, took, timed_out: !in_time, invocations })
}

fn command(
    file: &Path,
    side: &Side,
    dir: &Path,
    bounds: &Bounds<'_>,
    said: &Path,
    log: &Path,
) -> Result<Command, Error> {
    let create = |path: &Path| File::create(path).map_err(|source| Error::io("create", path, source));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(side.behind.clone()).chain(std::env::split_paths(&path)))
        .map_err(|_| Error::Colon { path: side.behind.clone() })?;
    let mut command = Command::new("/bin/sh");
    command.arg(file).arg(format!("--root={}", dir.display()));
    if bounds.logs.is_some() {
        command.args(["--verbose-log", "-x"]);
    }
    command
        .current_dir(file.parent().expect("a script in a directory"))
        .stdin(Stdio::null())
        .stdout(create(said)?)
        .stderr(create(&dir.join("stderr"))?)
        .process_group(0)
        .env_clear();
    for name in ["USER", "LOGNAME", "SHELL", "LD_LIBRARY_PATH"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
        .env("PATH", path)
        .env("HOME", dir)
        .env("TMPDIR", dir)
        .env("TERM", "dumb")
        .env("HARNESS_ACTIVE", "1")
        // The lint for chained commands in the scripts is a matter for Git's own developers.
        .env("GIT_TEST_EXT_CHAIN_LINT", "0")
        .env("GIT_TEST_INSTALLED", &side.bin)
        .env("TEST_OUTPUT_DIRECTORY", dir)
        .env("SAPWOOD_SHIM_LOG", log);
    if let Some(workers) = side.workers {
        command.env("SAPWOOD_TEST_CHECKOUT_WORKERS", workers.to_string());
    }
    Ok(command)
}

/// Keeps the output and the shell trace of the script.
fn keep(dir: &Path, to: &Path, script: &Path) -> Result<(), Error> {
    fs::create_dir_all(to).map_err(|source| Error::io("create", to, source))?;
    let name = script.file_stem().expect("a script has a name").to_string_lossy();
    let traced = fs::read_dir(dir.join("test-results")).into_iter().flatten().flatten();
    let traced =
        traced.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|is| is == "out"));
    let kept = [("stdout", "tap"), ("stderr", "err"), ("invocations", "json")];
    let kept = kept.map(|(file, suffix)| (dir.join(file), suffix)).into_iter();
    for (from, suffix) in kept.chain(traced.map(|path| (path, "out"))) {
        let to = to.join(format!("{name}.{suffix}"));
        match fs::copy(&from, &to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("copy", &from, error));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::tap::Outcome;

    fn play(text: &str, timeout: Duration, stop: &AtomicBool) -> (Result<Played, Error>, tempfile::TempDir) {
        let place = tempfile::tempdir().expect("a temporary directory");
        let file = place.path().join("t0000-x.sh");
        fs::write(&file, text).expect("an empty directory");
        let side =
            Side { name: "real".into(), bin: "/nowhere".into(), behind: "/behind".into(), workers: Some(8) };
        let bounds = Bounds { timeout, scratch: place.path(), logs: None, stop };
        let played = run(&file, &side, &place.path().join("t0000-x"), &bounds);
        (played, place)
    }

    #[test]
    fn a_script_meets_its_side_and_nothing_else_of_ours() {
        let text = "echo \"ok 1 - $GIT_TEST_INSTALLED $SAPWOOD_TEST_CHECKOUT_WORKERS ${PATH%%:*} $CARGO_PKG_NAME.\"\n\
                    echo '{\"command\":\"checkout\",\"outcome\":\"native\"}' >>\"$SAPWOOD_SHIM_LOG\"\necho 1..1\n";
        let (played, place) = play(text, Duration::from_secs(20), &AtomicBool::new(false));
        let played = played.expect("it ran");
        assert_eq!(played.tap.case(1).map(|case| case.title.as_str()), Some("/nowhere 8 /behind ."));
        assert!(played.tap.is_whole() && !played.timed_out);
        assert_eq!(played.invocations.len(), 1);
        assert!(!place.path().join("t0000-x").exists(), "its directory is removed");
    }

    #[test]
    fn a_late_script_is_killed_with_all_it_started() {
        let text = "echo ok 1 - begun\n(sleep 2; touch \"$HOME/../late\") &\nsleep 600\necho ok 2 - ended\n";
        let (played, place) = play(text, Duration::from_millis(300), &AtomicBool::new(false));
        let played = played.expect("it ran");
        assert!(played.timed_out);
        assert!(played.took < Duration::from_secs(2), "{:?}", played.took);
        assert_eq!(played.tap.count(Outcome::Passed), 1);
        assert!(!played.tap.is_whole());
        thread::sleep(Duration::from_millis(2500));
        assert!(!place.path().join("late").exists());
    }

    #[test]
    fn what_a_script_left_running_is_killed_when_it_ends() {
        let text = "(sleep 1; touch \"$HOME/../late\") &\necho ok 1 - all\necho 1..1\n";
        let (played, place) = play(text, Duration::from_secs(20), &AtomicBool::new(false));
        assert!(!played.expect("it ran").timed_out);
        thread::sleep(Duration::from_millis(1500));
        assert!(!place.path().join("late").exists());
    }

    #[test]
    fn an_interrupt_ends_a_script() {
        let (played, _place) = play("sleep 600\n", Duration::from_secs(600), &AtomicBool::new(true));
        assert!(matches!(played, Err(Error::Interrupted)));
    }
}
