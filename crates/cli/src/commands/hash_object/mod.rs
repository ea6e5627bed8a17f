//! `sapwood hash-object`: object names of contents, and with `-w` the objects. See
//! [`sapwood::hash_object`].
//!
//! An object is published before its name is printed. Names are collected while more input is
//! buffered, so that one flush serves many objects.

use std::io;

use bstr::{BStr, BString, ByteSlice as _};
use repo::Repository;
use sapwood::hash_object::{Hashing, Kind};

use crate::{
    commands::{
        obstacles::{self, LOOKING},
        reason::Reason,
        record::{Check, Command, Group, LineCheck},
    },
    session::{
        Session,
        input::{self, Input},
        invocation::Invocation,
        settings::{Reader, Settings, refused},
    },
    term::{
        args::{Both, Grammar, On, Opt, Set, Stop, Survey, Table},
        console::{self, text},
        failure::Failure,
        text::{os_str, unquote},
    },
};

/// The record of `hash-object`.
pub(super) const COMMAND: Command = Command {
    name: "hash-object",
    summary: "Compute object ID and optionally create an object from a file",
    about: "Prints the object names of files, and with `-w` writes the objects. Objects are durable before \
            their names are printed.",
    group: Group::Scripts,
    syntax: &TABLE,
    settings: &[LOOKING],
    line: &[LineCheck::new(
        "`-t` with another type than `blob`, without `--literally`; without `--no-filters`, a path from \
         the root or with `.`, `..` or empty components",
        form,
    )],
    checks: &[CHECKS],
    run,
    ..Command::BASE
};

const CHECKS: &[Check] = &[obstacles::RULES];

const TABLE: Table<Set<Request>> = Table {
    usage: &[
        "sapwood hash-object [-t <type>] [-w] [--path=<file> | --no-filters] [--stdin [--literally]] [--] \
         <file>...",
        "sapwood hash-object [-t <type>] [-w] --stdin-paths [--no-filters]",
    ],
    options: &[
        Opt::text("-t <type>", "object type", field!(kind)).native(On),
        Opt::flag("-w", "write the object into the object database", field!(write)).native(Both),
        Opt::count("--stdin", "read the object from stdin", field!(stdin)).native(Both),
        Opt::flag("--stdin-paths", "read file names from stdin", field!(stdin_paths)).native(Both),
        Opt::flag("--no-filters", "store file as is without filters", field!(no_filters)).native(Both),
        Opt::flag(
            "--literally",
            "just hash any random garbage to create corrupt objects for debugging Git",
            field!(literally),
        )
        .native(Both),
        Opt::text("--path <file>", "process file as it were from this path", field!(path)).native(Both),
    ],
    grammar: Grammar::Mixed,
};

#[derive(Default)]
struct Request {
    kind: Option<BString>,
    write: bool,
    stdin: usize,
    stdin_paths: bool,
    no_filters: bool,
    literally: bool,
    path: Option<BString>,
}

/// Git validates objects that are not blobs, and has its own rules for the attributes of a path
/// that has empty, `.` or `..` components.
fn form(survey: &Survey, _: &[BString]) -> Option<Reason> {
    let last = |name: &str| survey.options.iter().rev().find(|given| given.name == name);
    let is_on = |name: &str| last(name).is_some_and(|given| given.on);
    let is_blob = last("-t").and_then(|given| given.value.as_ref()).is_none_or(|kind| kind == "blob");
    if !is_blob && !is_on("--literally") {
        return Some(Reason::command_line("an object that is no blob"));
    }
    let paths = survey.rest.iter().chain(last("--path").and_then(|given| given.value.as_ref()));
    if !is_on("--no-filters") && paths.into_iter().any(|path| !is_plain(path.as_bstr())) {
        return Some(Reason::command_line("attributes of a path that is not plain"));
    }
    None
}

/// Returns true for a path below the current directory, without `.` and `..`.
fn is_plain(path: &BStr) -> bool {
    !path.is_empty() && path.split_str("/").all(|name| !matches!(name, b"" | b"." | b".."))
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let files = TABLE.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    refused::check(&repo, &[Reader::Contents])?;
    let settings = Settings::read(&repo)?.for_recording();
    let wrong = match () {
        () if request.stdin_paths && request.stdin > 0 => Some("Can't use --stdin-paths with --stdin"),
        () if request.stdin_paths && !files.is_empty() => Some("Can't specify files with --stdin-paths"),
        () if request.stdin_paths && request.path.is_some() => Some("Can't use --stdin-paths with --path"),
        () if request.stdin > 1 => Some("Multiple --stdin arguments are not supported"),
        () if !request.stdin_paths && request.path.is_some() && request.no_filters => {
            Some("Can't use --path with --no-filters")
        }
        () => None,
    };
    if let Some(wrong) = wrong {
        return Err(Stop::Mistake { message: wrong.into(), usage: Some(TABLE.help()) }.into());
    }
    let name = request.kind.clone().unwrap_or_else(|| "blob".into());
    let kind = Kind::from_name(&name);
    let kind = kind.ok_or_else(|| Failure::Fatal(text!("invalid object type \"", name, "\"")))?;
    if kind != Kind::Blob && !request.literally {
        return Err(Failure::unsupported("an object that is no blob, without '--literally',"));
    }
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let hashing = Hashing::new(session.context(run), kind, request.write);
    let mut command = Run { run, repo: &repo, request: &request, hashing };
    let hashed = command.all(&files);
    let published = command.publish();
    hashed.and(published).map(|()| 0)
}

/// The state of a run.
struct Run<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    request: &'a Request,
    hashing: Hashing<'a>,
}

impl Run<'_> {
    /// Hashes standard input and then the files, as the command line asks for.
    fn all(&mut self, files: &[BString]) -> Result<(), Failure> {
        let prefix = self.repo.prefix().to_owned();
        let in_prefix =
            |path: &BString| if path.starts_with(b"/") { path.clone() } else { text!(prefix, path) };
        let path = self.request.path.as_ref().map(in_prefix);
        if self.request.stdin > 0 {
            self.stdin(path.as_ref())?;
        }
        for file in files {
            self.run.interrupt.check()?;
            let named = in_prefix(file);
            let path = (!self.request.no_filters).then(|| path.clone().unwrap_or_else(|| named.clone()));
            self.hashing.file(self.run.path(file)?.as_path(), named.as_bstr(), path.as_ref())?;
        }
        if self.request.stdin_paths {
            self.paths_from_stdin()?;
        }
        Ok(())
    }

    fn stdin(&mut self, path: Option<&BString>) -> Result<(), Failure> {
        let mut input = Input::new(self.run)?;
        let content = match input::file_size() {
            Some(size) => {
                if self.hashing.is_streamed(size, path)? {
                    return Ok(self.hashing.stream(&mut input, size, path)?);
                }
                let mut content = Vec::new();
                let read = io::Read::read_to_end(&mut io::Read::take(&mut input, size), &mut content);
                read.map(|_| (content, Some(size)))
            }
            None => input.all()?.map(|content| (content, None)),
        };
        Ok(self.hashing.content(content, path)?)
    }

    fn paths_from_stdin(&mut self) -> Result<(), Failure> {
        let mut input = Input::new(self.run)?;
        let mut line = Vec::new();
        while input.line(b'\n', &mut line)? {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            let text = line[..line.find_byte(0).unwrap_or(line.len())].as_bstr();
            let named = match text.first() {
                Some(b'"') => {
                    let unquoted = unquote(text).filter(|(_, rest)| rest.is_empty());
                    unquoted.ok_or_else(|| Failure::fatal("line is badly quoted"))?.0
                }
                _ => text.to_owned(),
            };
            let path = (!self.request.no_filters).then_some(&named);
            let place = self.repo.base_dir().join(os_str(&named));
            self.hashing.file(&place, named.as_bstr(), path)?;
            if !input.is_at_hand(b'\n') {
                self.publish()?;
            }
        }
        Ok(())
    }

    /// Publishes objects, and prints their names.
    fn publish(&mut self) -> Result<(), Failure> {
        for name in self.hashing.publish()? {
            console::out(name.to_string());
        }
        console::flush();
        Ok(())
    }
}
