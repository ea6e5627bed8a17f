//! Reasons to leave a fetch to the real Git.

use bstr::{BString, ByteSlice as _};
use engine::fetch::remote::Remote;
use sys::by_path;

use crate::commands::{
    obstacles,
    reason::Reason,
    record::Candidate,
    rules::{Setting, Variable, When},
};

/// Settings that affect a fetch and are not native.
pub(super) const SETTINGS: &[Setting] = &[
    ("fetch.uriprotocols", When::Set),
    ("remote.*.proxy", When::Set),
    ("remote.*.vcs", When::Set),
    ("transfer.advertisesid", When::True),
    ("transfer.credentialsinurl", When::Not(&["allow"])),
];

/// Variables that affect a fetch and are not native.
pub(super) const VARIABLES: &[Variable] =
    &[("GIT_TRACE", When::Set), ("GIT_TRACE2_EVENT", When::Set), ("GIT_TRACE2_PERF", When::Set)];

/// Detects states of the repository that are not native.
pub(super) fn repository(candidate: &Candidate<'_>) -> Vec<Reason> {
    let repo = candidate.repo();
    let mut found: Vec<Reason> = obstacles::grafts(repo).into_iter().collect();
    if obstacles::some_head_is_a_link(repo) {
        found.push(Reason::repository("some HEAD is a symbolic link"));
    }
    if !matches!(by_path::stat(&repo.common_dir().join("packed-refs.new")), Ok(None)) {
        found.push(Reason::repository("there is a file 'packed-refs.new'"));
    }
    found
}

/// Detects remotes that are not native: those in files of their own.
pub(super) fn remote(candidate: &Candidate<'_>) -> Vec<Reason> {
    let Some(survey) = candidate.survey else { return Vec::new() };
    let repo = candidate.repo();
    let mut names: Vec<BString> = survey.rest.first().into_iter().cloned().collect();
    let is_many = survey.options.iter().any(|given| matches!(given.name, "--all" | "--multiple") && given.on);
    let is_group = names.iter().any(|name| !repo.config_all(&format!("remotes.{name}")).is_empty());
    let is_all = names.is_empty() && matches!(repo.config_bool("fetch.all"), Ok(Some(true)));
    if is_many || is_group || is_all {
        // Each remote gets its own process, which decides itself.
        return Vec::new();
    }
    if names.is_empty() {
        names.extend(Remote::default_name(repo));
    }
    names.iter().filter_map(|name| reason(candidate, name)).collect()
}

fn reason(candidate: &Candidate<'_>, name: &BString) -> Option<Reason> {
    let repo = candidate.repo();
    if repo.config_all(&format!("remote.{name}.url")).is_empty()
        && let Some(dir) = ["remotes", "branches"].iter().find(|dir| {
            let file = repo.common_dir().join(dir).join(sys::os_str(name));
            !name.is_empty() && !name.contains(&b'/') && is_file(&file)
        })
    {
        return Some(Reason::repository(format!("there are remotes in '{dir}'")));
    }
    if repo.config_all(&format!("remote.{name}.uploadpack")).len() > 1 {
        return Some(Reason::Setting(format!("remote.{name}.uploadpack")));
    }
    Remote::load(repo, name.as_bstr()).err().map(|error| Reason::repository(error.to_string()))
}

fn is_file(path: &std::path::Path) -> bool {
    let stat = by_path::stat_followed(path).ok().flatten();
    stat.is_some_and(|stat| stat.file_type == sys::FileType::File)
}
