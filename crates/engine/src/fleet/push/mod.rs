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
mod plan;
mod segments;

use std::{collections::HashSet, num::NonZeroU32, time::SystemTime};

use bstr::BString;
use format::{
    ObjectId,
    fleet::{Branch, DataFile, Manifest, RecordKind, branch, frame},
};

use super::{Context, Error, GRACE, records, records::address, scratch::Scratch, seconds};

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

/// Sends the base of `commit`. See the module.
pub fn push(context: &Context<'_>, commit: ObjectId, options: &Options<'_>) -> Result<Report, Error> {
    let mut report = Report::default();
    match records::manifest(context.remote, &commit)? {
        Some(read) if is_whole(context, &read.manifest)? => {
            report.was_there = true;
            add_to_branch(context, commit, options)?;
            return Ok(report);
        }
        _ => {}
    }
    let scratch = Scratch::create(context)?;
    let known = plan::known(context, &scratch, commit, options)?;
    let tree = context.repo.tree_of(commit)?;
    let plan = plan::plan(context, commit, tree, &known)?;
    report.known = plan.known;
    let mut tables = plan.tables.clone();
    let written = segments::write(context, &scratch, &plan.contents, options, &mut report)?;
    tables.extend(written);
    let history = history::write(context, &scratch, commit, &plan.objects, &known, options, &mut report)?;
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
    for file in renewed {
        if !context.remote.has(&file.digest)? {
            context.remote.remove_record(&records::commit_name(&commit))?;
            let (remote, path) = (address(context.remote), file.digest.path());
            return Err(Error::Lacks { remote, path, commit });
        }
    }
    add_to_branch(context, commit, options)?;
    segments::forget_journal(context);
    Ok(report)
}

/// Returns true if all files of a manifest are there.
fn is_whole(context: &Context<'_>, manifest: &Manifest) -> Result<bool, Error> {
    let old = seconds(SystemTime::now()).saturating_sub(GRACE.as_secs());
    if manifest.time > old {
        return Ok(true);
    }
    for file in manifest.files() {
        context.check_interrupt()?;
        if !context.remote.has(&file.digest)? {
            return Ok(false);
        }
    }
    Ok(true)
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
        context.remote.touch(&file.digest)?;
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
