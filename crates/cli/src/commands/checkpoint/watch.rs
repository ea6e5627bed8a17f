//! `checkpoint --watch`: an entry after each change.

use std::{io::Write as _, time::Duration};

use bstr::{BStr, BString, ByteSlice as _};
use sapwood::checkpoint::{LeftOut, Report, watch};

use super::{
    report::{document, warn_of},
    request::{Request, command_line, open},
};
use crate::{
    session::{Session, invocation::Invocation},
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// The longest pause, in milliseconds.
const LONGEST: u64 = 600_000;

/// Makes entries until a signal ends the program, or until the worktree is removed.
pub(super) fn run(run: &Invocation, request: Request) -> Result<u8, Failure> {
    let settle = request.settle.as_ref().map_or(Ok(watch::SETTLE), |text| milliseconds(text.as_bstr()))?;
    let (repo, settings) = open(run)?;
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let label = request.label.clone().unwrap_or_default();
    let wanted = watch::Request { settle, label, command: command_line(run) };
    let watcher = watch::begin(session.context(run), wanted)?;
    // A current directory in a workspace would keep it from being unmounted.
    std::env::set_current_dir("/").map_err(Failure::cannot_open("/".as_ref()))?;
    let mut left_out = Vec::new();
    watcher.follow(session.context(run), &mut |made| tell(&request, made, &mut left_out))?;
    Ok(0)
}

fn milliseconds(word: &BStr) -> Result<Duration, Failure> {
    let number: Option<u64> = word.to_str().ok().and_then(|word| word.parse().ok());
    let number = number.filter(|number| *number <= LONGEST);
    let bad = || text!("'", word, "' is no number of milliseconds up to ", LONGEST.to_string());
    Ok(Duration::from_millis(number.ok_or_else(|| Failure::fatal(bad()))?))
}

/// Prints a line for an entry. Warns of what it does not hold, unless the entry before did not
/// hold it either.
fn tell(request: &Request, made: &Report, left_out: &mut Vec<LeftOut>) {
    if request.json {
        console::out(document(made).to_string());
    } else if !request.quiet {
        if *left_out != made.left_out {
            warn_of(&made.left_out);
            left_out.clone_from(&made.left_out);
        }
        console::out(BString::from(format!("Checkpoint {}", made.number)));
    }
    let _ = std::io::stdout().flush();
}
