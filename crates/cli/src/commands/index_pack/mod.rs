//! `sapwood index-pack`: the index of a pack from standard input or from a file. See
//! [`sapwood::index_pack`].

mod words;

use bstr::{BString, ByteSlice as _};
use engine::pack_indexing;
use repo::pack_indexing::Error;
use sapwood::index_pack::{self, Indexing, Meter, Source, receive};

use self::words::Request;
use crate::{
    commands::{
        obstacles::{self, LOOKING},
        reason::Reason,
        record::{Candidate, Check, Command, Group, Home, LineCheck, Traits},
    },
    session::{
        input::{self, Input},
        invocation::{Invocation, Place},
        receiving::{self, Display},
        settings::refused::{self, Reader},
    },
    term::{
        args::{Grammar, On, Opt, Set, Stop, Survey, Table},
        console,
        failure::Failure,
        notice::Printer,
        text::bytes::readable,
    },
};

/// The record of `index-pack`.
pub(super) const COMMAND: Command = Command {
    name: "index-pack",
    summary: "Build pack index file for an existing packed archive",
    about: "Reads a pack from a file or from standard input, checks every object in it, and writes its \
            index. Objects are inflated, named and compared by all cores, and checked for their \
            meaning too with `--strict` and `--fsck-objects`.",
    group: Group::Scripts,
    syntax: &TABLE,
    traits: Traits { anywhere: true, starts_no_program: true, ..Command::BASE.traits },
    settings: &[LOOKING],
    line: &[LineCheck::new(
        "a value of an option that Git refuses or that sapwood does not read",
        unserved_words,
    )],
    checks: &[&[obstacles::RULES, Check::new(obstacles::PARTIAL, partial)]],
    late: &["these words of index-pack"],
    run,
    ..Command::BASE
};

/// The options, for the help: [`words`] parses them.
const TABLE: Table<Set<()>> = Table {
    usage: &[
        "sapwood index-pack [-v] [-o <index-file>] [--keep[=<text>]] [--verify] <pack-file>",
        "sapwood index-pack --stdin [--fix-thin] [-v] [--keep[=<text>]]",
    ],
    options: &[
        word("--stdin", "read the pack from standard input, into the repository"),
        word("--fix-thin", "add the missing bases of deltas"),
        word("--strict[=<msg-id>=<severity>...]", "check the objects, and that no object is missing"),
        word("--fsck-objects[=<msg-id>=<severity>...]", "check the objects"),
        word("-v", "show progress"),
        word("-o <file>", "write the index to this file"),
        word("--keep[=<text>]", "write a .keep file"),
        word("--rev-index", "write a reverse index"),
        word("--no-rev-index", "write no reverse index"),
        word("--verify", "compare the index with that of the pack"),
        word("--threads=<n>", "the number of threads"),
        word("--index-version=<version>", "the version of the index"),
        word("--max-input-size=<size>", "refuse a larger pack"),
        word("--object-format=(sha1|sha256)", "the hash of the object names"),
        word("--pack_header=<header>", "the header, which was read already").hidden(),
        word("--progress-title <text>", "the title of the progress").hidden(),
        word("--show-resolving-progress", "show how many deltas are resolved").hidden(),
        word("--report-end-of-input", "write a NUL to standard error after the last byte").hidden(),
    ],
    grammar: Grammar::Words,
};

const fn word(spelling: &'static str, help: &'static str) -> Opt<Set<()>> {
    Opt::new(spelling, help, |_, _| Ok(())).only().native(On)
}

/// Detects a word that sapwood does not serve.
fn unserved_words(_: &Survey, args: &[BString]) -> Option<Reason> {
    words::parse(args).err()
}

/// In a partial clone, missing bases may have to be fetched.
fn partial(candidate: &Candidate<'_>) -> Vec<Reason> {
    match candidate.home {
        Home::Repository(repo) => obstacles::partial(repo),
        Home::Outside(_) => Vec::new(),
    }
}

/// The failure that leaves the command to the real Git.
const UNSERVED: Failure = Failure::Unserved("these words of index-pack");

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    if matches!(args, [only] if only == "-h") {
        return Err(Stop::Help(TABLE.help()).into());
    }
    let request = words::parse(args).map_err(|_| UNSERVED)?;
    let place = run.open_any()?;
    let interrupt = run.interrupt.flag();
    let at = match &place {
        Place::Repository(repo) => {
            refused::check(repo, &[Reader::Every])?;
            index_pack::Place::of(repo, &Printer, interrupt)
        }
        Place::Outside(outside) => {
            refused::check_outside(outside, &[Reader::Every])?;
            index_pack::Place::outside(outside, &Printer, interrupt)
        }
    };
    let indexing = Indexing::new(at, &request.options)?;
    match &request.pack {
        Some(pack) => file(&indexing, &request, pack),
        None => stdin(run, &indexing, &request),
    }
}

/// Receives a pack on standard input.
fn stdin(run: &Invocation, indexing: &Indexing<'_>, request: &Request) -> Result<u8, Failure> {
    let (keep, options) = (request.keep.clone(), request.options.clone());
    let wanted = receive::Request { fix_thin: request.fix_thin, keep, options };
    let mut input = Input::new(run)?;
    let source = Source {
        stream: &mut input,
        is_file: input::is_file(),
        before: request.header.as_ref().map_or(&[], |header| header),
    };
    let on_end = || {
        if request.reports_end {
            report_end();
        }
    };
    let meter = Meter::default();
    let display = display(request, &meter);
    let received = display.during(|| indexing.receive(&wanted, source, &on_end, &meter)).map_err(failed)?;
    display.finish();
    let word = if received.is_first_companion_new { "keep" } else { "pack" };
    console::out(format!("{word}\t{}", received.checksum));
    console::out_raw(&received.rest);
    finish(indexing)
}

/// Writes or verifies the index of a pack file.
fn file(indexing: &Indexing<'_>, request: &Request, pack: &BString) -> Result<u8, Failure> {
    let Request { index, keep, verify, options, .. } = request;
    let pack = indexing.open(&index_pack::Request {
        pack: pack.clone(),
        index: index.clone(),
        keep: keep.clone(),
        verify: *verify,
        options: options.clone(),
    })?;
    let meter = Meter::default();
    let display = display(request, &meter);
    let contents = display.during(|| indexing.read(&pack, &meter)).map_err(failed)?;
    display.finish();
    indexing.check(&pack).map_err(failed)?;
    if *verify {
        indexing.verify(&pack, &contents)?;
    } else {
        indexing.write(&pack, keep.as_ref(), &contents)?;
        console::out(contents.checksum.to_string());
    }
    finish(indexing)
}

/// Runs the checks that need the finished pack.
fn finish(indexing: &Indexing<'_>) -> Result<u8, Failure> {
    indexing.finish()?.iter().for_each(|oid| console::out(oid.to_string()));
    Ok(0)
}

fn display<'m>(request: &Request, meter: &'m Meter) -> Display<'m> {
    let title = match &request.title {
        Some(title) => title.to_str_lossy().into_owned().into(),
        None if request.stdin => "Receiving objects".into(),
        None => "Indexing objects".into(),
    };
    // Git counts bytes from its second read on. The first read fills its buffer, or takes all that
    // a pipe holds.
    let first = if input::is_file() { 128 << 10 } else { 64 << 10 };
    let form = receiving::Form {
        title,
        objects: request.verbose,
        deltas: request.verbose || request.shows_resolving,
        uncounted: request.stdin.then_some(first),
    };
    Display::new(form, meter)
}

/// Returns the failure for a pack that cannot be indexed.
fn failed(error: sapwood::Error) -> Failure {
    let limit = match &error {
        sapwood::Error::IndexPack(cause) => match **cause {
            pack_indexing::Error::Pack(Error::Limit(limit)) => Some(limit),
            _ => None,
        },
        _ => None,
    };
    match limit {
        Some(limit) => Failure::fatal(format!("pack exceeds maximum allowed size ({})", readable(limit))),
        None => error.into(),
    }
}

/// Writes a NUL to standard error to report that the whole pack was read.
fn report_end() {
    console::eprint_raw(b"\0");
}
