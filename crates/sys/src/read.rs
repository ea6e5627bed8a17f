//! Reading files whole.

use std::{
    fs::File,
    io::{self, Read},
};

use rustix::buffer::spare_capacity;

/// Appends what `file` holds from its position on. With `expected` its size (from a stat), one
/// system call reads it and, being short of one byte more, tells the end; `File::read_to_end` takes four.
pub fn read_to_end(mut file: &File, expected: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
    // Trust the size only so far: memory is not given away for a stat of a sparse giant.
    let wanted = usize::try_from(expected).unwrap_or(usize::MAX).min(64 << 20).saturating_add(1);
    buffer.reserve(wanted);
    let before = buffer.len();
    let read = rustix::io::retry_on_intr(|| rustix::io::read(file, spare_capacity(buffer)))?;
    debug_assert_eq!(buffer.len() - before, read);
    if read != 0 && read as u64 != expected {
        file.read_to_end(buffer)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_whatever_the_expectation() {
        let dir = tempfile::tempdir().expect("a directory for tests");
        let path = dir.path().join("file");
        for size in [0usize, 1, 5000] {
            let content: Vec<u8> = (0..size).map(|index| index as u8).collect();
            std::fs::write(&path, &content).expect("written");
            for expected in [0, 1, 2, 4999, 5000, 5001, u64::MAX] {
                let mut read = b"before".to_vec();
                read_to_end(&File::open(&path).expect("opens"), expected, &mut read).expect("reads");
                assert_eq!(read.strip_prefix(b"before"), Some(&content[..]), "{size} {expected}");
            }
        }
    }
}
