//! `sapwood mktree`: trees from lists of entries.
//!
//! A tree is published before its name is printed, so with `--batch` the reader of the names may
//! use each tree at once.

use bstr::{BStr, BString, ByteSlice as _};
use format::loose::Kind;
use repo::Repository;
use sapwood::{Mode, ObjectId};

use crate::{
    commands::{
        obstacles::{self, LOOKING},
        record::{Check, Command, Group, Traits},
    },
    session::{input::Input, invocation::Invocation, new_commit, settings::Settings},
    term::{
        args::{Grammar, Native::Both, Opt, Set, Table},
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
        Opt::flag("-z", "input is NUL terminated", |request: &mut Request| &mut request.nul).native(Both),
        Opt::flag("--missing", "allow missing objects", |request: &mut Request| &mut request.missing)
            .native(Both),
        Opt::flag("--batch", "allow creation of more than one tree", |request: &mut Request| {
            &mut request.batch
        })
        .native(Both),
    ],
    grammar: Grammar::Mixed,
};

#[derive(Default)]
struct Request {
    nul: bool,
    missing: bool,
    batch: bool,
}

/// An entry of the tree to write.
struct Entry {
    mode: u32,
    name: BString,
    oid: ObjectId,
}

impl Entry {
    /// Returns the sort key of the entry: a directory sorts as if its name ended in a slash.
    fn order(&self) -> BString {
        match self.kind() {
            Kind::Tree => text!(self.name, "/"),
            _ => self.name.clone(),
        }
    }

    /// Returns the object type that the mode requires.
    fn kind(&self) -> Kind {
        match self.mode & 0o170000 {
            0o040000 => Kind::Tree,
            0o160000 => Kind::Commit,
            _ => Kind::Blob,
        }
    }
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    TABLE.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    let settings = Settings::read(&repo)?.for_recording();
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
        let content = content(entries);
        let objects = store::objects::ObjectTransaction::new(settings.objects(&repo));
        let oid = new_commit::record(&repo, &objects, Kind::Tree, &content)?;
        objects.publish()?;
        console::out(oid.to_string());
        console::flush();
    }
    Ok(0)
}

/// Returns the content of a tree with these entries.
fn content(mut entries: Vec<Entry>) -> Vec<u8> {
    entries.sort_by_cached_key(Entry::order);
    let mut content = Vec::new();
    for Entry { mode, name, oid } in entries {
        content.extend_from_slice(format!("{mode:o} ").as_bytes());
        content.extend_from_slice(&name);
        content.push(0);
        content.extend_from_slice(oid.as_bytes());
    }
    content
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
    let entry = Entry { mode, name, oid };
    let name = &entry.name;
    let of_mode = entry.kind();
    let kind =
        Kind::from_name(kind).ok_or_else(|| Failure::Fatal(text!("invalid object type \"", kind, "\"")))?;
    if of_mode != kind {
        return Err(Failure::Fatal(text!(
            "entry '",
            name,
            "' object type (",
            kind.to_string(),
            ") doesn't match mode type (",
            of_mode.to_string(),
            ")"
        )));
    }
    let found = if repo.objects().contains(&oid) { Some(repo.objects().header(&oid)?.0) } else { None };
    match found {
        None if !request.missing && !Mode::from_raw(mode).is_gitlink() => {
            Err(Failure::Fatal(text!("entry '", name, "' object ", oid.to_string(), " is unavailable")))
        }
        Some(found) if found != of_mode => Err(Failure::Fatal(text!(
            "entry '",
            name,
            "' object ",
            oid.to_string(),
            " is a ",
            found.to_string(),
            " but specified type was (",
            of_mode.to_string(),
            ")"
        ))),
        _ if name.contains(&b'/') => Err(Failure::Fatal(text!("path ", name, " contains slash"))),
        _ => Ok(entry),
    }
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
