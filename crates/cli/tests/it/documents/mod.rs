//! Documents that name something of the sources: it exists. Pages that the program prints: they are
//! as it prints them. Documents with a limit: they are not longer.

mod commands;
mod limits;
mod links;
mod security;
mod settings;
mod site;
mod tables;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Returns the directory of the project.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the text of a file of the project.
fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the words between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the text of a file, or of all sources below a directory.
fn sources(path: &Path) -> String {
    if path.is_file() {
        return fs::read_to_string(path).unwrap_or_default();
    }
    let mut text = String::new();
    for entry in fs::read_dir(path).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() || path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&sources(&path));
        }
    }
    text
}

/// Returns all sources and tests of the crates.
fn all_sources() -> String {
    let crates = fs::read_dir(root().join("crates")).expect("a directory").flatten();
    let parts = crates.flat_map(|name| ["src", "tests"].map(|part| name.path().join(part)));
    parts.filter(|part| part.is_dir()).map(|part| sources(&part)).collect()
}

/// Returns the names of the Markdown files below `dir`, from the top of the project.
fn pages(dir: &str) -> Vec<String> {
    let names = fs::read_dir(root().join(dir)).expect("a directory").flatten();
    let names = names.map(|entry| format!("{dir}{}", entry.file_name().to_string_lossy()));
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".md")).collect();
    names.sort();
    names
}

/// Fails if `missing` is not empty.
#[track_caller]
fn assert_none(missing: &[String], what: &str) {
    assert!(missing.is_empty(), "{what}:\n{}", missing.join("\n"));
}
