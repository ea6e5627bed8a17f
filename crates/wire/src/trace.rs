//! The data on a connection, for `GIT_TRACE_PACKET` and `GIT_TRACE_PACKFILE`.

/// One packet.
#[derive(Clone, Copy, Debug)]
pub enum Packet<'a> {
    /// A sent line. It is `0000`, `0001` or `0002` for a packet without payload.
    Sent(&'a [u8]),
    /// A received line.
    Received(&'a [u8]),
    /// A piece of the pack.
    Pack(&'a [u8]),
}

/// Receives all data of a connection, on any thread.
pub type Tracer = dyn Fn(Packet<'_>) + Send + Sync;
