//! Runs of third-party programs with the shim: puts the shim in Git's place, and reads the shim's
//! log.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use serde::{Deserialize, Serialize};

/// Returns the names of the commands that sapwood supports, natively or not, from its own records.
pub fn served(sapwood: &Path) -> BTreeSet<String> {
    let listed = output(Command::new(sapwood).args(["help", "--native"])).unwrap_or_default();
    listed.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect()
}

/// One call of the shim.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Invocation {
    /// The command's name; `None` without a command.
    pub command: Option<String>,
    /// The program that did the work.
    pub outcome: Handling,
    /// The reason why it was not native.
    pub reason: Option<String>,
}

/// The program that did the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Handling {
    /// sapwood.
    Native,
    /// The real Git.
    HandedOver,
    /// No program: handing over is forbidden by `SAPWOOD_SHIM=native-only`.
    Refused,
}

/// The number of calls of a command, native and handed over.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// The number of native calls.
    pub native: usize,
    /// The number of calls by reason.
    pub handed_over: BTreeMap<String, usize>,
}

impl Tally {
    /// Returns the number of all calls.
    pub fn calls(&self) -> usize {
        self.native + self.handed_over.values().sum::<usize>()
    }

    /// Adds the calls of another tally.
    pub fn add(&mut self, other: &Tally) {
        self.native += other.native;
        for (reason, times) in &other.handed_over {
            *self.handed_over.entry(reason.clone()).or_default() += times;
        }
    }
}

/// Creates the directory `bin` with links to the programs beside `git`, but with `shim` as `git`.
pub fn stand_in(git: &Path, shim: &Path, bin: &Path) -> Result<(), (PathBuf, io::Error)> {
    let from = git.parent().expect("a file is in a directory");
    let at = |path: &Path, error| (path.to_owned(), error);
    let link = |target: &Path, name: &OsStr| {
        let link = bin.join(name);
        symlink(target, &link).map_err(|error| at(&link, error))
    };
    fs::create_dir(bin).map_err(|error| at(bin, error))?;
    link(shim, "git".as_ref())?;
    for entry in fs::read_dir(from).map_err(|error| at(from, error))? {
        let entry = entry.map_err(|error| at(from, error))?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with("git-") || name == "scalar") {
            link(&entry.path(), &name)?;
        }
    }
    Ok(())
}

/// Returns the version that `git`, or the shim in its place, prints; `None` if it is not a working
/// Git.
pub fn git_version(git: &Path) -> Option<String> {
    let said = output(Command::new(git).arg("version"));
    said.filter(|said| said.starts_with("git version"))
}

/// Returns sapwood's version, and the commit that it was built from.
pub fn sapwood_version(git: &Path) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut describe = Command::new(git);
    describe.args(["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty"]);
    match output(&mut describe) {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    }
}

/// Returns today's date in UTC: `2026-11-20`.
pub fn today() -> String {
    output(Command::new("date").args(["-u", "+%F"])).unwrap_or_default()
}

/// Returns the standard output of a command, without its last line end; `None` if the command
/// fails.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// Reads a log. A missing log means that there were no calls. A line cut off by a kill is skipped.
pub fn read(log: &Path) -> io::Result<Vec<Invocation>> {
    match fs::read(log) {
        Ok(text) => Ok(text
            .split(|&byte| byte == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Counts the calls of the `served` commands.
pub fn tally(calls: &[Invocation], served: &BTreeSet<String>) -> BTreeMap<String, Tally> {
    let mut tallies = tally_all(calls);
    tallies.retain(|command, _| served.contains(command));
    tallies
}

/// Counts the calls of all commands. Calls without a command are counted under the empty name.
pub fn tally_all(calls: &[Invocation]) -> BTreeMap<String, Tally> {
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    for call in calls {
        let command = call.command.as_deref().unwrap_or_default();
        let tally = tallies.entry(command.to_owned()).or_default();
        match call.outcome {
            Handling::Native => tally.native += 1,
            Handling::HandedOver | Handling::Refused => {
                let reason = call.reason.as_deref().unwrap_or("no reason given");
                *tally.handed_over.entry(anywhere(reason)).or_default() += 1;
            }
        }
    }
    tallies
}

/// Returns a reason with paths removed, which differ between runs: `files:///somewhere/repo'`
/// becomes `files://<path>'`.
fn anywhere(reason: &str) -> String {
    const LEAD: &str = "://";
    let Some(start) = reason.find(LEAD).map(|at| at + LEAD.len()) else { return reason.to_owned() };
    let end = reason[start..].find('\'').map_or(reason.len(), |at| start + at);
    format!("{}<path>{}", &reason[..start], &reason[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_the_same_wherever_it_was() {
        let reason = "ref storage format 'files:///tmp/a b/repo' is not supported";
        assert_eq!(anywhere(reason), "ref storage format 'files://<path>' is not supported");
        assert_eq!(anywhere("option '--patch'"), "option '--patch'");
    }

    #[test]
    fn counts_served_commands_only() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let log = dir.path().join("log");
        fs::write(
            &log,
            r#"{"argv":["git","checkout","b"],"command":"checkout","outcome":"native","reason":null,"ms":1.5}
{"argv":["git","checkout","-p"],"command":"checkout","outcome":"handed-over","reason":"-p","ms":0.1}
{"argv":["git","checkout","-p"],"command":"checkout","outcome":"handed-over","reason":"-p","ms":0.1}
{"argv":["git","checkout","-p"],"command":"checkout","outcome":"refused","reason":"-p","code":128,"ms":0.1}
{"argv":["git","commit"],"command":"commit","outcome":"handed-over","reason":"command","ms":0.1}
{"argv":["git"],"command":null,"outcome":"handed-over","reason":"command","ms":0.1}
{"argv":["git","cle"#,
        )
        .expect("an empty directory");
        let calls = read(&log).expect("readable");
        assert_eq!(calls.len(), 6, "the line cut short is passed over");
        let tallies = tally(&calls, &BTreeSet::from(["checkout".to_owned()]));
        assert_eq!(tallies.keys().collect::<Vec<_>>(), ["checkout"]);
        let checkout = &tallies["checkout"];
        assert_eq!((checkout.native, checkout.handed_over["-p"], checkout.calls()), (1, 3, 4));
    }

    #[test]
    fn no_log_is_no_calls() {
        assert_eq!(read(Path::new("/nowhere/log")).expect("not an error"), []);
    }
}
