//! Reads and writes at an offset, which several threads can do on one open file.

use std::{
    io::{self, IoSlice},
    ops::Range,
};

use rustix::{
    fs::{FallocateFlags, SeekFrom},
    io::Errno,
};

use crate::{
    File,
    profile::{Phase, retried},
};

/// The maximum number of buffers in one system call on Linux (`IOV_MAX`).
const MAX_PIECES: usize = 1024;

/// Frees the disk space of a range of bytes, which then read as zeros. The size of the file is
/// unchanged. Returns `Unsupported` if the file system does not support this.
pub fn punch_hole(file: &File, range: Range<u64>) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let punch = || rustix::fs::fallocate(file, flags, range.start, range.end - range.start);
    Ok(retried(Phase::Write, punch)?)
}

/// Returns the ranges of a file, up to `size`, that hold data. Between them are holes, which read
/// as zeros and take no space. A file system that does not know its holes reports data only.
pub fn data_ranges(file: &File, size: u64) -> io::Result<Vec<Range<u64>>> {
    let mut ranges = Vec::new();
    let mut offset = 0;
    while offset < size {
        let start = match retried(Phase::Other, || rustix::fs::seek(file, SeekFrom::Data(offset))) {
            // No data are left.
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL) => return Ok(std::iter::once(0..size).collect()),
            found => found?,
        };
        let end = retried(Phase::Other, || rustix::fs::seek(file, SeekFrom::Hole(start)))?;
        ranges.push(start..end.min(size));
        offset = end;
    }
    ranges.retain(|range| range.start < range.end);
    Ok(ranges)
}

impl File {
    /// Fills `buffer` with the bytes from `offset` on. Returns `UnexpectedEof` if the file ends
    /// earlier.
    pub fn read_exact_at(&self, buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            match retried(Phase::Read, || rustix::io::pread(self, &mut buffer[done..], offset))? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => (done, offset) = (done + count, offset + count as u64),
            }
        }
        Ok(())
    }

    /// Writes all `pieces` in sequence, from `offset` on.
    pub fn write_pieces_at(&self, mut pieces: &mut [IoSlice<'_>], mut offset: u64) -> io::Result<()> {
        IoSlice::advance_slices(&mut pieces, 0);
        while !pieces.is_empty() {
            let some = &pieces[..pieces.len().min(MAX_PIECES)];
            match retried(Phase::Write, || rustix::io::pwritev(self, some, offset))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => {
                    offset += count as u64;
                    IoSlice::advance_slices(&mut pieces, count);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_data_between_holes() {
        let place = tempfile::tempdir().expect("a directory for tests");
        let path = place.path().join("sparse");
        std::fs::write(&path, [b'x'; 3 << 16]).expect("written");
        let file = crate::by_path::open_to_edit(&path).expect("opened");
        assert_eq!(data_ranges(&file, 3 << 16).expect("asked"), [0..3 << 16]);
        if punch_hole(&file, 1 << 16..2 << 16).is_err() {
            eprintln!("no holes on {}", place.path().display());
            return;
        }
        assert_eq!(data_ranges(&file, 3 << 16).expect("asked"), [0..1 << 16, 2 << 16..3 << 16]);
        file.set_len(1 << 20).expect("longer");
        assert_eq!(data_ranges(&file, 1 << 20).expect("asked"), [0..1 << 16, 2 << 16..3 << 16]);
        std::fs::write(&path, "").expect("emptied");
        assert_eq!(data_ranges(&file, 0).expect("asked"), []);
        file.set_len(1 << 16).expect("longer");
        assert_eq!(data_ranges(&file, 1 << 16).expect("asked"), []);
    }

    #[test]
    fn writes_many_pieces_and_reads_them_back() {
        let file = File::from(tempfile::tempfile().expect("a file for tests"));
        let bytes: Vec<u8> = (0..5000u32).map(|number| number as u8).collect();
        let mut pieces: Vec<IoSlice<'_>> = bytes.chunks(2).map(IoSlice::new).collect();
        pieces.insert(7, IoSlice::new(&[]));
        file.write_pieces_at(&mut pieces, 3).expect("written");
        let mut back = vec![0; bytes.len()];
        file.read_exact_at(&mut back, 3).expect("read");
        assert_eq!(back, bytes);
        punch_hole(&file, 4..7).expect("any local file system can");
        let mut some = [9; 5];
        file.read_exact_at(&mut some, 3).expect("read");
        assert_eq!(some, [0, 0, 0, 0, 4]);
        let past = file.read_exact_at(&mut back, 4).expect_err("too short");
        assert_eq!(past.kind(), io::ErrorKind::UnexpectedEof);
    }
}
