//! ARCHITECTURE.md and CONTRIBUTING.md: each path that they name exists, and contains the items
//! that are named after it. The pages of docs/ name no source that does not exist.
//!
//! A path is a word in backquotes with a slash, or one that ends in `.rs` or `.md`. It begins at
//! the top of the project or in `crates/`, or beside the path before it. An item follows its path
//! and a colon: `path`: `item`, `item`.

use std::path::{Path, PathBuf};

use super::{assert_none, pages, quoted, read, root, sources};

/// Returns the paths that `dir/{a,b}.rs` stands for.
fn expanded(word: &str) -> Vec<String> {
    match word.split_once('{').and_then(|(start, rest)| Some((start, rest.split_once('}')?))) {
        Some((start, (names, end))) => {
            names.split(',').map(|name| format!("{start}{}{end}", name.trim())).collect()
        }
        None => vec![word.to_owned()],
    }
}

fn is_path(word: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-{},".contains(&byte);
    let looks_so = word.contains('/') || word.ends_with(".rs") || word.ends_with(".md");
    // `target` is made by a build.
    looks_so && word.bytes().all(is_name) && !word.starts_with(['/', '-']) && !word.starts_with("target/")
}

/// Returns the place of `name`, which may be beside the path before it.
fn place(name: &str, before: Option<&PathBuf>) -> Option<PathBuf> {
    let beside = before.and_then(|path| Some(path.parent()?.join(name)));
    let inside = before.map(|path| path.join(name));
    let places = [Some(root().join("crates").join(name)), Some(root().join(name)), inside, beside];
    places.into_iter().flatten().find(|place| place.exists())
}

/// Returns what `text` names and the sources lack. A paragraph or a cell of a table is one unit.
fn missing(text: &str) -> Vec<String> {
    let mut missing = Vec::new();
    for unit in text.split(['|']).flat_map(|cell| cell.split("\n\n")).flat_map(|part| part.split("\n- ")) {
        let mut before: Option<PathBuf> = None;
        let mut names_items = false;
        for (number, piece) in unit.split('`').enumerate() {
            if number % 2 == 0 {
                names_items = piece.starts_with(": ") || names_items && matches!(piece, ", " | " and ");
                continue;
            }
            if is_path(piece) {
                for name in expanded(piece) {
                    match place(&name, before.as_ref()) {
                        Some(path) => before = Some(path),
                        None => missing.push(name),
                    }
                }
                names_items = false;
            } else if let Some(path) = before.as_ref().filter(|_| names_items)
                && !contains(path, piece)
            {
                missing.push(format!("{piece} in {}", path.display()));
            }
        }
    }
    missing
}

/// Returns true if the sources at `path` have the word `item`, or a module of this name.
fn contains(path: &Path, item: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let text = sources(path);
    let has_word = text
        .match_indices(item)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + item.len()..].starts_with(is_part));
    has_word || path.join(item).exists() || path.join(format!("{item}.rs")).exists()
}

/// Returns the section of `text` with this title.
fn section<'a>(text: &'a str, title: &str) -> &'a str {
    let (_, rest) =
        text.split_once(&format!("\n## {title}\n")).unwrap_or_else(|| panic!("no section {title}"));
    rest.split("\n## ").next().unwrap_or(rest)
}

/// Returns the cells of the rows of the tables in `text`.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let rows = text.lines().filter(|line| line.starts_with("| "));
    rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect()).skip(1).collect()
}

#[test]
fn architecture_names_what_exists() {
    let text = read("ARCHITECTURE.md");
    assert_none(&missing(section(&text, "Flows")), "the flows name these");
    assert_none(&missing(section(&text, "Where to find what no name shows")), "the table names these");
    assert_none(&missing(text.split("\n## ").next().expect("a beginning")), "the rule names these");
}

/// The table of crates names each crate, and modules that exist in it.
#[test]
fn architecture_lists_the_crates() {
    let text = read("ARCHITECTURE.md");
    let rows = rows(section(&text, "The crates, and the layers inside them"));
    let mut wrong = Vec::new();
    let mut listed: Vec<&str> = Vec::new();
    for row in &rows {
        for name in quoted(row[0]) {
            listed.push(name);
            let code = root().join("crates").join(name).join("src");
            let layers = row[1..].iter().flat_map(|cell| quoted(cell));
            let is_missing = |layer: &&str| {
                let layer = layer.trim_end_matches('/');
                !code.join(layer).exists() && !code.join(format!("{layer}.rs")).exists()
            };
            wrong.extend(layers.filter(is_missing).map(|layer| format!("{name}: {layer}")));
        }
    }
    let crates = std::fs::read_dir(root().join("crates")).expect("a directory").flatten();
    let crates = crates.map(|entry| entry.file_name().to_string_lossy().into_owned());
    wrong.extend(crates.filter(|name| !listed.contains(&&name[..])).map(|name| format!("no row for {name}")));
    assert_none(&wrong, "the table of crates is wrong");
}

/// Returns CONTRIBUTING, with one command for all.
fn contributing() -> String {
    read("CONTRIBUTING.md").replace("<name>/", "status/").replace("<name>.rs", "status.rs")
}

#[test]
fn contributing_names_what_exists() {
    assert_none(&missing(&contributing()), "CONTRIBUTING names these");
}

#[test]
fn pages_name_sources_that_exist() {
    let pages: Vec<String> = ["docs/", "docs/design/"].into_iter().flat_map(pages).collect();
    let mut missing = Vec::new();
    for page in &pages {
        let text = read(page);
        let names = quoted(&text).filter(|word| is_path(word) && word.contains("/src/")).flat_map(expanded);
        let names = names.filter(|name| place(name, None).is_none());
        missing.extend(names.map(|name| format!("{page}: {name}")));
    }
    assert_none(&missing, "these are not there");
}

/// Each question of a newcomer has its answer at a path, and mostly at an item in it.
#[test]
fn questions_have_answers() {
    let text = contributing();
    let rows = rows(section(&text, "Questions of a newcomer"));
    assert!(rows.len() >= 15, "{} questions", rows.len());
    let without: Vec<String> = rows
        .iter()
        .filter(|row| row.len() != 3 || !row[0].ends_with('?') || !quoted(row[2]).any(is_path))
        .map(|row| row.join(" | "))
        .collect();
    assert_none(&without, "these have no answer");
    let items = rows.iter().filter(|row| row[2].contains("`: `")).count();
    assert!(items >= 12, "{items} answers name an item of their file");
}
