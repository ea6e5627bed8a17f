//! `sapwood status`: the differences between HEAD, the index and the worktree, and the operations
//! in progress.
//!
//! Order: arguments and configuration (`options`); the examination, and new stat data into the
//! index ([`sapwood::status`]); then the output in one of its formats.

mod branch;
mod long;
mod obstacle;
mod options;
mod porcelain;
pub(crate) mod preview;
mod report;
mod short;
mod state;
mod summary;
mod verbose;

use bstr::BString;
use sapwood::{
    Dir,
    status::{Change, Source, Status},
};

use crate::{
    commands::{
        obstacles::{ATTRIBUTES_OF_PATHSPECS, GENERAL, READING},
        record::{Command, Group},
        workspace::quota::tell_if_full,
    },
    session::{
        Session,
        events::Terminal,
        invocation::Invocation,
        settings::{Reader, Settings, refused},
    },
    term::{console, failure::Failure, progress},
};

use options::{Format, Request};
use report::StatusReport;

/// The record of `status`.
pub(super) const COMMAND: Command = Command {
    name: "status",
    summary: "Show the working tree status",
    about: "Shows the paths that differ between HEAD and the index, and between the index and the worktree, \
            and untracked paths. sapwood scans the worktree, compares it with the index and reads HEAD's \
            trees at once, on several threads, and reads only files whose stat data do not tell whether they \
            changed.\n\n\
            It uses and writes Git's untracked cache and asks a file system monitor if one is configured. \
            After a copy or a restore from a cache, `sapwood adopt` spares the next `status` from reading \
            every file.",
    group: Group::Looks,
    syntax: &options::TABLE,
    settings: &[GENERAL, obstacle::SETTINGS],
    line: &[ATTRIBUTES_OF_PATHSPECS],
    checks: &[READING, &[obstacle::SETTINGS_TOGETHER]],
    run,
    ..Command::BASE
};

/// The commands whose settings are checked.
const READERS: [Reader; 8] = [
    Reader::Every,
    Reader::Repository,
    Reader::Plumbing,
    Reader::Porcelain,
    Reader::Submodules,
    Reader::Columns,
    Reader::Refs,
    Reader::Hooks,
];

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let parsed = options::TABLE.parse(args)?;
    let repo = run.open()?;
    let root = repo.work_tree().ok_or_else(Failure::no_worktree)?;
    refused::check(&repo, &READERS)?;
    let request = Request::fold(&repo, parsed)?;
    if request.verbose && request.format == Format::Long {
        return verbose::by_git(run);
    }
    let settings = Settings::read(&repo)?.for_lookups();
    let root = Dir::open(root).map_err(Failure::cannot_open(root))?;
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let shown = examine(session, &root, &request, Source::File).inspect_err(|_| tell_if_full(run))?;
    run.interrupt.check()?;
    let report = StatusReport::new(run, &repo, &settings, &request, shown)?;
    let mut out = Vec::new();
    match request.format {
        Format::Long => report.long(&mut out)?,
        Format::Short | Format::Porcelain => report.short(&mut out)?,
        Format::PorcelainV2 => report.porcelain(&mut out)?,
    }
    sapwood::index::must_have_been_readable()?;
    console::out_raw(&out);
    tell_if_full(run);
    Ok(0)
}

/// Examines the worktree, prints the notices, and writes new stat data to the index.
fn examine(session: Session<'_>, root: &Dir, request: &Request, source: Source) -> Result<Status, Failure> {
    let Session { invocation: run, repository: repo, settings } = session;
    let examination = request.examination(run, repo)?;
    let terminal = Terminal::new(run).holding();
    let shows = progress::has_terminal() && !request.format.is_for_scripts();
    let terminal = if shows { terminal.with_progress(settings.progress_delay) } else { terminal };
    let context = session.context(&terminal);
    let examined = sapwood::status::examine(context, root, &examination, source).map_err(Failure::from);
    if !matches!(examined, Err(Failure::Unserved(_))) {
        terminal.release();
    }
    Ok(examined?.record(context, root)?)
}
