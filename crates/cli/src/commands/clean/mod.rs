//! `sapwood clean`: removes untracked files.
//!
//! Order: arguments; the search and the removal ([`sapwood::clean`]), then a line for each path. No
//! lock is taken.

use bstr::{BStr, BString, ByteSlice as _};
use engine::pathspec::Pathspecs;
use repo::{Repository, keys};
use sapwood::{
    Dir,
    clean::{self, Event, Ignored, Repositories},
    sparse_index::ExpansionHint,
};

use crate::{
    commands::{
        obstacles::{ANSWERING, ATTRIBUTES_OF_PATHSPECS, LOOKING},
        paths,
        record::{Command, Group},
    },
    session::{
        Session,
        events::Terminal,
        index,
        invocation::Invocation,
        settings::{Reader, Settings, refused},
    },
    term::{
        args::{Both, Grammar, Off, On, Opt, Set, Table},
        console::{self, text},
        failure::Failure,
        progress,
        text::{quote, relative::relative},
    },
};

const TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood clean [-d] [-f] [-i] [-n] [-q] [-e <pattern>] [-x | -X] [--] [<pathspec>...]"],
    options: &[
        Opt::flag("-q, --quiet", "do not print names of files removed", field!(quiet)).native(Both),
        Opt::flag("-n, --dry-run", "dry run", field!(dry_run)).native(Both),
        Opt::count("-f, --force", "force", field!(force)).native(Both),
        Opt::flag("-i, --interactive", "interactive cleaning", field!(interactive)).native(Off),
        Opt::flag("-d", "remove whole directories", field!(directories)).native(On),
        Opt::list("-e, --exclude <pattern>", "add <pattern> to ignore rules", field!(excludes))
            .only()
            .native(On),
        Opt::flag("-x", "remove ignored files, too", field!(ignored_too)).native(On),
        Opt::flag("-X", "remove only ignored files", field!(only_ignored)).native(On),
    ],
    grammar: Grammar::Mixed,
};

#[derive(Default)]
struct Request {
    quiet: bool,
    dry_run: bool,
    /// The number of times it was given: from two on, nested repositories are removed too.
    force: usize,
    interactive: bool,
    directories: bool,
    excludes: Vec<BString>,
    ignored_too: bool,
    only_ignored: bool,
}

/// The record of `clean`.
pub(super) const COMMAND: Command = Command {
    name: "clean",
    summary: "Remove untracked files from the working tree",
    about: "Removes untracked files, and with `-d` untracked directories. As in Git, nothing is removed \
            without `-f` unless `clean.requireForce` is false. The walk and the removal run in parallel. \
            sapwood checks again before each removal that it does not remove its own repository. `-i` is not \
            supported.",
    group: Group::Changes,
    syntax: &TABLE,
    settings: &[LOOKING],
    line: &[ATTRIBUTES_OF_PATHSPECS],
    checks: &[ANSWERING],
    run,
    ..Command::BASE
};

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let rest = TABLE.parse(args)?.store(&mut request)?;
    if request.interactive {
        return Err(Failure::unsupported("option '--interactive'"));
    }
    let repo = run.open()?;
    let root = repo.work_tree().ok_or_else(Failure::no_worktree)?;
    let requires_force = repo.config(&keys::clean::REQUIRE_FORCE)?;
    if requires_force && request.force == 0 && !request.dry_run {
        return Err(Failure::fatal("clean.requireForce is true and -f not given: refusing to clean"));
    }
    if request.ignored_too && request.only_ignored {
        return Err(Failure::fatal("options '-x' and '-X' cannot be used together"));
    }
    // Paths that the user names are removed, even directories.
    request.directories |= !rest.is_empty();
    let settings = Settings::read(&repo)?;
    refused::check(&repo, &[Reader::Columns, Reader::Clean, Reader::Hooks])?;
    let worktree = Dir::open(root).map_err(Failure::cannot_open(root))?;
    let index = index::load_compact(&repo, &settings, &worktree, ExpansionHint::Print)?;
    let specs = paths::parse_or_here(run, &repo, &rest)?;
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let terminal = Terminal::new(run);
    let shows = progress::has_terminal() && !request.quiet;
    let terminal = if shows { terminal.with_progress(settings.progress_delay) } else { terminal };
    let context = session.context(&terminal);
    let found = clean::find(context, &worktree, &index, wanted(&request, specs, run.original_cwd(&repo)))?;
    let report = if request.dry_run {
        found.preview(context, &worktree)?
    } else {
        found.remove(context, &worktree)?
    };
    for (path, outcome) in &report.paths {
        outcome
            .events
            .iter()
            .for_each(|event| report_event(&repo, &settings, &request, path.as_bstr(), event));
    }
    run.interrupt.check()?;
    Ok(u8::from(report.is_incomplete()))
}

/// Returns the request to the library.
fn wanted(request: &Request, pathspecs: Pathspecs, keep: Option<BString>) -> clean::Request {
    clean::Request {
        pathspecs,
        directories: request.directories,
        ignored: match (request.ignored_too, request.only_ignored) {
            (_, true) => Ignored::Only,
            (true, false) => Ignored::Too,
            (false, false) => Ignored::Kept,
        },
        excludes: request.excludes.clone(),
        repositories: if request.force > 1 { Repositories::Remove } else { Repositories::Keep },
        keep,
    }
}

fn report_event(repo: &Repository, settings: &Settings, request: &Request, doomed: &BStr, event: &Event) {
    // A message about a path below a removed one begins with the removed path.
    let shown = |path: &BStr| {
        let full = text!(relative(doomed, repo.prefix()), path[doomed.len()..]);
        quote(full.as_bstr(), settings.quote_path)
    };
    let line = |done: &str, would: &str| console::out(if request.dry_run { would } else { done });
    match event {
        Event::Failed(path, error) => {
            let reason = crate::term::text::os_error(error);
            console::warning(text!("failed to remove ", shown(path.as_bstr()), ": ", reason));
        }
        Event::Cwd => {
            line(
                "Refusing to remove current working directory",
                "Would refuse to remove current working directory",
            );
        }
        _ if request.quiet => {}
        Event::Removed(path) => {
            let action = if request.dry_run { "Would remove " } else { "Removing " };
            console::out(text!(action, shown(path.as_bstr())));
        }
        Event::Repository(path) => {
            let action = if request.dry_run { "Would skip repository " } else { "Skipping repository " };
            console::out(text!(action, shown(path.as_bstr())));
        }
    }
}
