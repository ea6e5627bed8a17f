//! The settings for new objects and packs.

use bstr::ByteSlice as _;
use repo::{Repository, keys, keys::Key};
use store::{
    Fsync, SharedRepository,
    objects::{DEFAULT_LEVEL, Options, PackOnAdd},
};

use super::Error;

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// `core.looseCompression`, `core.compression`
    loose_level: i32,
    /// `pack.compression`, `core.compression`
    pack_level: Option<i32>,
    /// `sapwood.packOnAdd`
    pack_on_add: PackOnAdd,
    /// `pack.packSizeLimit`
    pack_size_limit: Option<u64>,
    /// `pack.writeReverseIndex`
    reverse_index: bool,
    /// `sapwood.foldPacks`
    fold_above: Option<usize>,
}

/// Git's automatic `gc` starts at 50 packs (`gc.autoPackLimit`). Half of them are for the packs
/// that commands add. Each pack costs one probe per lookup.
const FOLD_ABOVE: usize = 25;

impl Settings {
    pub(super) fn read(repo: &Repository) -> Result<Settings, Error> {
        Ok(Settings {
            loose_level: loose_level(repo)?,
            pack_level: level(repo, keys::pack::COMPRESSION)?,
            pack_on_add: pack_on_add(repo)?,
            pack_size_limit: repo.config(&keys::pack::PACK_SIZE_LIMIT)?.filter(|limit| *limit > 0),
            reverse_index: repo.config(&keys::pack::WRITE_REVERSE_INDEX)?,
            fold_above: fold_above(repo)?,
        })
    }

    pub(super) fn options<'a>(
        &self,
        repo: &'a Repository,
        shared: SharedRepository,
        fsync: &'a Fsync,
    ) -> Options<'a> {
        let objects = repo.objects_dir();
        let is_standard = objects.file_name().is_some_and(|name| name == "objects")
            && objects.parent() == Some(repo.common_dir());
        Options {
            shown_common_dir: is_standard.then(|| repo.display_common_dir()),
            shared,
            level: self.loose_level,
            pack_level: self.pack_level,
            pack_on_add: self.pack_on_add,
            pack_size_limit: self.pack_size_limit,
            reverse_index: self.reverse_index,
            fold_above: self.fold_above,
            ..Options::new(objects, fsync)
        }
    }
}

/// `core.looseCompression`, `core.compression`
pub fn loose_level(repo: &Repository) -> Result<i32, repo::Error> {
    Ok(level(repo, keys::core::LOOSE_COMPRESSION)?.unwrap_or(DEFAULT_LEVEL))
}

/// Reads a compression level: `key`, else `core.compression`. In Git an invalid level fails every
/// command; here it counts as unset.
fn level(repo: &Repository, key: Key<Option<i32>>) -> Result<Option<i32>, repo::Error> {
    // zlib's default level.
    const ZLIBS: i32 = 6;
    let level = match repo.config(&key)? {
        None => repo.config(&keys::core::COMPRESSION)?,
        given => given,
    };
    Ok(match level {
        Some(-1) => Some(ZLIBS),
        level => level.filter(|level| (0..=9).contains(level)),
    })
}

/// `sapwood.packOnAdd`: `auto`, a boolean, or the number of objects.
fn pack_on_add(repo: &Repository) -> Result<PackOnAdd, Error> {
    let value = repo.config_text(&keys::sapwood::PACK_ON_ADD);
    if value == "auto" {
        return Ok(PackOnAdd::Auto);
    }
    let number = value.to_str().ok().and_then(|text| text.parse::<usize>().ok());
    match (number, repo::parse_bool(Some(value.as_bstr()))) {
        (Some(0), _) | (None, Some(false)) => Ok(PackOnAdd::Never),
        (Some(number), _) => Ok(PackOnAdd::From(number)),
        (None, Some(true)) => Ok(PackOnAdd::From(1)),
        (None, None) => Err(Error::Own {
            name: keys::sapwood::PACK_ON_ADD.name(),
            value,
            expected: "it is 'auto', a boolean or a number",
        }),
    }
}

/// `sapwood.foldPacks`: the number of small packs to keep, or a boolean.
fn fold_above(repo: &Repository) -> Result<Option<usize>, Error> {
    let value = repo.config_text(&keys::sapwood::FOLD_PACKS);
    let number = value.to_str().ok().and_then(|text| text.parse::<usize>().ok());
    match (number, repo::parse_bool(Some(value.as_bstr()))) {
        (Some(0), _) | (None, Some(false)) => Ok(None),
        (Some(number), _) => Ok(Some(number)),
        (None, Some(true)) => Ok(Some(FOLD_ABOVE)),
        (None, None) => Err(Error::Own {
            name: keys::sapwood::FOLD_PACKS.name(),
            value,
            expected: "it is a boolean or a number",
        }),
    }
}
