//! `workspace doctor`: the backends that work here, and why the others do not.

use bstr::BString;
use engine::workspace::{
    backend::{self, Backend, Place, Visibility},
    record,
};
use repo::keys;
use sapwood::workspace::places;
use serde_json::{Value, json};

use super::{
    context::{self, Context},
    request::{DOCTOR, Request},
};
use crate::{
    session::invocation::Invocation,
    term::{console, failure::Failure},
};

/// A backend. The result of one that does not work here is the reason.
pub(super) type Probed = (Backend, Result<(), String>);

/// Returns each backend, the best first.
pub(super) fn probe(context: &Context<'_>, request: &Request) -> Result<Vec<Probed>, Failure> {
    let bases = context.bases(request.base_dir.as_ref())?;
    let upper = match &request.upper_dir {
        Some(dir) => context.run.path(dir)?,
        None => places::configured_dir(&context.repo, keys::sapwood::UPPER_DIR)?
            .unwrap_or_else(|| record::directory(&context.common)),
    };
    let top = match &request.dir {
        Some(dir) => context.run.path(dir)?,
        None => context.repo.work_tree().unwrap_or(&context.common).with_extension("workspaces"),
    };
    let programs = places::programs(&context.repo);
    let service = places::mount_service(&context.repo)?;
    let place =
        Place { upper: &upper, bases: bases.dir(), top: &top, programs: &programs, service: &service };
    Ok(backend::probe(Visibility::Joined, &place))
}

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    if let Some(extra) = DOCTOR.parse(args)?.store(&mut request)?.first() {
        return Err(Failure::fatal(format!("doctor takes no arguments, and so not '{extra}'")));
    }
    let context = Context::open(run)?;
    let found = probe(&context, &request)?;
    let chosen = found.iter().find(|(_, verdict)| verdict.is_ok()).map(|(backend, _)| *backend);
    if request.json {
        let line = |(backend, verdict): &Probed| {
            json!({
                "backend": backend.name(),
                "works": verdict.is_ok(),
                "reason": verdict.as_ref().err(),
                "chosen": chosen == Some(*backend),
            })
        };
        context::print_document(Value::from_iter(found.iter().map(line)));
        return Ok(0);
    }
    for (backend, verdict) in &found {
        let sign = if chosen == Some(*backend) { "*" } else { " " };
        match verdict {
            Ok(()) => console::out(format!("{sign} {:<13} works", backend.name())),
            Err(reason) => console::out(format!("{sign} {:<13} {reason}", backend.name())),
        }
    }
    Ok(0)
}
