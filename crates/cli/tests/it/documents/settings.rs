//! docs/settings.md, and the keys of settings beside the sources.

use std::{fs, path::Path};

use repo::keys;
use testkit::Sandbox;

use super::{assert_none, read, root, sources};
use crate::SAPWOOD;

const PAGE: &str = "docs/settings.md";

/// The crates whose code reads settings. `lab` and `testkit` give them to Git.
const CRATES: [&str; 10] =
    ["base_store", "cli", "engine", "format", "http", "objects", "repo", "sapwood", "store", "wire"];

#[test]
fn the_page_of_settings_is_printed_from_the_keys() {
    let sandbox = Sandbox::new();
    let printed = sandbox.repo("").run(SAPWOOD.as_ref(), &["help", "--settings"]);
    assert_eq!((printed.code, printed.stderr), (0, "".into()));
    assert!(printed.stdout == read(PAGE), "{PAGE} is old: `just documents` prints it");
    let rows = read(PAGE).lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows, keys::all().count());
}

/// Names with the section of settings that are no settings.
const OTHERS: [&str; 8] = [
    "color.advice",
    "gc.pid",
    "index.lock",
    "index.new",
    "maintenance.lock",
    "sapwood.bash",
    "sapwood.fish",
    "sapwood.zsh",
];

/// No name of a setting stands in the sources but in its key, and no other name that looks like
/// one.
#[test]
fn settings_are_named_by_their_keys() {
    let mut found = Vec::new();
    for name in CRATES {
        look_for_names(&root().join("crates").join(name).join("src"), &mut found);
    }
    assert_none(&found, "these names of settings belong in format/src/keys/");
}

/// Each key has a reader, or a check at the beginning of a command.
#[test]
fn keys_are_used() {
    let readers: String = CRATES
        .iter()
        .filter(|name| **name != "format")
        .map(|name| sources(&root().join("crates").join(name).join("src")))
        .collect();
    let is_used = |constant: &str| {
        let path = format!("keys::{constant}");
        let mut ends = readers.split(&path).skip(1);
        ends.any(|rest| !rest.starts_with(|next: char| next == '_' || next.is_alphanumeric()))
    };
    let unused = keys::all().filter(|key| key.check.is_none() && !is_used(key.constant));
    assert_none(&unused.map(|key| key.constant.to_owned()).collect::<Vec<_>>(), "these keys have no reader");
}

fn look_for_names(dir: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        let is_test = path.file_stem().is_some_and(|name| name.to_string_lossy().contains("test"));
        if path.ends_with("format/src/keys") || is_test {
            continue;
        }
        if path.is_dir() {
            look_for_names(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source");
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
            let names =
                lines.flat_map(|line| line.split('"').skip(1).step_by(2)).filter(|text| is_name(text));
            found.extend(names.map(|name| format!("{}: {name}", path.display())));
        }
    }
}

/// Returns true if `text` is the name of a setting. A value that is put into a text counts as the
/// subsection.
fn is_name(text: &str) -> bool {
    let name = match (text.find('{'), text.rfind('}')) {
        (Some(start), Some(end)) if start < end => format!("{}*{}", &text[..start], &text[end + 1..]),
        _ => text.to_owned(),
    };
    let Some((section, rest)) = name.split_once('.') else { return false };
    let is_plain = !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_of_section = |key: &str| key.split('.').next().is_some_and(|it| it.eq_ignore_ascii_case(section));
    let is_key = keys::all().any(|key| key.name.eq_ignore_ascii_case(&name));
    is_key || is_plain && !OTHERS.contains(&text) && keys::all().any(|key| is_of_section(key.name))
}
