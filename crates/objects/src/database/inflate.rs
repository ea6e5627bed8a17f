//! Inflates whole streams, or their beginning.

use sirocco::Format;
use sirocco::inflate::{Decoder, Error};

use super::Fault;

/// The largest ratio of content to compressed data in a zlib stream.
const MAX_RATIO: u64 = 1032;

/// An inflater with its tables, for reuse.
#[derive(Debug)]
pub(crate) struct Inflater(Box<Decoder>);

/// The result of [`Inflater::at_most`].
pub(crate) struct Inflated {
    /// The number of bytes written.
    pub(crate) len: usize,
    /// The length of the stream, if its end was reached.
    pub(crate) end: Option<usize>,
}

/// The length of the window for streaming.
const WINDOW: usize = 256 << 10;

/// The reason why a stream stopped.
pub(crate) enum Stop {
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
    pub(crate) fn new() -> Inflater {
        Inflater(Box::new(Decoder::new(Format::Zlib)))
    }

    /// Inflates the stream at the start of `input` into `out`, which it must fill exactly. Returns
    /// the length of the stream.
    pub(crate) fn whole(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
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

    /// Inflates the beginning of a stream, until `out` is full.
    pub(crate) fn at_most(&mut self, input: &[u8], out: &mut [u8]) -> Result<Inflated, Fault> {
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

    /// Inflates the stream at the start of `input` in pieces. The first `skip` bytes are dropped;
    /// exactly `expected` bytes must follow. Returns the length of the stream.
    pub(crate) fn stream(
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

/// Returns the largest content that `compressed` bytes can hold.
pub(crate) fn max_inflated(compressed: u64) -> u64 {
    compressed.saturating_mul(MAX_RATIO)
}

/// Checks that the compressed data can hold the size that a header states, before memory is
/// allocated for it.
pub(crate) fn check_size(size: u64, compressed: usize) -> Result<usize, Fault> {
    if size > max_inflated(compressed as u64) {
        return Err(Fault::Size { expected: size, more: false });
    }
    usize::try_from(size).map_err(|_| Fault::Memory(size))
}
