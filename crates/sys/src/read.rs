//! Reads whole files.

use std::io;

use rustix::buffer::spare_capacity;

use crate::{
    File,
    profile::{Phase, retried},
    stat_of,
};

/// The bytes to reserve when a file may be larger than expected.
const LEAST: usize = 8 << 10;

/// Appends the content of `file`, from its position to its end, to `buffer`. `expected` is the
/// file's size from a stat. If it is right, one system call reads the whole file: the call requests
/// one byte more than expected, so a short read marks the end. [`std::fs::File`] takes four calls.
pub fn read_to_end(file: &File, expected: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
    // The size is trusted up to 64 MiB only: the stat of a huge sparse file must not allocate
    // memory for all of it.
    let wanted = usize::try_from(expected).unwrap_or(usize::MAX).min(64 << 20).saturating_add(1);
    // Files in /proc report a size of 0.
    buffer.reserve(if expected == 0 { LEAST } else { wanted });
    let mut read = read_some(file, buffer)?;
    // A read that returns less than expected may still be complete. A stat confirms it: a network
    // file system serves a stat from its cache, but sends another request for a read of zero bytes.
    if read as u64 == expected || read > 0 && (read as u64) < expected && stat_of(file)?.size == read as u64 {
        return Ok(());
    }
    while read != 0 {
        buffer.reserve(LEAST);
        read = read_some(file, buffer)?;
    }
    Ok(())
}

fn read_some(file: &File, buffer: &mut Vec<u8>) -> io::Result<usize> {
    Ok(retried(Phase::Read, || rustix::io::read(file, spare_capacity(buffer)))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::by_path::open;

    #[test]
    fn reads_the_whole_file_for_any_expected_size() {
        let dir = tempfile::tempdir().expect("a directory for tests");
        let path = dir.path().join("file");
        for size in [0usize, 1, 5000] {
            let content: Vec<u8> = (0..size).map(|index| index as u8).collect();
            std::fs::write(&path, &content).expect("written");
            for expected in [0, 1, 2, 4999, 5000, 5001, u64::MAX] {
                let mut read = b"before".to_vec();
                read_to_end(&open(&path).expect("opens"), expected, &mut read).expect("reads");
                assert_eq!(read.strip_prefix(b"before"), Some(&content[..]), "{size} {expected}");
            }
        }
    }
}
