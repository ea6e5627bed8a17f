//! The values that all forms of the command share.

use bstr::BString;
use sapwood::maintenance::MaintenanceOutput;

use repo::keys;

use super::{options::Request, table::Form};
use crate::{
    commands::commit_graph,
    session::{Session, invocation::Invocation, settings::Settings},
    term::failure::Failure,
};

/// The values that all forms of the command share.
pub(super) struct FetchContext<'a> {
    pub(super) run: &'a Invocation,
    pub(super) repo: &'a repo::Repository,
    pub(super) settings: &'a Settings,
    pub(super) request: &'a Request,
    pub(super) action: BString,
    pub(super) form: Form,
}

impl FetchContext<'_> {
    /// Returns the context of the library.
    pub(super) fn library(&self) -> sapwood::Context<'_> {
        let session = Session { invocation: self.run, repository: self.repo, settings: self.settings };
        session.context(self.run)
    }

    /// `--write-commit-graph`, `fetch.writeCommitGraph`: writes a layer with the new commits. A
    /// failure is printed, and does not fail the fetch.
    pub(super) fn write_commit_graph(&self) -> Result<(), Failure> {
        let wanted = match self.request.commit_graph {
            Some(wanted) => wanted,
            None => self.repo.config(&keys::fetch::WRITE_COMMIT_GRAPH)?,
        };
        if wanted {
            let repo = self.repo.open_again()?;
            let shows = self.request.progress != Some(false);
            match commit_graph::write_reachable(self.run, &repo, self.settings, shows) {
                Err(failure @ Failure::Signal(_)) => return Err(failure),
                Err(failure) => failure.print(),
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// Starts `maintenance run --auto`.
    pub(super) fn maintain(&self) -> Result<(), Failure> {
        if self.request.maintenance == Some(false) || self.request.dry_run {
            return Ok(());
        }
        let output =
            if self.request.verbosity < 0 { MaintenanceOutput::Quiet } else { MaintenanceOutput::Progress };
        Ok(sapwood::fetch::maintain(self.library(), self.request.refetch, output)?)
    }
}
