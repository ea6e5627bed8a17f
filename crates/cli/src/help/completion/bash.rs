//! Completion for bash.

use super::{
    entry::{Choice, Entry, Value, filled},
    values::Values,
};

const FRAME: &str = include_str!("sapwood.bash");

/// Returns the script.
pub(super) fn script(entries: &[Entry]) -> String {
    let names: Vec<&str> =
        entries.iter().map(|entry| entry.name).filter(|name| !name.contains(' ')).collect();
    let commands = entries.iter().map(|entry| arm(entry, &names)).collect();
    let values =
        entries.iter().flat_map(|entry| entry.options.iter().filter_map(|option| value(entry, option)));
    let line = |names: Vec<&str>| format!("        words=({})\n", names.join(" "));
    filled(FRAME, &[("NAMES", line(names.clone())), ("COMMANDS", commands), ("VALUES", values.collect())])
}

/// Returns the case for the options and arguments of a command.
fn arm(entry: &Entry, names: &[&str]) -> String {
    let spellings: Vec<String> = entry.options.iter().flat_map(spellings).collect();
    let words: Vec<&str> = match entry.arguments {
        Values::Commands => names.to_vec(),
        _ => entry.words.iter().map(|(word, _)| *word).collect(),
    };
    format!(
        "        '{}')\n            options=({})\n            words=({})\n            first={}\n            arguments={}\n            ;;\n",
        entry.name,
        spellings.join(" "),
        words.join(" "),
        entry.first.as_ref().map_or("", kind),
        kind(&entry.arguments),
    )
}

fn spellings(option: &Choice) -> Vec<String> {
    let short = option.short.map(|letter| format!("-{letter}"));
    short.into_iter().chain(option.long.as_ref().map(|long| format!("--{long}"))).collect()
}

/// Returns the case that sets the kind of an option's value.
fn value(entry: &Entry, option: &Choice) -> Option<String> {
    let Value { is_optional, values } = option.value.as_ref()?;
    // A space marks a value that may be the next word.
    let lead = if *is_optional { "=" } else { " " };
    let patterns: Vec<String> =
        spellings(option).iter().map(|name| format!("'{} {name}{lead}'", entry.name)).collect();
    let kind = match values {
        Values::Words(words) => format!("kind=words; words=({})", words.join(" ")),
        other => format!("kind={}", kind(other)),
    };
    Some(format!("        {}) {kind} ;;\n", patterns.join(" | ")))
}

fn kind(values: &Values) -> &'static str {
    match values {
        Values::Free => "none",
        Values::Files => "files",
        Values::Directories => "directories",
        Values::Branches => "branches",
        Values::Revisions => "revisions",
        Values::RevisionsAndFiles => "revisions_and_files",
        Values::Worktrees => "worktrees",
        Values::Workspaces => "workspaces",
        Values::Commands | Values::Words(_) => "words",
    }
}
