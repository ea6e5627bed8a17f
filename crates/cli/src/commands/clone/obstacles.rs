//! Reasons for which a clone is left to the real Git. sapwood clones only from a repository that
//! plainly exists, and only to an empty place. A clone that Git refuses at once is refused here.

use std::path::Path;

use bstr::{BStr, BString, ByteSlice as _};
use engine::clone::Kind;
use repo::{Repository, StandaloneConfig, keys, wire::Client};
use sapwood::{FileType, ObjectId};

use crate::{
    commands::{
        obstacles::{GENERAL, find, hooks, is_unknown},
        reason::Reason,
        record::{Candidate, Home},
        rules::{Setting, Unserved, Variable, When},
    },
    term::{args::Survey, console::text, files},
};

/// Settings of a clone.
pub(super) const SETTINGS: &[Setting] = &[
    (keys::color::REMOTE_ALL.name(), When::Set),
    (
        keys::color::UI.name(),
        When::Not(&["auto", "never", "false", "no", "off", "0", "true", "yes", "on", "1"]),
    ),
    (keys::core::HOOKS_PATH.name(), When::Set),
    (keys::feature::EXPERIMENTAL.name(), When::True),
    (keys::fetch::URI_PROTOCOLS.name(), When::Set),
    (keys::init::DEFAULT_OBJECT_FORMAT.name(), When::Not(&["sha1"])),
    (keys::init::DEFAULT_REF_FORMAT.name(), When::Not(&["files"])),
    (keys::sideband::ALL_SETTINGS.name(), When::Set),
    (keys::transfer::CREDENTIALS_IN_URL.name(), When::Not(&["allow"])),
];

/// Variables of a clone.
pub(super) const VARIABLES: &[Variable] = &[
    ("GIT_DEFAULT_HASH", When::Not(&["sha1"])),
    ("GIT_DEFAULT_REF_FORMAT", When::Not(&["files"])),
    // It names the processes that Git's own clone starts.
    ("GIT_TRACE", When::Set),
];

/// Settings and variables that change the format or the refs of the clone.
pub(super) const UNSERVED: Unserved = Unserved {
    settings: &[(keys::init::DEFAULT_SUBMODULE_PATH_CONFIG.name(), When::True)],
    variables: &[("GIT_NAMESPACE", When::Set)],
};

/// Returns true if a setting given by `clone -c` is an obstacle.
fn counts(setting: &BStr) -> bool {
    let (name, value) = setting.split_once_str("=").unwrap_or((setting, b"true"));
    let name = name.trim_ascii().to_ascii_lowercase();
    let value = value.to_ascii_lowercase();
    find(&[GENERAL, SETTINGS, UNSERVED.settings], &name)
        .is_some_and(|when| when.applies(Some(value.as_bstr())))
        || is_unknown(&name)
        || name.starts_with(b"extensions.")
        || name.starts_with(b"include")
        || name.starts_with(b"url.")
        || keys::clone::FILTER_SUBMODULES.is(name.as_bstr())
}

/// Finds settings of the remote that the clone will have, from outside and from `--config`. sapwood
/// understands only the refs to fetch.
fn remote(remote: &BString, outside: &StandaloneConfig, parameters: &[&BString]) -> Vec<Reason> {
    let prefix = [b"remote.", remote.as_slice(), b"."].concat();
    let mut pairs: Vec<(BString, Vec<BString>)> = Vec::new();
    for name in outside.config_names().filter(|name| name.starts_with(b"remote.")) {
        pairs.push((name.to_owned(), outside.config_all(&name.to_str_lossy())));
    }
    for parameter in parameters {
        let (name, value) = parameter.split_once_str("=").unwrap_or((parameter, b"true"));
        pairs.push((name.trim_ascii().into(), vec![value.into()]));
    }
    let understood = |key: &[u8], values: &[BString]| {
        let refspec = |value: &BString| engine::clone::supports_refspec(value.as_bstr());
        let without_effect: [&[u8]; 2] = [b"tagopt", b"uploadpack"];
        key.eq_ignore_ascii_case(b"fetch") && values.iter().all(refspec)
            || key.eq_ignore_ascii_case(b"serveroption") && !values.iter().any(|value| value.is_empty())
            || without_effect.iter().any(|name| key.eq_ignore_ascii_case(name))
    };
    let begins =
        |name: &BString| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(&prefix));
    let of_it = pairs.iter().filter(|(name, _)| begins(name));
    let counted = of_it.filter(|(name, values)| !understood(&name[prefix.len()..], values));
    counted.map(|(name, _)| Reason::Setting(name.to_string())).collect()
}

/// Finds files of the template that sapwood does not copy, or that would be obstacles in the clone.
fn files_of_template(dir: &Path) -> Vec<Reason> {
    let hooks = hooks::UNSERVED.iter().map(|hook| format!("hooks/{hook}"));
    let there = hooks.filter(|file| files::may_exist(&dir.join(file)));
    let mut found: Vec<_> =
        there.map(|file| Reason::repository(format!("the template has '{file}'"))).collect();
    // Git writes through links, and has its own words for what it cannot write to.
    let kinds = [
        ("HEAD", FileType::File),
        ("config", FileType::File),
        ("objects", FileType::Directory),
        ("refs", FileType::Directory),
    ];
    let odd = kinds.into_iter().filter(|(name, kind)| match files::stat(&dir.join(name)) {
        Ok(None) => false,
        Ok(Some(stat)) => stat.file_type != *kind,
        Err(_) => true,
    });
    found.extend(odd.map(|(name, _)| Reason::repository(format!("what the template has as '{name}'"))));
    match repo::config_file(&dir.join("config")) {
        Ok(settings) => {
            let counted = settings.into_iter().filter(|(name, value)| {
                let value = value.as_ref().map_or(b"true".as_slice(), |value| value);
                counts(text!(name, "=", value).as_bstr()) || name.starts_with(b"remote.")
            });
            found.extend(counted.map(|(name, _)| Reason::Setting(name.to_string())));
        }
        Err(_) => found.push(Reason::repository("the template has 'config'")),
    }
    found
}

/// Finds states of the cloned repository that sapwood does not understand, or reports in other
/// words than Git.
fn states_of_source(source: &Repository) -> Vec<Reason> {
    let unknown = source.config_names().filter(|name| is_unknown(name));
    let mut found: Vec<_> = unknown.map(|name| Reason::Setting(name.to_string())).collect();
    if files::may_exist(&source.common_dir().join("info/grafts")) {
        found.push(Reason::repository("the source has grafts"));
    }
    let is_broken = |refs: Vec<(BString, ObjectId)>| refs.iter().any(|(_, oid)| oid.is_null());
    if source.head().is_err() || source.refs("refs/").map_or(true, is_broken) {
        found.push(Reason::repository("the source has refs that cannot be read"));
    }
    if !source.objects().errors().is_empty() || !source.warnings().is_empty() {
        found.push(Reason::repository("the source has alternates or replacements that are wrong"));
    }
    found
}

/// A wrong number of arguments, and settings given by `--config`.
pub(super) fn line(survey: &Survey, _: &[BString]) -> Option<Reason> {
    if !(1..=2).contains(&survey.rest.len()) {
        return Some(Reason::command_line("a wrong number of arguments"));
    }
    let mut settings = survey
        .options
        .iter()
        .filter(|given| given.name == "--config")
        .filter_map(|given| given.value.as_ref());
    settings.find(|value| counts(value.as_bstr())).map(|setting| Reason::Setting(setting.to_string()))
}

/// The source, the destination, the template and the transport.
pub(super) fn ends(candidate: &Candidate<'_>) -> Vec<Reason> {
    let (Some(survey), Home::Outside(outside)) = (candidate.survey, candidate.home) else {
        return Vec::new();
    };
    examine(candidate, survey, outside).err().into_iter().collect()
}

fn examine(candidate: &Candidate<'_>, survey: &Survey, outside: &StandaloneConfig) -> Result<(), Reason> {
    let given = |name: &'static str| survey.options.iter().filter(move |given| given.name == name);
    let looked = super::look(candidate.run, candidate.args).map_err(|failure| Reason::refused(&failure))?;
    let Some(prepared) = looked else { return Ok(()) };
    let address = Client::of(outside).url(prepared.source().url.as_bstr());
    if address.text != prepared.source().url {
        return Err(Reason::repository("url.<base>.insteadOf changes the source"));
    }
    let parameters: Vec<_> = given("--config").filter_map(|given| given.value.as_ref()).collect();
    first(remote(&prepared.remote(outside), outside, &parameters))?;
    match &prepared.source().kind {
        Kind::Repository { git_dir } => {
            let source = Repository::open_source(&candidate.run.outside(), git_dir)
                .map_err(|error| Reason::repository(error.to_string()))?;
            first(states_of_source(&source))?;
        }
        Kind::Server => {}
        Kind::Bundle { path } if engine::clone::is_complete_bundle(path) => {}
        Kind::Bundle { .. } => return Err(Reason::repository("the bundle needs commits that it lacks")),
    }
    if prepared.copies_files() && given("--upload-pack").next().is_some() {
        return Err(Reason::Option("--upload-pack".into()));
    }
    let template = prepared.template().map_err(|error| Reason::repository(error.to_string()))?;
    first(template.map_or_else(Vec::new, |dir| files_of_template(&dir)))?;
    for place in prepared.work_tree().into_iter().chain([prepared.git_dir()]) {
        if files::list(place).is_ok_and(|names| !names.is_empty()) {
            return Err(Reason::repository(format!("'{}' is not empty", prepared.directory())));
        }
    }
    Ok(())
}

fn first(reasons: Vec<Reason>) -> Result<(), Reason> {
    reasons.into_iter().next().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_clone_that_count() {
        for counted in
            ["core.hooksPath=x", "Core.HooksPath", "extensions.x=1", "include.path=a", "url.a.insteadOf=b"]
        {
            assert!(counts(counted.into()), "{counted}");
        }
        for plain in ["user.name=me", "core.fsmonitor=true", "branch.main.remote=x", "protocol.allow=never"] {
            assert!(!counts(plain.into()), "{plain}");
        }
    }
}
