//! The layers of the crate: `shim` and `help` import `commands`, `commands` import `session`, then
//! `git`, then `term`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use testkit::imports::Imports;

/// The layers from top to bottom. `main.rs` is above them.
const FLOORS: &[&[&str]] = &[&["help", "shim"], &["commands"], &["session"], &["git"], &["term"]];

/// The largest import cycle that is tolerated below `commands`, where a command's files share one
/// module.
const LARGEST_CIRCLE: usize = 5;

/// The lowest crates, which only [`NAMING_LOWEST`] may name: commands call the library.
const LOWEST: [&str; 3] = ["store::", "format::", "sys::"];

/// The floors that may name the lowest crates.
const NAMING_LOWEST: [&str; 3] = ["term", "git", "shim"];

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

/// Adds the source files below `dir`.
fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() { sources(&path, found) } else { found.push(path) }
    }
}

/// Returns true if a line of code names a crate, and not a module or macro that ends so.
fn names_lowest(text: &str) -> bool {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let is_end = |letter: u8| letter == b':' || letter == b'_' || letter.is_ascii_alphanumeric();
    code.map(|line| line.replace("use ::", "use ")).any(|line| {
        LOWEST.iter().any(|name| {
            let mut at = line.match_indices(name).map(|(at, _)| at);
            at.any(|at| at == 0 || !is_end(line.as_bytes()[at - 1]))
        })
    })
}

#[test]
fn commands_do_not_name_the_lowest_crates() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    sources(&root, &mut all);
    all.retain(|path| {
        let below = path.strip_prefix(&root).expect("it is below");
        let is_allowed = NAMING_LOWEST.iter().any(|floor| below.starts_with(floor));
        !is_allowed && names_lowest(&fs::read_to_string(path).expect("UTF-8"))
    });
    assert!(all.is_empty(), "these files should call the library, or `term`: {all:#?}");
}

#[test]
fn names_of_crates_are_told_from_others() {
    assert!(
        names_lowest("use sys::Dir;")
            && names_lowest("use ::format::Mode;")
            && names_lowest("    let a = store::Lock::take(b);")
    );
    assert!(!names_lowest("// See sys::Dir.\nlet a = my_store::x(format!(\"\"), self::format::y);"));
}
