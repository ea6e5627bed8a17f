//! `sapwood check-ignore`: which rule ignores a path. See [`sapwood::check_ignore`].
//!
//! Order: arguments; the index and the global rules; then one path after another, whose rule is
//! printed before the next path is read. Nothing is changed.

use bstr::{BStr, BString};
use repo::Repository;
use sapwood::check_ignore::{Ground, Lookup, Match};

use crate::{
    commands::{
        names::Names,
        obstacles::{ANSWERING, LOOKING, NO_ATTRIBUTES_IN_PATHSPECS},
        paths,
        record::{Command, Group},
    },
    session::{
        events::printing,
        invocation::Invocation,
        settings::{Reader, Settings, refused},
    },
    term::{
        args::{Both, Grammar, Opt, Set, Table},
        console::{Listing, text},
        failure::Failure,
        text::quote,
    },
};

const TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood check-ignore [<options>] <pathname>...", "sapwood check-ignore [<options>] --stdin"],
    options: &[
        Opt::flag("-q, --quiet", "suppress progress reporting", field!(quiet)).native(Both),
        Opt::flag("-v, --verbose", "be verbose", field!(verbose)).native(Both),
        Opt::flag("--stdin", "read file names from stdin", field!(stdin)).native(Both),
        Opt::flag("-z", "terminate input and output records by a NUL character", field!(nul)).native(Both),
        Opt::flag("-n, --non-matching", "show non-matching input paths", field!(non_matching)).native(Both),
        Opt::flag("--no-index", "ignore index when checking", field!(no_index)).native(Both),
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
    repo.work_tree().ok_or_else(Failure::no_worktree)?;
    let settings = Settings::read(&repo)?.for_lookups();
    refused::check(&repo, &[Reader::Hooks])?;
    request.validate(&rest)?;
    let context = printing(&repo, &settings);
    let ground = Ground::read(context, request.no_index)?;
    let mut check = Check {
        run,
        repo: &repo,
        request: &request,
        quote_path: settings.quote_path,
        lookup: Lookup::new(context, &ground)?,
        listing: Listing::default(),
        ignored: false,
    };
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
    quote_path: bool,
    lookup: Lookup<'a>,
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

    fn paths(&mut self, args: &[BString]) -> Result<(), Failure> {
        let Check { run, repo, request, quote_path, lookup, listing, ignored } = self;
        lookup.each(args.iter().map(|arg| paths::parse_path(run, repo, arg)), |path, found| {
            let found = found.filter(|found| request.verbose || !found.negative);
            *ignored |= found.is_some();
            if request.quiet || (found.is_none() && !request.non_matching) {
                return Ok(());
            }
            if request.nul {
                record(listing.buffer(), request.verbose, found, path)
            } else {
                line(listing.buffer(), request.verbose, found, path, *quote_path)
            }
            listing.flush_if_full()
        })
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
