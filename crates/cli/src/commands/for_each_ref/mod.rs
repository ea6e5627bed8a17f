//! `sapwood for-each-ref`: lists refs in a format.
//!
//! The list is [`sapwood::for_each_ref`].

mod request;

use std::{
    io::IsTerminal as _,
    time::{SystemTime, UNIX_EPOCH},
};

use bstr::{BStr, BString, ByteSlice as _};
use repo::{Repository, keys};
use sapwood::{
    ObjectId,
    for_each_ref::{self, Commits},
};

use self::request::{LINE, Request, TABLE, When as ColorWhen};
use crate::{
    commands::{
        obstacles,
        reason::Reason,
        record::{Candidate, Check, Command, Group, Traits},
        rules::{Setting, When},
    },
    session::{
        invocation::Invocation,
        settings::refused::{self, Reader as SettingsReader},
    },
    term::{
        args::Given,
        console::{self, Listing, text},
        failure::Failure,
    },
};

/// The record of `for-each-ref`.
pub(super) const COMMAND: Command = Command {
    name: "for-each-ref",
    summary: "Output information on each ref",
    about: "Prints a line for each ref, in the format and order that the options ask for. Fields that \
            clients rarely use are left to the real Git.",
    group: Group::Scripts,
    syntax: &TABLE,
    traits: Traits { starts_no_program: true, ..Command::BASE.traits },
    settings: &[SETTINGS],
    unserved: obstacles::LISTING,
    line: &[LINE],
    checks: &[&[
        obstacles::RULES,
        Check::new(obstacles::PARTIAL_OR_GRAFTS, files),
        Check::new(
            "a value of `--points-at`, `--merged`, `--contains` and their opposites that is missing, \
             ambiguous, or begins with a colon",
            objects,
        ),
    ]],
    late: &[
        "alignments of texts that are not ASCII",
        "branches without a commit",
        "damaged histories",
        "damaged objects",
        "dates so far away",
        "malformed objects",
        "malformed tags",
        "missing or damaged objects",
    ],
    run,
    ..Command::BASE
};

const SETTINGS: &[Setting] =
    &[(keys::trace2::ALL_SETTINGS.name(), When::Set), (keys::versionsort::ALL_SETTINGS.name(), When::Set)];

/// The options whose values are objects.
const OBJECTS: [&str; 5] = ["--points-at", "--merged", "--no-merged", "--contains", "--no-contains"];

/// Detects grafts and partial clones, whose objects may have to be fetched.
fn files(candidate: &Candidate<'_>) -> Vec<Reason> {
    let mut found = obstacles::partial(candidate.repo());
    found.extend(obstacles::grafts(candidate.repo()));
    found
}

/// Detects option values that may not name an object, or name several.
fn objects(candidate: &Candidate<'_>) -> Vec<Reason> {
    let Some(survey) = candidate.survey else { return Vec::new() };
    let repo = candidate.repo();
    let reason = |given: &Given| {
        let word = given.value.as_ref().filter(|_| OBJECTS.contains(&given.name))?.as_bstr();
        let id = match repo.resolve(word) {
            Ok(Some(id)) if !word.starts_with(b":") => Some(id),
            _ => None,
        };
        let is_enough = |id: &ObjectId| match given.name {
            "--points-at" => true,
            _ => matches!(repo.peel_to_commit(*id), Ok(Some(_))),
        };
        match id.filter(is_enough) {
            Some(_) => obstacles::ambiguous(repo, word).or_else(|| warned(repo, word)),
            None => Some(Reason::repository(format!("'{word}' may be no object"))),
        }
    };
    survey.options.iter().filter_map(reason).collect()
}

/// Detects an ambiguous name, of which Git warns.
fn warned(repo: &Repository, word: &BStr) -> Option<Reason> {
    let names = repo.ambiguous_names(word);
    let is_plain = names.is_ok_and(|names| names.is_empty()) && repo.ignored_refs(word).is_empty();
    (!is_plain).then(|| Reason::repository(format!("'{word}' may be several objects")))
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let patterns = TABLE.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    refused::check(&repo, &[SettingsReader::Every])?;
    crate::term::failure::unserved_if(request.stdin, "'--stdin'")?;
    let (format, keys) = (request.format()?, request.keys()?);
    if request.wanted.start_after.is_some() {
        let wrong = match (request.has_own_order(), patterns.is_empty()) {
            (true, _) => Some("cannot use --start-after with custom sort options"),
            (false, false) => Some("cannot use --start-after with patterns"),
            (false, true) => None,
        };
        if let Some(wrong) = wrong {
            return Err(Failure::fatal(wrong));
        }
    }
    let wanted = for_each_ref::Request {
        patterns,
        commits: request.commits(&repo)?,
        unsorted: request.sorts_nothing(),
        keys,
        colors: format.has_colors() && wants_colors(run, request.color),
        format,
        now: now(run),
        ..request.wanted
    };
    let listed = for_each_ref::list(&repo, wanted)?;
    listed.warnings.iter().for_each(console::warning);
    // The refs before an error are printed.
    let mut listing = Listing::default();
    *listing.buffer() = listed.text;
    let written = listing.write("standard output");
    listed.failed.map_or(Ok(()), |error| Err(error.into())).and(written).map(|()| 0)
}

fn wants_colors(run: &Invocation, when: ColorWhen) -> bool {
    match when {
        ColorWhen::Always => true,
        ColorWhen::Never => false,
        ColorWhen::Auto => {
            std::io::stdout().is_terminal() && !matches!(run.variable("TERM"), None | Some(b"dumb"))
        }
    }
}

/// Returns the current time for relative dates, in seconds since 1970.
fn now(run: &Invocation) -> u64 {
    let given = run.variable("GIT_TEST_DATE_NOW").and_then(|value| value.to_str().ok()?.parse().ok());
    given.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

impl Request {
    fn commits(&self, repo: &Repository) -> Result<Commits, Failure> {
        let object = |word: &BString| {
            let id = repo.resolve(word.as_bstr()).map_err(|error| Failure::fatal(error.to_string()))?;
            id.ok_or_else(|| Failure::Error(text!("malformed object name ", word), 129))
        };
        let commit = |word: &BString| {
            let commit = repo.peel_to_commit(object(word)?)?;
            commit.ok_or_else(|| Failure::Error(text!("no such commit ", word), 129))
        };
        let all = |words: &[BString]| words.iter().map(commit).collect::<Result<Vec<_>, _>>();
        Ok(Commits {
            points_at: self.points_at.iter().map(object).collect::<Result<_, _>>()?,
            contained: all(&self.contains)?,
            not_contained: all(&self.not_contains)?,
            merged: all(&self.merged)?,
            not_merged: all(&self.not_merged)?,
        })
    }
}
