//! `fetch.bundleURI`: bundles that are downloaded before the remote is contacted.

use bstr::ByteSlice as _;
use engine::{
    bundles::{Bundles, Error},
    fetch::remote::Remote,
};

use repo::keys;

use super::context::FetchContext;
use crate::term::{
    console::{self, text},
    failure::Failure,
};

impl FetchContext<'_> {
    /// Fetches the bundles. Returns true if there may be new objects and refs.
    pub(super) fn fetch_bundles(&self) -> Result<bool, Failure> {
        let Some(uri) = self.repo.config_str(&keys::fetch::BUNDLE_URI).filter(|uri| !uri.is_empty()) else {
            return Ok(false);
        };
        let nobody = Remote::default();
        let connect = self.connect(&nobody);
        let done = self.with_context(&nobody, |context, _| {
            let bundles = Bundles { context, connect: &connect, dir: self.repo.child_dir() };
            bundles.fetch(uri.as_bstr()).map_err(|error| match error {
                Error::Interrupted => self.run.interrupt.failure(),
                Error::Repo(error) => error.into(),
            })
        })?;
        if done.failed {
            console::warning(text!("failed to fetch bundles from '", uri, "'"));
        }
        Ok(true)
    }
}
