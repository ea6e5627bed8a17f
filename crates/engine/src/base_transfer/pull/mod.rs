//! Brings the base of a commit from a remote.
//!
//! Order: the manifest; packs (`history`); the boundary of the history; a lock of the base
//! directory against `gc` and other pulls; tables, then ranges of segments (`plan`, `contents`).
//! Contents are published as they arrive. A repository without a promisor remote gets them as
//! blobs, too (`blobs`). The caller gets the importer, which holds the lock, and adds the base with
//! it.
//!
//! A partial clone looks for no contents if the image that it will use is there already, here or in
//! an alternate.
//!
//! After a failure, what arrived stays. The next pull asks for the rest.

mod blobs;
mod contents;
mod history;
mod plan;

use std::time::Duration;

use format::{
    ObjectId,
    base_files::{Lease, Manifest},
};

use super::{Context, Error, lease, pulled, records, records::address, scratch::Scratch, stock};
use crate::{
    sparse::Patterns,
    workspace::base::{Base, Importer, Kind, Owner, Wanted},
};

/// Judges the signature of a manifest: its signed bytes, and the signature if there is one.
pub type Verify<'a> = dyn Fn(&[u8], Option<&[u8]>) -> Result<(), String> + 'a;

/// How a base is pulled.
#[derive(Default)]
pub struct Options<'a> {
    /// Judges the manifest before anything that it names is fetched.
    pub verify: Option<&'a Verify<'a>>,
    /// Keep the base from being pruned: holder and time.
    pub lease: Option<(String, Duration)>,
    /// Bring only contents of these paths.
    pub sparse: Option<&'a Patterns>,
    /// Also read the lists of packs, which only pushes need, and compare them with the packs. For a
    /// repository that had none of the packs before.
    pub lists: bool,
    /// The manifest, if the caller has read it. It is not used with a lease, which must be there
    /// before the manifest is read.
    pub manifest: Option<records::Read>,
    /// The base that the caller will add.
    pub base: Option<(Kind, Owner)>,
}

/// The work that a pull did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of packs that came.
    pub packs: u64,
    /// The number of contents that came.
    pub contents: u64,
    /// The number of contents that were here.
    pub known: u64,
    /// The number of blobs that were made from contents.
    pub blobs: u64,
    /// The bytes of packs, tables and ranges that came.
    pub bytes: u64,
    /// The number of data files or ranges that were asked for.
    pub requests: u64,
}

/// The state of a base after a pull.
pub enum State<'b> {
    /// It was there.
    Base(Box<Base>),
    /// Its contents are here. [`Importer::add_base`] adds it. Holds the lock of the base directory.
    Contents(Box<Importer<'b>>),
}

/// A pull that is done.
pub struct Pulled<'b> {
    /// The manifest.
    pub manifest: Manifest,
    /// The lease, if one was asked for.
    pub lease: Option<Lease>,
    /// The base.
    pub state: State<'b>,
    /// The work that was done.
    pub report: Report,
}

/// Brings the base of `commit`: its commits and trees into the repository, the contents of its
/// files into the base directory.
///
/// `context.repo` may not know the new boundary of the history afterwards, so the caller opens the
/// repository again.
pub fn pull<'b>(context: &Context<'b>, commit: ObjectId, options: &Options<'_>) -> Result<Pulled<'b>, Error> {
    let remote = context.remote;
    let lease = match &options.lease {
        Some((holder, time)) => Some(lease::write(remote, &commit, holder, *time)?),
        None => None,
    };
    let read =
        match options.manifest.as_ref().filter(|read| lease.is_none() && read.manifest.commit == commit) {
            Some(read) => Some(read.clone()),
            None => records::manifest(remote, &commit)?,
        };
    let read = read.ok_or_else(|| Error::NoBase { remote: address(remote), commit })?;
    if let Some(verify) = options.verify {
        let verdict = verify(&read.signed, read.signature.as_deref());
        verdict.map_err(|reason| Error::Untrusted {
            remote: address(remote),
            name: records::commit_name(&commit).to_string(),
            reason,
        })?;
    }
    let manifest = read.manifest;
    let scratch = Scratch::create(context)?;
    let stock = stock::Stock { context, scratch: &scratch, commit, requests: stock::Counter::default() };
    let mut report = Report::default();
    let there = there(context, &manifest, options)?;
    let needs = if there.is_some() { Needs::History } else { Needs::Contents };
    let index = history::bring(&stock, &manifest, needs, options, &mut report)?;
    if options.lists {
        history::compare_lists(&stock, &manifest)?;
    }
    let Some(index) = index else {
        pulled::forget_unused(context);
        (report.requests, report.bytes) = stock.requests.get();
        let state = State::Base(Box::new(there.expect("without it, contents are needed")));
        return Ok(Pulled { manifest, lease, state, report });
    };
    let (common, hash) = (context.repo.real_common_dir(), context.repo.hash());
    let (bases, shared) = (context.bases, context.locks.shared);
    let importer = bases.importer(&common, hash, shared, context.fsync, context.interrupt)?;
    let plan = plan::plan(&stock, &manifest, &index, &importer, &mut report)?;
    let brought = contents::bring(&stock, &plan, &importer);
    let published = importer.publish();
    brought?;
    published.map_err(|source| Error::Contents { remote: address(remote), source: Box::new(source) })?;
    report.contents = plan.missing;
    if !context.repo.objects().is_partial() {
        report.blobs = blobs::complete(context, commit, &index)?;
    }
    (report.requests, report.bytes) = stock.requests.get();
    stock::forget_unused(context);
    pulled::forget_unused(context);
    Ok(Pulled { manifest, lease, state: State::Contents(Box::new(importer)), report })
}

/// The parts of a base that are missing here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    History,
    Contents,
}

/// Returns the base if it is an image that is there. Such an image has all contents, which serve as
/// objects of a partial clone.
fn there(context: &Context<'_>, manifest: &Manifest, options: &Options<'_>) -> Result<Option<Base>, Error> {
    let Some((Kind::Image, owner)) = options.base else { return Ok(None) };
    if !context.repo.objects().is_partial() {
        return Ok(None);
    }
    let wanted = Wanted::new(context.repo, manifest.tree, Kind::Image, owner, options.sparse)?;
    Ok(context.bases.find(&wanted)?)
}
