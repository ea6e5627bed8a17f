//! `sapwood doctor`: which program `git` is, which commands are native in a repository and why
//! others are not, and what slows the repository down.
//!
//! Order: the programs; the repository; the commands, by the checks of the shim
//! ([`Candidate::reasons`](crate::commands::record::Candidate::reasons)); the facts and the
//! findings from them; the report. It changes nothing. A repository that cannot be opened is a
//! finding. Design: docs/design/doctor.md.

mod commands;
mod facts;
mod figures;
mod findings;
mod json;
mod location;
mod print;
mod programs;
mod report;

use bstr::BString;

use self::{facts::Facts, findings::Finding, location::Location, programs::Programs, report::Report};
use crate::{
    commands::record::{Command, Group},
    session::invocation::Invocation,
    term::{
        args::{Grammar, Opt, Set, Table},
        console,
        failure::Failure,
    },
};

/// The record of `doctor`.
pub(super) const COMMAND: Command = Command {
    name: "doctor",
    summary: "Show what is native in a repository, and what slows it down",
    about: "Shows which program is `git` here, which commands sapwood runs itself in this repository and \
            why it hands over the others, and what makes Git slow here, with a figure and the command that \
            mends it. The times are those of a sample: 64 files of the index, and eight small ones that \
            are read. It changes nothing.\n\n\
            The exit code is 0 if no command is handed over that is native otherwise, and nothing is \
            damaged or locked; otherwise, and outside of a repository, it is 1.\n\n\
            With `--json` the answer is one object. Its keys are `schema` (1), `sapwood`, `git`, \
            `real_git`, `repository`, `commands`, `facts`, `findings` and `exit_code`. Each command has \
            `name`, `native`, `reasons` and `options`; each finding `id`, `kind` (`problem` or `slow`), \
            `message` and `command`. No key goes, and none changes its meaning, within one `schema`.",
    group: Group::Own,
    syntax: &TABLE,
    run,
    ..Command::BASE
};

#[derive(Default)]
struct Request {
    verbose: bool,
    json: bool,
}

const TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood doctor [-v | --json]"],
    options: &[
        Opt::flag("-v, --verbose", "list the native options of each command", field!(verbose)),
        Opt::flag("--json", "print one JSON document for tools", field!(json)).only(),
    ],
    grammar: Grammar::Mixed,
};

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    if !TABLE.parse(args)?.store(&mut request)?.is_empty() {
        return Err(Failure::Misused("sapwood doctor takes no arguments".into()));
    }
    let programs = Programs::find(run);
    let opened = run.look_for_repository();
    let location = Location::of(&opened);
    let commands = commands::check(run, &opened);
    let facts = opened.as_ref().ok().map(|repo| Facts::find(repo, &run.cwd));
    let mut findings: Vec<Finding> = findings::of_location(&location).into_iter().collect();
    findings.extend(facts.iter().flat_map(|facts| findings::find(facts, &programs)));
    let report = Report { programs, location, commands, facts, findings };
    if request.json {
        console::out(json::document(&report))
    } else {
        let style = print::Style::find(run, opened.as_ref().ok());
        print::lines(&report, &style, request.verbose).iter().for_each(console::out);
    }
    Ok(report.code())
}
