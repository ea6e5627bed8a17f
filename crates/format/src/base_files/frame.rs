//! Frames: contents of a segment, compressed together with zstd.
//!
//! A segment is a sequence of frames and nothing else, so `zstd -dc` prints its contents. A frame
//! is independent of all others. The table contains its length before compression; a frame that
//! inflates to another length is damaged.
//!
//! Source: RFC 8878.

use zstd::bulk;

/// The uncompressed length at which a writer ends a frame, in bytes.
pub const TARGET: usize = 1 << 20;
/// The maximum uncompressed length of a frame, in bytes. A reader needs a buffer of this size.
pub const MAX_RAW: u32 = 8 << 20;
/// The default level of compression.
pub const DEFAULT_LEVEL: i32 = 9;

/// Returns the maximum compressed length of a frame of `raw` uncompressed bytes.
pub const fn max_compressed(raw: u32) -> u32 {
    // zstd's own bound for incompressible data is lower.
    raw + (raw >> 7) + 1024
}

/// The reason why a frame could not be compressed or inflated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("the frame is damaged: {0}")]
    Damaged(String),
    #[error("the frame has {found} bytes instead of {expected}")]
    Length { expected: u32, found: usize },
    #[error("zstd failed: {0}")]
    Zstd(String),
}

/// Compresses frames, for one thread.
pub struct Compressor(bulk::Compressor<'static>);

impl Compressor {
    /// Creates a compressor of this level (1 to 19).
    pub fn new(level: i32) -> Result<Compressor, Error> {
        let made = bulk::Compressor::new(level.clamp(1, 19));
        made.map(Compressor).map_err(|error| Error::Zstd(error.to_string()))
    }

    /// Returns a frame with `raw`, which has at most [`MAX_RAW`] bytes. The frame depends only on
    /// these bytes and the level.
    pub fn compress(&mut self, raw: &[u8]) -> Result<Vec<u8>, Error> {
        self.0.compress(raw).map_err(|error| Error::Zstd(error.to_string()))
    }
}

/// Inflates frames, for one thread.
pub struct Inflater {
    inner: bulk::Decompressor<'static>,
    room: Vec<u8>,
}

impl Inflater {
    /// Creates an inflater. It allocates its buffer for the first frame.
    pub fn new() -> Result<Inflater, Error> {
        let inner = bulk::Decompressor::new().map_err(|error| Error::Zstd(error.to_string()))?;
        Ok(Inflater { inner, room: Vec::new() })
    }

    /// Inflates a frame into the inflater's buffer. Never writes more than `expected` bytes,
    /// whatever size the frame states.
    pub fn inflate(&mut self, frame: &[u8], expected: u32) -> Result<&[u8], Error> {
        if expected > MAX_RAW {
            return Err(Error::Length { expected: MAX_RAW, found: expected as usize });
        }
        self.room.resize(expected as usize, 0);
        let inflated = self.inner.decompress_to_buffer(frame, &mut self.room[..]);
        match inflated {
            Err(error) => Err(Error::Damaged(error.to_string())),
            Ok(found) if found != expected as usize => Err(Error::Length { expected, found }),
            Ok(_) => Ok(&self.room),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn compressed(raw: &[u8]) -> Vec<u8> {
        Compressor::new(DEFAULT_LEVEL).expect("made").compress(raw).expect("compressed")
    }

    proptest! {
        #[test]
        fn frames_come_back(raw in prop::collection::vec(any::<u8>(), 0..10_000), level in 1..12) {
            let frame = Compressor::new(level).expect("made").compress(&raw).expect("compressed");
            let len = raw.len() as u32;
            prop_assert!(frame.len() <= max_compressed(len) as usize);
            let mut inflater = Inflater::new().expect("made");
            prop_assert_eq!(inflater.inflate(&frame, len).expect("whole"), &raw[..]);
            prop_assert!(inflater.inflate(&frame, len + 1).is_err());
            if len > 0 {
                prop_assert!(inflater.inflate(&frame, len - 1).is_err());
            }
        }

        #[test]
        fn other_bytes_give_an_error_or_the_length(
            raw in prop::collection::vec(0..4_u8, 1..3000), at in any::<prop::sample::Index>(), bit in 0..8_u32,
        ) {
            let mut frame = compressed(&raw);
            let at = at.index(frame.len());
            frame[at] ^= 1_u8 << bit;
            let mut inflater = Inflater::new().expect("made");
            if let Ok(back) = inflater.inflate(&frame, raw.len() as u32) {
                prop_assert_eq!(back.len(), raw.len());
            }
        }
    }

    #[test]
    fn a_bomb_stops_at_the_expected_length() {
        let bomb = compressed(&vec![0; MAX_RAW as usize]);
        assert!(bomb.len() < 2000);
        let mut inflater = Inflater::new().expect("made");
        inflater.inflate(&bomb, 1000).expect_err("longer than its table says");
        assert!(inflater.room.capacity() < 10_000);
        // Two concatenated frames are not a valid frame either.
        let twice = [compressed(b"one"), compressed(b"two")].concat();
        inflater.inflate(&twice, 3).expect_err("more than one");
        inflater.inflate(&bomb, u32::MAX).expect_err("no table allows it");
        assert_eq!(inflater.inflate(&compressed(b"next"), 4).expect("whole"), b"next");
    }
}
