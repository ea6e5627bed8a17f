//! Sends the base of a commit to a remote.
//!
//! Order: the manifests of the newest bases, and their tables and lists (`plan`); segments with the
//! contents that no table names, each followed by its table (`segments`); a pack with what no list
//! names (`history`); the manifest; the record of the branch.
//!
//! Two pushes at once write the same files or other ones, and never damage each other. A file that
//! the new manifest shares with older ones gets a new time before the manifest is written, so that
//! `prune` leaves it alone.

mod history;
mod journal;
mod plan;
mod segments;

use std::{collections::HashSet, num::NonZeroU32, time::SystemTime};

use bstr::BString;
use format::{
    ObjectId,
    base_files::{Branch, DataFile, Digest, Malformed, Manifest, RecordKind, branch, frame},
};

use repo::objects::Objects;

use super::{Context, Error, GRACE, records, records::address, scratch::Scratch, seconds, stock};

/// Makes a signature of a manifest.
pub type Sign<'a> = dyn Fn(&[u8]) -> Result<Vec<u8>, String> + 'a;

/// How a base is pushed.
pub struct Options<'a> {
    /// The branch whose record gets the commit, without `refs/heads/`.
    pub branch: Option<BString>,
    /// Further commits whose bases may be there, newest first.
    pub after: Vec<ObjectId>,
    /// The length of the history; `None` for all of it.
    pub depth: Option<NonZeroU32>,
    /// `sapwood.baseCompression`: zstd's level, 1 to 19.
    pub level: i32,
    /// A segment ends when it has this many bytes.
    pub segment: u64,
    /// Signs the manifest.
    pub sign: Option<&'a Sign<'a>>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            branch: None,
            after: Vec::new(),
            depth: NonZeroU32::new(1),
            level: frame::DEFAULT_LEVEL,
            segment: SEGMENT,
            sign: None,
        }
    }
}

/// The length at which a segment ends.
pub const SEGMENT: u64 = 64 << 20;

/// The work that a push did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// A base of the commit was there. Only the record of the branch may have changed.
    pub was_there: bool,
    /// The contents that were sent.
    pub contents: u64,
    /// The contents that the remote had.
    pub known: u64,
    /// The objects of the new pack.
    pub objects: u64,
    /// The number of new segments.
    pub segments: u64,
    /// The bytes of new segments, tables, packs and lists.
    pub bytes: u64,
}

/// How far older manifests are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// The files that they name are there.
    Files,
    /// Each file is looked for.
    Nothing,
}

/// Sends the base of `commit`. See the module.
///
/// If a base of the commit is there and lacks a file, or if an older one does, the files are looked
/// for and those that are missing are sent again. If it is there without a signature and the push
/// signs, its manifest is made anew from its files: a signer vouches for no bytes of somebody else.
pub fn push(context: &Context<'_>, commit: ObjectId, options: &Options<'_>) -> Result<Report, Error> {
    let trust = match records::manifest(context.remote, &commit) {
        Ok(None) => Trust::Files,
        // A newer program wrote it.
        Err(error @ Error::Record { source: Malformed::Version(_), .. }) => return Err(error),
        Err(Error::Record { .. } | Error::WrongRecord { .. }) => Trust::Nothing,
        Err(error) => return Err(error),
        Ok(Some(read)) => {
            let is_whole = stock::are_there(context, read.manifest.files().collect())?.is_none();
            if is_whole && (options.sign.is_none() || read.signature.is_some()) {
                add_to_branch(context, commit, options)?;
                return Ok(Report { was_there: true, ..Report::default() });
            }
            Trust::Nothing
        }
    };
    match send(context, commit, options, trust) {
        Err(Error::Lacks { .. }) if trust == Trust::Files => send(context, commit, options, Trust::Nothing),
        sent => sent,
    }
}

fn send(
    context: &Context<'_>,
    commit: ObjectId,
    options: &Options<'_>,
    trust: Trust,
) -> Result<Report, Error> {
    let mut report = Report::default();
    let scratch = Scratch::create(context)?;
    let stored;
    // A base holds objects as they are stored.
    let objects = if context.repo.replacements()?.is_empty() {
        context.repo.objects()
    } else {
        stored = context.repo.stored_objects();
        &stored
    };
    let known = plan::known(context, &scratch, commit, options, trust)?;
    let tree = history::links(objects, &commit)?.tree;
    let plan = plan::plan(context, objects, commit, tree, &known)?;
    report.known = plan.known;
    let mut tables = plan.tables.clone();
    let Options { depth, level, segment, .. } = *options;
    let parts = Parts { context, scratch: &scratch, objects, depth, level, segment };
    tables.extend(segments::write(parts, &plan, &mut report)?);
    let history = history::write(parts, commit, &plan.objects, &known, &mut report)?;
    let mut manifest = Manifest {
        hash: context.repo.hash(),
        commit,
        tree,
        shallow: history.shallow,
        packs: history.packs,
        tables,
        time: seconds(SystemTime::now()),
    };
    let renewed = renew(context, &mut manifest)?;
    publish(context, &manifest, options)?;
    // A prune that listed the files before they were renewed may have removed them since.
    if let Some(file) = stock::are_there(context, renewed)? {
        context.remote.remove_record(&records::commit_name(&commit))?;
        return Err(lacks(context, &file.digest, commit));
    }
    add_to_branch(context, commit, options)?;
    journal::forget(context);
    Ok(report)
}

/// The parts that all steps of a push work with.
#[derive(Clone, Copy)]
struct Parts<'a> {
    context: &'a Context<'a>,
    scratch: &'a Scratch,
    objects: &'a Objects,
    depth: Option<NonZeroU32>,
    level: i32,
    segment: u64,
}

fn lacks(context: &Context<'_>, digest: &Digest, commit: ObjectId) -> Error {
    Error::Lacks { remote: address(context.remote), path: digest.path(), commit }
}

/// Gives the files that were written long ago a new time. Returns them.
fn renew(context: &Context<'_>, manifest: &mut Manifest) -> Result<Vec<DataFile>, Error> {
    let (now, mut files) = (manifest.time, Vec::new());
    let is_old = |renewed: u64| now.saturating_sub(renewed) > GRACE.as_secs() / 2;
    for table in manifest.tables.iter_mut().filter(|table| is_old(table.renewed)) {
        files.extend([table.file, table.segment]);
        table.renewed = now;
    }
    for pack in manifest.packs.iter_mut().filter(|pack| is_old(pack.renewed)) {
        files.extend([pack.file, pack.list]);
        pack.renewed = now;
    }
    for file in &files {
        context.check_interrupt()?;
        match context.remote.touch(&file.digest) {
            Err(base_store::Error::Missing { .. }) => {
                return Err(lacks(context, &file.digest, manifest.commit));
            }
            touched => touched?,
        }
    }
    Ok(files)
}

fn publish(context: &Context<'_>, manifest: &Manifest, options: &Options<'_>) -> Result<(), Error> {
    context.check_interrupt()?;
    let mut bytes = manifest.to_bytes();
    if let Some(sign) = options.sign {
        let signature = sign(&bytes).map_err(Error::Sign)?;
        bytes.extend_from_slice(&signature);
    }
    let files: Vec<DataFile> = manifest.files().collect();
    Ok(context.remote.set_record(&records::commit_name(&manifest.commit), &bytes, &files)?)
}

/// Puts the commit in front of the record of the branch. Commits without a manifest are left out.
fn add_to_branch(context: &Context<'_>, commit: ObjectId, options: &Options<'_>) -> Result<(), Error> {
    let Some(name) = &options.branch else { return Ok(()) };
    let remote = context.remote;
    let hash = context.repo.hash();
    // A damaged record is a lost hint.
    let before = match records::branch(remote, name.as_ref()) {
        Ok(before) => before.filter(|before| before.hash == hash),
        Err(Error::Record { .. }) => None,
        Err(error) => return Err(error),
    };
    let mut branch = before.clone().unwrap_or(Branch { hash, commits: Vec::new() });
    branch.add(commit);
    if branch.commits.len() == branch::MAX || before.is_none() {
        let there: HashSet<String> = remote
            .records(RecordKind::Commit)?
            .into_iter()
            .map(|stored| stored.name.id().to_owned())
            .collect();
        branch.commits.retain(|other| *other == commit || there.contains(&other.to_string()));
    }
    if before.as_ref() == Some(&branch) {
        return Ok(());
    }
    Ok(remote.set_record(&records::branch_name(name.as_ref()), &branch.to_bytes(), &[])?)
}
