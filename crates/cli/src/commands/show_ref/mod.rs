//! `sapwood show-ref`: lists refs with their objects, or checks refs.
//!
//! Like Git, looks up each listed object, and reads only tags, for `-d`. The refs before the first
//! broken one are printed.

use std::ops::ControlFlow;

use bstr::{BStr, BString, ByteSlice as _};
use format::refname::{self, Levels};
use repo::{
    ListScope, Repository,
    objects::{Kind, Reader},
};
use sapwood::ObjectId;

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
        args::{
            Grammar,
            Native::{Both, On},
            Opt, Set, Survey, Table, Value,
        },
        console::{Listing, text},
        failure::Failure,
        text::os_error,
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
        Opt::flag("--tags", "only show tags (can be combined with --branches)", |request: &mut Request| {
            &mut request.tags
        })
        .native(Both),
        Opt::flag(
            "--branches",
            "only show branches (can be combined with --tags)",
            |request: &mut Request| &mut request.branches,
        )
        .native(Both),
        Opt::flag("--heads", "deprecated synonym for --branches", |request: &mut Request| {
            &mut request.branches
        })
        .hidden()
        .native(Both),
        Opt::flag("--exists", "check for reference existence without resolving", |request: &mut Request| {
            &mut request.exists
        })
        .native(Both),
        Opt::flag(
            "--verify",
            "stricter reference checking, requires exact ref path",
            |request: &mut Request| &mut request.verify,
        )
        .native(Both),
        Opt::flag(
            "-h",
            "show the HEAD reference, even if it would be filtered out",
            |request: &mut Request| &mut request.head,
        )
        .hidden()
        .native(On),
        Opt::flag(
            "--head",
            "show the HEAD reference, even if it would be filtered out",
            |request: &mut Request| &mut request.head,
        )
        .native(Both),
        Opt::flag("-d, --dereference", "dereference tags into object IDs", |request: &mut Request| {
            &mut request.dereference
        })
        .native(Both),
        Opt::new("-s, --hash[=<n>]", "only show SHA1 hash using <n> digits", Request::set_hash).native(On),
        Opt::new("--abbrev[=<n>]", "use <n> digits to display object names", Request::set_abbrev)
            .native(Both),
        Opt::flag(
            "-q, --quiet",
            "do not print results to stdout (useful with --verify)",
            |request: &mut Request| &mut request.quiet,
        )
        .native(Both),
    ],
    grammar: Grammar::Mixed,
};

#[derive(Default)]
struct Request {
    tags: bool,
    branches: bool,
    exists: bool,
    verify: bool,
    head: bool,
    dereference: bool,
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
    const LONGEST: usize = 255;
    let exists = survey.options.iter().any(|given| given.name == "--exists");
    let is_plain = |name: &BString| {
        let is_inside =
            refname::check(name.as_bstr(), Levels::One).is_ok() || refname::is_safe(name.as_bstr());
        is_inside && name.len() <= LONGEST && !name.contains(&0)
    };
    let unusual = exists && !survey.rest.iter().all(is_plain);
    unusual.then(|| Reason::command_line("a ref with an unusual name"))
}

/// Detects a partial clone, in which a missing object may be fetched.
fn promisors(candidate: &Candidate<'_>) -> Vec<Reason> {
    obstacles::partial(candidate.repo())
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let names = TABLE.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    refused::check(&repo, &[SettingsReader::Every])?;
    if request.verify && request.exists {
        return Err(Failure::fatal("options '--verify' and '--exists' cannot be used together"));
    }
    if request.exists && !request.verify {
        return exists(&repo, &names);
    }
    let mut show = Show {
        repo: &repo,
        request: &request,
        reader: repo.objects().reader(),
        shown: 0,
        listing: Listing::default(),
    };
    let done = if request.verify { show.verify(&names) } else { show.list(&names) };
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
    match repo.look_up_ref(name)? {
        Ok(true) => Ok(0),
        Ok(false) => Err(Failure::Error("reference does not exist".into(), 2)),
        Err(error) => Err(Failure::error(format!("failed to look up reference: {}", os_error(&error)))),
    }
}

struct Show<'a> {
    repo: &'a Repository,
    request: &'a Request,
    reader: Reader<'a>,
    shown: usize,
    listing: Listing,
}

impl Show<'_> {
    fn verify(&mut self, names: &[BString]) -> Result<u8, Failure> {
        if names.is_empty() {
            return Err(Failure::fatal("--verify requires a reference"));
        }
        for name in names {
            let is_full = name.starts_with(b"refs/") || refname::is_safe(name.as_bstr());
            let id = if is_full { self.repo.value_of_ref(name.as_bstr())? } else { None };
            match id {
                Some(id) => self.one(name.as_bstr(), id, None)?,
                None if self.request.quiet => return Ok(1),
                None => return Err(Failure::Fatal(text!("'", name, "' - not a valid ref"))),
            }
        }
        Ok(0)
    }

    fn list(&mut self, patterns: &[BString]) -> Result<u8, Failure> {
        if self.request.head
            && let Some(id) = self.repo.value_of_ref("HEAD".into())?
        {
            self.one("HEAD".into(), id, None)?;
        }
        let prefixes: &[&str] = match (self.request.branches, self.request.tags) {
            (false, false) => &["refs/"],
            (true, false) => &["refs/heads/"],
            (false, true) => &["refs/tags/"],
            (true, true) => &["refs/heads/", "refs/tags/"],
        };
        for prefix in prefixes {
            let repo = self.repo;
            let _flow = repo.each_ref(ListScope::Below((*prefix).into()), None, |listed| {
                if patterns.is_empty() || patterns.iter().any(|pattern| ends_with(listed.name, pattern)) {
                    self.one(listed.name, listed.id, listed.peeled)?;
                }
                Ok::<_, Failure>(ControlFlow::Continue(()))
            })?;
        }
        Ok(u8::from(self.shown == 0))
    }

    fn one(&mut self, name: &BStr, id: ObjectId, peeled: Option<ObjectId>) -> Result<(), Failure> {
        self.shown += 1;
        // If the object's type is needed anyway, reading it proves that the object exists.
        let needs_kind = self.request.dereference && !self.request.quiet && peeled.is_none();
        let kind = if needs_kind { self.reader.header(&id).ok().map(|(kind, _)| kind) } else { None };
        if kind.is_none() && !self.repo.objects().contains(&id) {
            return Err(Failure::Fatal(text!("git show-ref: bad ref ", name, " (", id.to_string(), ")")));
        }
        if self.request.quiet {
            return Ok(());
        }
        self.line(name, "", id)?;
        if self.request.dereference {
            let peeled = match peeled {
                None if kind == Some(Kind::Tag) => {
                    self.repo.peel_tag_with(&mut self.reader, id).ok().flatten().map(|target| target.id)
                }
                peeled => peeled,
            };
            if let Some(peeled) = peeled {
                self.line(name, "^{}", peeled)?;
            }
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

/// Returns true if `pattern` equals the name, or whole components at its end.
fn ends_with(name: &BStr, pattern: &BString) -> bool {
    name.strip_suffix(pattern.as_slice()).is_some_and(|rest| rest.is_empty() || rest.ends_with(b"/"))
}
