//! The settings for received packs.

use format::idx_writer::Form;
use repo::{Repository, keys, keys::Key};
use store::{objects::DEFAULT_LEVEL, pack::FinishOptions};

/// Git's default of `transfer.unpackLimit`.
const UNPACK_LIMIT: u32 = 100;

/// The command that receives a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A clone. The objects stay in the pack.
    Clone,
    /// A fetch. The objects of small packs become loose objects.
    Fetch,
}

/// The form in which received objects are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// In the pack.
    Packed,
    /// As loose objects, if the pack has fewer objects than this number.
    LooseBelow(u32),
    /// As loose objects.
    Loose,
}

impl Keeping {
    /// Returns true if the objects of a pack of `count` objects stay in the pack.
    pub(super) fn keeps(self, count: u32) -> bool {
        match self {
            Keeping::Packed => true,
            Keeping::LooseBelow(limit) => count >= limit,
            Keeping::Loose => false,
        }
    }
}

/// The settings for received packs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `fetch.unpackLimit`, `transfer.unpackLimit`
    pub keeping: Keeping,
    /// `pack.indexVersion`
    pub index: Form,
    /// `pack.writeReverseIndex`
    pub reverse_index: bool,
    /// `pack.threads`
    pub threads: usize,
    /// `core.bigFileThreshold`
    pub big_file_threshold: u64,
    /// `core.deltaBaseCacheLimit`, for each thread.
    pub base_cache: usize,
    /// `core.looseCompression`, `core.compression`: for loose objects, and for the bases that
    /// complete a thin pack.
    pub level: i32,
    /// The maximum size of a pack, in bytes.
    pub limit: Option<u64>,
}

impl Settings {
    /// Returns the options for the files that accompany a pack.
    pub(crate) fn finish(&self) -> FinishOptions {
        FinishOptions { index: self.index.clone(), reverse_index: self.reverse_index }
    }

    /// Reads the settings.
    pub fn load(repo: &Repository, purpose: Purpose) -> Result<Settings, repo::Error> {
        let version =
            repo.config(&keys::pack::INDEX_VERSION)?.and_then(|version| u32::try_from(version).ok());
        let index = Form::default();
        let base_cache = repo.config(&keys::core::DELTA_BASE_CACHE_LIMIT)?;
        Ok(Settings {
            keeping: keeping(repo, purpose)?,
            index: Form { version: version.filter(|version| *version > 0).unwrap_or(index.version), ..index },
            reverse_index: repo.config(&keys::pack::WRITE_REVERSE_INDEX)?,
            threads: match repo
                .config(&keys::pack::THREADS)?
                .and_then(|threads| usize::try_from(threads).ok())
            {
                None | Some(0) => threads(),
                Some(threads) => threads,
            },
            big_file_threshold: repo.config(&keys::core::BIG_FILE_THRESHOLD)?,
            base_cache: usize::try_from(base_cache).unwrap_or(usize::MAX),
            level: level(repo)?,
            limit: None,
        })
    }
}

fn keeping(repo: &Repository, purpose: Purpose) -> Result<Keeping, repo::Error> {
    if purpose == Purpose::Clone {
        return Ok(Keeping::Packed);
    }
    let limit = |key: Key<Option<i32>>| {
        Ok::<_, repo::Error>(repo.config(&key)?.and_then(|limit| u32::try_from(limit).ok()))
    };
    let limit = limit(keys::fetch::UNPACK_LIMIT)?.or(limit(keys::transfer::UNPACK_LIMIT)?);
    Ok(match limit.unwrap_or(UNPACK_LIMIT) {
        // With a limit of 0, Git ignores the number of objects.
        0 => Keeping::Loose,
        limit => Keeping::LooseBelow(limit),
    })
}

/// Returns the level from `core.looseCompression`, otherwise from `core.compression`. An invalid
/// level counts as unset.
fn level(repo: &Repository) -> Result<i32, repo::Error> {
    // The default level of zlib.
    const ZLIBS: i32 = 6;
    let level = match repo.config(&keys::core::LOOSE_COMPRESSION)? {
        None => repo.config(&keys::core::COMPRESSION)?,
        given => given,
    };
    Ok(match level {
        Some(-1) => ZLIBS,
        Some(level @ 0..=9) => level,
        _ => DEFAULT_LEVEL,
    })
}

/// Returns the number of threads that Git uses to index a pack. More threads hardly help.
pub fn threads() -> usize {
    match sys::cores() {
        cores @ ..4 => cores,
        4 | 5 => 3,
        cores @ ..40 => cores / 2,
        _ => 20,
    }
}
