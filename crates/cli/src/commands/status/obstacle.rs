//! What of the configuration is left to Git, beyond what single settings tell: where the order of two of them counts, or one counts only
//! with an option.

use bstr::{BString, ByteSlice as _};
use repo::Repository;

use super::{
    SLOTS,
    options::{Request, TABLE},
};
use crate::{
    commands::reason::Reason,
    session::invocation::Invocation,
    term::{
        args::DashDash,
        text::{
            color,
            columns::{Columns, When},
        },
    },
};

/// Why this command line, which has been parsed without a mistake, is not native in this repository.
pub(crate) fn obstacle(run: &Invocation, repo: &Repository) -> Option<Reason> {
    let set = |key: &str| Some(Reason::Setting(key.to_owned()));
    let is_set = |key: &str| repo.config_str(key).is_some();
    for (one, other) in [("color.status", "status.color"), ("core.commentchar", "core.commentstring")] {
        if is_set(one) && is_set(other) {
            return set(one);
        }
    }
    for name in SLOTS.iter().flat_map(|(_, names, _)| *names) {
        let keys = [format!("color.status.{name}"), format!("status.color.{name}")];
        let is_wrong = |value: BString| color::parse(value.as_bstr()).is_none();
        if keys.iter().all(|key| is_set(key))
            || keys.iter().filter_map(|key| repo.config_str(key)).any(is_wrong)
        {
            return set(&keys[0]);
        }
    }
    if is_set("color.status.added") && is_set("color.status.updated") {
        return set("color.status.added");
    }
    for key in ["core.commentchar", "core.commentstring"] {
        let is_odd = |value: BString| {
            value.is_empty() || value.contains(&b'\n') || value.eq_ignore_ascii_case(b"auto")
        };
        if repo.config_str(key).is_some_and(is_odd) {
            return set(key);
        }
    }
    // One goes over the other in the order in which they stand.
    let place = |key: &str| repo.config_names().position(|name| name == key);
    if let (Some(general), Some(own)) = (place("column.ui"), place("column.status"))
        && own < general
    {
        return set("column.status");
    }
    for key in ["column.ui", "column.status"] {
        if repo.config_all(key).iter().any(|value| Columns::default().take(value.as_bstr()).is_err()) {
            return set(key);
        }
    }
    for key in ["diff.renamelimit", "status.renamelimit"] {
        if repo.config_int(key).is_err() {
            return set(key);
        }
    }
    if repo.head().is_err() {
        return Some(Reason::Repository("HEAD cannot be read".into()));
    }
    let parsed = TABLE.parse(&run.args, DashDash::Drop).ok()?;
    // What is wrong is said here as Git says it.
    let request = Request::fold(repo, parsed).ok()?;
    // How wide letters are is not known here.
    let ascii = repo.config_bool("core.quotePath").ok()?.unwrap_or(true);
    if request.columns.when != When::Never && !ascii {
        return Some(Reason::CommandLine("columns of paths that need not be ASCII".into()));
    }
    None
}
