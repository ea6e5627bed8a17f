//! Settings and variables that leave a command to the real Git.

use bstr::ByteSlice as _;

use repo::keys;

use crate::{
    commands::{
        reason::Reason,
        record::Candidate,
        rules::{self, Setting, Unserved, Variable, When},
    },
    session::settings::{config::Config, shared_index_expire},
};

/// The valid values of `diff.ignoreSubmodules` and `submodule.<name>.ignore`.
const IGNORE: &[&str] = &["all", "dirty", "none", "untracked"];

/// Settings that affect every command that reads files or writes the index.
pub(crate) const GENERAL: &[Setting] = &[
    (keys::attr::TREE.name(), When::Set),
    (keys::color::ADVICE_ALL.name(), When::Set),
    (keys::core::PREFER_SYMLINK_REFS.name(), When::True),
    (keys::diff::IGNORE_SUBMODULES.name(), When::Not(IGNORE)),
    (keys::merge::CONFLICT_STYLE.name(), When::Not(&["merge", "diff3", "zdiff3"])),
    (keys::submodule::ONE_IGNORE.name(), When::Not(IGNORE)),
    (keys::submodule::RECURSE.name(), When::NotBoolean),
    (keys::trace2::ALL_SETTINGS.name(), When::Set),
];

/// Settings that affect commands that run no filters and hooks and do not write the index.
pub(crate) const LOOKING: &[Setting] = &[(keys::trace2::ALL_SETTINGS.name(), When::Set)];

/// Variables that change which refs are listed.
pub(crate) const LISTING: Unserved =
    Unserved { variables: &[("GIT_REF_PARANOIA", When::Set)], ..Unserved::NOTHING };

/// Variables that replace settings, and the trace of how Git discovered the repository.
pub(crate) const VARIABLES: &[Variable] = &[
    ("GIT_ALLOW_NULL_SHA1", When::Set),
    ("GIT_ATTR_SOURCE", When::Set),
    ("GIT_NO_LAZY_FETCH", When::Set),
    // Set by programs that keep new objects in quarantine: Git then refuses to update refs.
    ("GIT_QUARANTINE_PATH", When::Set),
    ("GIT_TRACE_SETUP", When::Set),
];

/// The conditions of `includeIf` that sapwood supports.
const CONDITIONS: &[&str] = &["gitdir:", "gitdir/i:", "onbranch:", "hasconfig:remote.*.url:"];

/// Detects the settings and variables that leave a command to the real Git.
pub(crate) fn settings(candidate: &Candidate<'_>) -> Vec<Reason> {
    let command = candidate.command;
    let tables: Vec<&[Setting]> =
        std::iter::once(command.unserved.settings).chain(command.settings.iter().copied()).collect();
    let mut found = settings_in(candidate.config(), &tables, command.family());
    found.extend(variables(candidate));
    found
}

/// Detects the settings in `config` that `tables` contain, or that no command of sapwood serves.
/// `family` is the command's name, for the setting of its pager.
pub(crate) fn settings_in(config: &dyn Config, tables: &[&[Setting]], family: &str) -> Vec<Reason> {
    let pager = keys::pager::ONE.of(family);
    let mut found = Vec::new();
    for name in config.names() {
        let text = name.to_str_lossy();
        let applies = match find(tables, &name) {
            Some(when) => {
                config.value(&text).is_some_and(|value| when.applies(value.as_ref().map(|it| it.as_bstr())))
            }
            None => is_unknown(&name) || text == pager.name(),
        };
        if applies {
            found.push(Reason::Setting(text.into_owned()));
        }
    }
    // Git fails if an index would be both sparse and split.
    let is_sparse = matches!(config.get(&keys::index::SPARSE), Ok(true));
    if is_sparse && matches!(config.get(&keys::core::SPLIT_INDEX), Ok(Some(true))) {
        found.push(Reason::Setting(keys::core::SPLIT_INDEX.lower()));
    }
    let expire = keys::split_index::SHARED_INDEX_EXPIRE;
    let configured = config.value(expire.name()).map(Option::unwrap_or_default);
    if shared_index_expire(configured).is_none() {
        found.push(Reason::Setting(expire.lower()));
    }
    found
}

/// Detects the variables that leave a command to the real Git.
pub(crate) fn variables(candidate: &Candidate<'_>) -> Vec<Reason> {
    let mut found = Vec::new();
    let own = candidate.command.variables.iter().copied();
    let tables: Vec<&[Variable]> =
        [VARIABLES, rules::IN_REPOSITORIES.variables, candidate.command.unserved.variables]
            .into_iter()
            .chain(own)
            .collect();
    for (number, table) in tables.iter().enumerate() {
        for (name, when) in table.iter() {
            // A later table overrides an earlier one.
            let is_overruled =
                tables[number + 1..].iter().any(|later| later.iter().any(|(it, _)| it == name));
            if !is_overruled && rules::is_obstacle(&candidate.run.env, name, *when) {
                found.push(Reason::Variable(name));
            }
        }
    }
    found
}

/// Returns the rule for a setting in the tables of a command.
pub(crate) fn find(tables: &[&[Setting]], name: &[u8]) -> Option<When> {
    let mut all = tables.iter().flat_map(|table| table.iter());
    all.find(|(pattern, _)| rules::matches(pattern, name)).map(|(_, when)| *when)
}

/// Returns true for an `includeIf` whose condition sapwood does not support. Extensions need no
/// check here: those in the repository's own file were checked when it was opened, and extensions
/// in other files have no effect.
pub(crate) fn is_unknown(name: &[u8]) -> bool {
    let is_known = |condition: &[u8]| CONDITIONS.iter().any(|known| condition.starts_with(known.as_bytes()));
    name.strip_prefix(b"includeif.").is_some_and(|condition| !is_known(condition))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_conditions_of_includes() {
        assert!(is_unknown(b"includeif.worktree:x.path"));
        assert!(!is_unknown(b"includeif.gitdir/i:x.path"));
    }
}
