//! The alternates of a submodule that derive from those of its superproject
//! (`submodule.alternateLocation`).

use std::os::unix::ffi::OsStrExt as _;

use bstr::{BStr, BString};
use repo::{
    Repository,
    keys::{self, Key},
};

use crate::{Error, Notice, submodule::Superproject, text};

const LOCATION: Key<BString> = keys::submodule::ALTERNATE_LOCATION;
const STRATEGY: Key<BString> = keys::submodule::ALTERNATE_ERROR_STRATEGY;

const ADVICE: &str = "An alternate computed from a superproject's alternate is invalid.\n\
                      To allow Git to clone without an alternate in such a case, set\n\
                      submodule.alternateErrorStrategy to 'info' or, equivalently, clone with\n\
                      '--reference-if-able' instead of '--reference'.";

/// Returns the settings that a new submodule inherits.
pub(super) fn inherited(repo: &Repository) -> impl Iterator<Item = (&'static str, BString)> {
    [LOCATION, STRATEGY].into_iter().filter_map(|key| Some((key.name(), repo.config_str(&key)?)))
}

/// Returns the repositories of the submodule `name` next to the superproject's alternates.
pub(super) fn of_superproject(superproject: &Superproject<'_>, name: &BStr) -> Result<Vec<BString>, Error> {
    let (repo, context) = (superproject.repo, superproject.context());
    let Some(location) = repo.config_str(&LOCATION) else { return Ok(Vec::new()) };
    let strategy = repo.config_text(&STRATEGY);
    let unknown = |value: &BString, key: Key<BString>| {
        Error::Failed(text!("Value '", value, "' for ", key.name(), " is not recognized"))
    };
    if !matches!(strategy.as_slice(), b"die" | b"info" | b"ignore") {
        return Err(unknown(&strategy, STRATEGY));
    }
    match location.as_slice() {
        b"no" => return Ok(Vec::new()),
        b"superproject" => {}
        _ => return Err(unknown(&location, LOCATION)),
    }
    let mut found = Vec::new();
    for objects in repo.objects().directories().skip(1) {
        let Some(git_dir) = objects.as_os_str().as_bytes().strip_suffix(b"/objects") else { continue };
        let place = text!(git_dir, "/modules/", name, "/");
        // The place is absolute, as the directory of objects is.
        match engine::clone::check_reference(&place, repo.child_dir()) {
            Ok(()) => found.push(place),
            Err(_) if strategy == "ignore" => {}
            Err(error) => {
                let message = text!("submodule '", name, "' cannot add alternate: ", error.to_string());
                if strategy == "info" {
                    context.events.notice(Notice::Transfer(message));
                    continue;
                }
                let advice = keys::advice::SUBMODULE_ALTERNATE_ERROR_STRATEGY_DIE;
                if context.advises(advice)? {
                    let (name, text) = (advice.name(), ADVICE.into());
                    context.events.notice(Notice::Advice { name, text, is_default: false });
                }
                return Err(Error::Failed(message));
            }
        }
    }
    Ok(found)
}
