//! Removing packs to whose objects the multi-pack-index does not refer.

use bstr::{BString, ByteSlice as _};
use engine::midx::{self, PackDir, Unused};

use super::{
    Step, pack_dir,
    prepare::{Prepared as NewFile, find, load_if_used, lock, merge},
    version,
};
use crate::{
    Context, Error, Events, Notice, PlanError, Repository, RunError, Silent, events::Notices,
    object_files::ObjectDir, text,
};

/// There are no options.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request;

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The names of the index files of the packs that were removed. A file that cannot be removed
    /// stays.
    pub removed: Vec<BString>,
}

/// Packs without a use.
pub struct Plan<'r> {
    repository: &'r Repository,
    prepared: Option<Prepared<'r>>,
    notices: Vec<Notice>,
}

/// Finds the packs without a use, and merges the objects of the others.
pub fn plan(repository: &Repository, _request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let context = repository.context(&notices);
    let pack_dir = pack_dir(context.repo, &ObjectDir::own(context.repo))?;
    let prepared = prepare(context, &pack_dir, &mut |_| {})?;
    let prepared = prepared.map(|prepared| prepared.with_context(repository.context(&Silent)));
    Ok(Plan { repository, prepared, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Reports the notices, writes the new file, and removes the packs.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, prepared, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        match prepared {
            Some(prepared) => Ok(prepared.with_context(repository.context(events)).execute()?),
            None => Ok(Report::default()),
        }
    }
}

/// Packs to be removed, and the file without them.
pub struct Prepared<'a> {
    /// The number of packs in the old file.
    pub pack_count: usize,
    unused: Vec<Unused>,
    /// `None` if no pack is to be removed.
    file: Option<NewFile<'a>>,
}

/// Finds the packs to be removed. Returns `None` if there is no multi-pack-index.
pub fn prepare<'a>(
    context: Context<'a>,
    pack_dir: &PackDir,
    progress: &mut dyn FnMut(Step),
) -> Result<Option<Prepared<'a>>, Error> {
    let lock = lock(context, pack_dir);
    let Some(old) = load_if_used(context, pack_dir)? else { return Ok(None) };
    let unused = midx::unused(pack_dir, &old)?;
    progress(Step::Counted(old.count() as usize));
    let pack_count = old.pack_names().len();
    if unused.is_empty() {
        return Ok(Some(Prepared { pack_count, unused, file: None }));
    }
    // A corrupt file must not determine which packs are removed.
    if !old.has_valid_checksum() {
        return Err(Error::failed("cannot expire packs: the multi-pack-index has an incorrect checksum"));
    }
    if let Some(name) = PackDir::temporary_pack(&old) {
        return Err(Error::Failed(text!(
            "cannot expire packs: '",
            name,
            "' belongs to an unfinished repack; run 'git multi-pack-index write' first"
        )));
    }
    for pack in &unused {
        if let Some(oid) = pack.missing_elsewhere(pack_dir, &old) {
            let message = format!("cannot expire packs: object {oid} is only in '{}'", pack.name);
            return Err(Error::failed(message));
        }
    }
    let version = version(context.repo)?;
    let packs = find(context, pack_dir, Some(old), None, progress)?;
    let dropped: Vec<_> = unused.iter().map(|pack| pack.name.as_bstr()).collect();
    let file = merge(context, pack_dir, packs, lock, version, &dropped)?;
    Ok(Some(Prepared { pack_count, unused, file: Some(file) }))
}

impl Prepared<'_> {
    fn with_context<'b>(self, context: Context<'b>) -> Prepared<'b> {
        let Prepared { pack_count, unused, file } = self;
        Prepared { pack_count, unused, file: file.map(|file| file.with_context(context)) }
    }

    /// Writes the new file, and removes the packs.
    pub fn execute(self) -> Result<Report, Error> {
        let Some(file) = self.file else { return Ok(Report::default()) };
        file.write()?;
        self.unused.iter().for_each(Unused::remove);
        Ok(Report { removed: self.unused.into_iter().map(|pack| pack.name).collect() })
    }
}
