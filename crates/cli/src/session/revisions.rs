//! Revision names on the command line.

use bstr::BStr;
use repo::Repository;

use crate::{
    session::{events::printing, settings::Settings},
    term::failure::Failure,
};

/// See [`sapwood::refs::warn_ambiguous`].
pub(crate) fn warn_ambiguous(
    repo: &Repository,
    settings: &Settings,
    spec: &BStr,
    times: usize,
) -> Result<(), Failure> {
    Ok(sapwood::refs::warn_ambiguous(printing(repo, settings), spec, times)?)
}
