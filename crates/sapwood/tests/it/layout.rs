//! The layout of the crate: operations do not import one another in circles.

use std::path::Path;

use testkit::imports::Imports;

/// The modules that operations share. They know one another, and no operation: a context has
/// settings and a receiver of notices, a notice may hold an error, and an error may hold a refusal.
const STEPS: [&str; 15] = [
    "context",
    "error",
    "events",
    "hooks",
    "index",
    "monitor",
    "notice",
    "read_tree",
    "refused",
    "refs",
    "settings",
    "sparse_index",
    "submodules",
    "transaction",
    "upstream",
];

#[test]
fn modules_import_one_another_without_circles() {
    let imports = Imports::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let group = |file: &str| {
        let module = file.split('/').next().unwrap_or(file).trim_end_matches(".rs");
        if STEPS.contains(&module) { "steps".to_owned() } else { module.replace("lib", "") }
    };
    let circles: Vec<String> = imports.circles_of(group).iter().map(ToString::to_string).collect();
    assert!(circles.is_empty(), "modules that import each other:\n{}", circles.join("\n"));
}
