//! `sapwood show-ref`: lists refs with their objects, or checks refs. See [`sapwood::show_ref`].
//!
//! The refs before the first broken one are printed.

use bstr::{BStr, BString, ByteSlice as _};
use repo::Repository;
use sapwood::{
    ObjectId,
    show_ref::{self, Lookup, Shown},
};

use crate::{
    commands::{
        obstacles,
        reason::Reason,
        record::{Candidate, Check, Command, Group, LineCheck, Traits},
    },
    session::{
        invocation::Invocation,
        settings::refused::{self, Reader as SettingsReader},
    },
    term::{
        args::{Both, Grammar, On, Opt, Set, Survey, Table, Value},
        console::Listing,
        failure::Failure,
    },
};

/// The record of `show-ref`.
pub(super) const COMMAND: Command = Command {
    name: "show-ref",
    summary: "List references in a local repository",
    about: "Lists refs and the names of their objects, or checks that refs exist.",
    group: Group::Scripts,
    syntax: &TABLE,
    traits: Traits { starts_no_program: true, ..Command::BASE.traits },
    settings: &[obstacles::LOOKING],
    unserved: obstacles::LISTING,
    line: &[
        LineCheck::new("`--hash` or `--abbrev` with a length that is no plain number", lengths),
        LineCheck::new("`--exists` with an unusual name", form),
    ],
    checks: &[&[obstacles::RULES, Check::new(obstacles::PARTIAL, promisors)]],
    run,
    ..Command::BASE
};

const TABLE: Table<Set<Request>> = Table {
    usage: &[
        "sapwood show-ref [--head] [-d | --dereference]\n             \
         [-s | --hash[=<n>]] [--abbrev[=<n>]] [--branches] [--tags]\n             \
         [--] [<pattern>...]",
        "sapwood show-ref --verify [-q | --quiet] [-d | --dereference]\n             \
         [-s | --hash[=<n>]] [--abbrev[=<n>]]\n             \
         [--] [<ref>...]",
        "sapwood show-ref --exists <ref>",
    ],
    options: &[
        Opt::flag("--tags", "only show tags (can be combined with --branches)", field!(wanted.tags))
            .native(Both),
        Opt::flag("--branches", "only show branches (can be combined with --tags)", field!(wanted.branches))
            .native(Both),
        Opt::flag("--heads", "deprecated synonym for --branches", field!(wanted.branches))
            .hidden()
            .native(Both),
        Opt::flag("--exists", "check for reference existence without resolving", field!(exists)).native(Both),
        Opt::flag("--verify", "stricter reference checking, requires exact ref path", field!(wanted.verify))
            .native(Both),
        Opt::flag("-h", "show the HEAD reference, even if it would be filtered out", field!(wanted.head))
            .hidden()
            .native(On),
        Opt::flag("--head", "show the HEAD reference, even if it would be filtered out", field!(wanted.head))
            .native(Both),
        Opt::flag("-d, --dereference", "dereference tags into object IDs", field!(wanted.dereference))
            .native(Both),
        Opt::new("-s, --hash[=<n>]", "only show SHA1 hash using <n> digits", Request::set_hash).native(On),
        Opt::new("--abbrev[=<n>]", "use <n> digits to display object names", Request::set_abbrev)
            .native(Both),
        Opt::flag("-q, --quiet", "do not print results to stdout (useful with --verify)", field!(quiet))
            .native(Both),
    ],
    grammar: Grammar::Mixed,
};

#[derive(Default)]
struct Request {
    wanted: show_ref::Request,
    exists: bool,
    hash: bool,
    abbrev: Abbrev,
    quiet: bool,
}

/// The length of object names.
#[derive(Clone, Copy, Debug, Default)]
enum Abbrev {
    #[default]
    Full,
    /// As configured by `core.abbrev`.
    Configured,
    /// At least this number of digits.
    Digits(usize),
}

impl Request {
    fn set_hash(&mut self, value: Value) -> Result<(), Failure> {
        self.hash = true;
        if value.text.is_some() { self.set_abbrev(value) } else { Ok(()) }
    }

    fn set_abbrev(&mut self, value: Value) -> Result<(), Failure> {
        self.abbrev = match value.text {
            None if value.on => Abbrev::Configured,
            None => Abbrev::Full,
            Some(text) => match text.to_str().ok().and_then(|text| text.parse().ok()) {
                Some(0) => Abbrev::Full,
                Some(digits) => Abbrev::Digits(usize::max(digits, repo::message::MINIMUM_ABBREV)),
                None => return Err(Failure::Reported(129)),
            },
        };
        Ok(())
    }
}

/// Detects a length that C's number parser may read differently.
fn lengths(survey: &Survey, _: &[BString]) -> Option<Reason> {
    let is_plain = |text: &BString| (1..=4).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    let given = survey.options.iter().filter(|given| matches!(given.name, "--hash" | "--abbrev"));
    let wrong = given.filter_map(|given| given.value.as_ref()).any(|text| !is_plain(text));
    wrong.then(|| Reason::command_line("a length that is no plain number"))
}

/// Detects `--exists` with a name that is too long, or not a valid ref name.
fn form(survey: &Survey, _: &[BString]) -> Option<Reason> {
    let exists = survey.options.iter().any(|given| given.name == "--exists");
    let unusual = exists && !survey.rest.iter().all(|name| show_ref::is_plain(name.as_bstr()));
    unusual.then(|| Reason::command_line("a ref with an unusual name"))
}

/// Detects a partial clone, in which a missing object may be fetched.
fn promisors(candidate: &Candidate<'_>) -> Vec<Reason> {
    obstacles::partial(candidate.repo())
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    request.wanted.names = TABLE.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    refused::check(&repo, &[SettingsReader::Every])?;
    let wanted = &request.wanted;
    if wanted.verify && request.exists {
        return Err(Failure::fatal("options '--verify' and '--exists' cannot be used together"));
    }
    if request.exists {
        return exists(&repo, &wanted.names);
    }
    let mut lookup = Lookup::new(&repo, wanted.dereference && !request.quiet);
    let mut show = Show { repo: &repo, request: &request, shown: 0, listing: Listing::default() };
    let done = if wanted.verify {
        show.verify(&mut lookup)
    } else {
        lookup.list(wanted, |shown| show.one(shown)).map(|()| u8::from(show.shown == 0))
    };
    // The refs before an error are printed.
    let written = show.listing.write("standard output");
    let code = done?;
    written?;
    Ok(code)
}

fn exists(repo: &Repository, names: &[BString]) -> Result<u8, Failure> {
    let name = match names {
        [] => return Err(Failure::fatal("--exists requires a reference")),
        [name] => name.as_bstr(),
        _ => return Err(Failure::fatal("--exists requires exactly one reference")),
    };
    match show_ref::is_there(repo, name) {
        Ok(true) => Ok(0),
        Ok(false) => Err(Failure::Error("reference does not exist".into(), 2)),
        Err(sapwood::Error::Failed(message)) => Err(Failure::error(message)),
        Err(error) => Err(error.into()),
    }
}

struct Show<'a> {
    repo: &'a Repository,
    request: &'a Request,
    shown: usize,
    listing: Listing,
}

impl Show<'_> {
    fn verify(&mut self, lookup: &mut Lookup<'_>) -> Result<u8, Failure> {
        let names = &self.request.wanted.names;
        if names.is_empty() {
            return Err(Failure::fatal("--verify requires a reference"));
        }
        for name in names {
            match lookup.one(name.as_bstr())? {
                Some(shown) => self.one(shown)?,
                None if self.request.quiet => return Ok(1),
                None => return Err(show_ref::not_valid(name.as_bstr()).into()),
            }
        }
        Ok(0)
    }

    fn one(&mut self, shown: Shown<'_>) -> Result<(), Failure> {
        self.shown += 1;
        if self.request.quiet {
            return Ok(());
        }
        let Shown { name, id, peeled } = shown;
        self.line(name, "", id)?;
        if let Some(peeled) = peeled {
            self.line(name, "^{}", peeled)?;
        }
        self.listing.flush_if_full()
    }

    fn line(&mut self, name: &BStr, mark: &str, id: ObjectId) -> Result<(), Failure> {
        let full = self.repo.hash().hex_len();
        let short = match self.request.abbrev {
            Abbrev::Configured => Some(self.repo.abbreviate(id)?),
            Abbrev::Digits(digits) if digits < full => Some(self.repo.abbreviate_to(id, digits)?),
            Abbrev::Full | Abbrev::Digits(_) => None,
        };
        let buffer = self.listing.buffer();
        match short {
            Some(short) => buffer.extend_from_slice(short.as_bytes()),
            None => buffer.extend_from_slice(id.hex_into(&mut [0; 64])),
        }
        // As in Git, the name of a peeled object is always shown.
        if !self.request.hash || !mark.is_empty() {
            buffer.push(b' ');
            buffer.extend_from_slice(name);
            buffer.extend_from_slice(mark.as_bytes());
        }
        buffer.push(b'\n');
        Ok(())
    }
}
