//! Names and files of bases that machines share. `docs/design/fleet.md` defines the formats.

mod digest;
mod record;

pub use digest::{BadDigest, Digest, Digester};
pub use record::{BadId, DataFile, RecordKind, RecordName};
