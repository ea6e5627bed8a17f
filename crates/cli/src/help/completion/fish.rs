//! Completion for fish.

use super::{
    entry::{Choice, Entry, Value, filled},
    values::Values,
};

const FRAME: &str = include_str!("sapwood.fish");

/// Returns the script.
pub(super) fn script(entries: &[Entry]) -> String {
    let names = entries.iter().filter(|entry| !entry.name.contains(' '));
    let name = |entry: &Entry| format!("    printf '%s\\t%s\\n' {} {}\n", entry.name, quoted(entry.summary));
    filled(FRAME, &[("NAMES", names.map(name).collect()), ("COMMANDS", entries.iter().map(lines).collect())])
}

/// Returns the lines for one command or subcommand: its name, its options, its arguments.
fn lines(entry: &Entry) -> String {
    let (family, word) = entry.name.rsplit_once(' ').unwrap_or(("", entry.name));
    let before = format!("__sapwood_exactly {family}");
    let mut text = offer(before.trim_end(), &format!("-f -a {word} -d {}", quoted(entry.summary)));
    let condition = format!("__sapwood_at {}", entry.name);
    for option in &entry.options {
        text += &offer(&condition, &flags(option));
    }
    if entry.words.iter().all(|(_, summary)| summary.is_empty()) {
        for (word, _) in &entry.words {
            text += &offer(&format!("__sapwood_exactly {}", entry.name), &format!("-f -a {word}"));
        }
        if let Some(first) = entry.first.as_ref().and_then(arguments) {
            text += &offer(&format!("__sapwood_exactly {}", entry.name), &first);
        }
        if let Some(arguments) = arguments(&entry.arguments) {
            let condition = match (&entry.words[..], &entry.first) {
                ([], None) => condition,
                _ => format!("{condition}; and not __sapwood_exactly {}", entry.name),
            };
            text += &offer(&condition, &arguments);
        }
    }
    text
}

fn offer(condition: &str, what: &str) -> String {
    format!("complete -c sapwood -n {} {what}\n", quoted(condition))
}

fn flags(option: &Choice) -> String {
    let mut flags = String::new();
    if let Some(letter) = option.short {
        flags += &format!("-s {letter} ");
    }
    if let Some(long) = &option.long {
        flags += &format!("-l {long} ");
    }
    flags += &format!("-d {}", quoted(&option.help));
    if let Some(Value { is_optional, values }) = &option.value {
        let requires = if *is_optional { "" } else { " -r" };
        flags += &format!("{requires} {}", arguments(values).unwrap_or_default());
    }
    flags.trim_end().to_owned()
}

/// Returns the arguments of `complete` that offer the values; `None` for files, fish's default.
fn arguments(values: &Values) -> Option<String> {
    Some(match values {
        Values::Free => "-f".into(),
        Values::Files => return None,
        Values::Directories => "-f -a '(__fish_complete_directories)'".into(),
        Values::Branches => "-f -a '(__sapwood_branches)'".into(),
        Values::Revisions => "-f -a '(__sapwood_revisions)'".into(),
        Values::RevisionsAndFiles => "-a '(__sapwood_revisions)'".into(),
        Values::Worktrees => "-f -a '(__sapwood_worktrees)'".into(),
        Values::Workspaces => "-f -a '(__sapwood_workspaces)'".into(),
        Values::Commands => "-f -a '(__sapwood_commands)'".into(),
        Values::Words(words) => format!("-f -a {}", quoted(&words.join(" "))),
    })
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'").replace('`', ""))
}
