//! Documents stay short.

use super::{assert_none, pages, read};

/// The lines that a design note may have.
const NOTE: usize = 150;

/// Notes that are longer, and the lines that they may have. These numbers only become smaller.
const LONGER: &[(&str, usize)] = &[
    ("docs/design/checkout.md", 420),
    ("docs/design/durability.md", 320),
    ("docs/design/index.md", 240),
    ("docs/design/objects.md", 170),
    ("docs/design/packs.md", 160),
    ("docs/design/shim.md", 250),
    ("docs/design/status.md", 190),
    ("docs/design/weather.md", 260),
    ("docs/design/worktree.md", 160),
];

fn too_long(name: &str, limit: usize) -> Option<String> {
    let lines = read(name).lines().count();
    (lines > limit).then(|| format!("{name} has {lines} lines, and may have {limit}"))
}

#[test]
fn documents_keep_to_their_limits() {
    let limit =
        |name: &str| LONGER.iter().find(|(longer, _)| *longer == name).map_or(NOTE, |(_, lines)| *lines);
    let notes = pages("docs/design/");
    let long = notes.iter().filter_map(|name| too_long(name, limit(name)));
    let others = [("SHORTCOMINGS.md", 200), ("README.md", 100), ("docs/glossary.md", 80)];
    let others = others.iter().filter_map(|(name, limit)| too_long(name, *limit));
    assert_none(&long.chain(others).collect::<Vec<_>>(), "these documents are too long");
    let short = LONGER.iter().filter(|(name, _)| read(name).lines().count() <= NOTE);
    let short: Vec<String> = short.map(|(name, _)| (*name).to_owned()).collect();
    assert_none(&short, "these notes are short enough to leave the list `LONGER`");
}
