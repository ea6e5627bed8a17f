//! Settings that are left to Git because their order matters, or because they apply only with an
//! option.

use bstr::{BString, ByteSlice as _};
use repo::{Repository, keys, keys::Key};

use super::{
    options::{Request, TABLE},
    report::SLOTS,
};
use crate::{
    commands::{
        reason::Reason,
        record::{Candidate, Check},
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
    (keys::advice::STATUS_AHEAD_BEHIND_WARNING.name(), When::NotBoolean),
    (keys::advice::STATUS_HINTS.name(), When::NotBoolean),
    (keys::advice::STATUS_UOPTION.name(), When::NotBoolean),
    (keys::color::PAGER.name(), When::NotBoolean),
    (keys::color::STATUS.name(), COLOR),
    (keys::color::UI.name(), COLOR),
    (keys::diff::ORDER_FILE.name(), When::Set),
    (keys::diff::RENAMES.name(), RENAMES),
    (keys::status::AHEAD_BEHIND.name(), When::NotBoolean),
    (keys::status::BRANCH.name(), When::NotBoolean),
    (keys::status::COLOR.name(), COLOR),
    (keys::status::DISPLAY_COMMENT_PREFIX.name(), When::NotBoolean),
    (keys::status::RELATIVE_PATHS.name(), When::NotBoolean),
    (keys::status::RENAMES.name(), RENAMES),
    (keys::status::SHORT.name(), When::NotBoolean),
    (keys::status::SHOW_STASH.name(), When::NotBoolean),
    (
        keys::status::SHOW_UNTRACKED_FILES.name(),
        When::Not(&["normal", "all", "true", "false", "yes", "no", "on", "off", "1", "0"]),
    ),
    (keys::status::SUBMODULE_SUMMARY.name(), When::NotBoolean),
];

/// Checks settings whose order matters.
pub(super) const SETTINGS_TOGETHER: Check = Check::new(
    "a colour of the status by two names, or a wrong one; `column.status` before `column.ui`, or wrong \
     values of them; a comment sign that is empty, `auto` or has several lines; a rename limit that is no \
     number; a HEAD that cannot be read; columns with `core.quotePath=false`",
    settings_together,
);

/// Detects settings whose order matters, or that apply only with some options.
fn settings_together(candidate: &Candidate<'_>) -> Vec<Reason> {
    first(candidate.repo(), candidate.survey.map(|_| candidate.args)).into_iter().collect()
}

/// Returns the first such setting. `args` is the command line, if it is known.
pub(super) fn first(repo: &Repository, args: Option<&[BString]>) -> Option<Reason> {
    let set = |key: &str| Some(Reason::Setting(key.to_owned()));
    let is_set = |key: Key<Option<BString>>| repo.config_str(&key).is_some();
    for (one, other) in
        [(keys::color::STATUS, keys::status::COLOR), (keys::core::COMMENT_CHAR, keys::core::COMMENT_STRING)]
    {
        if is_set(one) && is_set(other) {
            return set(&one.lower());
        }
    }
    for name in SLOTS.iter().flat_map(|(_, names, _)| *names) {
        let keys = [keys::color::STATUS_SLOT.of(name), keys::status::COLOR_SLOT.of(name)];
        let is_wrong = |value: BString| color::parse(value.as_bstr()).is_none();
        if keys.iter().all(|key| repo.config_str(key).is_some())
            || keys.iter().filter_map(|key| repo.config_str(key)).any(is_wrong)
        {
            return set(keys[0].name());
        }
    }
    if is_set(keys::color::STATUS_ADDED) && is_set(keys::color::STATUS_UPDATED) {
        return set(keys::color::STATUS_ADDED.name());
    }
    for key in [keys::core::COMMENT_CHAR, keys::core::COMMENT_STRING] {
        let is_odd = |value: BString| {
            value.is_empty() || value.contains(&b'\n') || value.eq_ignore_ascii_case(b"auto")
        };
        if repo.config_str(&key).is_some_and(is_odd) {
            return set(&key.lower());
        }
    }
    // The later of the two column settings overrides the earlier one.
    let place = |key: Key<Option<BString>>| repo.config_names().position(|name| key.is(name));
    if let (Some(general), Some(own)) = (place(keys::column::UI), place(keys::column::STATUS))
        && own < general
    {
        return set(keys::column::STATUS.name());
    }
    for key in [keys::column::UI, keys::column::STATUS] {
        if repo.config_all(&key).iter().any(|value| Columns::default().take(value.as_bstr()).is_err()) {
            return set(key.name());
        }
    }
    for key in [keys::diff::RENAME_LIMIT, keys::status::RENAME_LIMIT] {
        if repo.config(&key).is_err() {
            return set(&key.lower());
        }
    }
    if repo.head().is_err() {
        return Some(Reason::Repository("HEAD cannot be read".into()));
    }
    let parsed = TABLE.parse(args?).ok()?;
    // For an invalid request, the command itself prints Git's message.
    let request = Request::fold(repo, parsed).ok()?;
    // The width of non-ASCII characters is unknown here.
    let ascii = repo.config(&keys::core::QUOTE_PATH).ok()?;
    if request.columns.when != columns::When::Never && !ascii {
        return Some(Reason::CommandLine("columns of paths that need not be ASCII".into()));
    }
    None
}
