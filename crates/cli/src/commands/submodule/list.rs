//! The superproject and its selected submodules. See [`sapwood::submodule`].

use std::ops::Deref;

use bstr::BString;
use repo::Repository;
use sapwood::{index::Index, submodule};
pub(super) use submodule::Link;

use crate::{
    commands::paths,
    session::{Session, index, invocation::Invocation, settings::Settings},
    term::failure::Failure,
};

/// The superproject of a command.
pub(super) struct Superproject<'a> {
    pub(super) run: &'a Invocation,
    superproject: submodule::Superproject<'a>,
}

impl<'a> Deref for Superproject<'a> {
    type Target = submodule::Superproject<'a>;

    fn deref(&self) -> &submodule::Superproject<'a> {
        &self.superproject
    }
}

impl<'a> Superproject<'a> {
    pub(super) fn new(
        run: &'a Invocation,
        repo: &'a Repository,
        settings: &'a Settings,
        index: &Index,
        super_prefix: Option<BString>,
    ) -> Result<Superproject<'a>, Failure> {
        let session = Session { invocation: run, repository: repo, settings };
        let superproject = submodule::Superproject::new(session.context(run), index, super_prefix)?;
        Ok(Superproject { run, superproject })
    }

    /// Returns the submodules that `specs` select, each once.
    pub(super) fn links(&self, index: &Index, specs: &[BString]) -> Result<Vec<Link>, Failure> {
        Ok(submodule::links(index, &paths::parse(self.run, self.repo, specs)?)?)
    }
}

/// Reads the index and makes it full.
pub(super) fn index(repo: &Repository, settings: &Settings) -> Result<Index, Failure> {
    index::load_index(repo, settings)
}
