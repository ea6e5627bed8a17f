//! `docs/variables.md` lists every variable of sapwood.

use std::{collections::BTreeSet, fs, path::Path};

/// Returns the variables that a text contains.
fn variables(text: &str) -> BTreeSet<String> {
    let lead = concat!("SAP", "WOOD_");
    let names = text.split(lead).skip(1).map(|rest| {
        let end =
            rest.find(|letter: char| !letter.is_ascii_uppercase() && letter != '_').unwrap_or(rest.len());
        format!("{lead}{}", &rest[..end])
    });
    names.filter(|name| name.len() > lead.len() && !name.ends_with('_')).collect()
}

/// Adds the variables of the files below `dir`.
fn collect(dir: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).expect("a directory of the project") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, found);
        } else if let Ok(text) = fs::read_to_string(&path) {
            found.extend(variables(&text));
        }
    }
}

#[test]
fn the_page_lists_every_variable() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut used = BTreeSet::new();
    for dir in ["crates", ".ci", "fuzz/fuzz_targets"] {
        collect(&top.join(dir), &mut used);
    }
    let page = fs::read_to_string(top.join("docs/variables.md")).expect("the page");
    assert_eq!(used, variables(&page), "sources (left) and docs/variables.md (right)");
}
