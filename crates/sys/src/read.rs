//! Reading files whole.

use std::io;

use rustix::buffer::spare_capacity;

use crate::{
    File,
    profile::{Phase, retried},
    stat_of,
};

/// Room for so much where a file may be, or is, larger than expected.
const LEAST: usize = 8 << 10;

/// Appends what `file` holds from its position on. With `expected` its size (from a stat), one
/// system call reads it and, being short of one byte more, tells the end; [`std::fs::File`] takes four.
pub fn read_to_end(file: &File, expected: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
    // Trust the size only so far: memory is not given away for a stat of a sparse giant.
    let wanted = usize::try_from(expected).unwrap_or(usize::MAX).min(64 << 20).saturating_add(1);
    // Files of /proc say that they are empty.
    buffer.reserve(if expected == 0 { LEAST } else { wanted });
    let mut read = more(file, buffer)?;
    // Less than expected may be all the same: a stat tells, which a network disk answers from memory where it asks again for no bytes.
    if read as u64 == expected || read > 0 && (read as u64) < expected && stat_of(file)?.size == read as u64 {
        return Ok(());
    }
    while read != 0 {
        buffer.reserve(LEAST);
        read = more(file, buffer)?;
    }
    Ok(())
}

fn more(file: &File, buffer: &mut Vec<u8>) -> io::Result<usize> {
    Ok(retried(Phase::Read, || rustix::io::read(file, spare_capacity(buffer)))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::by_path::open;

    #[test]
    fn whole_whatever_the_expectation() {
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
