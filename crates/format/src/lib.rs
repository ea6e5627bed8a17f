//! Git's formats as types: parses bytes into values and writes values as bytes, without I/O.
//!
//! Each module names the document that defines its format. Parsers treat their input as hostile:
//! for any bytes, the result is a value or an error, never a panic or an unbounded allocation.

pub mod base_files;
pub mod blank;
pub mod bundle;
pub mod chunks;
pub mod commit_graph;
pub mod config;
pub mod erofs;
mod fanout;
pub mod hash;
pub mod idx;
pub mod idx_writer;
pub mod index;
pub mod keys;
pub mod loose;
pub mod midx;
pub mod mode;
pub mod pack;
pub mod packed_refs;
pub mod path;
pub mod pattern;
pub mod pkt;
mod quote;
pub mod ref_file;
pub mod reflog;
pub mod refname;
pub mod rev;
pub mod shell;
pub mod split;
pub mod tree;
pub mod wildmatch;

pub use fanout::of_sorted as fanout_of;
pub use hash::{HashKind, ObjectId};
pub use loose::Kind;
pub use mode::Mode;
pub use quote::{quote, quote_into, unquote};
