//! One run of a client's suite, in a directory of its own, with no variable of the caller except
//! `PATH`.

use std::{
    fs::{self, File},
    io,
    os::unix::{fs::symlink, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use testkit::{
    shim::{self, Invocation},
    wait_for_group,
};

use crate::{
    Error,
    install::Installed,
    results::{self, Format, Outcome, Results},
    roster::Client,
};

/// The global Git configuration for the suites.
const GITCONFIG: &str =
    "[user]\n\tname = A U Thor\n\temail = author@example.com\n[init]\n\tdefaultBranch = master\n";

/// The Git that a suite runs.
pub(crate) struct Side {
    pub(crate) name: &'static str,
    /// Directories to put in front of `PATH`.
    pub(crate) bins: Vec<PathBuf>,
}

/// The limits and options of runs.
pub(crate) struct Bounds<'a> {
    /// A run that takes longer is killed.
    pub(crate) timeout: Duration,
    pub(crate) scratch: &'a Path,
    /// True to run only the tests for CI.
    pub(crate) slice: bool,
    /// Set to stop the run.
    pub(crate) stop: &'a AtomicBool,
}

/// The result of one run.
#[derive(Debug, Default)]
pub(crate) struct Played {
    pub(crate) results: Results,
    pub(crate) took: Duration,
    /// The log of the shim. Empty for the real git.
    pub(crate) invocations: Vec<Invocation>,
}

impl Played {
    /// Returns the number of tests with this outcome.
    pub(crate) fn count(&self, outcome: Outcome) -> usize {
        self.results.values().filter(|(ended, _)| *ended == outcome).count()
    }
}

/// Runs the suite of `client`. Its output, its results and the shim's log are stored in the
/// client's directory.
///
/// Each run of a client has the same directory, because test results contain paths.
pub(crate) fn run(
    client: &'static Client,
    installed: &Installed,
    side: &Side,
    number: &str,
    bounds: &Bounds<'_>,
) -> Result<Played, Error> {
    let place = bounds.scratch.join(client.name);
    prepare(client, installed, &place).map_err(|source| Error::io("prepare", &place, source))?;
    if client.in_repository {
        let real = side.bins.last().expect("the real git's is the last").join("git");
        make_repository(&real, &place).map_err(|source| Error::io("make a repository of", &place, source))?;
    }
    let kept = |what: &str| installed.dir.join(format!("{}{number}.{what}", side.name));
    let (said, file, log) = (kept("out"), kept("xml"), kept("log"));
    for old in [&file, &log] {
        match fs::remove_file(old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("remove", old, error));
            }
            _ => {}
        }
    }
    let create = |path: &Path| File::create(path).map_err(|source| Error::io("create", path, source));
    let output = create(&said)?;
    let errors = match client.results {
        Format::JUnit => output.try_clone().map_err(|source| Error::io("write", &said, source))?,
        // On the same stream, messages would corrupt the lines of the results.
        Format::Tap => create(&kept("err"))?,
    };
    let results = file.to_string_lossy();
    let mut args: Vec<&str> = client.run.to_vec();
    args.extend(if bounds.slice { client.slice.unwrap_or(client.all) } else { client.all });
    let args = args.iter().map(|arg| arg.replace("{results}", &results));
    let began = Instant::now();
    let mut command = Command::new("/usr/bin/env");
    environment(&mut command, client, installed, side, &place)
        .env("SAPWOOD_SHIM_LOG", &log)
        .args(args)
        .current_dir(place.join("suite").join(client.within))
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .process_group(0);
    let mut child = command.spawn().map_err(|source| Error::io("run", &said, source))?;
    let in_time = wait_for_group(&mut child, began + bounds.timeout, bounds.stop)
        .map_err(|source| Error::io("wait for", &said, source))?;
    let took = began.elapsed();
    if bounds.stop.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    if !in_time {
        eprintln!("{}: {}: killed after {} s", client.name, side.name, bounds.timeout.as_secs());
    }
    let results = results::read(client.results, if client.results == Format::Tap { &said } else { &file })?;
    let invocations = shim::read(&log).map_err(|source| Error::io("read", &log, source))?;
    eprintln!("{}: {}: {} tests in {:.0} s", client.name, side.name, results.len(), took.as_secs_f64());
    Ok(Played { results, took, invocations })
}

/// Creates the directory of a run: a home, a directory for temporary files, a copy of the suite.
fn prepare(client: &Client, installed: &Installed, place: &Path) -> io::Result<()> {
    match fs::remove_dir_all(place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    for dir in ["home", "tmp"] {
        fs::create_dir_all(place.join(dir))?;
    }
    fs::write(place.join("home/.gitconfig"), GITCONFIG)?;
    if let Some(modules) = &installed.modules {
        symlink(modules, place.join("node_modules"))?;
    }
    let copied = Command::new("cp").arg("-a").arg(&installed.suite).arg(place.join("suite")).status()?;
    copied.success().then_some(()).ok_or_else(|| io::Error::other("cp failed"))?;
    for (file, was, becomes) in client.edits {
        let path = place.join("suite").join(file);
        let text = fs::read_to_string(&path)?;
        if !text.contains(was) {
            return Err(io::Error::other(format!("{file} does not hold the text to be changed")));
        }
        fs::write(&path, text.replace(was, becomes))?;
    }
    Ok(())
}

/// Commits the copy of the suite to a repository of its own.
fn make_repository(git: &Path, place: &Path) -> io::Result<()> {
    for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "suite"]] {
        let mut command = Command::new(git);
        command.args(args).current_dir(place.join("suite")).env_clear().env("HOME", place.join("home"));
        if !command.status()?.success() {
            return Err(io::Error::other(format!("git {} failed", args.join(" "))));
        }
    }
    Ok(())
}

fn environment<'c>(
    command: &'c mut Command,
    client: &Client,
    installed: &Installed,
    side: &Side,
    place: &Path,
) -> &'c mut Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::iter::once(&installed.bin).chain(&side.bins).cloned();
    let path = std::env::join_paths(own.chain(std::env::split_paths(&path)));
    command
        .env_clear()
        .env("PATH", path.expect("none of these directories has a colon in its name"))
        .env("HOME", place.join("home"))
        .env("TMPDIR", place.join("tmp"))
        .envs([
            ("USER", "root"),
            ("LOGNAME", "root"),
            ("SHELL", "/bin/sh"),
            ("TERM", "dumb"),
            ("LC_ALL", "C.UTF-8"),
            ("TZ", "UTC"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("PYTHONHASHSEED", "0"),
            ("PYTHONDONTWRITEBYTECODE", "1"),
        ])
        .envs(client.env.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roster::PYTHON;

    const TALKS: Client = Client {
        name: "talks",
        edits: &[("said", "raw", "edited")],
        run: &["sh", "-c"],
        all: &["echo \"ok 1 - $(cat said) <$CARGO_PKG_NAME> ${PATH#*/client:}\"; sleep 60"],
        results: Format::Tap,
        ..PYTHON
    };

    fn talk(text: &str, scratch: &Path) -> Result<Played, Error> {
        let suite = scratch.join("published");
        fs::create_dir_all(&suite).expect("a temporary directory");
        fs::write(suite.join("said"), text).expect("a new directory");
        let installed =
            Installed { dir: scratch.to_owned(), bin: scratch.join("client"), suite, modules: None };
        let side = Side { name: "shim", bins: vec!["/shim".into(), "/real".into()] };
        let (timeout, stop) = (Duration::from_millis(500), AtomicBool::new(false));
        let bounds = Bounds { timeout, scratch, slice: false, stop: &stop };
        run(&TALKS, &installed, &side, "", &bounds)
    }

    #[test]
    fn a_suite_meets_its_git_and_no_variable_of_the_callers() {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let played = talk("raw", scratch.path()).expect("it ran");
        assert!(played.took < Duration::from_secs(30), "it is killed: {:?}", played.took);
        let (outcome, title) = &played.results["0001"];
        assert_eq!(*outcome, Outcome::Passed);
        assert!(title.starts_with("1 - edited <> /shim:/real:"), "{title}");
    }

    #[test]
    fn an_edit_that_changes_nothing_is_an_error() {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        assert!(talk("cooked", scratch.path()).is_err());
    }
}
