//! A remote that is a bundle file: refs and one pack.

use bstr::BString;
use repo::{
    Repository,
    wire::{
        Advertisement,
        url::{Scheme, Url},
    },
};
use sys::by_path;

use super::{
    Context, Error, Event, Options,
    bundle_file::{BundleFile, Prerequisites, Receiving},
};

/// A bundle that is used as a remote.
pub(super) struct Bundle(BundleFile);

impl Bundle {
    /// Returns the bundle at a URL, or `None` if the URL does not refer to a local bundle file.
    pub(super) fn at(repo: &Repository, url: &Url) -> Option<Bundle> {
        if url.scheme != Scheme::File {
            return None;
        }
        let path = repo.child_dir().join(sys::os_str(&url.path));
        let stat = by_path::stat_followed(&path).ok().flatten();
        stat.filter(|stat| stat.file_type == sys::FileType::File)?;
        BundleFile::open(&path).ok().map(Bundle)
    }

    /// Warns of options that a bundle ignores.
    pub(super) fn warn(&self, url: &BString, options: &Options, events: &(dyn Fn(Event<'_>) + Sync)) {
        let limits = &options.limits;
        let given = [
            ("uploadpack", options.connect.program.is_some()),
            ("keep", options.keep),
            ("depth", limits.depth.is_some()),
            ("deepen-since", limits.since.is_some()),
            ("deepen-not", !limits.exclude.is_empty()),
            ("deepen-relative", limits.relative),
            ("update-shallow", options.update_shallow),
            ("refetch", options.refetch),
            ("filter", limits.filter.is_some()),
            ("from-promisor", limits.filter.is_some()),
        ];
        for (name, _) in given.iter().filter(|(_, is_given)| *is_given) {
            events(Event::Warning(format!("option \"{name}\" is ignored for {url}").as_str().into()));
        }
        if options.negotiation_tips.is_some() {
            let text = "ignoring --negotiation-restrict because the protocol does not support it";
            events(Event::Warning(text.into()));
        }
    }

    /// Returns the refs.
    pub(super) fn advertisement(&self) -> Advertisement {
        self.0.advertisement()
    }

    /// Stores all objects of the bundle.
    pub(super) fn take(&self, context: Context<'_>) -> Result<(), Error> {
        let Context { repo, meter, events, .. } = context;
        let theirs = self.0.header().hash;
        if theirs != repo.hash() {
            return Err(Error::Hash { ours: repo.hash().name(), theirs: theirs.name() });
        }
        match self.0.prerequisites(context)? {
            Prerequisites::Complete => {}
            Prerequisites::Missing(missing) => return Err(Error::Prerequisites(missing)),
            Prerequisites::Unconnected => return Err(Error::Unconnected),
        }
        let failed = |source| Error::Bundle { path: self.0.path().to_owned(), source };
        let pack = self.0.pack().map_err(failed)?;
        let receiving = Receiving::load(repo)?;
        receiving.warnings.iter().for_each(|warning| events(Event::Warning(warning.as_ref())));
        self.0.take(pack, context, meter, &receiving)?;
        events(Event::Received);
        Ok(())
    }
}
