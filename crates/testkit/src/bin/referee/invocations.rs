//! What the shim wrote down: one JSON line for each time it was called (`SAPWOOD_SHIM_LOG`).

use std::{collections::BTreeMap, fs, io, path::Path};

use serde::{Deserialize, Serialize};

use crate::Error;

/// The commands sapwood serves; the share that ran natively is counted over these.
pub(crate) const SERVED: &[&str] = &[
    "checkout",
    "switch",
    "restore",
    "reset",
    "read-tree",
    "checkout-index",
    "sparse-checkout",
    "status",
    "worktree",
    "clean",
    "clone",
    "check-attr",
    "check-ignore",
    "diff-files",
    "diff-index",
    "ls-files",
    "update-index",
];

/// One call of the shim.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Invocation {
    /// The command's name; none where there was none.
    pub(crate) command: Option<String>,
    pub(crate) outcome: Handling,
    /// Why it was not native.
    pub(crate) reason: Option<String>,
}

/// Who did the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Handling {
    Native,
    HandedOver,
    /// Nobody: it would have been handed over, and `SAPWOOD_SHIM=native-only` forbids that.
    Refused,
}

/// How often a command was called, and how often it ran natively.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Tally {
    pub(crate) native: usize,
    /// Reason to number of times.
    pub(crate) handed_over: BTreeMap<String, usize>,
}

impl Tally {
    /// All calls.
    pub(crate) fn calls(&self) -> usize {
        self.native + self.handed_over.values().sum::<usize>()
    }

    /// Adds another's calls.
    pub(crate) fn add(&mut self, other: &Tally) {
        self.native += other.native;
        for (reason, times) in &other.handed_over {
            *self.handed_over.entry(reason.clone()).or_default() += times;
        }
    }
}

/// Reads a log. Where there is none, nothing was called; a line cut short by a kill is passed over.
pub(crate) fn read(log: &Path) -> Result<Vec<Invocation>, Error> {
    match fs::read(log) {
        Ok(text) => Ok(text
            .split(|&byte| byte == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::io("read", log, error)),
    }
}

/// Counts the calls of the commands sapwood serves.
pub(crate) fn tally(calls: &[Invocation]) -> BTreeMap<String, Tally> {
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    for call in calls {
        let Some(command) = call.command.as_deref().filter(|command| SERVED.contains(command)) else {
            continue;
        };
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

/// A reason without the place where a script happened to work: `files:///somewhere/repo'` is `files://<path>'`.
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
        let tallies = tally(&calls);
        assert_eq!(tallies.keys().collect::<Vec<_>>(), ["checkout"]);
        let checkout = &tallies["checkout"];
        assert_eq!((checkout.native, checkout.handed_over["-p"], checkout.calls()), (1, 3, 4));
    }

    #[test]
    fn no_log_is_no_calls() {
        assert_eq!(read(Path::new("/nowhere/log")).expect("not an error"), []);
    }
}
