//! The layers of the crate: imports point downwards.

use testkit::imports::layers::{Layers, Others};

/// The layers from top to bottom.
const FLOORS: &[&[&str]] = &[
    &["bin"],
    &["serve"],
    &["worker"],
    &["client", "image", "mounts"],
    &["checks", "table"],
    &["confine"],
    &["peer"],
    &["disks", "policy", "wire"],
];

#[test]
fn imports_keep_to_the_layers() {
    let crate_dir = env!("CARGO_MANIFEST_DIR");
    Layers { crate_dir, layers: FLOORS, others: Others::None }.check();
}

/// The service is read in one sitting. Its client has no more rights than its user.
#[test]
fn the_service_is_small() {
    let src = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let dirs = [src.clone(), src.join("bin")];
    let listed = dirs.iter().flat_map(|dir| std::fs::read_dir(dir).expect("a directory"));
    let files = listed
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file() && !path.ends_with("client.rs"));
    let lines = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(path).expect("a file");
        text.lines().take_while(|line| *line != "#[cfg(test)]").count()
    };
    let all: usize = files.map(lines).sum();
    assert!(all <= 1620, "{all} lines without tests");
}
