//! A remote that is a bundle: a file with refs and one pack.

use std::{
    io::{Seek as _, SeekFrom},
    path::PathBuf,
};

use bstr::BString;
use format::{
    ObjectId,
    bundle::{self, Header},
};
use repo::{
    Repository,
    fsck::{Line, Rules},
    wire::{
        Advertisement, RemoteRef,
        url::{Scheme, Url},
    },
};
use sys::by_path;

use super::{
    Context, Error, Event, Options,
    connected::{self, Connected},
};
use crate::indexing::arrive::{self, Arrival, Keeping, Purpose, Settings};

/// See the module.
pub(super) struct Bundle {
    path: PathBuf,
    header: Header,
}

impl Bundle {
    /// Returns the bundle at an address; `None` if no bundle is there.
    pub(super) fn at(repo: &Repository, url: &Url) -> Option<Bundle> {
        if url.scheme != Scheme::File {
            return None;
        }
        let path = repo.child_dir().join(sys::os_str(&url.path));
        let stat = by_path::stat_followed(&path).ok().flatten();
        stat.filter(|stat| stat.file_type == sys::FileType::File)?;
        let map = by_path::open(&path).and_then(|file| sys::Map::of(&file)).ok()?;
        Some(Bundle { header: bundle::parse(&map).ok()?, path })
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

    /// Returns the refs. Git prepends each one that it reads.
    pub(super) fn advertisement(&self) -> Advertisement {
        let plain = |(name, oid): &(BString, ObjectId)| RemoteRef {
            name: name.clone(),
            oid: *oid,
            symref: None,
            peeled: None,
        };
        let refs = self.header.refs.iter().rev().map(plain).collect();
        Advertisement { refs, ..Advertisement::default() }
    }

    /// Takes all objects.
    pub(super) fn take(&self, context: Context<'_>) -> Result<(), Error> {
        let Context { repo, interrupt, meter, fsync, locks, events, .. } = context;
        if self.header.hash != repo.hash() {
            return Err(Error::Hash { ours: repo.hash().name(), theirs: self.header.hash.name() });
        }
        self.check_prerequisites(context)?;
        let failed = |source| Error::Bundle { path: self.path.clone(), source };
        let mut file = by_path::open(&self.path).map_err(failed)?;
        file.seek(SeekFrom::Start(self.header.pack_offset as u64)).map_err(failed)?;
        let settings = Settings { keeping: Keeping::Packed, ..Settings::load(repo, Purpose::Fetch)? };
        let (rules, warnings) = Rules::of_fetch(repo)?;
        warnings.iter().for_each(|warning| events(Event::Warning(warning.as_ref())));
        let arrival = Arrival {
            objects: repo.objects_dir(),
            hash: repo.hash(),
            settings: &settings,
            fsync,
            shared: locks.shared,
            existing: Some(repo.objects()),
            promisor: self.header.filter.as_ref().map(|_| b"from-bundle\n".to_vec()),
            keep: None,
            interrupt,
            meter,
            observer: None,
            rules: rules.as_ref(),
            say: &|line| match line {
                Line::Error(text) => events(Event::Error(text.as_ref())),
                Line::Warning(text) => events(Event::Warning(text.as_ref())),
            },
            keeps_beginning: false,
        };
        arrive::take(&mut file, &arrival)?;
        (context.events)(Event::Received);
        Ok(())
    }

    fn check_prerequisites(&self, context: Context<'_>) -> Result<(), Error> {
        let needed = &self.header.prerequisites;
        let objects = context.repo.stored_objects();
        let missing: Vec<_> = needed.iter().filter(|oid| !objects.contains(oid)).copied().collect();
        if !missing.is_empty() {
            return Err(Error::Prerequisites(missing));
        }
        let options = connected::Options { workers: context.workers, interrupt: context.interrupt };
        match needed.is_empty() || connected::check(context.repo, needed, options)? == Connected::Complete {
            true => Ok(()),
            false => Err(Error::Unconnected),
        }
    }
}
