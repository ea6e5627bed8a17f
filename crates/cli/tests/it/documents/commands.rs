//! docs/commands.md: what the program prints from its records, and the records beside the sources.

use std::fs;

use testkit::Sandbox;

use super::{assert_none, read, root, sources};
use crate::SAPWOOD;

const PAGE: &str = "docs/commands.md";

#[test]
fn the_page_of_commands_is_printed_from_the_records() {
    let sandbox = Sandbox::new();
    let printed = sandbox.repo("").run(SAPWOOD.as_ref(), &["help", "--markdown"]);
    assert_eq!((printed.code, printed.stderr), (0, "".into()));
    assert!(printed.stdout == read(PAGE), "{PAGE} is old: `just documents` prints it");
}

/// Each condition that a command notices while it works is in its record.
#[test]
fn late_conditions_are_in_the_records() {
    let page = read(PAGE).replace("\\<", "<");
    let commands = root().join("crates/cli/src/commands");
    let mut missing = Vec::new();
    for folder in fs::read_dir(&commands).expect("a directory").flatten() {
        let family = folder.file_name().to_string_lossy().replace('_', "-");
        let of_family = |part: &&str| {
            let name = part.lines().next().unwrap_or_default();
            name == family || name.starts_with(&format!("{family} "))
        };
        let listed: String = page.split("\n### ").filter(of_family).collect();
        if listed.is_empty() || !folder.path().is_dir() {
            continue;
        }
        let library = root().join("crates/sapwood/src").join(folder.file_name());
        let mut code = sources(&folder.path());
        if library.is_dir() {
            code += &sources(&library).replace("unsupported(\"", "Failure::Unserved(\"");
        }
        let late = code.split("Failure::Unserved(\"").skip(1).filter_map(|rest| rest.split('"').next());
        missing
            .extend(late.filter(|words| !listed.contains(words)).map(|words| format!("{family}: {words}")));
    }
    assert_none(&missing, "the field `late` lacks these");
}
