//! The one writer for files that end with a hash of their content: index, pack, pack index,
//! commit-graph, multi-pack-index.
//!
//! Buffering, hashing and writing are one pass. Data fill the buffer first. Then whole buffers of a
//! large input are hashed and written straight from the input, and the rest goes into the buffer. A
//! separate thread may hash while the main thread writes ([`Hashing::Threaded`]). For large files
//! this hides the cheaper of the two.

use std::{
    io::{self, Write},
    mem,
    sync::mpsc::{Receiver, SyncSender, channel, sync_channel},
    thread::JoinHandle,
};

use format::{
    HashKind, ObjectId,
    hash::{CollisionDetected, Hasher},
};

/// The buffer size in bytes. It is large enough that system calls do not matter, and small enough
/// that the data stay in the cache until they are hashed. Git uses the same size.
const BUFFER: usize = 128 * 1024;

/// The number of buffers that may wait for the hashing thread.
const QUEUE_DEPTH: usize = 4;

/// Where the hash is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hashing {
    /// On the calling thread, between writes.
    Inline,
    /// On a separate thread. Starting it costs about as much as hashing 100 KB.
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
}

enum Hash {
    Inline(Hasher),
    Threaded(HashThread),
    Skip,
}

/// A hashing thread. It receives full buffers and sends them back.
struct HashThread {
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    thread: JoinHandle<Result<ObjectId, CollisionDetected>>,
    buffers: usize,
}

impl<W: Write> HashWriter<W> {
    /// Creates a writer to `out` at its current position.
    pub fn new(out: W, kind: HashKind, hashing: Hashing) -> Self {
        let hash = match hashing {
            Hashing::Inline => Hash::Inline(Hasher::checksum(kind)),
            Hashing::Threaded => Hash::Threaded(HashThread::start(kind)),
            Hashing::Skip => Hash::Skip,
        };
        HashWriter { out, kind, hash, buffer: Vec::with_capacity(BUFFER), written: 0 }
    }

    /// Returns the number of bytes accepted so far, which is the file offset of the next byte.
    pub fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Appends bytes.
    pub fn write(&mut self, mut data: &[u8]) -> io::Result<()> {
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

    /// Writes the remaining bytes, and the hash of all bytes as trailer. Syncs nothing.
    pub fn finish(mut self) -> io::Result<(W, ObjectId)> {
        self.flush()?;
        let checksum = match self.hash {
            Hash::Inline(hasher) => hasher.finish(),
            Hash::Threaded(thread) => thread.finish(),
            Hash::Skip => Ok(ObjectId::null(self.kind)),
        };
        let checksum = checksum.expect("a checksum does not look for collision attacks");
        self.out.write_all(checksum.as_bytes())?;
        Ok((self.out, checksum))
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let full = mem::take(&mut self.buffer);
        self.written += full.len() as u64;
        self.buffer = match &mut self.hash {
            Hash::Threaded(thread) => {
                self.out.write_all(&full)?;
                thread.exchange(full)
            }
            Hash::Inline(hasher) => {
                hasher.update(&full);
                self.out.write_all(&full)?;
                full
            }
            Hash::Skip => {
                self.out.write_all(&full)?;
                full
            }
        };
        self.buffer.clear();
        Ok(())
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

impl HashThread {
    fn start(kind: HashKind) -> Self {
        let (full, to_hash) = sync_channel::<Vec<u8>>(QUEUE_DEPTH);
        let (give_back, empty) = channel();
        let thread = std::thread::spawn(move || {
            let _profiled = sys::profile::thread(sys::profile::Phase::Index);
            let mut hasher = Hasher::checksum(kind);
            for buffer in to_hash {
                hasher.update(&buffer);
                // The writer may have finished already and need no more buffers.
                let _ = give_back.send(buffer);
            }
            hasher.finish()
        });
        HashThread { full, empty, thread, buffers: 1 }
    }

    /// Sends a full buffer to the thread, and returns an empty one.
    fn exchange(&mut self, full: Vec<u8>) -> Vec<u8> {
        self.full.send(full).expect("the thread takes buffers until this end is dropped");
        match self.empty.try_recv() {
            Ok(buffer) => buffer,
            Err(_) if self.buffers <= QUEUE_DEPTH => {
                self.buffers += 1;
                Vec::with_capacity(BUFFER)
            }
            Err(_) => self.empty.recv().expect("each buffer comes back"),
        }
    }

    fn finish(self) -> Result<ObjectId, CollisionDetected> {
        drop(self.full);
        self.thread.join().expect("hashing does not panic")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reference(kind: HashKind, parts: &[Vec<u8>]) -> (Vec<u8>, ObjectId) {
        let mut content = parts.concat();
        let mut hasher = Hasher::checksum(kind);
        hasher.update(&content);
        let checksum = hasher.finish().expect("a checksum");
        content.extend_from_slice(checksum.as_bytes());
        (content, checksum)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn all_hashing_modes_write_the_same_bytes(
            sizes in prop::collection::vec(
                prop_oneof![0..300usize, BUFFER - 2..BUFFER + 2, 3 * BUFFER..3 * BUFFER + 2], 0..12),
            sha256: bool,
        ) {
            let kind = if sha256 { HashKind::Sha256 } else { HashKind::Sha1 };
            let parts: Vec<Vec<u8>> =
                sizes.iter().enumerate().map(|(index, &size)| vec![index as u8; size]).collect();
            let (content, checksum) = reference(kind, &parts);
            for hashing in [Hashing::Inline, Hashing::Threaded, Hashing::Skip] {
                let mut writer = HashWriter::new(Vec::new(), kind, hashing);
                let mut position = 0;
                for part in &parts {
                    writer.write(part).expect("memory takes all");
                    position += part.len() as u64;
                    prop_assert_eq!(writer.position(), position);
                }
                let (out, trailer) = writer.finish().expect("memory takes all");
                let body = content.len() - kind.len();
                prop_assert_eq!(&out[..body], &content[..body]);
                prop_assert_eq!(&out[body..], trailer.as_bytes());
                prop_assert_eq!(trailer, if hashing == Hashing::Skip { ObjectId::null(kind) } else { checksum });
            }
        }
    }

    #[test]
    fn reuses_buffers_for_large_files() {
        let parts = vec![vec![9; 1000]; 20_000];
        let (content, _) = reference(HashKind::Sha1, &parts);
        let mut writer = HashWriter::new(Vec::new(), HashKind::Sha1, Hashing::Threaded);
        for part in &parts {
            writer.write(part).expect("memory takes all");
        }
        assert_eq!(writer.finish().expect("memory takes all").0, content);
    }

    #[test]
    fn a_full_disk_is_an_error() {
        for hashing in [Hashing::Inline, Hashing::Threaded, Hashing::Skip] {
            let mut room = [0; 1000];
            let mut writer = HashWriter::new(&mut room[..], HashKind::Sha1, hashing);
            let result = writer.write(&vec![1; 3 * BUFFER]).and_then(|()| writer.finish().map(drop));
            assert_eq!(result.expect_err("no room").kind(), io::ErrorKind::WriteZero);
        }
    }
}
