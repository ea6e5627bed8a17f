//! The layers of the crate: imports point downwards.

use testkit::imports::layers::{Layers, Others};

/// The layers from top to bottom.
const FLOORS: &[&[&str]] = &[
    &["bin"],
    &["serve"],
    &["door"],
    &["named", "budget"],
    &["publish"],
    &["repository"],
    &["child", "volumes"],
    &["secrets", "state"],
    &["settings"],
    &["volume"],
    &["error"],
];

#[test]
fn imports_keep_to_the_layers() {
    let crate_dir = env!("CARGO_MANIFEST_DIR");
    Layers { crate_dir, layers: FLOORS, others: Others::None }.check();
}
