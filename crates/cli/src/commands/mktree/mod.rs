//! `sapwood mktree`: trees from lists of entries.
//!
//! A tree is published before its name is printed, so with `--batch` the reader of the names may
//! use each tree at once.

use bstr::{BStr, BString, ByteSlice as _};
use repo::Repository;
use sapwood::{
    ObjectId,
    make_tree::{self, Entry, Kind},
};

use crate::{
    commands::{
        obstacles::{self, LOOKING},
        record::{Check, Command, Group, Traits},
    },
    session::{Session, input::Input, invocation::Invocation, settings::Settings},
    term::{
        args::{Both, Grammar, Opt, Set, Table},
        console::{self, text},
        failure::Failure,
        text::unquote,
    },
};

/// The record of `mktree`.
pub(super) const COMMAND: Command = Command {
    name: "mktree",
    summary: "Build a tree-object from ls-tree formatted text",
    about: "Reads entries in the format of `ls-tree` from standard input, writes the tree that they make, and \
            prints its name.",
    group: Group::Scripts,
    syntax: &TABLE,
    traits: Traits { starts_no_program: true, ..Command::BASE.traits },
    settings: &[LOOKING],
    checks: &[CHECKS],
    run,
    ..Command::BASE
};

const CHECKS: &[Check] = &[obstacles::RULES];

const TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood mktree [-z] [--missing] [--batch]"],
    options: &[
        Opt::flag("-z", "input is NUL terminated", field!(nul)).native(Both),
        Opt::flag("--missing", "allow missing objects", field!(missing)).native(Both),
        Opt::flag("--batch", "allow creation of more than one tree", field!(batch)).native(Both),
    ],
    grammar: Grammar::Mixed,
};

#[derive(Default)]
struct Request {
    nul: bool,
    missing: bool,
    batch: bool,
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    TABLE.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    let settings = Settings::read(&repo)?.for_recording();
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let mut input = Input::new(run)?;
    let end = if request.nul { 0 } else { b'\n' };
    let mut line = Vec::new();
    let mut is_over = false;
    while !is_over {
        let mut entries = Vec::new();
        loop {
            if !input.line(end, &mut line)? {
                is_over = true;
                break;
            }
            // Like a C string, the line ends at the first NUL.
            let text = &line[..line.find_byte(0).unwrap_or(line.len())];
            if !text.is_empty() {
                entries.push(parse(&repo, &request, text.as_bstr())?);
            } else if request.batch {
                break;
            } else {
                return Err(Failure::fatal("input format error: (blank line only valid in batch mode)"));
            }
        }
        // A trailing empty line is optional.
        if request.batch && is_over && entries.is_empty() {
            break;
        }
        console::out(make_tree::write(session.context(run), entries)?.to_string());
        console::flush();
    }
    Ok(0)
}

/// Parses `<mode> <type> <object>\t<name>`, and checks that mode, type and object are consistent.
fn parse(repo: &Repository, request: &Request, line: &BStr) -> Result<Entry, Failure> {
    let wrong = || Failure::Fatal(text!("input format error: ", line));
    let (mode, rest) = line.split_once_str(" ").ok_or_else(wrong)?;
    let mode = octal(mode).ok_or_else(wrong)?;
    let (kind, rest) = rest.split_once_str(" ").ok_or_else(wrong)?;
    let (hex, name) = rest.split_at_checked(repo.hash().hex_len()).ok_or_else(wrong)?;
    let oid = ObjectId::from_hex(repo.hash(), hex).ok_or_else(wrong)?;
    let name = name.strip_prefix(b"\t").ok_or_else(wrong)?.as_bstr();
    let name = match name.first() {
        Some(b'"') if !request.nul => {
            let unquoted = unquote(name).filter(|(_, rest)| rest.is_empty());
            unquoted.ok_or_else(|| Failure::fatal("invalid quoting"))?.0
        }
        _ => name.to_owned(),
    };
    let kind =
        Kind::from_name(kind).ok_or_else(|| Failure::Fatal(text!("invalid object type \"", kind, "\"")))?;
    let entry = Entry { mode, kind, name, oid };
    entry.check(repo, request.missing)?;
    Ok(entry)
}

/// Parses an octal number as C's `strtoul` does.
fn octal(text: &[u8]) -> Option<u32> {
    let text = text.trim_start();
    let text = text.strip_prefix(b"+").unwrap_or(text);
    let is_digit = |byte: &u8| (b'0'..=b'7').contains(byte);
    if text.is_empty() || !text.iter().all(is_digit) {
        return None;
    }
    u32::from_str_radix(text.to_str().ok()?, 8).ok()
}
