//! `sapwood symbolic-ref`: reads, writes and deletes symbolic refs.
//!
//! Reading takes one file for each ref in the chain. Writing and deleting are one transaction of
//! refs, with its locks and reflogs. Names that Git handles specially are left to it.

use bstr::{BStr, BString, ByteSlice as _};
use format::refname::{self, Levels};
use repo::{Repository, keys};
use store::refs::{Change, Expected};
use sys::by_path;

use crate::{
    commands::{
        obstacles::{self, hooks},
        reason::Reason,
        record::{Candidate, Check, Command, Group, LineCheck, Traits},
        rules::{Setting, When},
    },
    session::{
        invocation::Invocation,
        settings::{
            Settings,
            refused::{self, Reader},
        },
    },
    term::{
        args::{
            Grammar,
            Native::{Both, On},
            Opt, Set, Survey, Table,
        },
        console::{self, text},
        failure::Failure,
    },
};

/// The record of `symbolic-ref`.
pub(super) const COMMAND: Command = Command {
    name: "symbolic-ref",
    summary: "Read, modify and delete symbolic refs",
    about: "Prints, changes or deletes a symbolic ref such as HEAD.",
    group: Group::Scripts,
    syntax: &TABLE,
    traits: Traits { starts_no_program: true, ..Command::BASE.traits },
    settings: &[SETTINGS],
    line: &[LineCheck::new("a wrong number of names; a name or target that sapwood does not write", form)],
    checks: &[&[obstacles::RULES], WRITING],
    run,
    ..Command::BASE
};

const SETTINGS: &[Setting] =
    &[(keys::core::PREFER_SYMLINK_REFS.name(), When::True), (keys::trace2::ALL_SETTINGS.name(), When::Set)];

/// Checks of the forms that write.
const WRITING: &[Check] = &[
    Check::new("to write: a hook `reference-transaction`, or a hook in a setting", hooks_of_writers),
    Check::new(
        "to write: a lock of the ref, the branch that HEAD points to, a HEAD that is a symbolic link",
        files_of_writers,
    ),
];

const TABLE: Table<Set<Request>> = Table {
    usage: &[
        "sapwood symbolic-ref [-m <reason>] <name> <ref>",
        "sapwood symbolic-ref [-q] [--short] [--no-recurse] <name>",
        "sapwood symbolic-ref --delete [-q] <name>",
    ],
    options: &[
        Opt::flag(
            "-q, --quiet",
            "suppress error message for non-symbolic (detached) refs",
            |request: &mut Request| &mut request.quiet,
        )
        .native(Both),
        Opt::flag("-d, --delete", "delete symbolic ref", |request: &mut Request| &mut request.delete)
            .native(Both),
        Opt::flag("--short", "shorten ref output", |request: &mut Request| &mut request.short).native(Both),
        Opt::choice("--recurse", "recursively dereference (default)", |request: &mut Request| {
            &mut request.recurse
        })
        .native(Both),
        Opt::text("-m <reason>", "reason of the update", |request: &mut Request| &mut request.reason)
            .native(On),
    ],
    grammar: Grammar::Mixed,
};

#[derive(Default)]
struct Request {
    quiet: bool,
    delete: bool,
    short: bool,
    recurse: Option<bool>,
    reason: Option<BString>,
}

/// Detects a wrong number of names, or names that only Git writes, in the forms that write.
fn form(survey: &Survey, _: &[BString]) -> Option<Reason> {
    let (deletes, names) = (deletes(survey), &survey.rest[..]);
    let plain = |name: &BString| refname::check(name.as_bstr(), Levels::One).is_ok() && is_written(name);
    match (deletes, names) {
        (false, [_]) => None,
        (true, [name]) | (false, [name, _]) if !plain(name) => {
            Some(Reason::command_line("a ref with an unusual name"))
        }
        // An invalid name as the target is an error of the command itself.
        (false, [name, target]) if name != "HEAD" && is_valid(target) && !is_written(target) => {
            Some(Reason::command_line("a target with an unusual name"))
        }
        (true, [_]) | (false, [_, _]) => None,
        _ => Some(Reason::command_line("a wrong number of names")),
    }
}

fn deletes(survey: &Survey) -> bool {
    survey.options.iter().rev().find(|given| given.name == "--delete").is_some_and(|given| given.on)
}

fn is_valid(name: &BString) -> bool {
    refname::check(name.as_bstr(), Levels::One).is_ok()
}

/// Returns true if Git and sapwood write refs of this name.
fn is_written(name: &BString) -> bool {
    let is_pseudo = matches!(name.as_slice(), b"FETCH_HEAD" | b"MERGE_HEAD");
    refname::is_safe(name.as_bstr()) && !is_pseudo
}

/// Returns the name of the ref that a command line writes or deletes.
fn written<'a>(candidate: &Candidate<'a>) -> Option<&'a BStr> {
    let survey = candidate.survey?;
    let writes = deletes(survey) || survey.rest.len() > 1;
    survey.rest.first().filter(|_| writes).map(|name| name.as_bstr())
}

fn hooks_of_writers(candidate: &Candidate<'_>) -> Vec<Reason> {
    if written(candidate).is_none() {
        return Vec::new();
    }
    let present = hooks::present(candidate.repo(), hooks::UNSERVED);
    present.into_iter().chain(hooks::configured(candidate)).collect()
}

/// Detects locks, and refs whose change affects the reflog of HEAD.
fn files_of_writers(candidate: &Candidate<'_>) -> Vec<Reason> {
    let Some(name) = written(candidate) else { return Vec::new() };
    let repo = candidate.repo();
    let mut found = Vec::new();
    let lock = refname::file(repo.git_dir(), repo.refs_dir(), text!(name, ".lock").as_bstr());
    if !matches!(by_path::stat(&lock), Ok(None)) {
        found.push(Reason::repository("the ref is locked"));
    }
    if matches!(repo.symbolic_target("HEAD".into()), Ok(Some(target)) if target == name) {
        found.push(Reason::repository("HEAD points to the ref"));
    }
    if obstacles::some_head_is_a_link(repo) {
        found.push(Reason::repository("some HEAD is a symbolic link"));
    }
    found
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let names = TABLE.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    refused::check(&repo, &[Reader::Every])?;
    if request.reason.as_ref().is_some_and(|reason| reason.is_empty()) {
        return Err(Failure::fatal("Refusing to perform update with empty message"));
    }
    match &names[..] {
        [name] if request.delete => delete(&repo, name.as_bstr()),
        [name] => request.read(&repo, name.as_bstr()),
        [name, target] if !request.delete => request.write(&repo, name, target),
        _ => {
            console::eprint_raw(TABLE.help().as_bytes());
            Err(Failure::Reported(129))
        }
    }
}

fn no_such_ref(name: &BStr) -> Failure {
    Failure::Fatal(text!("No such ref: ", name))
}

impl Request {
    fn read(&self, repo: &Repository, name: &BStr) -> Result<u8, Failure> {
        let (end, is_symbolic) =
            repo.end_of_chain(name, self.recurse != Some(false))?.ok_or_else(|| no_such_ref(name))?;
        match (is_symbolic, self.quiet) {
            (true, _) => {}
            (false, true) => return Ok(1),
            (false, false) => return Err(Failure::Fatal(text!("ref ", name, " is not a symbolic ref"))),
        }
        console::out(if self.short { repo.shorten_ref(end.as_bstr())? } else { end });
        Ok(0)
    }

    fn write(self, repo: &Repository, name: &BString, target: &BString) -> Result<u8, Failure> {
        if name == "HEAD" && !target.starts_with(b"refs/") {
            return Err(Failure::fatal("Refusing to point HEAD outside of refs/"));
        }
        if !is_valid(target) {
            return Err(Failure::Fatal(text!("Refusing to set '", name, "' to invalid ref '", target, "'")));
        }
        let (name, target) = (name.clone(), target.clone());
        apply(repo, Change::Symbolic { name, target, message: self.reason, old: None, new: None })
    }
}

fn delete(repo: &Repository, name: &BStr) -> Result<u8, Failure> {
    let (_, is_symbolic) = repo.end_of_chain(name, false)?.ok_or_else(|| no_such_ref(name))?;
    if !is_symbolic {
        return Err(Failure::Fatal(text!("Cannot delete ", name, ", not a symbolic ref")));
    }
    if name == "HEAD" {
        return Err(Failure::fatal("deleting 'HEAD' is not allowed"));
    }
    apply(repo, Change::Delete { name: name.to_owned(), expected: Expected::Any })
}

fn apply(repo: &Repository, change: Change) -> Result<u8, Failure> {
    refused::check(repo, &[Reader::Refs])?;
    let settings = Settings::read(repo)?.for_recording();
    let applied = store::refs::apply(&settings.refs(repo)?, vec![change]);
    applied.map(|()| 0).map_err(|error| Failure::error(error.to_string()).advised(error.advice()))
}
