//! The one checksummed writer: everything Git ends with a hash of what precedes it is written through
//! it (index, pack, pack index, commit-graph, multi-pack-index).
//!
//! Buffer, hash and write are one pass: the buffer is filled first; what is left of a large input is
//! hashed and written in whole buffers straight from where it lies; the rest is kept. Hashing may
//! run on a thread of its own while the main one writes ([`Hashing::Threaded`]), which for large files takes
//! the cheaper of the two off the clock.

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

/// Large enough that system calls do not show, small enough to stay in the cache while it is
/// hashed after it was filled. Git uses as much.
const BUFFER: usize = 128 * 1024;

/// How many buffers may wait for the hashing thread.
const AHEAD: usize = 4;

/// Where the hash is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hashing {
    /// In between writes.
    Inline,
    /// On a thread of its own. Starting it costs about what hashing 100 KB does.
    Threaded,
    /// Nowhere: the trailer is all zeros (`index.skipHash`).
    Skip,
}

/// See the module. Dropped without [`HashWriter::finish`], it leaves behind what was written so far.
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

/// A hashing thread: full buffers go there and come back.
struct HashThread {
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    thread: JoinHandle<Result<ObjectId, CollisionDetected>>,
    buffers: usize,
}

impl<W: Write> HashWriter<W> {
    /// Writes to `out`, from its current position.
    pub fn new(out: W, kind: HashKind, hashing: Hashing) -> Self {
        let hash = match hashing {
            Hashing::Inline => Hash::Inline(Hasher::checksum(kind)),
            Hashing::Threaded => Hash::Threaded(HashThread::start(kind)),
            Hashing::Skip => Hash::Skip,
        };
        HashWriter { out, kind, hash, buffer: Vec::with_capacity(BUFFER), written: 0 }
    }

    /// Bytes taken so far: the offset in the file of what is written next.
    pub fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Adds bytes.
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

    /// Writes what is left and the hash of everything as trailer. Nothing is synced.
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

    /// One buffer's worth that lies elsewhere.
    fn put(&mut self, whole: &[u8]) -> io::Result<()> {
        match &mut self.hash {
            // The other thread needs bytes that stay; a copy costs a tenth of hashing them.
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
        let (full, to_hash) = sync_channel::<Vec<u8>>(AHEAD);
        let (give_back, empty) = channel();
        let thread = std::thread::spawn(move || {
            let _profiled = sys::profile::thread(sys::profile::Phase::Index);
            let mut hasher = Hasher::checksum(kind);
            for buffer in to_hash {
                hasher.update(&buffer);
                // The writer may have finished meanwhile and want no more buffers.
                let _ = give_back.send(buffer);
            }
            hasher.finish()
        });
        HashThread { full, empty, thread, buffers: 1 }
    }

    /// Hands a full buffer over for one to fill.
    fn exchange(&mut self, full: Vec<u8>) -> Vec<u8> {
        self.full.send(full).expect("the thread takes buffers until this end is dropped");
        match self.empty.try_recv() {
            Ok(buffer) => buffer,
            Err(_) if self.buffers <= AHEAD => {
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
        fn all_ways_write_the_same(
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
    fn many_buffers_go_round() {
        let parts = vec![vec![9; 1000]; 20_000];
        let (content, _) = reference(HashKind::Sha1, &parts);
        let mut writer = HashWriter::new(Vec::new(), HashKind::Sha1, Hashing::Threaded);
        for part in &parts {
            writer.write(part).expect("memory takes all");
        }
        assert_eq!(writer.finish().expect("memory takes all").0, content);
    }

    #[test]
    fn a_full_disk_is_an_error_not_a_panic() {
        for hashing in [Hashing::Inline, Hashing::Threaded, Hashing::Skip] {
            let mut room = [0; 1000];
            let mut writer = HashWriter::new(&mut room[..], HashKind::Sha1, hashing);
            let result = writer.write(&vec![1; 3 * BUFFER]).and_then(|()| writer.finish().map(drop));
            assert_eq!(result.expect_err("no room").kind(), io::ErrorKind::WriteZero);
        }
    }
}
