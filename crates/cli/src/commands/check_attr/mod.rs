//! `sapwood check-attr`: the attributes of paths.
//!
//! Order: arguments; the index, the tree with the attributes if the user names one, and the global
//! attribute files; then one path after another, whose attributes are printed before the next path
//! is read. Nothing is changed.

use std::{os::unix::ffi::OsStrExt as _, path::Path};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{pathspec, sparse};
use repo::{
    Repository,
    attributes::{Attributes, Source, Value},
    keys,
};
use sapwood::{
    FileType, Mode, ObjectId, UserPath,
    index::{Index, Stage},
};

use crate::{
    commands::{
        names::Names,
        obstacles::{ANSWERING, LOOKING, NO_ATTRIBUTES_IN_PATHSPECS},
        reason::Reason,
        record::{Candidate, Command, Group, LineCheck},
        rules::When,
    },
    session::{
        index,
        invocation::Invocation,
        settings::{
            Settings,
            refused::{self, Reader},
        },
        sparse_index::{self, ExpansionHint},
    },
    term::{
        args::{Grammar, Native::Both, Opt, Set, Stop, Survey, Table},
        console::{self, Listing, text},
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
        Opt::flag("-a, --all", "report all attributes set on file", |request: &mut Request| &mut request.all)
            .native(Both),
        Opt::flag("--cached", "use .gitattributes only from the index", |request: &mut Request| {
            &mut request.cached
        })
        .native(Both),
        Opt::flag("--stdin", "read file names from stdin", |request: &mut Request| &mut request.stdin)
            .native(Both),
        Opt::flag("-z", "terminate input and output records by a NUL character", |request: &mut Request| {
            &mut request.nul
        })
        .native(Both),
        Opt::text("--source <tree-ish>", "which tree-ish to check attributes at", |request: &mut Request| {
            &mut request.source
        })
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

/// An attribute that every file has without any attribute file.
const OBJECT_MODE: &str = "builtin_objectmode";

/// The name of the output in an error.
const OUTPUT: &str = "'attribute to stdout'";

#[derive(Default)]
struct Request {
    all: bool,
    cached: bool,
    stdin: bool,
    nul: bool,
    source: Option<BString>,
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
    let repo = candidate.repo();
    let missing = !repo.is_bare_by_own_config() && repo.work_tree().is_none();
    missing.then(|| Reason::repository("there is no worktree")).into_iter().collect()
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let rest = TABLE.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    if repo.work_tree().is_none() && !repo.is_bare_by_own_config() {
        return Err(Failure::no_worktree());
    }
    let settings = Settings::read(&repo)?.for_lookups();
    refused::check(&repo, &[Reader::Hooks])?;
    let index = index::load_raw(&repo, &settings)?;
    let (names, files) = request.split(&rest)?;
    let info = repo.display_common_file("info/attributes");
    if let Some(name) = names.iter().find(|name| !repo::attributes::is_name(name)) {
        return Err(Failure::Error(text!(name, ": not a valid attribute name"), 255));
    }
    let tree = request.tree(run, &repo)?;
    let source = match tree {
        _ if request.cached => Source::Index,
        Some(tree) => Source::Tree(tree),
        None if repo.is_bare() => Source::Absent,
        None if repo.work_tree().is_none() => Source::Index,
        None => Source::Worktree,
    };
    let attributes = Attributes::new(&repo, &index, source, names, info.as_os_str().as_bytes().into())?;
    let mut check = Check {
        run,
        repo: &repo,
        settings: &settings,
        git_dir: if run.cwd == repo.git_dir() {
            text!(repo.git_dir().as_os_str().as_bytes(), "/.")
        } else {
            repo.git_dir().as_os_str().as_bytes().into()
        },
        index: &index,
        full: None,
        cached: request.cached,
        nul: request.nul,
        asked: (!request.all).then_some(names),
        quote_path: settings.quote_path,
        attributes,
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

    /// Returns the tree with the attributes: from the option, a variable or a setting. For an
    /// object without a tree (a blob), returns the object itself.
    fn tree(&self, run: &Invocation, repo: &Repository) -> Result<Option<ObjectId>, Failure> {
        let resolve = |name: &BStr| repo.resolve(name).ok().flatten();
        let named = match (&self.source, run.variable("GIT_ATTR_SOURCE")) {
            (Some(name), _) => resolve(name.as_bstr())
                .ok_or_else(|| Failure::Fatal(text!(name, ": not a valid tree-ish source")))
                .map(Some)?,
            (None, Some(name)) => resolve(name.into())
                .ok_or_else(|| Failure::fatal("bad --attr-source or GIT_ATTR_SOURCE"))
                .map(Some)?,
            // A setting that does not resolve counts as unset.
            (None, None) => repo.config_str(&keys::attr::TREE).and_then(|name| resolve(name.as_bstr())),
        };
        Ok(named.map(|oid| repo.tree_of(oid).unwrap_or(oid)))
    }
}

struct Check<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    settings: &'a Settings,
    /// The Git directory, as Git names it in messages.
    git_dir: BString,
    /// May be sparse.
    index: &'a Index,
    /// The expanded index, once the user requests a path in a collapsed directory.
    full: Option<Index>,
    cached: bool,
    nul: bool,
    /// The requested attributes; `None` for all that are set.
    asked: Option<&'a [BString]>,
    quote_path: bool,
    attributes: Attributes<&'a Repository, &'a Index>,
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
        let root =
            self.repo.work_tree().map_or(self.git_dir.as_bstr(), |top| top.as_os_str().as_bytes().into());
        let is_inside = self.repo.work_tree().is_some() || !file.starts_with(b"/");
        let path = pathspec::normalize(file, self.repo.prefix(), root)
            .filter(|_| is_inside)
            .ok_or_else(|| Failure::Fatal(text!("'", file, "' is outside repository at '", root, "'")))?;
        self.attributes.look_up(path.as_bstr());
        self.attributes.take_messages().iter().for_each(console::eprint_line);
        let is_mode_asked = self.asked.is_some_and(|names| names.iter().any(|name| name == OBJECT_MODE));
        let mode = if is_mode_asked { self.mode(path.as_bstr())? } else { None };
        let quoted = if self.nul { file.to_owned() } else { quote(file, self.quote_path) };
        let out = self.listing.buffer();
        match self.asked {
            Some(names) => {
                for name in names {
                    let value = match (&mode, name == OBJECT_MODE) {
                        (Some(mode), true) => Value::Text(BStr::new(mode.as_str())),
                        _ => self.attributes.value(name.as_bstr()),
                    };
                    record(out, self.nul, &quoted, name, value);
                }
            }
            None => {
                for name in self.attributes.names() {
                    match self.attributes.value(name.as_bstr()) {
                        Value::Unspecified => {}
                        value => record(out, self.nul, &quoted, name, value),
                    }
                }
            }
        }
        self.listing.flush_if_full()
    }
}

impl Check<'_> {
    /// Returns the mode that the file at `path` has, or would have in the index; with `--cached`
    /// the mode in the index.
    fn mode(&mut self, path: &BStr) -> Result<Option<String>, Failure> {
        if self.cached && self.full.is_none() && self.index.sparse && sparse::is_inside(self.index, path) {
            sparse_index::report_expansion(self.repo, self.settings, self.index, ExpansionHint::Print)?;
            let mut full = self.index.clone();
            sparse_index::expand(self.repo, &mut full)?;
            self.full = Some(full);
        }
        let index = self.full.as_ref().unwrap_or(self.index);
        let entry = index.position(path, Stage::Normal).ok().map(|at| index.mode_at(at));
        if self.cached {
            return Ok(entry.map(shown));
        }
        // In a bare repository the path is relative to the current directory.
        let place = UserPath::new(path).resolve(self.repo.work_tree().unwrap_or(Path::new("")));
        let failed = |reason: &str| Failure::Fatal(text!("unable to stat '", path, "': ", reason));
        let stat = match place.map_err(Into::into).and_then(|place| sys::by_path::stat(&place)) {
            Ok(Some(stat)) => stat,
            Ok(_) => return Err(failed("No such file or directory")),
            Err(error) => return Err(failed(&crate::term::text::os_error(&error))),
        };
        let mode = match stat.file_type {
            FileType::File if stat.is_executable() => Mode::EXECUTABLE,
            FileType::File => Mode::FILE,
            FileType::Symlink => Mode::SYMLINK,
            FileType::Directory => match entry {
                Some(entry) if !entry.is_gitlink() => Mode::TREE,
                None if !self.is_repository(path) => Mode::TREE,
                _ => Mode::GITLINK,
            },
            FileType::Other => Mode::GITLINK,
        };
        Ok(Some(shown(mode)))
    }

    /// Returns true if the directory contains a repository with a commit.
    fn is_repository(&self, path: &BStr) -> bool {
        let path = path.strip_suffix(b"/").unwrap_or(path).as_bstr();
        let found = self.repo.submodule(path).ok().flatten();
        found.and_then(|found| found.head().ok()?.oid()).is_some()
    }
}

fn shown(mode: Mode) -> String {
    format!("{:06o}", mode.bits())
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
