//! `fork`: a workspace that begins with the present state.

use bstr::BString;
use sapwood::checkpoint::fork;
use serde_json::json;

use super::{JSON, QUIET, Request, VERSION, command_line, left_out, open, warn_of};
use crate::{
    commands::{
        record::{Command, Group},
        workspace::{self, context::print_json, create::Branched},
    },
    session::{Session, invocation::Invocation, settings::Settings},
    term::{
        args::{Grammar, Opt, Set, Table},
        failure::Failure,
    },
};

const TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood fork [--backend <backend>] [-q] [--json] <name> [<dir>]"],
    options: &[
        Opt::text(
            "--backend <backend>",
            "auto, image, overlay, fuse, btrfs, reflink or copy",
            |request: &mut Request| &mut request.backend,
        ),
        QUIET,
        JSON,
    ],
    grammar: Grammar::Mixed,
};

/// The record of `fork`.
pub(in crate::commands) const COMMAND: Command = Command {
    name: "fork",
    summary: "Create a workspace with the present state",
    about: "Creates a workspace, on a new branch of its name at the commit of HEAD, whose files and index are as \
            they are here: uncommitted work and untracked files are included, and ignored files are not. This \
            worktree goes on undisturbed. Only the files that differ from the commit are written.",
    group: Group::Own,
    syntax: &TABLE,
    run,
    ..Command::BASE
};

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let rest = TABLE.parse(args)?.store(&mut request)?;
    let (name, dir) = match &rest[..] {
        [name] => (name.clone(), None),
        [name, dir] => (name.clone(), Some(dir.clone())),
        _ => return Err(Failure::fatal("name the workspace, and at most its directory")),
    };
    let (repo, settings) = open(run)?;
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let backend = workspace::create::named_backend(request.backend.as_ref())?;
    workspace::create::check_name(run, &name)?;
    let source = fork::source(session.context(run))?;
    let quiet = request.quiet || request.json;
    let commit = source.commit.to_string().into();
    let workspace = match workspace::create::branched(run, Branched { name, commit, dir, backend, quiet })? {
        Ok(workspace) => workspace,
        Err(code) => return Ok(code),
    };
    let git_dir = repo.real_common_dir().join("worktrees").join(&workspace.name);
    let opened = fork::open(&repo, &workspace.record.dir, &git_dir)?;
    let settings = Settings::read(&opened)?.for_recording();
    let session = Session { invocation: run, repository: &opened, settings: &settings };
    let filled = source.fill(session.context(run), &command_line(run))?;
    if request.json {
        print_json(&json!({
            "version": VERSION,
            "workspace": workspace::create::document(run, &workspace)?,
            "written": filled.written,
            "leftOut": left_out(&filled.left_out),
        }));
    } else if !request.quiet {
        warn_of(&filled.left_out);
        workspace::create::tell(&workspace);
    }
    Ok(0)
}
