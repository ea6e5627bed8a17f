//! `sapwood check-attr`: the attributes of paths. See [`sapwood::check_attr`].
//!
//! Order: arguments; the index, the tree with the attributes if the user names one, and the global
//! attribute files; then one path after another, whose attributes are printed before the next path
//! is read. Nothing is changed.

use bstr::{BStr, BString, ByteSlice as _};
use sapwood::check_attr::{self, Lookup, Value};

use crate::{
    commands::{
        names::Names,
        obstacles::{ANSWERING, LOOKING, NO_ATTRIBUTES_IN_PATHSPECS},
        reason::Reason,
        record::{Candidate, Command, Group, LineCheck},
        rules::When,
    },
    session::{
        events::printing,
        index,
        invocation::Invocation,
        settings::{Reader, Settings, refused},
    },
    term::{
        args::{Both, Grammar, Opt, Set, Stop, Survey, Table},
        console::{Listing, text},
        failure::Failure,
        text::quote,
    },
};

const TABLE: Table<Set<Request>> = Table {
    usage: &[
        "sapwood check-attr [--source <tree-ish>] [-a | --all | <attr>...] [--] <pathname>...",
        "sapwood check-attr --stdin [-z] [--source <tree-ish>] [-a | --all | <attr>...]",
    ],
    options: &[
        Opt::flag("-a, --all", "report all attributes set on file", field!(all)).native(Both),
        Opt::flag("--cached", "use .gitattributes only from the index", field!(wanted.cached)).native(Both),
        Opt::flag("--stdin", "read file names from stdin", field!(stdin)).native(Both),
        Opt::flag("-z", "terminate input and output records by a NUL character", field!(nul)).native(Both),
        Opt::text("--source <tree-ish>", "which tree-ish to check attributes at", field!(wanted.source))
            .native(Both),
    ],
    grammar: Grammar::MixedWithDashes,
};

/// The record of `check-attr`.
pub(super) const COMMAND: Command = Command {
    name: "check-attr",
    summary: "Display gitattributes information",
    about: "Prints the attributes that `.gitattributes` and its like give to paths. With `--stdin` each \
            answer is printed before the next path is waited for, so that a program can ask one at a time.",
    group: Group::Scripts,
    syntax: &TABLE,
    settings: &[LOOKING],
    variables: &[&[("GIT_ATTR_SOURCE", When::Never)]],
    line: &[LineCheck::new("a wrong number of arguments", number_of_arguments), NO_ATTRIBUTES_IN_PATHSPECS],
    checks: &[
        ANSWERING,
        &[super::record::Check::new("no worktree, in a repository that is not bare", worktree)],
    ],
    run,
    ..Command::BASE
};

/// The name of the output in an error.
const OUTPUT: &str = "'attribute to stdout'";

#[derive(Default)]
struct Request {
    wanted: check_attr::Request,
    all: bool,
    stdin: bool,
    nul: bool,
}

/// Detects too many or too few arguments.
fn number_of_arguments(survey: &Survey, _: &[BString]) -> Option<Reason> {
    let on = |name: &str| {
        survey.options.iter().rev().find(|given| given.name == name).is_some_and(|given| given.on)
    };
    let request = Request { all: on("--all"), stdin: on("--stdin"), ..Request::default() };
    request.split(&survey.rest).is_err().then(|| Reason::command_line("a wrong number of arguments"))
}

/// Detects a repository without a worktree to which Git's own rule for bare repositories does not
/// apply.
fn worktree(candidate: &Candidate<'_>) -> Vec<Reason> {
    let missing = check_attr::check_worktree(candidate.repo()).is_err();
    missing.then(|| Reason::repository("there is no worktree")).into_iter().collect()
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let rest = TABLE.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    check_attr::check_worktree(&repo)?;
    let settings = Settings::read(&repo)?.for_lookups();
    refused::check(&repo, &[Reader::Hooks])?;
    let index = index::load_raw(&repo, &settings)?;
    let (names, files) = request.split(&rest)?;
    if let Some(name) = names.iter().find(|name| !check_attr::is_name(name)) {
        return Err(Failure::Error(text!(name, ": not a valid attribute name"), 255));
    }
    request.wanted.names = (!request.all).then(|| names.to_vec());
    let mut check = Check {
        run,
        nul: request.nul,
        quote_path: settings.quote_path,
        lookup: Lookup::new(printing(&repo, &settings), &index, &request.wanted)?,
        listing: Listing::default(),
    };
    let done = if request.stdin {
        check.all_of_stdin()
    } else {
        files.iter().try_for_each(|file| check.path(file.as_bstr()))
    };
    // The results before an error are printed.
    let written = check.listing.write(OUTPUT);
    done.and(written)?;
    Ok(0)
}

impl Request {
    /// Splits the arguments into attributes and files.
    fn split<'a>(&self, args: &'a [BString]) -> Result<(&'a [BString], &'a [BString]), Failure> {
        let wrong = |message: &str| {
            Err(Failure::Usage(Stop::Mistake { message: message.into(), usage: Some(TABLE.help()) }))
        };
        let dashes = args.iter().position(|arg| arg == "--");
        let (names, files) = match dashes {
            Some(1..) if self.all => return wrong("Attributes and --all both specified"),
            _ if self.all => (&args[..0], &args[dashes.map_or(0, |at| at + 1)..]),
            Some(0) => return wrong("No attribute specified"),
            None if args.is_empty() => return wrong("No attribute specified"),
            Some(at) => (&args[..at], &args[at + 1..]),
            None if self.stdin => (args, &args[args.len()..]),
            None => args.split_at(1),
        };
        match (self.stdin, files.is_empty()) {
            (true, false) => wrong("Can't specify files with --stdin"),
            (false, true) => wrong("No file specified"),
            _ => Ok((names, files)),
        }
    }
}

struct Check<'a> {
    run: &'a Invocation,
    nul: bool,
    quote_path: bool,
    lookup: Lookup<'a>,
    listing: Listing,
}

impl Check<'_> {
    fn all_of_stdin(&mut self) -> Result<(), Failure> {
        let mut names = Names::new(self.run, self.nul)?;
        while let Some(name) = names.next(&mut self.listing, OUTPUT)? {
            self.path(name.as_bstr())?;
        }
        Ok(())
    }

    fn path(&mut self, file: &BStr) -> Result<(), Failure> {
        let (nul, out) = (self.nul, self.listing.buffer());
        let quoted = if nul { file.to_owned() } else { quote(file, self.quote_path) };
        self.lookup.path(file, |name, value| record(out, nul, &quoted, name, value))?;
        self.listing.flush_if_full()
    }
}

fn record(out: &mut Vec<u8>, nul: bool, file: &BString, name: &BString, value: Value<'_>) {
    let value = match value {
        Value::Set => "set".into(),
        Value::Unset => "unset".into(),
        Value::Unspecified => "unspecified".into(),
        Value::Text(text) => text,
    };
    let (between, end): (&[u8], u8) = if nul { (b"\0", b'\0') } else { (b": ", b'\n') };
    for part in [file, between, name, between, value] {
        out.extend_from_slice(part);
    }
    out.push(end);
}
