//! Stores the objects and refs of one bundle.

use std::path::Path;

use bstr::BString;
use format::bundle::Header;
use repo::pack_indexing::Meter;
use store::refs::{Edit, Failures, RefTransaction};

use super::{Bundles, Error, Failed};
use crate::{
    fetch::{
        bundle_file::{BundleFile, Prerequisites, Receiving},
        connected,
    },
    pack_indexing::incoming,
};

impl Bundles<'_> {
    /// Stores a bundle whose prerequisites exist. Missing prerequisites are not reported.
    pub(super) fn unbundle(&self, path: &Path) -> Result<Result<(), Failed>, Error> {
        let Ok(bundle) = BundleFile::open(path) else { return Ok(Err(Failed)) };
        if !self.has_prerequisites(&bundle)? {
            return Ok(Err(Failed));
        }
        let Ok(pack) = bundle.pack() else { return Ok(Err(Failed)) };
        let receiving = Receiving::load(self.context.repo)?;
        match bundle.take(pack, self.context, &Meter::default(), &receiving) {
            Ok(()) => {
                self.write_refs(bundle.header());
                Ok(Ok(()))
            }
            Err(incoming::Error::Interrupted) => Err(Error::Interrupted),
            Err(error) => {
                self.error(&error.to_string());
                self.error("index-pack died");
                Ok(Err(Failed))
            }
        }
    }

    fn has_prerequisites(&self, bundle: &BundleFile) -> Result<bool, Error> {
        match bundle.prerequisites(self.context) {
            Ok(Prerequisites::Complete) => Ok(true),
            Ok(Prerequisites::Missing(_)) => Ok(false),
            Ok(Prerequisites::Unconnected) => {
                self.error(
                    "some prerequisite commits exist in the object store, but are not connected to the \
                     repository's history",
                );
                Ok(false)
            }
            Err(connected::Error::Interrupted) => Err(Error::Interrupted),
            Err(connected::Error::Repo(error)) => Err(error.into()),
        }
    }

    /// Writes each ref in a transaction of its own, as Git does. Skips `HEAD`, and reports refs to
    /// objects that do not exist.
    fn write_refs(&self, header: &Header) {
        let objects = self.context.repo.stored_objects();
        for (name, oid) in &header.refs {
            let Some(name) = name.strip_prefix(b"refs/") else { continue };
            let name = BString::from([b"refs/bundles/", name].concat());
            if !objects.contains(oid) {
                let cause = format!("trying to write ref '{name}' with nonexistent object {oid}");
                self.error(&format!("update_ref failed for ref '{name}': {cause}"));
                continue;
            }
            let mut transaction = RefTransaction::new(self.context.refs, Failures::EndAll);
            if let Some(hook) = self.context.hook {
                transaction.observed_by(Box::new(hook));
            }
            let edit = Edit::set(name.as_ref(), *oid, "fetched bundle".into());
            let done = transaction.add(edit).and_then(|()| transaction.commit().map(drop));
            if let Err(error) = done {
                self.error(&format!("update_ref failed for ref '{name}': {error}"));
            }
        }
    }
}
