//! Revision names on the command line.

use bstr::BStr;
use repo::{Repository, keys};
use sapwood::ObjectId;

use crate::{
    session::settings::Settings,
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// Git's warning about a ref whose name has the form of an object name.
const OBJECT_NAME_WARNING: &str = "\
Git normally never creates a ref that ends with 40 hex characters
because it will be ignored when you just specify 40-hex. These refs
may be created by mistake. For example,

  git switch -c $br $(git rev-parse ...)

where \"$br\" is somehow empty and a 40-hex ref is created. Please
examine these refs and maybe delete them. Turn this message off by
running \"git config set advice.objectNameWarning false\"";

/// Warns of an ambiguous name, as many `times` as Git looks it up.
pub(crate) fn warn_ambiguous(
    repo: &Repository,
    settings: &Settings,
    spec: &BStr,
    times: usize,
) -> Result<(), Failure> {
    let names = repo.ambiguous_names(spec)?;
    for name in names.iter().cycle().take(times * names.len()) {
        console::warning(text!("refname '", name, "' is ambiguous."));
        let is_object_name = ObjectId::from_hex(repo.hash(), name).is_some();
        if is_object_name && settings.advises(repo, keys::advice::OBJECT_NAME_WARNING)? {
            console::eprint_line(OBJECT_NAME_WARNING);
        }
    }
    Ok(())
}
