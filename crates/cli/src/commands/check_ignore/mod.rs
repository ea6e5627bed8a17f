//! `sapwood check-ignore`: which rule ignores a path.
//!
//! Order: arguments; the index and the global rules; then one path after another, whose rule is
//! printed before the next path is read. Nothing is changed.

use std::os::unix::ffi::OsStrExt as _;

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    ignore::check::{Checker, Match, Sources},
    pathspec::Pathspecs,
};
use repo::Repository;
use sapwood::{Dir, FileType, index::Index};

use crate::{
    commands::{
        names::Names,
        obstacles::{ANSWERING, LOOKING, NO_ATTRIBUTES_IN_PATHSPECS},
        paths,
        record::{Command, Group},
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
        args::{Grammar, Native::Both, Opt, Set, Table},
        console::{self, Listing, text},
        failure::Failure,
        text::quote,
    },
};

const TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood check-ignore [<options>] <pathname>...", "sapwood check-ignore [<options>] --stdin"],
    options: &[
        Opt::flag("-q, --quiet", "suppress progress reporting", |request: &mut Request| &mut request.quiet)
            .native(Both),
        Opt::flag("-v, --verbose", "be verbose", |request: &mut Request| &mut request.verbose).native(Both),
        Opt::flag("--stdin", "read file names from stdin", |request: &mut Request| &mut request.stdin)
            .native(Both),
        Opt::flag("-z", "terminate input and output records by a NUL character", |request: &mut Request| {
            &mut request.nul
        })
        .native(Both),
        Opt::flag("-n, --non-matching", "show non-matching input paths", |request: &mut Request| {
            &mut request.non_matching
        })
        .native(Both),
        Opt::flag("--no-index", "ignore index when checking", |request: &mut Request| &mut request.no_index)
            .native(Both),
    ],
    grammar: Grammar::Mixed,
};

/// The record of `check-ignore`.
pub(super) const COMMAND: Command = Command {
    name: "check-ignore",
    summary: "Debug gitignore / exclude files",
    about: "Prints the paths that are ignored, and with `-v` the pattern that decides. With `--stdin` each \
            answer is printed before the next path is waited for, so that a program can ask one at a time.",
    group: Group::Scripts,
    syntax: &TABLE,
    settings: &[LOOKING],
    line: &[NO_ATTRIBUTES_IN_PATHSPECS],
    checks: &[ANSWERING],
    run,
    ..Command::BASE
};

/// The name of the output in an error.
const OUTPUT: &str = "'check-ignore to stdout'";

#[derive(Default)]
struct Request {
    quiet: bool,
    verbose: bool,
    stdin: bool,
    nul: bool,
    non_matching: bool,
    no_index: bool,
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let rest = TABLE.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    let root = repo.work_tree().ok_or_else(Failure::no_worktree)?;
    let settings = Settings::read(&repo)?.for_lookups();
    refused::check(&repo, &[Reader::Hooks])?;
    request.validate(&rest)?;
    let worktree = Dir::open(root).map_err(Failure::cannot_open(root))?;
    let index = if request.no_index {
        Index::empty(repo.hash())
    } else {
        let mut index = index::load_raw(&repo, &settings)?;
        // Git expands the index here, independent of the patterns.
        if index.sparse {
            sparse_index::report_expansion(&repo, &settings, &index, ExpansionHint::Print)?;
            sparse_index::expand(&repo, &mut index)?;
        }
        index
    };
    let mut sources = Sources::default();
    let info = repo.display_common_file("info/exclude");
    sources.add_standard(&repo, info.as_os_str().as_bytes().into())?;
    let known = (!request.no_index).then_some(&index);
    let checker = Checker::new(&repo, Some(&worktree), known, sources)?;
    let quote_path = settings.quote_path;
    let mut check = Check {
        run,
        repo: &repo,
        request: &request,
        index: &index,
        submodules: index.gitlinks().collect(),
        worktree: &worktree,
        directory: BString::default(),
        quote_path,
        checker,
        listing: Listing::default(),
        ignored: false,
    };
    check.warn();
    let done = if request.stdin { check.all_of_stdin() } else { check.paths(&rest) };
    // The results before an error are printed.
    let written = check.listing.write(OUTPUT);
    done.and(written)?;
    Ok(u8::from(!check.ignored))
}

impl Request {
    fn validate(&self, args: &[BString]) -> Result<(), Failure> {
        let wrong = match self {
            Request { stdin: true, .. } if !args.is_empty() => "cannot specify pathnames with --stdin",
            Request { stdin: false, nul: true, .. } => "-z only makes sense with --stdin",
            Request { stdin: false, .. } if args.is_empty() => "no path specified",
            Request { quiet: true, .. } if args.len() > 1 => "--quiet is only valid with a single pathname",
            Request { quiet: true, verbose: true, .. } => "cannot have both --quiet and --verbose",
            Request { non_matching: true, verbose: false, .. } => {
                "--non-matching is only valid with --verbose"
            }
            _ => return Ok(()),
        };
        Err(Failure::fatal(wrong))
    }
}

struct Check<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    request: &'a Request,
    index: &'a Index,
    /// The positions of submodules in the index.
    submodules: Vec<usize>,
    worktree: &'a Dir,
    /// The last path that was found to be a directory without a symlink on the way, with a slash at
    /// its end. Like Git, trusts it until the next directory is found.
    directory: BString,
    quote_path: bool,
    checker: Checker<'a>,
    listing: Listing,
    /// At least one path is ignored.
    ignored: bool,
}

impl Check<'_> {
    fn all_of_stdin(&mut self) -> Result<(), Failure> {
        let mut names = Names::new(self.run, self.request.nul)?;
        while let Some(name) = names.next(&mut self.listing, OUTPUT)? {
            self.paths(&[name])?;
        }
        Ok(())
    }

    fn warn(&mut self) {
        self.checker.take_warnings().iter().for_each(console::warning);
    }

    /// Checks all paths for errors before the first one is looked up.
    fn paths(&mut self, args: &[BString]) -> Result<(), Failure> {
        let mut specs = Vec::new();
        for arg in args {
            let spec = paths::parse_path(self.run, self.repo, arg)?;
            self.must_not_be_behind_a_link(&spec)?;
            specs.push(spec);
        }
        let paths = specs.iter().map(|spec| self.outside_of_submodules(spec));
        let paths: Vec<BString> = paths.collect::<Result<_, _>>()?;
        for (spec, path) in specs.iter().zip(&paths) {
            let (_, original) = spec.patterns().next().expect("one was parsed");
            self.path(spec, path.as_bstr(), original)?;
        }
        Ok(())
    }

    fn must_not_be_behind_a_link(&mut self, spec: &Pathspecs) -> Result<(), Failure> {
        for (path, original) in spec.patterns() {
            let shared = path.iter().zip(self.directory.iter()).take_while(|(one, two)| one == two).count();
            let known = path[..shared].rfind_byte(b'/').map_or(0, |slash| slash + 1);
            self.directory.truncate(known);
            for slash in path[known..].find_iter("/").map(|slash| known + slash) {
                // The parent directories were checked before.
                let found = self.worktree.stat_below(path[..slash].as_bytes()).ok().flatten();
                match found.map(|stat| stat.file_type) {
                    Some(FileType::Symlink) => {
                        return Err(Failure::Fatal(text!(
                            "pathspec '",
                            original,
                            "' is beyond a symbolic link"
                        )));
                    }
                    Some(FileType::Directory) => self.directory = path[..=slash].into(),
                    _ => break,
                }
            }
        }
        Ok(())
    }

    /// Returns the path, for a submodule without the slash at its end. Returns an error for a path
    /// in a submodule.
    fn outside_of_submodules(&self, spec: &Pathspecs) -> Result<BString, Failure> {
        let (path, original) = spec.patterns().next().expect("one was parsed");
        for slash in path.find_iter("/") {
            let dir = path[..slash].as_bstr();
            let entries = self.index.range_of(dir);
            if !self.submodules.iter().any(|at| entries.contains(at)) {
                continue;
            }
            if slash + 1 == path.len() {
                return Ok(dir.to_owned());
            }
            return Err(Failure::Fatal(text!("Pathspec '", original, "' is in submodule '", dir, "'")));
        }
        Ok(path.to_owned())
    }

    fn path(&mut self, spec: &Pathspecs, path: &BStr, original: &BStr) -> Result<(), Failure> {
        // A tracked path is not ignored.
        let is_tracked = spec.match_any(self.index);
        let found = if is_tracked { None } else { self.checker.find(path, None) };
        let found = found.filter(|found| self.request.verbose || !found.negative);
        self.ignored |= found.is_some();
        if !self.request.quiet && (found.is_some() || self.request.non_matching) {
            let buffer = self.listing.buffer();
            if self.request.nul {
                record(buffer, self.request.verbose, found, original)
            } else {
                line(buffer, self.request.verbose, found, original, self.quote_path)
            }
            self.listing.flush_if_full()?;
        }
        self.warn();
        Ok(())
    }
}

fn pattern(found: &Match<'_>) -> BString {
    let (bang, slash) = (if found.negative { "!" } else { "" }, if found.directory { "/" } else { "" });
    text!(bang, found.pattern, slash)
}

fn line(out: &mut Vec<u8>, verbose: bool, found: Option<Match<'_>>, path: &BStr, quote_path: bool) {
    if verbose {
        match found {
            Some(found) => {
                out.extend_from_slice(&quote(found.source, quote_path));
                out.extend_from_slice(&text!(":", found.line.to_string(), ":", pattern(&found), "\t"));
            }
            None => out.extend_from_slice(b"::\t"),
        }
    }
    out.extend_from_slice(&quote(path, quote_path));
    out.push(b'\n');
}

fn record(out: &mut Vec<u8>, verbose: bool, found: Option<Match<'_>>, path: &BStr) {
    if verbose {
        match found {
            Some(found) => {
                let fields = text!(found.source, "\0", found.line.to_string(), "\0", pattern(&found), "\0");
                out.extend_from_slice(&fields);
            }
            None => out.extend_from_slice(b"\0\0\0"),
        }
    }
    out.extend_from_slice(path);
    out.push(0);
}
