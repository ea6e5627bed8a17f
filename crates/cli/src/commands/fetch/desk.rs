//! The parts that each form of the command works with.

use bstr::BString;

use super::options::Request;
use crate::{
    session::{
        invocation::Invocation,
        maintenance::{self, Says},
        settings::Settings,
    },
    term::failure::Failure,
};

/// The parts that each form of the command works with.
pub(super) struct Desk<'a> {
    pub(super) run: &'a Invocation,
    pub(super) repo: &'a repo::Repository,
    pub(super) settings: &'a Settings,
    pub(super) request: &'a Request,
    pub(super) action: BString,
}

impl Desk<'_> {
    /// Starts `maintenance run --auto`.
    pub(super) fn maintain(&self) -> Result<(), Failure> {
        if self.request.maintenance == Some(false) || self.request.dry_run {
            return Ok(());
        }
        let says = if self.request.verbosity < 0 { Says::Nothing } else { Says::Progress };
        maintenance::start_auto(self.run, self.repo, says)
    }
}
