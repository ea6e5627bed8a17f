//! The layers of the crate: the operations on a repository import [`repo::Repository`], which
//! imports the parts that open it.

use std::path::Path;

use testkit::imports::layers::{Layers, Others};

/// The layers below the operations, from top to bottom. The crate root, which re-exports all
/// modules, has none.
const FLOORS: &[&[&str]] = &[
    &["repository"],
    &["filter_process", "open", "promisor", "refs"],
    &["config", "options"],
    &["date", "disk", "env", "error", "message_sink"],
];

#[test]
fn imports_keep_to_the_layers() {
    let crate_dir = env!("CARGO_MANIFEST_DIR");
    Layers { crate_dir, layers: FLOORS, others: Others::Top }.check();
}

#[test]
fn crates_below_import_only_these() {
    let edges: &[(&str, &[&str])] = &[
        ("repo", &["format", "objects", "sys", "wire"]),
        ("store", &["format", "sys"]),
        ("base_store", &["format", "sys"]),
        ("objects", &["format", "sys"]),
        ("wire", &["format", "sys"]),
        ("format", &[]),
        ("sys", &[]),
    ];
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (name, allowed) in edges {
        let manifest = std::fs::read_to_string(crates.join(name).join("Cargo.toml")).expect("a manifest");
        let (_, rest) = manifest.split_once("[dependencies]\n").expect("dependencies");
        let lines = rest.lines().take_while(|line| !line.starts_with('['));
        let names = lines.filter_map(|line| line.split(['.', ' ']).next());
        let own = names.filter(|name| !name.is_empty() && crates.join(name).join("Cargo.toml").exists());
        let own: Vec<&str> = own.collect();
        assert_eq!(own, *allowed, "{name}");
    }
}
