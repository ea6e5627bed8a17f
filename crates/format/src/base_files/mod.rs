//! Names and files of bases that machines share. `docs/design/fleet.md` defines the formats.

pub mod branch;
pub mod bundles;
mod digest;
pub mod frame;
mod json;
pub mod lease;
pub mod list;
pub mod manifest;
mod record;
pub mod table;

pub use branch::Branch;
pub use bundles::BundleList;
pub use digest::{BadDigest, Digest, Digester};
pub use json::Malformed;
pub use lease::Lease;
pub use manifest::Manifest;
pub use record::{BadId, DataFile, RecordKind, RecordName};
