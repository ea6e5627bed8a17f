//! The findings after a crash of the machine, and `workspace sync`.

use bstr::{BString, ByteSlice as _};
use engine::workspace::{
    crash::{self, Notice},
    record::Workspace,
};
use serde_json::{Value, json};

use super::{
    context::{self, Context},
    request::{Request, SYNC},
};
use crate::{session::invocation::Invocation, term::failure::Failure};

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
        if request.all && workspace.refuse_begun().is_err() {
            continue;
        }
        workspace.refuse_begun()?;
        let _lock = workspace.lock(&context.repo.trust())?;
        crash::sync(&workspace)?;
        report.push(json!({"name": workspace.name.to_string_lossy(), "synced": true}));
    }
    if request.json {
        context::print_document(Value::from(report));
    }
    Ok(0)
}
