//! The only writer for files that end with a hash of their content: index, pack, pack index,
//! reverse index, commit-graph, multi-pack-index.
//!
//! Buffering, hashing and writing are one pass. Data fill the buffer first. Then whole buffers of a
//! large input are hashed and written straight from the input, and the rest goes into the buffer. A
//! separate thread may hash while the main thread writes ([`Hashing::Threaded`]). For large files
//! this hides the cheaper of the two.
//!
//! A writer can return to a [`Checkpoint`], with its hash, and can continue a file that already has
//! content ([`HashWriter::resume`]).

use std::{
    io::{self, Seek, SeekFrom, Write},
    mem,
};

use format::{HashKind, ObjectId, hash::Hasher};
use sys::File;
use zlib_rs::crc32::crc32;

mod thread;

use thread::HashThread;

/// The buffer size in bytes. It is large enough to make the cost of system calls negligible, and
/// small enough to keep the data in the CPU cache until they are hashed. Git uses the same size.
const BUFFER: usize = 128 * 1024;

/// The thread that computes the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hashing {
    /// On the calling thread, between writes.
    Inline,
    /// On a separate thread. Starting it costs about as much as hashing 100 KB. If the system
    /// refuses a thread, on the calling thread.
    Threaded,
    /// No hash: the trailer is all zeros (`index.skipHash`).
    Skip,
}

/// The writer; see the module. If it is dropped without [`HashWriter::finish`], the data written so
/// far stay in the file.
pub struct HashWriter<W> {
    out: W,
    kind: HashKind,
    hash: Hash,
    buffer: Vec<u8>,
    written: u64,
    crc32: Option<u32>,
}

enum Hash {
    Inline(Hasher),
    Threaded(HashThread),
    Skip,
}

/// A state that a writer can return to.
#[derive(Clone)]
pub struct Checkpoint {
    position: u64,
    /// `None` if hashing is off.
    hasher: Option<Hasher>,
}

impl Checkpoint {
    /// Returns the number of bytes before the checkpoint.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the hash of the bytes before the checkpoint; `None` if hashing is off.
    pub fn checksum(&self) -> Option<ObjectId> {
        self.hasher.clone().map(checksum_of)
    }
}

/// An output that can be truncated.
pub trait Truncate {
    /// Removes everything from `len` bytes on, and continues there.
    fn truncate(&mut self, len: u64) -> io::Result<()>;
}

impl Truncate for File {
    fn truncate(&mut self, len: u64) -> io::Result<()> {
        (&*self).truncate(len)
    }
}

impl Truncate for &File {
    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)?;
        self.seek(SeekFrom::Start(len)).map(drop)
    }
}

impl Truncate for Vec<u8> {
    fn truncate(&mut self, len: u64) -> io::Result<()> {
        Vec::truncate(self, usize::try_from(len).expect("no longer than it is"));
        Ok(())
    }
}

impl<W: Write> HashWriter<W> {
    /// Creates a writer to `out`. Its current position is the beginning of the hashed data.
    pub fn new(out: W, kind: HashKind, hashing: Hashing) -> Self {
        Self::resume(out, Hasher::checksum(kind), 0, kind, hashing)
    }

    /// Creates a writer to `out`, which already contains `position` bytes with the hash state
    /// `hasher`.
    pub fn resume(out: W, hasher: Hasher, position: u64, kind: HashKind, hashing: Hashing) -> Self {
        let hash = match hashing {
            Hashing::Inline => Hash::Inline(hasher),
            Hashing::Threaded => HashThread::start(hasher, kind).map_or_else(Hash::Inline, Hash::Threaded),
            Hashing::Skip => Hash::Skip,
        };
        let buffer = Vec::with_capacity(BUFFER);
        HashWriter { out, kind, hash, buffer, written: position, crc32: None }
    }

    /// Returns the number of bytes accepted so far, which is the file offset of the next byte.
    pub fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Starts the CRC-32 of the bytes from here on.
    pub fn begin_crc32(&mut self) {
        self.crc32 = Some(0);
    }

    /// Returns the CRC-32 of the bytes since [`HashWriter::begin_crc32`].
    pub fn end_crc32(&mut self) -> u32 {
        self.crc32.take().unwrap_or(0)
    }

    /// Appends bytes.
    pub fn write(&mut self, mut data: &[u8]) -> io::Result<()> {
        if let Some(sum) = &mut self.crc32 {
            *sum = crc32(*sum, data);
        }
        if !self.buffer.is_empty() {
            let (head, tail) = data.split_at(data.len().min(BUFFER - self.buffer.len()));
            self.buffer.extend_from_slice(head);
            data = tail;
            if self.buffer.len() < BUFFER {
                return Ok(());
            }
            self.flush()?;
        }
        while data.len() >= BUFFER {
            let (whole, tail) = data.split_at(BUFFER);
            self.put(whole)?;
            data = tail;
        }
        self.buffer.extend_from_slice(data);
        Ok(())
    }

    /// Writes all accepted bytes to the output.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let full = mem::take(&mut self.buffer);
        self.written += full.len() as u64;
        self.out.write_all(&full)?;
        self.buffer = match &mut self.hash {
            Hash::Threaded(thread) => thread.exchange(full),
            Hash::Inline(hasher) => {
                hasher.update(&full);
                full
            }
            Hash::Skip => full,
        };
        self.buffer.clear();
        Ok(())
    }

    /// Returns a checkpoint for [`HashWriter::rewind`].
    pub fn checkpoint(&mut self) -> io::Result<Checkpoint> {
        self.flush()?;
        let hasher = match &self.hash {
            Hash::Inline(hasher) => Some(hasher.clone()),
            Hash::Threaded(thread) => Some(thread.save()),
            Hash::Skip => None,
        };
        Ok(Checkpoint { position: self.written, hasher })
    }

    /// Writes the remaining bytes, and the hash of all bytes as trailer. Syncs nothing.
    pub fn finish(mut self) -> io::Result<(W, ObjectId)> {
        self.flush()?;
        let checksum = match mem::replace(&mut self.hash, Hash::Skip) {
            Hash::Inline(hasher) => checksum_of(hasher),
            Hash::Threaded(thread) => thread.finish(),
            Hash::Skip => ObjectId::null(self.kind),
        };
        self.out.write_all(checksum.as_bytes())?;
        Ok((self.out, checksum))
    }

    /// Writes the remaining bytes, and no trailer.
    pub fn finish_without_trailer(mut self) -> io::Result<W> {
        self.flush()?;
        Ok(self.out)
    }

    /// Hashes and writes one whole buffer of the input.
    fn put(&mut self, whole: &[u8]) -> io::Result<()> {
        match &mut self.hash {
            // The hashing thread needs its own copy of the bytes. Copying costs a tenth of hashing.
            Hash::Threaded(_) => {
                self.buffer.extend_from_slice(whole);
                return self.flush();
            }
            Hash::Inline(hasher) => hasher.update(whole),
            Hash::Skip => {}
        }
        self.written += whole.len() as u64;
        self.out.write_all(whole)
    }
}

impl<W: Write + Truncate> HashWriter<W> {
    /// Removes all bytes that were written after `checkpoint`, also from the hash.
    pub fn rewind(&mut self, checkpoint: &Checkpoint) -> io::Result<()> {
        self.buffer.clear();
        self.crc32 = None;
        self.out.truncate(checkpoint.position)?;
        self.written = checkpoint.position;
        match (&mut self.hash, &checkpoint.hasher) {
            (Hash::Inline(hasher), Some(state)) => *hasher = state.clone(),
            (Hash::Threaded(thread), Some(state)) => thread.restore(state.clone()),
            _ => {}
        }
        Ok(())
    }
}

fn checksum_of(hasher: Hasher) -> ObjectId {
    hasher.finish().expect("a checksum does not look for collision attacks")
}

#[cfg(test)]
mod tests;
