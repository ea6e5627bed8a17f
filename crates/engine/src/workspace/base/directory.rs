//! Bases of kind directory: plain checkouts.

use std::path::Path;

use bstr::ByteSlice as _;
use format::index::{Flags, Index};
use sys::{DirMut, by_path};

use repo::keys;

use super::{AddOptions, Error, Wanted, proof, shared_blocks};
use crate::{
    checkout::{
        self, Attributes, Cleared, ExecuteOptions, Files, Links, Outcome, Plan, PlanOptions, Report, Sparse,
    },
    crew::parallel,
    files::own,
    look::stat::index_stat,
};

/// Writes the files of a base to `<staged>/files`, which must not exist. Returns their index, with
/// stat data and cache-tree.
pub(super) fn build(
    wanted: &Wanted<'_>,
    staged: &Path,
    options: &AddOptions<'_>,
    messages: &mut Vec<String>,
) -> Result<Index, Error> {
    let (repo, tree) = (wanted.repo(), wanted.tree());
    let files = staged.join("files");
    let io = |action| {
        let path = files.clone();
        move |source| Error::Io { action, path, source }
    };
    // Created as a subvolume, so that the backend `btrfs` can make snapshots of it.
    let is_btrfs = sys::volume::is_btrfs(staged).map_err(io("examine"))?;
    let create = if is_btrfs { sys::volume::create_subvolume } else { by_path::create_dir };
    create(&files).map_err(io("create"))?;
    if let Some(mut index) = shared_blocks::share(wanted, &files, options)? {
        let root = own::open(&files).map_err(io("open"))?;
        set_times(&root, &files, &mut index, wanted.time())?;
        if is_btrfs {
            sys::volume::set_read_only(&files, true).map_err(io("protect"))?;
        }
        return Ok(index);
    }
    if !by_path::list(&files).map_err(io("read"))?.is_empty() {
        let remove = if is_btrfs { sys::volume::remove_subvolume } else { by_path::remove_dir_all };
        remove(&files).map_err(io("remove"))?;
        create(&files).map_err(io("create"))?;
    }
    let root = own::open(&files).map_err(io("open"))?;
    let sparse = match wanted.sparse() {
        Some(patterns) => Sparse::Given(patterns.clone().into()),
        None => Sparse::Ignored,
    };
    let planned = PlanOptions { sparse, ..PlanOptions::reset_hard(tree) };
    debug_assert_eq!(planned.files, Files::Update);
    let plan = checkout::plan(repo, &root, Index::empty(repo.hash()), &planned)
        .map_err(|source| Error::Plan { tree, source: Box::new(source) })?;
    let blobs = plan.writes.iter().map(|write| plan.index.entry(write.entry));
    let blobs = blobs.filter(|entry| !entry.mode.is_gitlink()).map(|entry| entry.oid);
    repo.objects().fetch_to_read(&mut blobs.into_iter())?;
    let execute = ExecuteOptions {
        workers: options.workers,
        threshold: 0,
        interrupt: options.interrupt,
        progress: options.progress,
        filtering: &|_, _, _| {},
        big_file_threshold: options.big_file_threshold,
        symlinks: repo.config(&keys::core::SYMLINKS)?,
        links: Links::GiveWay,
        metadata: options.metadata.clone(),
        delays: repo::convert::Delays::Offered,
        attributes: Attributes::default(),
        original_cwd: None,
    };
    let report = checkout::execute(repo, Cleared::for_new_directory(&root, &plan), &execute)?;
    messages.extend(report.messages.iter().cloned());
    if report.interrupted {
        return Err(Error::Interrupted);
    }
    refuse_incomplete(&plan, &report)?;
    let mut index = checkout::record(plan, &report);
    set_times(&root, &files, &mut index, wanted.time())?;
    if is_btrfs {
        sys::volume::set_read_only(&files, true).map_err(io("protect"))?;
    }
    Ok(index)
}

/// Gives all files and directories the modification time of the base, and the index their stat
/// data.
fn set_times(root: &DirMut, files: &Path, index: &mut Index, time: (u64, u32)) -> Result<(), Error> {
    const BATCH: usize = 256;
    let time = (i64::try_from(time.0).expect("it is a time of this century"), time.1);
    let failed = |action, path: &[u8]| {
        let path = files.join(sys::os_str(path));
        move |source| Error::Io { action, path, source }
    };
    let batches: Vec<usize> = (0..index.len()).step_by(BATCH).collect();
    let mut states = vec![(); parallel::threads(index.len(), BATCH, sys::cores())];
    let stats = parallel::map(&batches, &mut states, |(), &first| {
        let stat_of = |at: usize| {
            let (path, entry) = (index.path_at(at), index.entry(at));
            if entry.mode.is_gitlink() || entry.flags.contains(Flags::SKIP_WORKTREE) {
                return Ok(entry.stat);
            }
            root.set_modified(path, time).map_err(failed("change the time of", path))?;
            let stat = root.stat(path).map_err(failed("examine", path))?;
            Ok(stat.as_ref().map(index_stat).unwrap_or_default())
        };
        (first..(first + BATCH).min(index.len())).map(stat_of).collect::<Result<Vec<_>, Error>>()
    })?;
    for dir in proof::directories(index).into_iter().filter(|dir| !dir.is_empty()) {
        root.set_modified(dir, time).map_err(failed("change the time of", dir))?;
    }
    by_path::set_modified(files, time).map_err(failed("change the time of", b""))?;
    for (entry, stat) in index.entries_mut().iter_mut().zip(stats.into_iter().flatten()) {
        entry.stat = stat;
    }
    Ok(())
}

/// Returns an error for the first failed step, because an incomplete base is not published.
fn refuse_incomplete(plan: &Plan, report: &Report) -> Result<(), Error> {
    for (write, outcome) in plan.writes.iter().zip(&report.writes) {
        let path = plan.index.path_at(write.entry);
        let message = match outcome {
            Outcome::Written(_) | Outcome::Kept => continue,
            Outcome::Failed(error) | Outcome::Undeleted(error) => error.message(path),
            Outcome::Collided(_) | Outcome::Stale | Outcome::Removed => {
                format!("the name of '{}' collides with another on this file system", path.as_bstr())
            }
            Outcome::Skipped => return Err(Error::Interrupted),
        };
        return Err(Error::Step { message });
    }
    Ok(())
}
