//! docs/site: each page is in the table of contents, each link leads to a page and a section, and
//! each command that a page shows exists.

use std::{collections::BTreeSet, path::Path};

use testkit::Sandbox;

use super::{
    assert_none,
    links::{anchor, sections, targets},
    pages, read, root,
};
use crate::SAPWOOD;

const PAGES: &str = "docs/site/src/";

/// Returns a page with the files that it includes.
fn page(name: &str) -> String {
    let text = read(name);
    match text.trim().strip_prefix("{{#include ").and_then(|rest| rest.strip_suffix("}}")) {
        Some(file) => read(&format!("{PAGES}{file}")),
        None => text,
    }
}

#[test]
fn each_page_is_in_the_contents_and_each_link_leads_somewhere() {
    let contents = read(&format!("{PAGES}SUMMARY.md"));
    let listed: BTreeSet<&str> = targets(&contents).into_iter().collect();
    let names = pages(PAGES);
    let found: BTreeSet<&str> =
        names.iter().map(|name| &name[PAGES.len()..]).filter(|name| *name != "SUMMARY.md").collect();
    assert_eq!(listed, found);
    let mut broken = Vec::new();
    for name in &names {
        // Pages that are included have links of their own place, which another test follows.
        let text = read(name);
        for target in targets(&text).into_iter().filter(|target| !target.contains("://")) {
            let (file, section) = target.split_once('#').unwrap_or((target, ""));
            let file = format!("{PAGES}{file}");
            let is_section = || sections(&page(&file)).iter().any(|title| anchor(title) == section);
            if !root().join(&file).exists() || !section.is_empty() && !is_section() {
                broken.push(format!("{name}: {target}"));
            }
        }
    }
    assert_none(&broken, "links of the web pages that lead nowhere");
}

/// A page begins with the problem and has a result of at most ten lines.
#[test]
fn each_case_begins_with_its_problem() {
    for name in ["laptops", "ci", "fleets", "network-disks"] {
        let text = read(&format!("{PAGES}{name}.md"));
        let mut paragraphs = text.split("\n\n");
        assert!(paragraphs.next().is_some_and(|title| title.starts_with("# ")), "{name}");
        assert!(paragraphs.next().is_some_and(|text| text.starts_with("**The problem.** ")), "{name}");
        assert!(
            paragraphs.next().is_some_and(|text| text.starts_with("**The result in ten lines.** ")),
            "{name}"
        );
        let lines = paragraphs.next().expect("a block").lines().count() - 2;
        assert!(lines <= 10, "{name}: {lines}");
    }
}

#[test]
fn the_pages_name_commands_that_exist() {
    let sandbox = Sandbox::new();
    let at = sandbox.repo("");
    let mut wrong = Vec::new();
    let mut names: Vec<String> =
        ["laptops", "ci", "fleets", "network-disks", "index"].map(|name| format!("{PAGES}{name}.md")).into();
    names.push("docs/editors.md".into());
    for name in names {
        assert!(Path::new(&root().join(&name)).exists());
        let text = read(&name);
        for part in text.split("sapwood ").skip(1) {
            let words: Vec<&str> =
                part.split(|letter: char| letter.is_whitespace() || "`\"()|&;".contains(letter)).collect();
            let is_word = |word: &str| {
                !word.is_empty() && word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-')
            };
            let families = ["workspace", "base", "ci"];
            let known = [
                "status",
                "clone",
                "try",
                "doctor",
                "shim",
                "adopt",
                "checkpoint",
                "undo",
                "completion",
                "shell-init",
            ];
            let count = if families.contains(&words[0]) { 2 } else { usize::from(known.contains(&words[0])) };
            if count == 0 || !words.iter().take(count).all(|word| is_word(word)) {
                continue;
            }
            let help = at.run(SAPWOOD.as_ref(), &[&words[..count], &["-h"]].concat());
            if help.code != 129 {
                wrong.push(format!("{name}: {}", words[..count].join(" ")));
            }
        }
    }
    assert_none(&wrong, "commands of the web pages that do not exist");
}
