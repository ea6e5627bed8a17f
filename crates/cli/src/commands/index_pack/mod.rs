//! `sapwood index-pack`: the index of a pack from standard input or from a file.
//!
//! Order: the words; the configuration; the whole pack; then the files are written and renamed, the
//! index last; then the trailer is printed. After an error no file is left behind.

mod verify;
mod words;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use bstr::{BString, ByteSlice as _};
use engine::pack_indexing::{self, Plan, incoming};
use format::idx_writer::Form;
use repo::{
    fsck::{self, Absent, Checker, Late, Line, Rules},
    keys,
    pack_indexing::{Error, Meter, Options, Source},
};
use sapwood::HashKind;
use store::pack::{Beside, FinishOptions, Target};
use sys::by_path;

use self::words::Request;
use crate::{
    commands::{
        obstacles::{self, LOOKING},
        reason::Reason,
        record::{Candidate, Check, Command, Group, Home, LineCheck, Traits},
    },
    session::{
        input::Input,
        invocation::{Invocation, Place},
        receiving::{self, Display},
        settings::{
            self,
            config::Config,
            refused::{self, Reader},
        },
    },
    term::{
        args::{Grammar, Native::On, Opt, Set, Stop, Survey, Table},
        console::{self, text},
        failure::Failure,
        text::{bytes::readable, os_error, os_str},
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
    traits: Traits { anywhere: true, plans_first: true, starts_no_program: true, ..Command::BASE.traits },
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

/// The values that all steps share.
struct Context<'a> {
    run: &'a Invocation,
    place: &'a Place,
    request: Request,
    threads: usize,
    base_cache: usize,
    big_file_threshold: u64,
    form: Form,
    reverse: bool,
    fsync: store::Fsync,
    hash: HashKind,
    checker: Option<Checker>,
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    if matches!(args, [only] if only == "-h") {
        return Err(Stop::Help(TABLE.help()).into());
    }
    let request = words::parse(args).map_err(|_| UNSERVED)?;
    let place = run.open_any()?;
    let context = Context::new(run, &place, request)?;
    match &context.request.pack {
        Some(pack) => context.file(pack),
        None => context.stdin(),
    }
}

impl<'a> Context<'a> {
    fn new(run: &'a Invocation, place: &'a Place, request: Request) -> Result<Context<'a>, Failure> {
        let config: &dyn Config = match place {
            Place::Repository(repo) => {
                refused::check(repo, &[Reader::Every])?;
                &**repo
            }
            Place::Outside(outside) => {
                refused::check_outside(outside, &[Reader::Every])?;
                outside
            }
        };
        let configured = config.get(&keys::pack::THREADS)?.unwrap_or(0);
        let configured = usize::try_from(configured)
            .map_err(|_| Failure::fatal(format!("invalid number of threads specified ({configured})")))?;
        let version = config.get(&keys::pack::INDEX_VERSION)?;
        if let Some(version) = version.filter(|version| !(0..=2).contains(version)) {
            return Err(Failure::fatal(format!("bad pack.indexVersion={}", version as u32)));
        }
        let writes_reverse = config.get(&keys::pack::WRITE_REVERSE_INDEX)?;
        let forbids =
            run.variable("GIT_TEST_NO_WRITE_REV_INDEX").map(|value| repo::parse_bool(Some(value.into())));
        let base_cache = config.get(&keys::core::DELTA_BASE_CACHE_LIMIT)?;
        let default = Form::default();
        let hash = match place {
            Place::Repository(repo) => request.hash.unwrap_or_else(|| repo.hash()),
            Place::Outside(_) if request.checks.is_some() => return Err(UNSERVED),
            Place::Outside(_) => request.hash.unwrap_or(HashKind::Sha1),
        };
        let big_file_threshold = config.get(&keys::core::BIG_FILE_THRESHOLD)?;
        let checker = match &request.checks {
            Some(words) => {
                let mut rules = Rules::strict(hash);
                let failed = |error: fsck::Invalid| Failure::fatal(error.to_string());
                words.iter().try_for_each(|words| rules.set_all(words.as_bstr())).map_err(failed)?;
                let checker = Checker::new(rules, big_file_threshold);
                Some(if request.strict { checker.collecting() } else { checker })
            }
            None => None,
        };
        Ok(Context {
            checker,
            threads: request
                .threads
                .or(Some(configured).filter(|&number| number > 0))
                .unwrap_or_else(incoming::threads),
            base_cache: usize::try_from(base_cache).unwrap_or(usize::MAX),
            big_file_threshold,
            form: Form {
                version: request.version.or(version.map(|version| version as u32)).unwrap_or(default.version),
                largest_short: request.largest_short.unwrap_or(default.largest_short),
                ..default
            },
            reverse: request.reverse.unwrap_or(writes_reverse && forbids != Some(Some(true))),
            fsync: settings::fsync(run, config)?,
            hash,
            run,
            place,
            request,
        })
    }

    /// Receives a pack on standard input.
    fn stdin(&self) -> Result<u8, Failure> {
        let Place::Repository(repo) = self.place else {
            return Err(Failure::fatal("--stdin requires a git repository"));
        };
        if self.request.hash.is_some() {
            let message = "options '--object-format' and '--stdin' cannot be used together";
            return Err(Failure::fatal(message));
        }
        let existing = repo.stored_objects();
        let shared = settings::shared(repo)?;
        let level = settings::objects::loose_level(repo)?;
        let target = Target { objects: repo.objects_dir(), hash: self.hash, shared, fsync: &self.fsync };
        let finish = FinishOptions { index: self.form.clone(), reverse_index: self.reverse };
        let mut companion_files = Vec::new();
        if let Some(keep) = &self.request.keep {
            companion_files.push(("keep", kept(keep)));
        }
        let mut input = Input::new(self.run)?;
        let source = Source {
            stream: &mut input,
            is_file: sys::stdin_is_file(),
            before: self.request.header.as_ref().map_or(&[], |header| header),
        };
        let on_end = || {
            if self.request.reports_end {
                report_end();
            }
        };
        let complete = self.request.fix_thin.then_some(level);
        let validate = || self.validate();
        let plan = Plan {
            target,
            finish: &finish,
            complete,
            companion_files,
            on_end: &on_end,
            validate: &validate,
            keeps_partial: false,
        };
        let meter = Meter::default();
        let display = self.display(&meter);
        let received = display
            .during(|| pack_indexing::receive(source, &self.options(&meter, Some(&existing)), plan))
            .map_err(|error| self.failure(error))?;
        display.finish();
        let word = if received.is_first_companion_new { "keep" } else { "pack" };
        console::out(format!("{word}\t{}", received.checksum));
        console::out_raw(&received.rest);
        self.finish_checks()?;
        Ok(0)
    }

    /// Writes or verifies the index of a pack file.
    fn file(&self, pack: &BString) -> Result<u8, Failure> {
        let index = match &self.request.index {
            Some(index) => index.clone(),
            None => derived(pack, "pack", "idx")?,
        };
        let reverse = if self.reverse { Some(path(&derived(&index, "idx", "rev")?)) } else { None };
        let existing = match self.place {
            Place::Repository(repo) => Some(repo.stored_objects()),
            Place::Outside(_) => None,
        };
        let form = if self.request.verify {
            verify::form(&index, self.hash, &self.form)?
        } else {
            self.form.clone()
        };
        let shown = path(pack);
        let file = by_path::open(&shown).map_err(cannot_open(&shown))?;
        let meter = Meter::default();
        let display = self.display(&meter);
        let (objects, checksum) = display
            .during(|| pack_indexing::index(&file, &shown, &self.options(&meter, existing.as_ref())))
            .map_err(|error| self.failure(error))?;
        display.finish();
        self.validate().map_err(|error| self.failure(error))?;
        self.check_early_files(&shown)?;
        if self.request.verify {
            verify::check(&path(&index), reverse.as_deref(), &objects, &checksum, &form)?;
            self.finish_checks()?;
            return Ok(0);
        }
        let mut beside = Beside { index: path(&index), reverse, marks: Vec::new() };
        if let Some(keep) = &self.request.keep {
            beside.marks.push((path(&derived(pack, "pack", "keep")?), kept(keep)));
        }
        store::pack::write_beside(&beside, &objects, &checksum, &form, &self.fsync)
            .map_err(|error| self.failure(error.into()))?;
        console::out(checksum.to_string());
        self.finish_checks()?;
        Ok(0)
    }

    fn options<'o>(&'o self, meter: &'o Meter, existing: Option<&'o repo::objects::Objects>) -> Options<'o> {
        Options {
            hash: self.hash,
            threads: self.threads,
            big_file_threshold: self.big_file_threshold,
            base_cache: self.base_cache,
            limit: self.request.limit,
            existing,
            interrupt: self.run.interrupt.flag(),
            meter,
            observer: self.checker.as_ref().map(|checker| checker as &dyn repo::pack_indexing::Observer),
        }
    }

    /// Reports flaws of the objects, before any file is written.
    fn validate(&self) -> Result<(), pack_indexing::Error> {
        let (Some(checker), Place::Repository(repo)) = (&self.checker, self.place) else { return Ok(()) };
        checker.verdict(&mut print_line)?;
        Ok(checker.links(&repo.stored_objects())?)
    }

    /// Checks the blobs that preceded the trees that name them, if the pack is not in the
    /// repository.
    fn check_early_files(&self, pack: &Path) -> Result<(), Failure> {
        let (Some(checker), Place::Repository(repo)) = (&self.checker, self.place) else { return Ok(()) };
        let existing = repo.stored_objects();
        if !checker.lacks_files(&existing) {
            return Ok(());
        }
        let file = by_path::open(pack).map_err(cannot_open(pack))?;
        let (late, meter) = (Late(checker), Meter::default());
        let options = Options { observer: Some(&late), ..self.options(&meter, Some(&existing)) };
        pack_indexing::index(&file, pack, &options).map_err(|error| self.failure(error))?;
        Ok(())
    }

    /// Runs the checks that need the finished pack.
    fn finish_checks(&self) -> Result<(), Failure> {
        let (Some(checker), Place::Repository(repo)) = (&self.checker, self.place) else { return Ok(()) };
        let missing = checker.finish(&repo.stored_objects(), Absent::Reported, &mut print_line);
        let missing = missing.map_err(|error| self.failure(error.into()))?;
        missing.iter().for_each(|oid| console::out(oid.to_string()));
        Ok(())
    }

    fn display<'m>(&self, meter: &'m Meter) -> Display<'m> {
        let request = &self.request;
        let title = match &request.title {
            Some(title) => title.to_str_lossy().into_owned().into(),
            None if request.stdin => "Receiving objects".into(),
            None => "Indexing objects".into(),
        };
        // Git counts bytes from its second read on. The first read fills its buffer, or takes all
        // that a pipe holds.
        let first = if sys::stdin_is_file() { 128 << 10 } else { 64 << 10 };
        let form = receiving::Form {
            title,
            objects: request.verbose,
            deltas: request.verbose || request.shows_resolving,
            uncounted: request.stdin.then_some(first),
        };
        Display::new(form, meter)
    }

    fn failure(&self, error: pack_indexing::Error) -> Failure {
        use store::Error::Io;
        if self.run.interrupt.check().is_err() {
            return self.run.interrupt.failure();
        }
        match &error {
            pack_indexing::Error::Pack(error) => {
                error.complaint().iter().for_each(console::error);
                match error {
                    Error::Limit(limit) => {
                        let limit = readable(*limit);
                        Failure::fatal(format!("pack exceeds maximum allowed size ({limit})"))
                    }
                    error => Failure::fatal(error.to_string()),
                }
            }
            pack_indexing::Error::Store(Io { what: "write", source, .. }) => {
                Failure::fatal(format!("write error: {}", os_error(source)))
            }
            pack_indexing::Error::Store(Io { what: "create", path, source }) => {
                Failure::fatal(format!("unable to create '{}': {}", path.display(), os_error(source)))
            }
            error => Failure::fatal(error.to_string()),
        }
    }
}

/// Prints a flaw of an object.
fn print_line(line: &Line) {
    match line {
        Line::Error(text) => console::error(text),
        Line::Warning(text) => console::warning(text),
    }
}

/// Writes a NUL to standard error to report that the whole pack was read.
fn report_end() {
    let _ = std::io::stderr().lock().write_all(b"\0");
}

fn kept(text: &BString) -> Vec<u8> {
    if text.is_empty() { Vec::new() } else { [text.as_bytes(), b"\n"].concat() }
}

/// Returns `name` with another suffix.
fn derived(name: &BString, from: &str, to: &str) -> Result<BString, Failure> {
    let stem = name.strip_suffix(from.as_bytes()).filter(|stem| stem.ends_with(b"."));
    let wrong = || Failure::Fatal(text!("packfile name '", name, "' does not end with '.", from, "'"));
    Ok(text!(stem.ok_or_else(wrong)?, to))
}

fn path(name: &BString) -> PathBuf {
    os_str(name).into()
}

fn cannot_open(path: &Path) -> impl Fn(std::io::Error) -> Failure + '_ {
    move |error| {
        Failure::fatal(format!("could not open '{}' for reading: {}", path.display(), os_error(&error)))
    }
}
