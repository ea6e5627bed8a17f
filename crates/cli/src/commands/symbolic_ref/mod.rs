//! `sapwood symbolic-ref`: reads, writes and deletes symbolic refs. See [`sapwood::symbolic_ref`].
//!
//! Reading takes one file for each ref in the chain. Writing and deleting are one transaction of
//! refs, with its locks and reflogs.

use bstr::{BStr, BString, ByteSlice as _};
use repo::{Repository, keys};
use sapwood::{refs, symbolic_ref, update_ref};

use crate::{
    commands::{
        obstacles::{self, hooks},
        reason::Reason,
        record::{Candidate, Check, Command, Group, LineCheck, Traits},
        rules::{Setting, When},
    },
    session::{
        Session,
        invocation::Invocation,
        settings::{Reader, Settings, refused},
    },
    term::{
        args::{Both, Grammar, On, Opt, Set, Survey, Table},
        console::{self, text},
        failure::Failure,
        library::not_changed,
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
    line: &[LineCheck::new("a wrong number of names", form)],
    checks: &[&[
        obstacles::RULES,
        Check::new("to write: a hook `reference-transaction`, or a hook in a setting", hooks_of_writers),
    ]],
    late: &["refs with unusual names", "symbolic links as HEAD", "targets with unusual names"],
    run,
    ..Command::BASE
};

const SETTINGS: &[Setting] =
    &[(keys::core::PREFER_SYMLINK_REFS.name(), When::True), (keys::trace2::ALL_SETTINGS.name(), When::Set)];

const TABLE: Table<Set<Request>> = Table {
    usage: &[
        "sapwood symbolic-ref [-m <reason>] <name> <ref>",
        "sapwood symbolic-ref [-q] [--short] [--no-recurse] <name>",
        "sapwood symbolic-ref --delete [-q] <name>",
    ],
    options: &[
        Opt::flag("-q, --quiet", "suppress error message for non-symbolic (detached) refs", field!(quiet))
            .native(Both),
        Opt::flag("-d, --delete", "delete symbolic ref", field!(delete)).native(Both),
        Opt::flag("--short", "shorten ref output", field!(short)).native(Both),
        Opt::choice("--recurse", "recursively dereference (default)", field!(recurse)).native(Both),
        Opt::text("-m <reason>", "reason of the update", field!(reason)).native(On),
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

/// Detects a wrong number of names, for which Git prints its usage.
fn form(survey: &Survey, _: &[BString]) -> Option<Reason> {
    let is_right = matches!((survey.rest.len(), deletes(survey)), (1, _) | (2, false));
    (!is_right).then(|| Reason::command_line("a wrong number of names"))
}

fn deletes(survey: &Survey) -> bool {
    survey.options.iter().rev().find(|given| given.name == "--delete").is_some_and(|given| given.on)
}

/// Detects hooks of the forms that write. The command does not look for the real Git, whose
/// programs a hook may start: most calls only read.
fn hooks_of_writers(candidate: &Candidate<'_>) -> Vec<Reason> {
    if !candidate.survey.is_some_and(|survey| deletes(survey) || survey.rest.len() > 1) {
        return Vec::new();
    }
    let present = hooks::present(candidate.repo(), hooks::UNSERVED);
    present.into_iter().chain(hooks::configured(candidate)).collect()
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
    let (name, target, message) = match &names[..] {
        [name] if request.delete => (name.clone(), None, BString::default()),
        [name] => return request.read(&repo, name.as_bstr()),
        [name, target] if !request.delete => {
            (name.clone(), Some(target.clone()), request.reason.unwrap_or_default())
        }
        _ => {
            console::eprint_raw(TABLE.help().as_bytes());
            return Err(Failure::Reported(129));
        }
    };
    change(run, &repo, symbolic_ref::Request { name, target, message })
}

impl Request {
    fn read(&self, repo: &Repository, name: &BStr) -> Result<u8, Failure> {
        match symbolic_ref::target(repo, name, self.recurse != Some(false))? {
            Some(target) if self.short => console::out(repo.shorten_ref(target.as_bstr())?),
            Some(target) => console::out(target),
            None if self.quiet => return Ok(1),
            None => return Err(Failure::Fatal(text!("ref ", name, " is not a symbolic ref"))),
        }
        Ok(0)
    }
}

fn change(run: &Invocation, repo: &Repository, request: symbolic_ref::Request) -> Result<u8, Failure> {
    let edits = vec![symbolic_ref::edit(repo, request)?];
    let settings = Settings::read(repo)?.for_recording();
    let context = Session { invocation: run, repository: repo, settings: &settings }.context(run);
    let options = refs::options_with_hook(context)?;
    let request = update_ref::Request { edits, ..Default::default() };
    update_ref::apply(context, &options, request).map(|_| 0).map_err(not_changed)
}
