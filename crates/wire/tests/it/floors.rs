//! The layers of the crate: `client` imports the protocol, then transports, then the types that all
//! of them share.

use testkit::imports::layers::{Layers, Others};

/// The layers from top to bottom.
const FLOORS: &[&[&str]] = &[
    &["client"],
    &["connection", "pack_stream", "scripted", "v0", "v2"],
    &["helper", "http", "socket", "ssh"],
    &["credential", "policy", "process", "shell"],
    &[
        "advertisement",
        "capabilities",
        "environment",
        "error",
        "haves",
        "interrupt",
        "link",
        "matching",
        "options",
        "packets",
        "relative",
        "request",
        "settings",
        "trace",
        "url",
    ],
];

#[test]
fn imports_keep_to_the_layers() {
    let crate_dir = env!("CARGO_MANIFEST_DIR");
    Layers { crate_dir, layers: FLOORS, others: Others::None }.check();
}
