//! The layout of the engine: `crew` below `look` below the operations.

use std::path::Path;

use testkit::imports::{Imports, module_at};

fn imports() -> Imports {
    Imports::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
}

/// Returns the floor of a file. The crate root, which re-exports all floors, has none.
fn floor(file: &str) -> Option<usize> {
    match module_at(file, 1).as_str() {
        "" => None,
        "crew" => Some(0),
        "look" => Some(1),
        _ => Some(2),
    }
}

#[test]
fn imports_point_downwards() {
    let imports = imports();
    let upward: Vec<String> = imports.upward(floor).iter().map(ToString::to_string).collect();
    assert!(upward.is_empty(), "imports of a higher floor:\n{}", upward.join("\n"));
}

#[test]
fn operations_use_one_another_without_circles() {
    let imports = imports();
    for circle in imports.circles() {
        eprintln!("files in a circle (allowed within a module): {}", circle.members.join(", "));
    }
    let circles: Vec<String> = imports.circles_at(1).iter().map(ToString::to_string).collect();
    assert!(circles.is_empty(), "modules that import each other:\n{}", circles.join("\n"));
}
