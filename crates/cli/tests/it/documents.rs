//! The paths and the tests that docs/security.md names.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the words between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Adds all sources below `dir` to `text`.
fn sources(dir: &Path, text: &mut String) {
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(&path).expect("UTF-8"));
        }
    }
}

#[test]
fn security_names_paths_and_tests_that_exist() {
    let document = fs::read_to_string(root().join("docs/security.md")).expect("the document");
    let mut code = String::new();
    for name in fs::read_dir(root().join("crates")).expect("a directory").flatten() {
        for part in ["src", "tests"].map(|part| name.path().join(part)).iter().filter(|part| part.is_dir()) {
            sources(part, &mut code);
        }
    }
    let paths = quoted(&document).filter(|word| word.starts_with("crates/"));
    let missing: Vec<&str> = paths.filter(|path| !root().join(path).exists()).collect();
    assert_eq!(missing, Vec::<&str>::new(), "docs/security.md names paths that do not exist");
    let rows = document.lines().filter(|line| line.starts_with("| "));
    let tests: Vec<&str> = rows.filter_map(|row| row.rsplit('|').nth(1)).flat_map(quoted).collect();
    assert!(tests.len() > 20, "the tables name few tests: {tests:?}");
    let is_missing = |name: &&str| {
        !name.starts_with("crates/")
            && ["", "    "].iter().all(|indent| !code.contains(&format!("#[test]\n{indent}fn {name}(")))
    };
    let missing: Vec<&str> = tests.into_iter().filter(is_missing).collect();
    assert_eq!(missing, Vec::<&str>::new(), "docs/security.md names tests that do not exist");
}
