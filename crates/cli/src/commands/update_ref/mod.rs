//! `sapwood update-ref`: changes refs, one by name or many from standard input.
//!
//! One transaction locks all refs, checks them, and writes them. The hook `reference-transaction`
//! is notified of each stage. As in Git, a new object is looked up before its ref is locked.

mod line;
mod stdin;

use bstr::{BStr, BString, ByteSlice as _};
use repo::{Repository, keys};
use sapwood::ObjectId;
use store::refs::{self, Edit, Failures, Follow, NewLog, Old, RefTransaction, Rejection};

use crate::{
    commands::{
        obstacles,
        reason::Reason,
        record::{Candidate, Check, Command, Group, LineCheck, Revisions},
        rules::{Setting, When},
    },
    session::{
        hooks,
        invocation::Invocation,
        revisions,
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
        console,
        failure::Failure,
    },
};

/// The record of `update-ref`.
pub(super) const COMMAND: Command = Command {
    name: "update-ref",
    summary: "Update the object name stored in a ref safely",
    about: "Changes refs in one transaction: a single one, or many that standard input names. All refs are \
            locked and checked before the first one changes, and are on disk before the command ends.",
    group: Group::Scripts,
    syntax: &TABLE,
    revisions: Revisions::AfterFirst,
    settings: &[SETTINGS],
    line: &[LineCheck::new("a wrong number of arguments", form)],
    checks: &[&[
        obstacles::RULES,
        obstacles::CONFIGURED_HOOKS,
        Check::new("a partial clone; a HEAD that is a symbolic link", state),
        obstacles::REVISIONS,
    ]],
    run,
    ..Command::BASE
};

const SETTINGS: &[Setting] = &[
    (keys::core::IGNORE_CASE.name(), When::True),
    (keys::core::PREFER_SYMLINK_REFS.name(), When::True),
    (keys::trace2::ALL_SETTINGS.name(), When::Set),
];

const TABLE: Table<Set<Request>> = Table {
    usage: &[
        "sapwood update-ref [<options>] -d <refname> [<old-oid>]",
        "sapwood update-ref [<options>]    <refname> <new-oid> [<old-oid>]",
        "sapwood update-ref [<options>] --stdin [-z] [--batch-updates]",
    ],
    options: &[
        Opt::text("-m <reason>", "reason of the update", |request: &mut Request| &mut request.reason)
            .native(On),
        Opt::flag("-d", "delete the reference", |request: &mut Request| &mut request.delete).native(On),
        Opt::flag("--no-deref", "update <refname> not the one it points to", |request: &mut Request| {
            &mut request.no_deref
        })
        .native(Both),
        Opt::flag("-z", "stdin has NUL-terminated arguments", |request: &mut Request| &mut request.nul)
            .native(On),
        Opt::flag("--stdin", "read updates from stdin", |request: &mut Request| &mut request.stdin)
            .native(Both),
        Opt::flag("--create-reflog", "create a reflog", |request: &mut Request| &mut request.create_reflog)
            .native(Both),
        Opt::flag("-0, --batch-updates", "batch reference updates", |request: &mut Request| {
            &mut request.batch
        })
        .native(Both),
    ],
    grammar: Grammar::Mixed,
};

#[derive(Default)]
struct Request {
    reason: Option<BString>,
    delete: bool,
    no_deref: bool,
    nul: bool,
    stdin: bool,
    create_reflog: bool,
    batch: bool,
}

/// Detects too few or too many arguments, for which Git prints its usage.
fn form(survey: &Survey, _: &[BString]) -> Option<Reason> {
    let is_given =
        |name: &str| survey.options.iter().rev().find(|given| given.name == name).is_some_and(|it| it.on);
    let count = survey.rest.len();
    let is_right = match (is_given("--stdin"), is_given("-d")) {
        (true, deletes) => !deletes && count == 0,
        (false, true) => (1..=2).contains(&count) && !is_given("-z"),
        (false, false) => (2..=3).contains(&count) && !is_given("-z"),
    };
    (!is_right).then(|| Reason::command_line("a wrong number of arguments"))
}

/// Detects states in which only Git changes refs.
fn state(candidate: &Candidate<'_>) -> Vec<Reason> {
    let repo = candidate.repo();
    let mut found = obstacles::partial(repo);
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
        return Err(Failure::fatal("Refusing to perform update with empty message."));
    }
    let settings = Settings::read(&repo)?.for_recording();
    refused::check(&repo, &[Reader::Refs])?;
    let options = settings.refs_with_hook(&repo)?;
    let context = Context { run, repo: &repo, settings: &settings, options: &options, request: &request };
    if request.stdin {
        if request.delete || !names.is_empty() {
            return Err(usage());
        }
        return stdin::run(&context);
    }
    if request.batch {
        return Err(Failure::fatal("--batch-updates can only be used with --stdin"));
    }
    if request.nul {
        return Err(usage());
    }
    match &names[..] {
        [name] if request.delete => context.delete(name, None),
        [name, old] if request.delete => context.delete(name, Some(old)),
        [name, new] if !request.delete => context.update(name, new, None),
        [name, new, old] if !request.delete => context.update(name, new, Some(old)),
        _ => Err(usage()),
    }
}

fn usage() -> Failure {
    console::eprint_raw(TABLE.help().as_bytes());
    Failure::Reported(129)
}

/// The values that all forms of the command share.
struct Context<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    settings: &'a Settings,
    options: &'a refs::Options,
    request: &'a Request,
}

/// An edit that was refused before it was added to the transaction.
struct Refusal {
    message: String,
    /// The kind, if a batch skips the edit and continues.
    kind: Option<Rejection>,
}

impl<'a> Context<'a> {
    fn update(&self, name: &BString, new: &BString, old: Option<&BString>) -> Result<u8, Failure> {
        let value = self.object(new.as_bstr())?;
        let value = value.ok_or_else(|| Failure::fatal(format!("{new}: not a valid SHA1")))?;
        let old = match old {
            None => Old::Any,
            Some(old) => Old::Id(self.old(old)?),
        };
        let edit = Edit { old, ..self.edit(name.as_bstr(), value) };
        let failed =
            |message: String| Failure::fatal(format!("update_ref failed for ref '{name}': {message}"));
        let mut objects = Objects::new(self.repo);
        objects.check(&edit).map_err(|refusal| failed(refusal.message))?;
        let mut transaction = self.transaction()?;
        let done = transaction.add(edit).and_then(|()| transaction.commit());
        done.map(|_| 0).map_err(|error| {
            let advice = error.advice();
            vetoed(&error).unwrap_or_else(|| failed(error.to_string()).advised(advice))
        })
    }

    fn delete(&self, name: &BString, old: Option<&BString>) -> Result<u8, Failure> {
        let old = old.map(|old| self.old(old)).transpose()?.filter(|old| !old.is_null());
        let null = ObjectId::null(self.repo.hash());
        let edit = Edit {
            old: old.map_or(Old::Any, Old::Id),
            log: NewLog::ByPolicy,
            ..self.edit(name.as_bstr(), null)
        };
        let mut transaction = self.transaction()?;
        let done = transaction.add(edit).and_then(|()| transaction.commit());
        done.map(|_| 0).map_err(|error| {
            let advice = error.advice();
            vetoed(&error).unwrap_or_else(|| Failure::error(error.to_string()).advised(advice))
        })
    }

    /// Returns the old value on the command line. Empty text means that the ref must not exist.
    fn old(&self, text: &BString) -> Result<ObjectId, Failure> {
        if text.is_empty() {
            return Ok(ObjectId::null(self.repo.hash()));
        }
        let wrong = || Failure::fatal(format!("{text}: not a valid old SHA1"));
        self.object(text.as_bstr())?.ok_or_else(wrong)
    }

    /// Returns an edit with the options applied.
    fn edit(&self, name: &BStr, new: ObjectId) -> Edit {
        let Request { reason, no_deref, create_reflog, .. } = self.request;
        Edit {
            follow: if *no_deref { Follow::No } else { Follow::Yes },
            log: if *create_reflog { NewLog::Always } else { NewLog::ByPolicy },
            ..Edit::set(name, new, reason.as_ref().map_or(BStr::new(""), |reason| reason.as_bstr()))
        }
    }

    /// Returns the object that a word names. A full object name need not exist.
    fn object(&self, word: &BStr) -> Result<Option<ObjectId>, Failure> {
        if let Some(oid) = ObjectId::from_hex(self.repo.hash(), word) {
            return Ok(Some(oid));
        }
        if !word.iter().any(|byte| b"^~:@".contains(byte)) {
            self.repo.ignored_refs(word).iter().for_each(console::warning);
        }
        let found = match self.repo.resolve(word) {
            Ok(found) => found,
            Err(error) if error.is_unreadable() || error.is_final() => return Err(error.into()),
            Err(_) => None,
        };
        if found.is_some() {
            revisions::warn_ambiguous(self.repo, self.settings, word, 1)?;
        }
        Ok(found)
    }

    /// Returns a new transaction, which notifies the hook if it exists.
    fn transaction(&self) -> Result<RefTransaction<'a>, Failure> {
        let failures = if self.request.batch { Failures::RejectOne } else { Failures::EndAll };
        let mut transaction = RefTransaction::new(self.options, failures);
        let (repo, settings) = (self.repo, self.settings);
        if hooks::has_reference_transaction(repo, settings)? {
            transaction.observed_by(Box::new(move |stage, lines| {
                let code = hooks::reference_transaction(repo, settings, &stage.to_string(), lines);
                code.is_ok_and(|code| code == 0)
            }));
        }
        Ok(transaction)
    }
}

/// Returns the failure if the hook aborted the transaction. Git prints no other message before it.
fn vetoed(error: &refs::Error) -> Option<Failure> {
    matches!(error, refs::Error::Vetoed { .. }).then(|| Failure::fatal(error.to_string()))
}

/// Validates new values. Each object is read once.
struct Objects<'a> {
    reader: repo::objects::Reader<'a>,
    known: std::collections::HashMap<ObjectId, Option<repo::objects::Kind>>,
}

impl<'a> Objects<'a> {
    fn new(repo: &'a Repository) -> Objects<'a> {
        Objects { reader: repo.objects().reader(), known: std::collections::HashMap::new() }
    }

    /// Refuses an edit whose new value is not an object, or not a commit for a branch.
    fn check(&mut self, edit: &Edit) -> Result<(), Refusal> {
        let new = match edit.new {
            refs::New::Id(new) if !new.is_null() => new,
            _ => return Ok(()),
        };
        let name = edit.name.as_bstr();
        // Git checks the name before the object.
        if let Err(error) = refs::check_name_of(edit) {
            return Err(Refusal { message: error.to_string(), kind: None });
        }
        let Objects { reader, known } = self;
        let kind = known.entry(new).or_insert_with(|| match reader.header(&new) {
            // Do not read a blob, which may be larger than memory.
            Ok((repo::objects::Kind::Blob, _)) => Some(repo::objects::Kind::Blob),
            _ => reader.read(&new).ok().map(|(kind, _)| kind),
        });
        let is_branch = name == "HEAD" || name.starts_with(b"refs/heads/");
        let message = match kind {
            None => format!("trying to write ref '{name}' with nonexistent object {new}"),
            Some(kind) if *kind != repo::objects::Kind::Commit && is_branch => {
                format!("trying to write non-commit object {new} to branch '{name}'")
            }
            Some(_) => return Ok(()),
        };
        Err(Refusal { message, kind: Some(Rejection::InvalidNewValue) })
    }
}
