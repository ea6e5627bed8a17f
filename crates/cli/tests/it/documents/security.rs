//! The paths and the tests that docs/security.md names.

use super::{all_sources, assert_none, quoted, read, root};

#[test]
fn security_names_paths_and_tests_that_exist() {
    let document = read("docs/security.md");
    let paths = quoted(&document).filter(|word| word.starts_with("crates/"));
    let missing: Vec<String> = paths.filter(|path| !root().join(path).exists()).map(str::to_owned).collect();
    assert_none(&missing, "docs/security.md names paths that do not exist");
    let rows = document.lines().filter(|line| line.starts_with("| "));
    let tests: Vec<&str> = rows.filter_map(|row| row.rsplit('|').nth(1)).flat_map(quoted).collect();
    assert!(tests.len() > 20, "the tables name few tests: {tests:?}");
    let code = all_sources();
    let is_missing = |name: &&str| {
        !name.starts_with("crates/")
            && ["", "    "].iter().all(|indent| !code.contains(&format!("#[test]\n{indent}fn {name}(")))
    };
    let missing: Vec<String> = tests.into_iter().filter(is_missing).map(str::to_owned).collect();
    assert_none(&missing, "docs/security.md names tests that do not exist");
}
