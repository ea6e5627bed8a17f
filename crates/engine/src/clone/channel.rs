//! An open source: its refs, and the way by which its objects come.

use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice};
use format::{
    HashKind,
    refname::{self, Levels},
};
use repo::wire::{self, Advertisement, Connection, RemoteRef, url::Url};

use repo::keys;

use super::{
    Event,
    assembly::Skeleton,
    objects::Error,
    select::{RefOptions, is_hidden},
};
use crate::fetch::bundle_file::{BundleFile, Unusable};

/// The way by which refs and objects come.
pub(super) enum Route {
    /// The files of this repository are linked or copied.
    Files(PathBuf),
    Server(Url),
    Bundle(PathBuf),
}

/// An open source.
pub(super) struct Channel {
    refs: Advertisement,
    hash: HashKind,
    pub(super) transport: Transport,
}

pub(super) enum Transport {
    /// The source's `objects` directory.
    Files(PathBuf),
    Server(Box<Connection>, Url),
    Bundle(BundleFile),
}

impl Channel {
    /// Opens the source and learns its refs.
    pub(super) fn open(
        route: Route,
        skeleton: &Skeleton<'_>,
        ref_options: &RefOptions,
    ) -> Result<Channel, Error> {
        match route {
            Route::Files(git_dir) => Channel::files(&git_dir, skeleton),
            Route::Server(url) => {
                let mut connection = skeleton.connect(&url, ref_options)?;
                let refs = connection.list_refs(&ref_options.ref_prefixes())?;
                let (hash, connection) = (connection.hash(), Box::new(connection));
                Ok(Channel { refs, hash, transport: Transport::Server(connection, url) })
            }
            Route::Bundle(path) => Channel::bundle(&path),
        }
    }

    fn files(git_dir: &Path, skeleton: &Skeleton<'_>) -> Result<Channel, Error> {
        let source = repo::Repository::open_source(&skeleton.prepared.options.open, git_dir)?;
        for warning in source.discovery_warnings() {
            (skeleton.caller.events)(Event::Warning(&warning.to_str_lossy()));
        }
        let mut hidden = source.config_all(&keys::transfer::HIDE_REFS);
        hidden.extend(source.config_all(&keys::uploadpack::HIDE_REFS));
        let plain = |(name, oid)| RemoteRef { name, oid, symref: None, peeled: None };
        let mut refs = Advertisement::default();
        match source.head()? {
            repo::Head::Branch { name, oid } => {
                refs.refs.push(RemoteRef { symref: Some(name), ..plain(("HEAD".into(), oid)) });
            }
            repo::Head::Detached { oid } => refs.refs.push(plain(("HEAD".into(), oid))),
            repo::Head::Unborn { name } => refs.unborn_head = Some(name),
            repo::Head::Unresolvable => {}
        }
        let mut all = source.refs("refs/")?;
        // Git also skips malformed names.
        all.retain(|(name, _)| refname::check(name.as_bstr(), Levels::Two).is_ok());
        if let Some((name, _)) = all.iter().find(|(_, oid)| oid.is_null()) {
            return Err(repo::Error::new(format!("'{name}' has neither a valid OID nor a target")).into());
        }
        refs.refs
            .extend(all.into_iter().map(plain).filter(|theirs| !is_hidden(theirs.name.as_bstr(), &hidden)));
        let objects = source.common_dir().join("objects");
        Ok(Channel { refs, hash: source.hash(), transport: Transport::Files(objects) })
    }

    fn bundle(path: &Path) -> Result<Channel, Error> {
        let bundle = BundleFile::open(path).map_err(|unusable| match unusable {
            Unusable::Read(source) => Error::Open { path: path.to_owned(), source },
            Unusable::Header(source) => Error::Bundle { path: path.to_owned(), source },
        })?;
        if bundle.header().filter.is_some() {
            return Err(Error::FilteredBundle);
        }
        Ok(Channel {
            refs: bundle.advertisement(),
            hash: bundle.header().hash,
            transport: Transport::Bundle(bundle),
        })
    }

    pub(super) fn advertisement(&self) -> &Advertisement {
        &self.refs
    }

    /// Returns true if the objects come as files, not in a pack.
    pub(super) fn copies_files(&self) -> bool {
        matches!(self.transport, Transport::Files(_))
    }

    pub(super) fn hash(&self) -> HashKind {
        self.hash
    }

    /// Returns the list of bundles that a server suggests, as keys and values.
    pub(super) fn list_bundles(&mut self) -> Result<Vec<(BString, BString)>, wire::Error> {
        match &mut self.transport {
            Transport::Server(connection, _) if connection.has(wire::Feature::BundleUri) => {
                connection.list_bundles()
            }
            _ => Ok(Vec::new()),
        }
    }
}
