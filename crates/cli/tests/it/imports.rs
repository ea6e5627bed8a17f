//! The layers of the crate: `shim` and `help` import `commands`, `commands` import `session`, then
//! `git`, then `term`.

use std::path::Path;

use testkit::imports::Imports;

/// The layers from top to bottom. `main.rs` is above them.
const FLOORS: &[&[&str]] = &[&["help", "shim"], &["commands"], &["session"], &["git"], &["term"]];

/// The largest import cycle that is tolerated below `commands`, where a command's files share one
/// module.
const LARGEST_CIRCLE: usize = 5;

fn imports() -> Imports {
    Imports::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
}

#[test]
fn imports_point_downwards() {
    let floor = |file: &str| {
        let top = file.split(['/', '.']).next().unwrap_or_default();
        FLOORS.iter().rev().position(|floor| floor.contains(&top))
    };
    let imports = imports();
    let upward = imports.upward(floor);
    let lines: Vec<String> = upward.iter().map(|import| import.to_string()).collect();
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

#[test]
fn circles_of_files_are_small() {
    let circles = imports().circles();
    circles.iter().for_each(|circle| println!("{circle}"));
    let large: Vec<String> = circles
        .iter()
        .filter(|circle| circle.members.len() > LARGEST_CIRCLE)
        .map(ToString::to_string)
        .collect();
    assert!(large.is_empty(), "{}", large.join("\n"));
}
