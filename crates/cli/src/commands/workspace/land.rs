//! `workspace land`. See [`sapwood::workspace::land`].

use bstr::{BString, ByteSlice as _};
use sapwood::workspace::land::{self, Landed, Report};
use serde_json::{Value, json};

use super::{
    context::{self, Context},
    request::{LAND, Request},
};
use crate::{
    session::{invocation::Invocation, settings::Settings},
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// Runs the command. Returns its exit code: that of the last workspace that was not landed.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let names = LAND.parse(args)?.store(&mut request)?;
    let context = Context::open(run)?;
    let settings = Settings::read(&context.repo)?.for_recording();
    let worktrees = context.worktree_context();
    let (mut code, mut all) = (0, Vec::new());
    let mut chosen = context.chosen(&names, request.all)?;
    if request.all {
        chosen.retain(|workspace| !workspace.is_check() && workspace.refuse_begun().is_ok());
    }
    for workspace in chosen {
        run.interrupt.check()?;
        let name = BString::from(workspace.name.as_encoded_bytes());
        let wanted = land::Request {
            name: name.clone(),
            onto: request.onto.clone(),
            check: request.check.clone(),
            rebase: request.rebase,
        };
        match land::land(&worktrees, &settings, &wanted) {
            Ok(report) => {
                if !request.quiet && !request.json {
                    console::eprint_line(line(&context, &name, &report)?);
                }
                all.push(landed(&name, &report));
            }
            Err(error) => {
                all.push(not_landed(&name, &error));
                let failure = Failure::from(error);
                if let Failure::Signal(_) = failure {
                    return Err(failure);
                }
                failure.print();
                code = failure.code();
            }
        }
    }
    if request.json {
        context::print_document(Value::from(all));
    }
    Ok(code)
}

/// Returns the line that tells the result.
fn line(context: &Context<'_>, name: &BString, report: &Report) -> Result<BString, Failure> {
    let branch = report.branch.strip_prefix(b"refs/heads/").unwrap_or(&report.branch);
    let commit = context.repo.abbreviate(report.new)?;
    let what = match report.landed {
        Landed::AlreadyThere => "has it already",
        Landed::Created => "is new",
        Landed::Forwarded => "was moved forward",
        Landed::Merged => "has a merge",
        Landed::Rebased => "has its commits, rebased",
    };
    Ok(text!("Workspace '", name, "': branch '", branch, "' ", what, ", at ", commit))
}

/// Returns the JSON document of a workspace that was landed.
fn landed(name: &BString, report: &Report) -> Value {
    let branch = report.branch.strip_prefix(b"refs/heads/").unwrap_or(&report.branch);
    json!({
        "name": name.to_str_lossy(),
        "landed": true,
        "branch": branch.to_str_lossy(),
        "old": report.old.map(|old| old.to_string()),
        "new": report.new.to_string(),
        "change": match report.landed {
            Landed::AlreadyThere => "none",
            Landed::Created => "created",
            Landed::Forwarded => "fast-forward",
            Landed::Merged => "merge",
            Landed::Rebased => "rebase",
        },
        "objects": report.objects,
    })
}

/// Returns the JSON document of a workspace that was not landed.
fn not_landed(name: &BString, error: &sapwood::Error) -> Value {
    let (commit, conflicts): (_, Vec<_>) = match error {
        sapwood::Error::LandConflicts { commit, paths, .. } => {
            (commit.map(|commit| commit.to_string()), paths.iter().map(|path| path.to_str_lossy()).collect())
        }
        _ => (None, Vec::new()),
    };
    json!({
        "name": name.to_str_lossy(),
        "landed": false,
        "reason": error.to_string(),
        "commit": commit,
        "conflicts": conflicts,
    })
}
