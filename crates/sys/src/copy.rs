//! Copies whole files with the cheapest method that the file system supports.

use std::{
    io::{self, Seek as _},
    path::Path,
};

use rustix::fs::{CWD, Mode, OFlags};

use crate::{
    File,
    profile::{Phase, call, retried},
};

/// Shares the blocks of `src` with `dst` (`FICLONE`: btrfs, xfs, bcachefs). Afterwards `dst` has
/// the same content as `src`. Returns `EOPNOTSUPP`, `EXDEV`, `EINVAL` or `ENOTTY` if the file
/// system cannot share blocks.
pub fn reflink(src: &File, dst: &File) -> io::Result<()> {
    Ok(retried(Phase::Write, || rustix::fs::ioctl_ficlone(dst, src))?)
}

/// Tries to share a block between files in two directories. The files have no names and vanish.
pub fn can_reflink(from: &Path, to: &Path) -> io::Result<()> {
    let unnamed = |dir: &Path| {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        retried(Phase::Open, || rustix::fs::openat(CWD, dir, flags, Mode::RUSR | Mode::WUSR))
    };
    let (source, copy) = (unnamed(from)?, unnamed(to)?);
    rustix::io::write(&source, &[1; 4096])?;
    Ok(retried(Phase::Write, || rustix::fs::ioctl_ficlone(&copy, &source))?)
}

/// Copies `src` from its position to its end into `dst`, within the kernel where possible
/// (`copy_file_range`, then `sendfile`, then read and write). Returns the number of bytes copied.
///
/// The profile counts this as one call, however many system calls it takes.
pub fn copy(src: &File, dst: &File) -> io::Result<u64> {
    copy_in_pieces(src, dst, u64::MAX, |_| Ok(()))
}

/// Like [`copy`], but a signal stops it after the next piece
/// ([`interrupt::is_stop`](crate::interrupt::is_stop)).
pub fn copy_stoppable(src: &File, dst: &File) -> io::Result<u64> {
    copy_in_pieces(src, dst, PIECE, |_| crate::interrupt::check())
}

/// Like [`copy_stoppable`], but returns an error of kind `FileTooLarge` soon after `limit` bytes:
/// another process may let the file grow without end.
pub fn copy_up_to(src: &File, dst: &File, limit: u64) -> io::Result<u64> {
    let copied = copy_in_pieces(src, dst, PIECE.min(limit.saturating_add(1)), |copied| {
        if copied > limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        crate::interrupt::check()
    })?;
    if copied > limit { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(copied) }
}

/// The most bytes of one call of a copy that can be stopped.
const PIECE: u64 = 32 << 20;

/// `check` gets the number of bytes copied so far.
fn copy_in_pieces(
    src: &File,
    dst: &File,
    most: u64,
    check: impl Fn(u64) -> io::Result<()>,
) -> io::Result<u64> {
    let begin = src.std().stream_position()?;
    loop {
        let copied = call(Phase::Write, || io::copy(&mut io::Read::take(src.std(), most), &mut dst.std()));
        match copied {
            // The interrupted copy has moved both positions, so the next call continues from there.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(copied) if copied < most => return Ok(src.std().stream_position()? - begin),
            Ok(_) => {}
        }
        check(src.std().stream_position()? - begin)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::by_path::{create_new, open};

    #[test]
    fn copies_and_reflinks_or_says_why_not() {
        let dir = tempfile::tempdir().expect("a directory for tests");
        let content: Vec<u8> = (0..300_000u32).flat_map(u32::to_le_bytes).collect();
        let [src, dst, clone] = ["src", "dst", "clone"].map(|name| dir.path().join(name));
        std::fs::write(&src, &content).expect("written");
        let source = || open(&src).expect("opens");
        let copied = copy(&source(), &create_new(&dst, 0o666).expect("creates")).expect("copies");
        assert_eq!(copied, content.len() as u64);
        assert_eq!(std::fs::read(&dst).expect("reads"), content);
        for (limit, fits) in [(copied, true), (copied - 1, false), (0, false)] {
            let to = create_new(&dir.path().join(format!("{limit}")), 0o666).expect("creates");
            assert_eq!(copy_up_to(&source(), &to, limit).ok(), fits.then_some(copied), "{limit}");
        }
        match reflink(&source(), &create_new(&clone, 0o666).expect("creates")) {
            Ok(()) => assert_eq!(std::fs::read(&clone).expect("reads"), content),
            Err(error) => assert!(error.raw_os_error().is_some(), "{error}"),
        }
    }
}
