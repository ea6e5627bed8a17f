//! `SAPWOOD_SHIM_LOG=FILE`: one line of JSON per invocation.
//!
//! One `write` appends the line to a file opened with `O_APPEND`, so lines of parallel processes do
//! not mix. Bytes that are not UTF-8 become U+FFFD. A failed write to the log does not affect the
//! command: Git has no such failure.

use std::{
    ffi::{OsStr, OsString},
    io::Write as _,
    path::PathBuf,
    time::Instant,
};

use repo::Env;

use super::Reason;
use crate::term::{files, text::json};

/// The outcome of an invocation.
pub(super) enum Outcome<'a> {
    /// The command ran natively.
    Native {
        /// Its exit code; 128 + n if signal n ended it.
        code: u8,
    },
    /// The process is about to become the real Git.
    HandedOver {
        /// The reason to hand over.
        reason: &'a Reason,
    },
    /// The command had to be native, and was not.
    Refused {
        /// The reason why it would have been handed over.
        reason: &'a Reason,
    },
}

/// The log file, and the fields that are known from the start.
pub(super) struct Log {
    file: Option<PathBuf>,
    argv: Vec<String>,
    started: Instant,
}

impl Log {
    pub(super) fn new(env: &Env, argv: &[OsString], started: Instant) -> Log {
        let file = env.get(OsStr::new("SAPWOOD_SHIM_LOG")).filter(|file| !file.is_empty());
        let argv = match file {
            Some(_) => argv.iter().map(|arg| arg.to_string_lossy().into_owned()).collect(),
            None => Vec::new(),
        };
        // A native command changes its directory for `-C`; the log's name is relative to the
        // directory before that.
        let file = file.map(|file| std::path::absolute(file).unwrap_or_else(|_| file.into()));
        Log { file, argv, started }
    }

    /// Returns true if a line will be written.
    pub(super) fn is_on(&self) -> bool {
        self.file.is_some()
    }

    /// Returns the time when the program started.
    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// Writes the line. Its time is measured from the start of the program.
    pub(super) fn write(&self, command: &str, outcome: &Outcome<'_>) {
        let Some(file) = &self.file else { return };
        let line = line(&self.argv, command, outcome, self.started.elapsed().as_secs_f64() * 1000.0);
        if let Ok(mut file) = files::open_log(file) {
            let _ = file.write_all(line.as_bytes());
        }
    }
}

fn line(argv: &[String], command: &str, outcome: &Outcome<'_>, milliseconds: f64) -> String {
    let argv: Vec<String> = argv.iter().map(|arg| json(arg)).collect();
    let (what, reason, code) = match outcome {
        Outcome::Native { code } => ("native", None, Some(code)),
        Outcome::HandedOver { reason } => ("handed-over", Some(reason), None),
        Outcome::Refused { reason } => ("refused", Some(reason), Some(&128)),
    };
    let reason = reason.map_or_else(|| "null".into(), |reason| json(&reason.to_string()));
    let command = if command.is_empty() { "null".into() } else { json(command) };
    let code = code.map_or_else(|| "null".into(), u8::to_string);
    format!(
        "{{\"argv\":[{}],\"command\":{command},\"outcome\":\"{what}\",\"reason\":{reason},\"code\":{code},\"ms\":{milliseconds:.3}}}\n",
        argv.join(","),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let argv = ["git".into(), "switch".into(), "a \"b\"\\\n\u{1}é".into()];
        assert_eq!(
            line(&argv, "switch", &Outcome::Native { code: 0 }, 1.23456),
            "{\"argv\":[\"git\",\"switch\",\"a \\\"b\\\"\\\\\\n\\u0001é\"],\"command\":\"switch\",\
             \"outcome\":\"native\",\"reason\":null,\"code\":0,\"ms\":1.235}\n"
        );
        let reason = &Reason::Option("--merge".into());
        assert_eq!(
            line(&[], "", &Outcome::HandedOver { reason }, 0.0),
            "{\"argv\":[],\"command\":null,\"outcome\":\"handed-over\",\"reason\":\"option '--merge'\",\
             \"code\":null,\"ms\":0.000}\n"
        );
    }
}
