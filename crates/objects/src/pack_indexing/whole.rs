//! A pack of a few objects, without deltas, in memory.

use format::{HashKind, Kind, hash::Hasher, pack};

use super::{Error, thin::deflate};

/// A pack under construction.
pub struct WholePack {
    bytes: Vec<u8>,
    count: u32,
    level: i32,
}

impl WholePack {
    /// Begins a pack whose objects are deflated at `level`.
    pub fn new(level: i32) -> WholePack {
        WholePack { bytes: pack::encode_header(0).to_vec(), count: 0, level }
    }

    /// Adds an object.
    pub fn add(&mut self, kind: Kind, content: &[u8]) -> Result<(), Error> {
        pack::encode_entry(kind, content.len() as u64, &mut self.bytes);
        let bytes = &mut self.bytes;
        deflate(content, self.level, &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        self.count += 1;
        Ok(())
    }

    /// Returns the number of bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns true if there is no object.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the bytes of the pack, with its checksum.
    pub fn finish(mut self, hash: HashKind) -> Vec<u8> {
        self.bytes[..pack::HEADER_LEN].copy_from_slice(&pack::encode_header(self.count));
        let mut hasher = Hasher::checksum(hash);
        hasher.update(&self.bytes);
        let checksum = hasher.finish().expect("a checksum looks for no collision");
        self.bytes.extend_from_slice(checksum.as_bytes());
        self.bytes
    }
}
