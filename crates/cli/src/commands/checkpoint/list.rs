//! `checkpoints`: lists the entries of the worktree.

use bstr::{BString, ByteSlice as _};
use sapwood::checkpoint::{
    Place,
    list::{self, Listed, Report},
};
use serde_json::{Value, json};

use super::{JSON, Request, VERSION, no_arguments, shown};
use crate::{
    commands::{
        record::{Command, Group},
        workspace::context::print_json,
    },
    session::{Session, invocation::Invocation, settings::Settings},
    term::{
        args::{Grammar, Set, Table},
        console::{self, text},
        failure::Failure,
    },
};

const TABLE: Table<Set<Request>> =
    Table { usage: &["sapwood checkpoints [--json]"], options: &[JSON], grammar: Grammar::Mixed };

/// The record of `checkpoints`.
pub(in crate::commands) const COMMAND: Command = Command {
    name: "checkpoints",
    summary: "List the checkpoints of the worktree",
    about: "Lists the checkpoints, the newest first: number, time (UTC), how each came about, and its label. A \
            star marks the one from which the next undo goes back. Each is the tree of a ref \
            `refs/sapwood/checkpoints/<worktree>/<number>`, so `git diff` and `git show` can read it: \
            `<ref>:worktree` is the tree of the files, `<ref>:index` that of the index.",
    group: Group::Own,
    syntax: &TABLE,
    run,
    ..Command::BASE
};

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    no_arguments(&TABLE.parse(args)?.store(&mut request)?)?;
    let repo = run.open()?;
    let settings = Settings::read(&repo)?;
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let report = list::find(session.context(run))?;
    for (_, error) in &report.damaged {
        console::error(error);
    }
    if request.json {
        print_json(&document(&report));
    } else {
        report.entries.iter().rev().for_each(|listed| console::out(line(listed, report.place)));
    }
    Ok(u8::from(!report.damaged.is_empty()))
}

fn line(Listed { entry, .. }: &Listed, place: Option<u64>) -> BString {
    let star = if place == Some(entry.number) { "*" } else { " " };
    let info = &entry.info;
    let time = time(info.time);
    let kind = match info.place {
        Place::At { shows, .. } => format!("{} to {shows}", info.kind.name()),
        Place::New { .. } => info.kind.name().to_owned(),
    };
    let line = text!(star, format!("{:>5}  {time}  {kind:<12}  ", entry.number), shown(&info.label));
    line.trim_end().into()
}

/// Returns a time in the form of RFC 3339.
fn time(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |time| time.to_string())
}

fn document(report: &Report) -> Value {
    let entries = report.entries.iter().map(|Listed { entry, name }| {
        let info = &entry.info;
        let (parent, shows) = match info.place {
            Place::New { parent } => (parent, None),
            Place::At { shows, .. } => (None, Some(shows)),
        };
        json!({
            "number": entry.number,
            "ref": name.to_str_lossy(),
            "time": time(info.time),
            "kind": info.kind.name(),
            "label": info.label.to_str_lossy(),
            "command": info.command.to_str_lossy(),
            "head": info.head.map(|head| head.to_string()),
            "branch": info.branch.as_ref().map(|branch| branch.to_str_lossy()),
            "worktree": entry.state.worktree.to_string(),
            "index": entry.state.index.to_string(),
            "parent": parent,
            "shows": shows,
        })
    });
    json!({ "version": VERSION, "place": report.place, "checkpoints": Value::from_iter(entries) })
}
