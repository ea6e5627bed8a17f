//! Git's commands that sapwood has, and why some are handed over in this repository.

use repo::{Repository, StandaloneConfig};

use super::location::{Location, failure_message};
use crate::{
    commands::{
        COMMANDS, obstacles,
        reason::Reason,
        record::{Candidate, Command, Home},
    },
    session::invocation::Invocation,
    term::failure::Failure,
};

/// One command.
pub(super) struct CommandReport {
    pub(super) command: &'static Command,
    /// Each reason to hand the command over with any command line; empty if it is native.
    pub(super) reasons: Vec<String>,
}

impl CommandReport {
    /// Returns the native forms of the command's options.
    pub(super) fn options(&self) -> Vec<String> {
        self.command.syntax.specs().iter().filter_map(|spec| spec.native_form()).collect()
    }
}

/// Checks each command. Without a repository, only those that need none.
pub(super) fn check(run: &Invocation, opened: &Result<Repository, Failure>) -> Vec<CommandReport> {
    let outside = StandaloneConfig::load(&run.outside());
    let warnings = opened.as_ref().map(obstacles::warnings).unwrap_or_default();
    let location = Location::of(opened);
    let is_broken = matches!(location, Location::Broken(_));
    let is_outside = matches!(location, Location::None);
    let all = COMMANDS.iter().filter(|command| command.is_gits()).flat_map(|command| command.leaves());
    let judged = all.filter_map(|command| {
        let candidate = |home| Candidate { run, command, survey: None, args: &[], home };
        let runs_outside = command.traits.outside || command.traits.anywhere && is_outside;
        let reasons: Vec<Reason> = match (runs_outside, &outside, opened) {
            (true, Ok(outside), _) => candidate(Home::Outside(outside)).reasons().collect(),
            (true, Err(error), _) => {
                vec![Reason::repository(failure_message(&Failure::fatal(error.to_string())))]
            }
            (false, _, Ok(repo)) => {
                let candidate = candidate(Home::Repository(repo));
                warnings.iter().cloned().chain(candidate.reasons()).collect()
            }
            (false, _, Err(failure)) if is_broken => vec![Reason::refused(failure)],
            (false, _, Err(_)) => return None,
        };
        Some(CommandReport { command, reasons: reasons.iter().map(ToString::to_string).collect() })
    });
    judged.collect()
}

/// Returns names of commands; a family whose members are all present is named once.
pub(super) fn names<'a>(of: impl Iterator<Item = &'a CommandReport>) -> Vec<&'static str> {
    let among: Vec<&'static str> = of.map(|report| report.command.name).collect();
    let mut names = Vec::new();
    for command in COMMANDS.iter().filter(|command| command.is_gits()) {
        let members = command.leaves().iter().map(|leaf| leaf.name);
        let present: Vec<&'static str> = members.filter(|name| among.contains(name)).collect();
        if present.len() == command.leaves().len() { names.push(command.name) } else { names.extend(present) }
    }
    names
}

/// Returns each reason with the commands that are handed over for it, the most frequent reason
/// first.
pub(super) fn by_reason(reports: &[CommandReport]) -> Vec<(&str, Vec<&'static str>)> {
    let mut reasons: Vec<&str> = Vec::new();
    for reason in reports.iter().flat_map(|report| &report.reasons) {
        if !reasons.contains(&reason.as_str()) {
            reasons.push(reason);
        }
    }
    let with = |reason: &str| -> Vec<&CommandReport> {
        reports.iter().filter(|report| report.reasons.iter().any(|it| it == reason)).collect()
    };
    reasons.sort_by_key(|reason| std::cmp::Reverse(with(reason).len()));
    reasons.into_iter().map(|reason| (reason, names(with(reason).into_iter()))).collect()
}
