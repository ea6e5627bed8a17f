//! Reads whole files.

use std::io;

use crate::{
    File,
    interrupt::waiting,
    profile::{Phase, call},
    stat_of,
};

/// The bytes to reserve when a file may be larger than expected.
const LEAST: usize = 8 << 10;

/// The most bytes to reserve because a stat reports them: the stat of a huge sparse file must not
/// allocate memory for all of it.
const MOST: usize = 64 << 20;

/// The most bytes of one call of [`read_stoppable`].
const PIECE: usize = 4 << 20;

/// Appends the content of `file`, from its position to its end, to `buffer`. `expected` is the
/// file's size from a stat. If it is right, one system call reads the whole file: the call requests
/// one byte more than expected, so a short read marks the end. [`std::fs::File`] takes four calls.
/// Returns an error of kind `OutOfMemory` if the memory does not suffice.
pub fn read_to_end(file: &File, expected: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
    read_in_pieces(file, expected, buffer, MOST, |_| Ok(true))
}

/// Like [`read_to_end`], but appends at most `limit` bytes: another process may let the file grow
/// without end.
pub fn read_up_to(file: &File, expected: u64, limit: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
    let before = buffer.len();
    read_in_pieces(file, expected.min(limit), buffer, MOST, |done| Ok(done < limit))?;
    buffer.truncate(before.saturating_add(usize::try_from(limit).unwrap_or(usize::MAX)));
    Ok(())
}

/// Like [`read_to_end`], but a signal stops it after the next piece
/// ([`interrupt::is_stop`](crate::interrupt::is_stop)). For files of the user, which may be large,
/// before anything has to be recorded.
pub fn read_stoppable(file: &File, expected: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
    read_in_pieces(file, expected, buffer, PIECE, |_| crate::interrupt::check().map(|()| true))
}

/// `goes_on` gets the number of bytes read so far.
fn read_in_pieces(
    file: &File,
    expected: u64,
    buffer: &mut Vec<u8>,
    most: usize,
    goes_on: impl Fn(u64) -> io::Result<bool>,
) -> io::Result<()> {
    let wanted = usize::try_from(expected).unwrap_or(usize::MAX).min(MOST).saturating_add(1);
    // Files in /proc report a size of 0.
    buffer.try_reserve(if expected == 0 { LEAST } else { wanted })?;
    let before = buffer.len();
    loop {
        let (read, is_short) = read_some(file, buffer, most)?;
        let done = (buffer.len() - before) as u64;
        if read == 0 || is_short && done == expected {
            return Ok(());
        }
        // A first read that returns less than expected may still be complete. A stat confirms it: a
        // network file system serves a stat from its cache, but sends another request for a read of
        // zero bytes.
        if is_short && done == read as u64 && done < expected && stat_of(file)?.size == done {
            return Ok(());
        }
        if !goes_on(done)? {
            return Ok(());
        }
        buffer.try_reserve(LEAST)?;
    }
}

/// Reads into the reserved memory, at most `most` bytes and one more. Returns the number of bytes,
/// and true if there was room for more.
fn read_some(file: &File, buffer: &mut Vec<u8>, most: usize) -> io::Result<(usize, bool)> {
    let wanted = (buffer.capacity() - buffer.len()).min(most.saturating_add(1));
    let room = &mut buffer.spare_capacity_mut()[..wanted];
    let read = waiting(|| call(Phase::Read, || Ok(rustix::io::read(file, &mut *room)?.0.len())))?;
    // SAFETY: the kernel has filled this many bytes after the length.
    unsafe { buffer.set_len(buffer.len() + read) };
    Ok((read, read < wanted))
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
                let mut read = b"before".to_vec();
                let file = open(&path).expect("opens");
                read_in_pieces(&file, expected, &mut read, 1000, |_| Ok(true)).expect("reads");
                assert_eq!(read.strip_prefix(b"before"), Some(&content[..]), "{size} {expected} in pieces");
                for limit in [0, 1, 4999, 5000, 5001, u64::MAX] {
                    let mut read = b"before".to_vec();
                    read_up_to(&open(&path).expect("opens"), expected, limit, &mut read).expect("reads");
                    let rest = &content[..size.min(usize::try_from(limit).expect("64 bits"))];
                    assert_eq!(read.strip_prefix(b"before"), Some(rest), "{size} {expected} {limit}");
                }
            }
        }
    }
}
