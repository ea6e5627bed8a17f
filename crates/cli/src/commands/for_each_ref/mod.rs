//! `sapwood for-each-ref`: lists refs in a format.
//!
//! Order: arguments; refs, which are checked one after the other; values; sorting; output. Refs in
//! name order are formatted as they are found. Nothing is printed before the end, so a value that
//! only Git can print can still be left to it. docs/design/for-each-ref.md has the rules for
//! reading objects.

mod field;
mod filter;
mod format;
mod quote;
mod render;
mod request;
mod sort;
mod value;

use std::{
    io::IsTerminal as _,
    ops::ControlFlow,
    time::{SystemTime, UNIX_EPOCH},
};

use bstr::{BStr, BString, ByteSlice as _};
use repo::{ListScope, ListedRef, Repository, Soundness, keys, objects::Reader};
use sys::by_path;

use self::{
    filter::{Commits, Names},
    format::Piece,
    render::Format,
    request::{LINE, Request, TABLE, When as ColorWhen, has_colors},
    sort::{SortKey, SortValue},
    value::Values,
};
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
use sapwood::ObjectId;

/// The record of `for-each-ref`.
pub(super) const COMMAND: Command = Command {
    name: "for-each-ref",
    summary: "Output information on each ref",
    about: "Prints a line for each ref, in the format and order that the options ask for. Fields that \
            clients rarely use are left to the real Git.",
    group: Group::Scripts,
    syntax: &TABLE,
    traits: Traits { plans_first: true, starts_no_program: true, ..Command::BASE.traits },
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
    if !matches!(by_path::stat(&candidate.repo().common_dir().join("info/grafts")), Ok(None)) {
        found.push(Reason::repository("info/grafts exists"));
    }
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

/// A ref to be sorted.
struct Item {
    name: BString,
    id: ObjectId,
    target: Option<BString>,
    peeled: Option<ObjectId>,
    commit: Option<ObjectId>,
    keys: Vec<SortValue>,
    /// The formatted line, if all refs are printed.
    shown: Option<Vec<u8>>,
}

impl Item {
    fn listed(&self) -> ListedRef<'_> {
        ListedRef {
            name: self.name.as_bstr(),
            id: self.id,
            target: self.target.as_ref().map(|target| target.as_bstr()),
            peeled: self.peeled,
            soundness: Soundness::Sound,
        }
    }
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let patterns = TABLE.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    refused::check(&repo, &[SettingsReader::Every])?;
    crate::term::failure::unserved_if(request.stdin, "'--stdin'")?;
    let (pieces, keys) = (request.pieces()?, request.keys()?);
    if request.start_after.is_some() {
        let wrong = match (request.has_own_order(), patterns.is_empty()) {
            (true, _) => Some("cannot use --start-after with custom sort options"),
            (false, false) => Some("cannot use --start-after with patterns"),
            (false, true) => None,
        };
        if let Some(wrong) = wrong {
            return Err(Failure::fatal(wrong));
        }
    }
    let colors = has_colors(&pieces) && wants_colors(run, request.color);
    let fields = pieces.iter().filter_map(|piece| match piece {
        Piece::Field(field) => Some(field),
        Piece::Literal(_) => None,
    });
    let values = Values::new(&repo, fields.chain(keys.iter().map(|key| &key.field)), now(run))?;
    let commits = request.commits(&repo)?;
    let excluded = std::mem::take(&mut request.exclude);
    let mut show = Show {
        repo: &repo,
        names: Names { patterns, excluded, icase: request.icase },
        commits,
        format: Format { pieces, quoting: request.quoting, colors },
        reader: repo.objects().reader(),
        request: &request,
        keys,
        values,
        line: Vec::new(),
        listing: Listing::default(),
        warnings: Vec::new(),
    };
    let done = if show.is_in_natural_order() { show.as_found() } else { show.sorted() };
    if matches!(done, Err(Failure::Unserved(_))) {
        return done.map(|()| 0);
    }
    show.warnings.iter().for_each(console::warning);
    // The refs before an error are printed.
    let written = show.listing.write("standard output");
    done.and(written).map(|()| 0)
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
            ..Commits::default()
        })
    }
}

struct Show<'a> {
    repo: &'a Repository,
    request: &'a Request,
    names: Names,
    commits: Commits,
    keys: Vec<SortKey>,
    format: Format,
    values: Values<'a>,
    reader: Reader<'a>,
    line: Vec<u8>,
    listing: Listing,
    warnings: Vec<BString>,
}

/// Called with a selected ref, and its commit if that was read.
type Visit<'a, 'v> =
    dyn FnMut(&mut Show<'a>, &ListedRef<'_>, Option<ObjectId>) -> Result<ControlFlow<()>, Failure> + 'v;

impl<'a> Show<'a> {
    /// Returns true if refs can be written as they are found.
    fn is_in_natural_order(&self) -> bool {
        let is_natural = match &self.keys[..] {
            [] => !self.request.icase || self.request.sorts_nothing(),
            // Git reads the objects of all refs before it prints the first one.
            [key] => key.is_natural() && !self.request.icase && self.values.reads_nothing(),
            _ => false,
        };
        is_natural && !self.commits.needs_all()
    }

    /// Visits the selected refs.
    fn each(&mut self, visit: &mut Visit<'a, '_>) -> Result<(), Failure> {
        let (repo, request) = (self.repo, self.request);
        let prefixes = self.names.prefixes();
        let scopes: Vec<ListScope<'_>> = if request.root {
            vec![ListScope::WithRoot]
        } else {
            prefixes.iter().map(|prefix| ListScope::Below(prefix.as_bstr())).collect()
        };
        for scope in scopes {
            let after = request.start_after.as_ref().map(|after| after.as_bstr());
            let flow = repo.each_ref(scope, after, |listed| {
                let problem = match listed.soundness {
                    Soundness::Sound => None,
                    Soundness::Broken => Some("ignoring broken ref "),
                    Soundness::BadName => Some("ignoring ref with broken name "),
                };
                if let Some(problem) = problem {
                    self.warnings.push(text!(problem, listed.name));
                    return Ok(ControlFlow::Continue(()));
                }
                if !self.names.wants(listed.name) {
                    return Ok(ControlFlow::Continue(()));
                }
                match self.commits.wants(repo, &mut self.reader, listed)? {
                    Some(commit) => visit(self, listed, commit),
                    None => Ok(ControlFlow::Continue(())),
                }
            })?;
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn as_found(&mut self) -> Result<(), Failure> {
        let mut left = self.request.count;
        self.each(&mut |show, listed, _| {
            show.write(listed)?;
            left = left.wrapping_sub(1);
            Ok(if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })
    }

    fn sorted(&mut self) -> Result<(), Failure> {
        let mut items: Vec<Item> = Vec::new();
        self.each(&mut |_, listed, commit| {
            items.push(Item {
                name: listed.name.to_owned(),
                id: listed.id,
                target: listed.target.map(ToOwned::to_owned),
                peeled: listed.peeled,
                commit,
                keys: Vec::new(),
                shown: None,
            });
            Ok(ControlFlow::Continue(()))
        })?;
        self.commits.retain_merged(self.repo, &mut items, |item| item.commit)?;
        let count = match self.request.count {
            0 => items.len(),
            count => count.min(items.len()),
        };
        let shows_all = count == items.len();
        // With a single ref, nothing is compared and nothing needs to be read yet.
        if items.len() > 1 {
            for item in &mut items {
                let objects = self.values.load(&item.listed())?;
                let mut keys = Vec::new();
                for key in &self.keys {
                    keys.push(self.values.sort_value(&item.listed(), &objects, key)?);
                }
                if shows_all && !objects.is_empty() {
                    self.line.clear();
                    self.render(&item.listed(), &objects)?;
                    item.shown = Some(self.line.clone());
                }
                item.keys = keys;
            }
        }
        let (keys, icase) = (&self.keys, self.request.icase);
        items.sort_by(|left, right| {
            sort::compare(keys, icase, (&left.name, &left.keys), (&right.name, &right.keys))
        });
        for item in &items[..count] {
            match &item.shown {
                Some(line) => self.append(line),
                None => self.write(&item.listed())?,
            }
        }
        Ok(())
    }

    /// Appends the line of a ref to the listing.
    fn write(&mut self, listed: &ListedRef<'_>) -> Result<(), Failure> {
        let objects = self.values.load(listed)?;
        self.line.clear();
        self.render(listed, &objects)?;
        let line = std::mem::take(&mut self.line);
        self.append(&line);
        self.line = line;
        Ok(())
    }

    fn append(&mut self, line: &[u8]) {
        if !line.is_empty() || !self.request.omit_empty {
            let buffer = self.listing.buffer();
            buffer.extend_from_slice(line);
            buffer.push(b'\n');
        }
    }

    /// Appends the formatted ref to `line`.
    fn render(&mut self, listed: &ListedRef<'_>, objects: &value::Objects) -> Result<(), Failure> {
        let (format, values, line) = (&self.format, &mut self.values, &mut self.line);
        format.render(line, &mut |field, out| values.append(listed, objects, field, out))
    }
}
