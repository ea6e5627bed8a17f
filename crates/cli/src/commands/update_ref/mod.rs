//! `sapwood update-ref`: changes refs, one by name or many from standard input. See
//! [`sapwood::update_ref`].

mod line;
mod stdin;

use bstr::{BStr, BString, ByteSlice as _};
use repo::keys;
use sapwood::{
    ObjectId, refs,
    update_ref::{self, Edit, Follow, NewLog, Old},
};

use crate::{
    commands::{
        obstacles,
        reason::Reason,
        record::{Check, Command, Group, LineCheck, Revisions},
        rules::{Setting, When},
    },
    session::{
        Session,
        invocation::Invocation,
        settings::{Reader, Settings, refused},
    },
    term::{
        args::{Both, Grammar, On, Opt, Set, Survey, Table},
        console,
        failure::Failure,
        library::not_changed,
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
        Check::new(obstacles::PARTIAL, |candidate| obstacles::partial(candidate.repo())),
        obstacles::REVISIONS,
    ]],
    late: &["symbolic links as HEAD"],
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
        Opt::text("-m <reason>", "reason of the update", field!(reason)).native(On),
        Opt::flag("-d", "delete the reference", field!(delete)).native(On),
        Opt::flag("--no-deref", "update <refname> not the one it points to", field!(no_deref)).native(Both),
        Opt::flag("-z", "stdin has NUL-terminated arguments", field!(nul)).native(On),
        Opt::flag("--stdin", "read updates from stdin", field!(stdin)).native(Both),
        Opt::flag("--create-reflog", "create a reflog", field!(create_reflog)).native(Both),
        Opt::flag("-0, --batch-updates", "batch reference updates", field!(batch)).native(Both),
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

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let names = TABLE.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    refused::check(&repo, &[Reader::Every])?;
    if request.reason.as_ref().is_some_and(|reason| reason.is_empty()) {
        return Err(Failure::fatal("Refusing to perform update with empty message."));
    }
    refs::check_state(&repo)?;
    let settings = Settings::read(&repo)?.for_recording();
    let library = Session { invocation: run, repository: &repo, settings: &settings }.context(run);
    let options = refs::options_with_hook(library)?;
    let context = Context { run, library, options: &options, request: &request };
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
    library: sapwood::Context<'a>,
    options: &'a refs::Options,
    request: &'a Request,
}

impl Context<'_> {
    fn update(&self, name: &BString, new: &BString, old: Option<&BString>) -> Result<u8, Failure> {
        let value = self.object(new.as_bstr())?;
        let value = value.ok_or_else(|| Failure::fatal(format!("{new}: not a valid SHA1")))?;
        let old = match old {
            None => Old::Any,
            Some(old) => Old::Id(self.old(old)?),
        };
        let failed = |reason: String| Failure::fatal(format!("update_ref failed for ref '{name}': {reason}"));
        self.make(Edit { old, ..self.edit(name.as_bstr(), value) }).map_err(|error| match error {
            sapwood::Error::Failed(reason) => failed(reason.to_string()),
            sapwood::Error::Refs(error) if !error.is_veto() => {
                failed(error.to_string()).advised(error.advice())
            }
            error => error.into(),
        })
    }

    fn delete(&self, name: &BString, old: Option<&BString>) -> Result<u8, Failure> {
        let old = old.map(|old| self.old(old)).transpose()?.filter(|old| !old.is_null());
        let edit = Edit {
            old: old.map_or(Old::Any, Old::Id),
            log: NewLog::ByPolicy,
            ..self.edit(name.as_bstr(), self.null())
        };
        self.make(edit).map_err(not_changed)
    }

    /// Makes one edit. Returns the exit code.
    fn make(&self, edit: Edit) -> Result<u8, sapwood::Error> {
        let request = update_ref::Request { edits: vec![edit], ..Default::default() };
        update_ref::apply(self.library, self.options, request).map(|_| 0)
    }

    /// Returns the old value on the command line. Empty text means that the ref must not exist.
    fn old(&self, text: &BString) -> Result<ObjectId, Failure> {
        if text.is_empty() {
            return Ok(self.null());
        }
        let wrong = || Failure::fatal(format!("{text}: not a valid old SHA1"));
        self.object(text.as_bstr())?.ok_or_else(wrong)
    }

    /// Returns an edit with the options applied.
    fn edit(&self, name: &BStr, new: ObjectId) -> Edit {
        let Request { reason, create_reflog, .. } = self.request;
        Edit {
            follow: self.follow(),
            log: if *create_reflog { NewLog::Always } else { NewLog::ByPolicy },
            ..Edit::set(name, new, reason.as_ref().map_or(BStr::new(""), |reason| reason.as_bstr()))
        }
    }

    fn follow(&self) -> Follow {
        if self.request.no_deref { Follow::No } else { Follow::Yes }
    }

    fn null(&self) -> ObjectId {
        ObjectId::null(self.library.repo.hash())
    }

    fn object(&self, word: &BStr) -> Result<Option<ObjectId>, Failure> {
        Ok(update_ref::object(self.library, word)?)
    }
}
