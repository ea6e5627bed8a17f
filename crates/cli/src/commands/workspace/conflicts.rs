//! `workspace conflicts`. See [`sapwood::workspace::conflicts`].

use bstr::{BString, ByteSlice as _};
use sapwood::workspace::conflicts::{Found, Pair, Report, Skipped};
use serde_json::{Value, json};

use super::{
    context::{self, Context},
    request::{CONFLICTS, Request},
};
use crate::{
    session::invocation::Invocation,
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let names = CONFLICTS.parse(args)?.store(&mut request)?;
    let context = Context::open(run)?;
    let worktrees = context.worktree_context();
    let report = Found::of(&worktrees, &names)?.merge(&worktrees)?;
    if request.json {
        context::print_document(json(&report));
    } else {
        report.pairs.iter().for_each(print);
        for Skipped { name, reason } in &report.skipped {
            console::warning(text!("'", name, "' was not examined: ", reason.as_str()));
        }
    }
    let has_conflicts = report.pairs.iter().any(|pair| !pair.conflicts.is_empty());
    Ok(match (has_conflicts, report.skipped.is_empty()) {
        (true, _) => 1,
        (false, false) => 2,
        (false, true) => 0,
    })
}

/// Prints a pair, and a line for each path.
fn print(pair: &Pair) {
    let [one, other] = &pair.names;
    console::out(text!(one, " ", other));
    let mut paths: Vec<&BString> = pair.paths.iter().chain(&pair.conflicts).collect();
    paths.sort_unstable();
    paths.dedup();
    for path in paths {
        let word = if pair.conflicts.contains(path) { "  conflict  " } else { "  both      " };
        console::out(text!(word, path));
    }
}

fn json(report: &Report) -> Value {
    let text = |bytes: &BString| Value::from(bytes.to_str_lossy());
    let list = |paths: &[BString]| Value::from_iter(paths.iter().map(text));
    let pair = |pair: &Pair| {
        json!({
            "workspaces": list(&pair.names),
            "paths": list(&pair.paths),
            "conflicts": list(&pair.conflicts),
        })
    };
    let skipped = |one: &Skipped| json!({"name": text(&one.name), "reason": one.reason});
    json!({
        "pairs": Value::from_iter(report.pairs.iter().map(pair)),
        "notExamined": Value::from_iter(report.skipped.iter().map(skipped)),
    })
}
