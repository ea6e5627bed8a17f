//! Compares an existing index with the index that its pack should have.

use std::io::{self, Read as _, Write};

use format::{
    HashKind, ObjectId,
    idx_writer::{self, Form, Members},
};
use store::{HashWriter, Hashing};
use sys::{File, by_path::uninterrupted};

/// The way in which a file differs from the expected content.
#[derive(Debug)]
pub enum Mismatch {
    /// The file cannot be read.
    Io(io::Error),
    /// The file ends too early.
    Truncated,
    /// The file contains different bytes.
    Differs,
    /// The file has extra bytes at its end.
    Garbage,
}

/// A writer that compares the written bytes with those of a file.
struct Comparison<'a> {
    file: &'a File,
    found: Option<Mismatch>,
}

impl Write for Comparison<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut there = vec![0; bytes.len()];
        let read = read_fully(self.file, &mut there);
        self.found = match read {
            Err(error) => Some(Mismatch::Io(error)),
            Ok(len) if len < bytes.len() => Some(Mismatch::Truncated),
            Ok(_) if there != bytes => Some(Mismatch::Differs),
            Ok(_) => return Ok(bytes.len()),
        };
        Err(io::ErrorKind::InvalidData.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn read_fully(mut file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match uninterrupted(|| file.read(&mut buffer[len..]))? {
            0 => break,
            count => len += count,
        }
    }
    Ok(len)
}

/// Compares the pack index in `file` with the expected one.
pub fn check_index(
    file: &File,
    members: &dyn Members,
    checksum: &ObjectId,
    form: &Form,
) -> Result<(), Mismatch> {
    compare(file, checksum.kind(), |emit| idx_writer::write_index(members, checksum.as_bytes(), form, emit))
}

/// Compares the reverse index in `file` with the expected one.
pub fn check_reverse(file: &File, members: &dyn Members, checksum: &ObjectId) -> Result<(), Mismatch> {
    let kind = checksum.kind();
    compare(file, kind, |emit| idx_writer::write_reverse(members, checksum.as_bytes(), kind, emit))
}

type Emit<'e> = dyn FnMut(&[u8]) -> io::Result<()> + 'e;

fn compare(
    file: &File,
    kind: HashKind,
    write: impl FnOnce(&mut Emit<'_>) -> io::Result<()>,
) -> Result<(), Mismatch> {
    let mut comparison = Comparison { file, found: None };
    let mut writer = HashWriter::new(&mut comparison, kind, Hashing::Inline);
    let written = write(&mut |piece| writer.write(piece)).and_then(|()| writer.finish().map(drop));
    match (comparison.found, written) {
        (Some(mismatch), _) => return Err(mismatch),
        (None, Err(error)) => return Err(Mismatch::Io(error)),
        (None, Ok(())) => {}
    }
    match read_fully(file, &mut [0]) {
        Ok(0) => Ok(()),
        Ok(_) => Err(Mismatch::Garbage),
        Err(error) => Err(Mismatch::Io(error)),
    }
}
