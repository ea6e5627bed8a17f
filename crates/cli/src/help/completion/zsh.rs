//! Completion for zsh.

use super::{
    entry::{Choice, Entry, Value, filled},
    values::Values,
};

const FRAME: &str = include_str!("sapwood.zsh");

/// Returns the script.
pub(super) fn script(entries: &[Entry]) -> String {
    let is_top = |entry: &&Entry| !entry.name.contains(' ');
    let names = entries.iter().filter(is_top).map(|entry| described(entry.name, entry.summary)).collect();
    filled(FRAME, &[("NAMES", names), ("FUNCTIONS", entries.iter().map(function).collect())])
}

/// Returns the function that completes the options and arguments of one command.
fn function(entry: &Entry) -> String {
    let name = entry.name.replace([' ', '-'], "_");
    let mut text = format!("_sapwood_{name}() {{\n");
    let has_subcommands = entry.words.iter().any(|(_, summary)| !summary.is_empty());
    if has_subcommands {
        text += "  local -a subcommands=(\n";
        entry.words.iter().for_each(|(word, summary)| text += &described(word, summary));
        return text + &format!("  )\n  _sapwood_subcommand {name}\n}}\n");
    }
    text += "  _arguments -s -S : \\\n";
    for option in &entry.options {
        specs(option).iter().for_each(|spec| text += &format!("    {spec} \\\n"));
    }
    if !entry.words.is_empty() {
        let words: Vec<&str> = entry.words.iter().map(|(word, _)| *word).collect();
        text += &format!("    {} \\\n", quoted(&format!("1: :({})", words.join(" "))));
    }
    if let Some(first) = &entry.first {
        text += &format!("    {} \\\n", quoted(&format!("1: :{}", action(first))));
    }
    text + &format!("    {}\n}}\n", quoted(&format!("*: :{}", action(&entry.arguments))))
}

/// Returns an element of an array for `_describe`.
fn described(word: &str, summary: &str) -> String {
    format!("    {}\n", quoted(&format!("{word}:{}", summary.replace('`', "").replace(':', "\\:"))))
}

/// Returns the option as arguments of `_arguments`, one for each spelling.
fn specs(option: &Choice) -> Vec<String> {
    let escape =
        |text: &str| text.replace('\\', "\\\\").replace('[', "\\[").replace(']', "\\]").replace(':', "\\:");
    let help = escape(&option.help);
    let spec = |name: String, stuck: &str, apart: &str| {
        let (mark, value) = match &option.value {
            None => ("", String::new()),
            Some(Value { is_optional: true, values }) => (stuck, format!(":: :{}", action(values))),
            Some(Value { values, .. }) => (apart, format!(": :{}", action(values))),
        };
        quoted(&format!("*{name}{mark}[{help}]{value}"))
    };
    let short = option.short.map(|letter| spec(format!("-{letter}"), "-", "+"));
    let long = option.long.as_ref().map(|long| spec(format!("--{long}"), "=-", "="));
    short.into_iter().chain(long).collect()
}

fn action(values: &Values) -> String {
    match values {
        Values::Free => " ".into(),
        Values::Files => "_files".into(),
        Values::Directories => "_files -/".into(),
        Values::Branches => "_sapwood_branches".into(),
        Values::Revisions => "_sapwood_revisions".into(),
        Values::RevisionsAndFiles => "_sapwood_revisions_and_files".into(),
        Values::Worktrees => "_sapwood_worktrees".into(),
        Values::Workspaces => "_sapwood_workspaces".into(),
        Values::Commands => "_sapwood_commands".into(),
        Values::Words(words) => format!("({})", words.join(" ")),
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
