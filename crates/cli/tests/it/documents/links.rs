//! Links between documents, and from the sources to sections of documents.

use std::{collections::BTreeSet, path::Path};

use super::{all_sources, assert_none, pages, read, root};

/// Returns the anchor of a heading, as web pages of repositories make it.
pub(super) fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// Returns the titles of the sections of a document, and the words in bold at the beginning of a
/// paragraph.
pub(super) fn sections(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#'));
    let bold = text.lines().filter_map(|line| line.strip_prefix("**")?.split_once(".**"));
    headings.map(|title| title.trim().to_owned()).chain(bold.map(|(title, _)| title.to_owned())).collect()
}

/// Returns the targets of the links in a document.
pub(super) fn targets(text: &str) -> Vec<&str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target).collect()
}

#[test]
fn links_lead_to_sections_that_exist() {
    let top = ["README", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG", "SHORTCOMINGS"];
    let mut documents: Vec<String> = top.iter().map(|name| format!("{name}.md")).collect();
    documents.extend(["docs/", "docs/design/", "docs/measurements/"].iter().flat_map(|dir| pages(dir)));
    let mut broken = Vec::new();
    for name in &documents {
        let text = read(name);
        for target in targets(&text).into_iter().filter(|target| !target.contains("://")) {
            let (file, section) = target.split_once('#').unwrap_or((target, ""));
            let path = match file {
                "" => Path::new(name).to_owned(),
                file => Path::new(name).parent().expect("a file").join(file),
            };
            let is_section = || {
                let text = read(path.to_str().expect("UTF-8"));
                sections(&text).iter().any(|title| anchor(title) == section)
            };
            if !root().join(&path).exists() || !section.is_empty() && !is_section() {
                broken.push(format!("{name}: {target}"));
            }
        }
    }
    assert_none(&broken, "links that lead nowhere");
}

/// `docs/design/<note>.md, "<section>"` in a comment, and a note without a section.
#[test]
fn comments_name_notes_and_sections_that_exist() {
    let code = all_sources();
    // The parts of a comment on several lines become one line.
    let lines: Vec<&str> = code.lines().map(|line| line.trim().trim_start_matches(['/', '!'])).collect();
    let text = lines.join("");
    let mut wrong = Vec::new();
    for rest in text.split("docs/design/").skip(1) {
        let Some((note, rest)) = rest.split_once(".md") else { continue };
        let name = format!("docs/design/{note}.md");
        if !note.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-') {
            continue;
        }
        if !root().join(&name).exists() {
            wrong.push(name);
        } else if let Some((section, _)) = rest.strip_prefix(", \"").and_then(|rest| rest.split_once('"'))
            && !sections(&read(&name)).contains(section)
        {
            wrong.push(format!("{name}: {section}"));
        }
    }
    assert_none(&wrong, "comments name these");
}
