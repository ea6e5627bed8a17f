//! Settings that are left to Git because their order matters, or because they apply only with an
//! option.

use bstr::{BString, ByteSlice as _};
use repo::Repository;

use super::{
    options::{Request, TABLE},
    report::SLOTS,
};
use crate::{
    commands::{
        reason::Reason,
        record::Candidate,
        rules::{Setting, When},
    },
    term::text::{
        color,
        columns::{self, Columns},
    },
};

/// The valid values of colour settings.
const COLOR: When =
    When::Not(&["always", "never", "auto", "true", "false", "yes", "no", "on", "off", "1", "0"]);

/// The valid values of rename settings.
const RENAMES: When = When::Not(&["copies", "copy", "true", "false", "yes", "no", "on", "off", "1", "0"]);

/// Settings that affect `status` and are not native.
pub(crate) const SETTINGS: &[Setting] = &[
    ("advice.statusaheadbehindwarning", When::NotBoolean),
    ("advice.statushints", When::NotBoolean),
    ("advice.statusuoption", When::NotBoolean),
    ("color.pager", When::NotBoolean),
    ("color.status", COLOR),
    ("color.ui", COLOR),
    ("diff.orderfile", When::Set),
    ("diff.renames", RENAMES),
    ("status.aheadbehind", When::NotBoolean),
    ("status.branch", When::NotBoolean),
    ("status.color", COLOR),
    ("status.displaycommentprefix", When::NotBoolean),
    ("status.relativepaths", When::NotBoolean),
    ("status.renames", RENAMES),
    ("status.short", When::NotBoolean),
    ("status.showstash", When::NotBoolean),
    (
        "status.showuntrackedfiles",
        When::Not(&["normal", "all", "true", "false", "yes", "no", "on", "off", "1", "0"]),
    ),
    ("status.submodulesummary", When::NotBoolean),
];

/// Detects settings whose order matters, or that apply only with some options.
pub(super) fn settings_together(candidate: &Candidate<'_>) -> Vec<Reason> {
    first(candidate.repo(), candidate.survey.map(|_| candidate.args)).into_iter().collect()
}

/// Returns the first such setting. `args` is the command line, if it is known.
pub(super) fn first(repo: &Repository, args: Option<&[BString]>) -> Option<Reason> {
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
    // The later of the two column settings overrides the earlier one.
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
    let parsed = TABLE.parse(args?).ok()?;
    // For an invalid request, the command itself prints Git's message.
    let request = Request::fold(repo, parsed).ok()?;
    // The width of non-ASCII characters is unknown here.
    let ascii = repo.config_bool("core.quotePath").ok()?.unwrap_or(true);
    if request.columns.when != columns::When::Never && !ascii {
        return Some(Reason::CommandLine("columns of paths that need not be ASCII".into()));
    }
    None
}
