//! Inflating, whole or a beginning only.

use sirocco::Format;
use sirocco::inflate::{Decoder, Error};

use super::Fault;

/// No zlib stream holds more than this many times its own length.
const MAX_RATIO: u64 = 1032;

/// An inflater with its tables, to be used again.
#[derive(Debug)]
pub(super) struct Inflater(Box<Decoder>);

/// What [`Inflater::at_most`] did.
pub(super) struct Inflated {
    /// Bytes written.
    pub(super) len: usize,
    /// The length of the stream, if it ended.
    pub(super) end: Option<usize>,
}

/// Length of the window that streams go through.
const WINDOW: usize = 256 << 10;

/// Why a stream stopped.
pub(super) enum Stop {
    /// The data is damaged.
    Fault(Fault),
    /// The receiver failed.
    Sink(std::io::Error),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Fault(fault)
    }
}

impl Inflater {
    pub(super) fn new() -> Inflater {
        Inflater(Box::new(Decoder::new(Format::Zlib)))
    }

    /// Inflates the stream that `input` starts with into `out`, which it must fill exactly. Returns
    /// the length of the stream.
    pub(super) fn whole(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
        let expected = out.len() as u64;
        let result = match self.0.decompress(input, out, true) {
            Ok(progress) if progress.done && progress.output.len() as u64 == expected => {
                return Ok(progress.consumed);
            }
            Ok(progress) => Err(Fault::Size { expected, more: !progress.done }),
            Err(Error::BufferFull) => Err(Fault::Size { expected, more: true }),
            Err(error) => Err(Fault::Inflate(error)),
        };
        self.0.reset();
        result
    }

    /// Inflates as much of the stream as `out` holds.
    pub(super) fn at_most(&mut self, input: &[u8], out: &mut [u8]) -> Result<Inflated, Fault> {
        let result = match self.0.decompress(input, out, true) {
            Ok(progress) => {
                let end = progress.done.then_some(progress.consumed);
                Ok(Inflated { len: progress.output.len(), end })
            }
            Err(error) => Err(Fault::Inflate(error)),
        };
        self.0.reset();
        result
    }

    /// Inflates the stream that `input` starts with piece by piece. Its first `skip` bytes are not
    /// handed on; `expected` must follow them. Returns the length of the stream.
    pub(super) fn stream(
        &mut self,
        input: &[u8],
        skip: usize,
        expected: u64,
        sink: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<usize, Stop> {
        let result = self.stream_pieces(input, skip, expected, sink);
        self.0.reset();
        result
    }

    fn stream_pieces(
        &mut self,
        input: &[u8],
        mut skip: usize,
        expected: u64,
        sink: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<usize, Stop> {
        let mut window = vec![0; WINDOW];
        let (mut consumed, mut left) = (0, expected);
        loop {
            let inflated =
                self.0.decompress(&input[consumed..], &mut window, true).map_err(Fault::Inflate)?;
            consumed += inflated.consumed;
            let piece = &inflated.output[skip.min(inflated.output.len())..];
            skip -= inflated.output.len() - piece.len();
            left = left.checked_sub(piece.len() as u64).ok_or(Fault::Size { expected, more: true })?;
            let done = inflated.done;
            sink(piece).map_err(Stop::Sink)?;
            if done && left != 0 {
                return Err(Fault::Size { expected, more: false }.into());
            }
            if done {
                return Ok(consumed);
            }
            self.0.make_room(&mut window);
        }
    }
}

/// The most that so many compressed bytes can hold.
pub(super) fn max_inflated(compressed: u64) -> u64 {
    compressed.saturating_mul(MAX_RATIO)
}

/// Checks a size promised by a header against what the compressed bytes can hold at most, before
/// memory is set aside for it.
pub(super) fn plausible(size: u64, compressed: usize) -> Result<usize, Fault> {
    if size > max_inflated(compressed as u64) {
        return Err(Fault::Size { expected: size, more: false });
    }
    usize::try_from(size).map_err(|_| Fault::Memory(size))
}
