//! The copy of a checked image.
//!
//! The user's file is read once, into memory that only this process has. The check makes the image
//! again from the tree in these bytes ([`format::erofs::canonical`]). The new bytes go to a file
//! without a name, and only that file is mounted.

use std::{
    fs::File,
    io,
    os::{fd::OwnedFd, unix::fs::FileExt as _},
};

use format::erofs::canonical;
use rustix::fs::{Mode, OFlags, fstat, openat};

use crate::{
    checks, confine,
    peer::Caller,
    wire::{Answer, Code},
};

/// The largest block that every kernel mounts.
const MOST_BLOCK_BITS: u32 = 12;

/// A copy of an image, and its length in bytes.
pub(crate) struct Copy {
    pub(crate) file: OwnedFd,
    pub(crate) bytes: u64,
}

/// Checks the image in `file`, which names `devices` extra devices, and copies it to a new file in
/// `dir`.
pub(crate) fn copy(
    file: &OwnedFd,
    devices: usize,
    caller: &Caller,
    limit: u64,
    dir: &OwnedFd,
) -> Result<Copy, Answer> {
    checks::readable_file(file)?;
    let data = read(file, limit)?;
    let refused = |what: String| Answer { messages: vec![what], ..Answer::of(Code::Image) };
    let checked = canonical::check(&data).map_err(|error| refused(error.to_string()))?;
    drop(data);
    let facts = checked.facts();
    if facts.uid != caller.uid || !caller.groups.contains(&facts.gid) {
        return Err(refused("its files belong to another user".to_owned()));
    }
    // A file that is copied to the upper layer keeps these bits, and the upper layer has no mount
    // of its own that ignores them.
    if facts.permissions & !0o777 != 0 {
        return Err(refused("it has programs that run with other rights".to_owned()));
    }
    if facts.block_bits > MOST_BLOCK_BITS || facts.devices.len() != devices {
        return Err(refused("it needs another block size or other devices".to_owned()));
    }
    let flags = OFlags::TMPFILE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    let made =
        confine::with(confine::ENTER, || openat(dir, c".", flags, Mode::RUSR).map_err(io::Error::from))?;
    let file = File::from(made);
    let mut bytes = 0;
    checked.emit(&mut |piece| {
        file.write_all_at(piece, bytes)?;
        bytes += piece.len() as u64;
        Ok::<(), io::Error>(())
    })?;
    Ok(Copy { file: file.into(), bytes })
}

/// Reads a file of at most `limit` bytes.
fn read(file: &OwnedFd, limit: u64) -> Result<Vec<u8>, Answer> {
    let size = fstat(file)?.st_size as u64;
    if size > limit {
        return Err(Code::Limit.into());
    }
    let mut data = vec![0; size as usize];
    let cut = |_| Answer { messages: vec!["it was cut".to_owned()], ..Answer::of(Code::Image) };
    File::from(file.try_clone()?).read_exact_at(&mut data, 0).map_err(cut)?;
    Ok(data)
}
