//! Reasons to leave a fetch to the real Git.

use bstr::{BString, ByteSlice as _};
use engine::fetch::remote::Remote;
use sapwood::fetch::{Unsupported, unsupported};

use repo::keys;

use crate::{
    commands::{
        obstacles,
        reason::Reason,
        record::Candidate,
        rules::{Setting, Variable, When},
    },
    term::files,
};

/// Settings that affect a fetch and are not native.
pub(super) const SETTINGS: &[Setting] = &[
    (keys::fetch::URI_PROTOCOLS.name(), When::Set),
    (keys::remote::PROXY.name(), When::Set),
    (keys::remote::VCS.name(), When::Set),
    (keys::transfer::ADVERTISE_SID.name(), When::True),
    (keys::transfer::CREDENTIALS_IN_URL.name(), When::Not(&["allow"])),
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
    if files::may_exist(&repo.common_dir().join("packed-refs.new")) {
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
    let is_group = names.iter().any(|name| !repo.config_all(&keys::remotes::GROUP.of(name)).is_empty());
    let is_all = names.is_empty() && matches!(repo.config(&keys::fetch::ALL_REMOTES), Ok(true));
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
    match unsupported(repo, name.as_bstr()) {
        Some(Unsupported::Remotes) => {
            return Some(Reason::repository("there are remotes in 'remotes'"));
        }
        Some(Unsupported::Branches) => {
            return Some(Reason::repository("there are remotes in 'branches'"));
        }
        Some(Unsupported::UploadPacks) => {
            return Some(Reason::Setting(keys::remote::UPLOADPACK.of(name).name().to_owned()));
        }
        // These are settings of the record.
        Some(Unsupported::ForeignVcs | Unsupported::Proxy) | None => {}
    }
    Remote::load(repo, name.as_bstr()).err().map(|error| Reason::repository(error.to_string()))
}
