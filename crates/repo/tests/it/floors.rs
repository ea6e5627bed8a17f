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
        ("base_store", &["format", "http", "sys"]),
        ("objects", &["format", "sys"]),
        ("wire", &["format", "http", "sys"]),
        ("http", &["sys"]),
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

/// The program is without async: only the driver for volumes and the servers of tests have it.
#[test]
fn the_program_has_one_http_stack_and_no_async() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for entry in std::fs::read_dir(&crates).expect("a directory").map(|entry| entry.expect("an entry")) {
        let name = entry.file_name().into_string().expect("a name");
        let Ok(manifest) = std::fs::read_to_string(entry.path().join("Cargo.toml")) else { continue };
        if ["csi", "lab", "testkit"].contains(&name.as_str()) {
            continue;
        }
        let (own, _) = manifest.split_once("[dev-dependencies]").unwrap_or((&manifest, ""));
        for crate_name in ["futures-util", "hyper", "object_store", "reqwest", "tokio", "ureq"] {
            assert!(!own.lines().any(|line| line.starts_with(crate_name)), "{name}: {crate_name}");
        }
        let speaks = own.lines().any(|line| line.starts_with("rustls") || line.starts_with("httparse"));
        assert_eq!(speaks, name == "http", "{name}");
    }
}
