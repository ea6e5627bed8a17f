//! The messages after a crash of the machine, and `workspace sync`.

use std::os::unix::ffi::OsStrExt as _;

use bstr::{BString, ByteSlice as _};
use engine::workspace::{
    crash::{self, Damage, Notice},
    record::Workspace,
};
use serde_json::{Value, json};

use super::{
    context::{self, Context},
    request::{Request, SYNC},
};
use crate::{
    session::invocation::Invocation,
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// More paths than this are counted, not printed. The notice names all of them.
const SHOWN: usize = 20;

/// Tells the user what a mount found after a crash. The first `known` entries of the notice are
/// old.
pub(super) fn tell(workspace: &Workspace, known: usize) -> Result<(), Failure> {
    let notice = Notice::read(&workspace.state)?;
    let new = notice.findings.get(known..).unwrap_or_default();
    if new.is_empty() {
        return Ok(());
    }
    let name = workspace.name.as_bytes();
    console::warning(text!("the machine stopped while the workspace '", name, "' was mounted"));
    for finding in new.iter().take(SHOWN) {
        console::eprint_line(text!("  '", finding.path.as_bstr(), "' ", meaning(finding.damage)));
    }
    if new.len() > SHOWN {
        console::eprint_line(format!("  and {} more", new.len() - SHOWN));
    }
    let place = Notice::place(&workspace.state);
    console::hint(text!(
        "'",
        place.as_os_str().as_bytes(),
        "' names them until you commit in the workspace, or remove that file"
    ));
    Ok(())
}

fn meaning(damage: Damage) -> &'static str {
    match damage {
        Damage::Restored => "was incomplete and held nothing of yours: it is as in the base",
        Damage::Completed => "lacked bytes of the base: they are there again",
        Damage::Incomplete => "was changed before the crash, and a part of it is missing",
        Damage::Shorter => "is shorter than in the base: look whether you shortened it",
        Damage::Misplaced => "is a renamed directory whose content is missing",
    }
}

/// Returns the findings for a JSON document.
pub(super) fn json(workspace: &Workspace) -> Value {
    let notice = Notice::read(&workspace.state).unwrap_or_default();
    let one = |finding: &crash::Finding| json!({"path": finding.path.to_str_lossy(), "damage": finding.damage.name()});
    Value::from_iter(notice.findings.iter().map(one))
}

/// Runs `sync`. Returns its exit code.
pub(super) fn sync(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let names = SYNC.parse(args)?.store(&mut request)?;
    let context = Context::open(run)?;
    let mut report = Vec::new();
    for workspace in context.chosen(&names, request.all)? {
        let _lock = workspace.lock(&context.repo.trust())?;
        crash::sync(&workspace)?;
        report.push(json!({"name": workspace.name.to_string_lossy(), "synced": true}));
    }
    if request.json {
        context::print_json(&Value::from(report));
    }
    Ok(0)
}
