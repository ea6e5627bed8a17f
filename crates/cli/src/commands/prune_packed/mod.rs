//! `sapwood prune-packed`: removes loose objects that packs also contain. See
//! [`sapwood::object_files::prune_packed`].

use bstr::BString;
use sapwood::object_files::prune_packed::{self, DIRECTORIES, Options, Step};

use crate::{
    commands::{
        obstacles::{ANSWERING, LOOKING, PARTIAL_OR_GRAFTS, grafts, partial},
        reason::Reason,
        record::{Candidate, Check, Command, Group, LineCheck, Traits},
    },
    session::{invocation::Invocation, settings},
    term::{
        args::{Both, Grammar, Opt, Set, Survey, Table},
        console,
        failure::Failure,
        notice::{self, Printer},
        progress::{self, Progress},
    },
};

/// The record of `prune-packed`.
pub(super) const COMMAND: Command = Command {
    name: "prune-packed",
    summary: "Remove extra objects that are already in pack files",
    about: "Removes loose objects that are in packs too. The directory of packs is synced first, so that a \
            power cut leaves at least one copy of each object.",
    group: Group::Scripts,
    syntax: &TABLE,
    traits: Traits { starts_no_program: true, ..Command::BASE.traits },
    settings: &[LOOKING],
    line: &[LineCheck::new("any argument", arguments)],
    checks: &[ANSWERING, &[Check::new(PARTIAL_OR_GRAFTS, repository)]],
    run,
    ..Command::BASE
};

const TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood prune-packed [-n | --dry-run] [-q | --quiet]"],
    options: &[
        Opt::flag("-n, --dry-run", "dry run", field!(dry_run)).native(Both),
        Opt::choice("-q, --quiet", "be quiet", field!(quiet)).native(Both),
    ],
    grammar: Grammar::Mixed,
};

#[derive(Default)]
struct Request {
    dry_run: bool,
    quiet: Option<bool>,
}

fn arguments(survey: &Survey, _: &[BString]) -> Option<Reason> {
    (!survey.rest.is_empty()).then(|| Reason::command_line("too many arguments"))
}

fn repository(candidate: &Candidate<'_>) -> Vec<Reason> {
    let mut found = partial(candidate.repo());
    found.extend(grafts(candidate.repo()));
    found
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    if !TABLE.parse(args)?.store(&mut request)?.is_empty() {
        console::report("fatal", "too many arguments\n");
        console::eprint_raw(TABLE.help().as_bytes());
        return Err(Failure::Reported(129));
    }
    let repo = run.open()?;
    let visible = request.quiet.map_or_else(progress::has_terminal, |quiet| !quiet);
    let delay = progress::delay(run.variable("GIT_PROGRESS_DELAY"));
    let progress = Progress::new("Removing duplicate objects", visible, delay);
    let options = Options { fsync: settings::fsync(run, &repo)?, dry_run: request.dry_run };
    let interrupt = run.interrupt.flag();
    prune_packed::prune(&repo, options, interrupt, &Printer, &mut |step| match step {
        Step::File(file) if request.dry_run => {
            console::out([b"rm -f ", file.as_os_str().as_encoded_bytes()].concat());
        }
        Step::File(_) => {}
        Step::Directories(done) => progress.update(done, DIRECTORIES),
    })?;
    progress.finish(DIRECTORIES, DIRECTORIES);
    notice::print_object_store_errors(&repo);
    Ok(0)
}
