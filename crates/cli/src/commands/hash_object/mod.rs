//! `sapwood hash-object`: object names of contents, and with `-w` the objects.
//!
//! An object is published before its name is printed. Names are collected while more input is
//! buffered, so that one flush serves many objects.

use std::io;

use bstr::{BStr, BString, ByteSlice as _};
use format::{hash::Hasher, loose::Kind};
use repo::{
    Repository,
    convert::{Converter, Worker},
};
use sapwood::{FileType, HashKind, ObjectId, index::Index};
use store::objects::{ObjectTransaction, StreamError};

use crate::{
    commands::{
        obstacles::{self, LOOKING},
        reason::Reason,
        record::{Check, Command, Group, LineCheck},
    },
    session::{
        input::Input,
        invocation::Invocation,
        new_commit,
        settings::{
            Settings,
            refused::{self, Reader},
        },
    },
    term::{
        args::{
            Grammar,
            Native::{Both, On},
            Opt, Set, Stop, Survey, Table,
        },
        console::{self, text},
        failure::Failure,
        text::{os_error, os_str, unquote},
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
        Opt::text("-t <type>", "object type", |request: &mut Request| &mut request.kind).native(On),
        Opt::flag("-w", "write the object into the object database", |request: &mut Request| {
            &mut request.write
        })
        .native(Both),
        Opt::count("--stdin", "read the object from stdin", |request: &mut Request| &mut request.stdin)
            .native(Both),
        Opt::flag("--stdin-paths", "read file names from stdin", |request: &mut Request| {
            &mut request.stdin_paths
        })
        .native(Both),
        Opt::flag("--no-filters", "store file as is without filters", |request: &mut Request| {
            &mut request.no_filters
        })
        .native(Both),
        Opt::flag(
            "--literally",
            "just hash any random garbage to create corrupt objects for debugging Git",
            |request: &mut Request| &mut request.literally,
        )
        .native(Both),
        Opt::text("--path <file>", "process file as it were from this path", |request: &mut Request| {
            &mut request.path
        })
        .native(Both),
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
    let index = Index::empty(repo.hash());
    let mut hashing = Hashing {
        run,
        repo: &repo,
        settings: &settings,
        request: &request,
        kind,
        index: &index,
        worker: None,
        objects: None,
        names: Vec::new(),
    };
    let hashed = hashing.all(&files);
    let published = hashing.publish();
    hashed.and(published).map(|()| 0)
}

/// The state of a run.
/// Content up to this size, in bytes, is read at once.
const WHOLE: u64 = 1 << 20;

struct Hashing<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    settings: &'a Settings,
    request: &'a Request,
    kind: Kind,
    index: &'a Index,
    worker: Option<Worker>,
    objects: Option<ObjectTransaction<'a>>,
    /// Names that were not printed yet.
    names: Vec<ObjectId>,
}

impl Hashing<'_> {
    fn all(&mut self, files: &[BString]) -> Result<(), Failure> {
        let prefix = self.repo.prefix().to_owned();
        let in_prefix =
            |path: &BString| if path.starts_with(b"/") { path.clone() } else { text!(prefix, path) };
        let path = self.request.path.as_ref().map(in_prefix);
        if self.request.stdin > 0 {
            let mut input = Input::new(self.run)?;
            let content = match sys::stat_of(io::stdin()) {
                Ok(stat)
                    if stat.file_type == FileType::File
                        && self.is_streamed(stat.size)
                        && self.kind == Kind::Blob
                        && self.is_unconverted(path.as_ref())? =>
                {
                    self.stream(&mut input, stat.size, path.as_ref())?;
                    return self.rest(files, path);
                }
                Ok(stat) if stat.file_type == FileType::File => {
                    let mut content = Vec::new();
                    let read =
                        io::Read::read_to_end(&mut io::Read::take(&mut input, stat.size), &mut content);
                    read.map(|_| content).map(|content| (content, Some(stat.size)))
                }
                _ => input.all()?.map(|content| (content, None)),
            };
            self.content(content, path.as_ref())?;
        }
        self.rest(files, path)
    }

    /// Hashes what the command line names besides standard input.
    fn rest(&mut self, files: &[BString], path: Option<BString>) -> Result<(), Failure> {
        let prefix = self.repo.prefix().to_owned();
        let in_prefix =
            |path: &BString| if path.starts_with(b"/") { path.clone() } else { text!(prefix, path) };
        for file in files {
            self.run.interrupt.check()?;
            let named = in_prefix(file);
            let path = (!self.request.no_filters).then(|| path.clone().unwrap_or_else(|| named.clone()));
            self.file(self.run.path(file)?.as_path(), named.as_bstr(), path.as_ref())?;
        }
        if self.request.stdin_paths {
            self.paths_from_stdin()?;
        }
        Ok(())
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
            self.file(&place, named.as_bstr(), path)?;
            if !input.is_at_hand(b'\n') {
                self.publish()?;
            }
        }
        Ok(())
    }

    fn file(&mut self, place: &std::path::Path, named: &BStr, path: Option<&BString>) -> Result<(), Failure> {
        let mut file = sys::by_path::open(place).map_err(|error| {
            Failure::Fatal(text!("could not open '", named, "' for reading: ", os_error(&error)))
        })?;
        let stat = sys::stat_of(&file).map_err(|_| self.failed(path))?;
        let is_file = stat.file_type == FileType::File;
        if is_file && self.is_streamed(stat.size) && self.kind == Kind::Blob && self.is_unconverted(path)? {
            return self.stream(&mut file, stat.size, path);
        }
        if is_file
            && stat.size > WHOLE
            && let Some(path) = path.filter(|_| self.kind == Kind::Blob)
            && self.worker()?.filters_open_file(path.as_bstr())?
        {
            let mut filtered = Vec::new();
            let worker = self.worker()?;
            let result = worker.open_file_to_git(path.as_bstr(), &file, &mut filtered);
            worker.take_messages().iter().for_each(console::eprint_line);
            result?;
            return self.record(&filtered);
        }
        let mut content = Vec::new();
        let read = sys::read_stoppable(&file, stat.size, &mut content).map(|_| content);
        self.content(read.map(|content| (content, is_file.then_some(stat.size))), path)
    }

    /// Hashes one content: the bytes that were read, and the size that they should have.
    fn content(
        &mut self,
        read: io::Result<(Vec<u8>, Option<u64>)>,
        path: Option<&BString>,
    ) -> Result<(), Failure> {
        let shown = || path.map_or_else(|| "<unknown>".into(), BString::clone);
        let content = match read {
            Ok((content, Some(size))) if (content.len() as u64) < size => {
                console::error(text!("short read while indexing ", shown()));
                return Err(self.failed(path));
            }
            Ok((mut content, size)) => {
                let size = size.and_then(|size| usize::try_from(size).ok());
                content.truncate(size.unwrap_or(content.len()));
                content
            }
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => return Err(self.failed(path)),
            Err(error) => {
                self.run.interrupt.check()?;
                console::error(text!("read error while indexing ", shown(), ": ", os_error(&error)));
                return Err(self.failed(path));
            }
        };
        let mut converted = Vec::new();
        let content: &[u8] = match path.filter(|_| self.kind == Kind::Blob) {
            Some(path) => {
                let worker = self.worker()?;
                let result = worker.to_git(path.as_bstr(), &content, &mut converted);
                worker.take_messages().iter().for_each(console::eprint_line);
                result?
            }
            None => &content,
        };
        self.record(content)
    }

    fn record(&mut self, content: &[u8]) -> Result<(), Failure> {
        let oid = if self.request.write {
            let (repo, kind) = (self.repo, self.kind);
            new_commit::record(repo, self.transaction(), kind, content)?
        } else {
            name(self.repo.hash(), self.kind, content)?
        };
        self.names.push(oid);
        Ok(())
    }

    /// Returns true for content that is not read into memory. Only an object that is written keeps
    /// Git's choice of a loose object or a pack.
    fn is_streamed(&self, size: u64) -> bool {
        let least = if self.request.write { self.settings.big_file_threshold } else { WHOLE };
        size > least
    }

    fn stream(&mut self, file: &mut dyn io::Read, size: u64, path: Option<&BString>) -> Result<(), Failure> {
        let (repo, hash) = (self.repo, self.repo.hash());
        let exists = |oid: &_| repo.objects().freshen(oid);
        let named = if self.request.write {
            self.transaction().write_stream_unless(hash, size, file, &exists)
        } else {
            store::objects::hash_stream(hash, size, file)
        };
        match named {
            Ok(oid) => self.names.push(oid),
            Err(StreamError::Store(error)) => return Err(error.into()),
            Err(error) => {
                self.run.interrupt.check()?;
                console::error(error.to_string());
                return Err(self.failed(path));
            }
        }
        Ok(())
    }

    fn is_unconverted(&mut self, path: Option<&BString>) -> Result<bool, Failure> {
        match path {
            Some(path) => Ok(self.worker()?.needs_no_conversion(path.as_bstr())?),
            None => Ok(true),
        }
    }

    fn worker(&mut self) -> Result<&mut Worker, Failure> {
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None if self.request.write => Converter::for_adding(self.repo, self.index)?.worker(),
            None => Converter::for_compare(self.repo, self.index)?.worker(),
        };
        Ok(self.worker.insert(worker))
    }

    fn transaction(&mut self) -> &ObjectTransaction<'_> {
        let (repo, settings) = (self.repo, self.settings);
        self.objects.get_or_insert_with(|| ObjectTransaction::new(settings.objects(repo)))
    }

    /// Returns the failure for a content that could not be hashed.
    fn failed(&self, path: Option<&BString>) -> Failure {
        let path = path.map_or_else(|| "(null)".into(), BString::clone);
        Failure::Fatal(if self.request.write {
            text!("Unable to add ", path, " to database")
        } else {
            text!("Unable to hash ", path)
        })
    }

    /// Publishes objects, and prints their names.
    fn publish(&mut self) -> Result<(), Failure> {
        if let Some(objects) = self.objects.take() {
            objects.publish()?;
        }
        for name in self.names.drain(..) {
            console::out(name.to_string());
        }
        console::flush();
        Ok(())
    }
}

/// Returns the name of a content that is not written.
fn name(hash: HashKind, kind: Kind, content: &[u8]) -> Result<ObjectId, Failure> {
    let mut hasher = Hasher::object(hash, &kind.to_string(), content.len() as u64);
    hasher.update(content);
    hasher.finish().map_err(|_| Failure::fatal("the content is a collision of SHA-1"))
}
