//! The layers of the crate: `fsck` imports `pack_indexing`, then `database`.

use testkit::imports::layers::{Layers, Others};

/// The layers from top to bottom.
const FLOORS: &[&[&str]] = &[&["fsck"], &["pack_indexing", "links"], &["database", "graph"]];

#[test]
fn imports_keep_to_the_layers() {
    let crate_dir = env!("CARGO_MANIFEST_DIR");
    Layers { crate_dir, layers: FLOORS, others: Others::None }.check();
}
