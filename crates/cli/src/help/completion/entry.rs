//! Commands and options in the form that completion scripts need.

use super::values::{self, Values};
use crate::{commands::record::Command, term::args::Spec};

/// A command or subcommand.
pub(super) struct Entry {
    /// `worktree add`
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    pub(super) options: Vec<Choice>,
    /// Subcommands, or the words that the first argument may be, with their summaries.
    pub(super) words: Vec<(&'static str, &'static str)>,
    /// The values of the first argument, if they differ from [`Entry::arguments`].
    pub(super) first: Option<Values>,
    pub(super) arguments: Values,
}

/// An option.
pub(super) struct Choice {
    /// One letter.
    pub(super) short: Option<char>,
    /// The name without dashes; a `--no-` form is an option of its own.
    pub(super) long: Option<String>,
    pub(super) help: String,
    pub(super) value: Option<Value>,
}

/// The value of an option.
pub(super) struct Value {
    /// The option may stand without a value; a value must be attached to it.
    pub(super) is_optional: bool,
    pub(super) values: Values,
}

/// All commands, each followed by its subcommands.
pub(super) fn entries(listed: impl Iterator<Item = &'static Command>) -> Vec<Entry> {
    let family = |command: &'static Command| std::iter::once(command).chain(command.subcommands);
    listed.flat_map(family).map(entry).collect()
}

fn entry(command: &'static Command) -> Entry {
    let specs = command.syntax.specs();
    let options = specs.iter().filter(|spec| !spec.hidden).flat_map(|spec| choices(spec)).collect();
    let words = match command.subcommands {
        [] => values::words(command).into_iter().map(|word| (word, "")).collect(),
        subcommands => subcommands.iter().map(|command| (command.word(), command.summary)).collect(),
    };
    let arguments = values::of_arguments(command);
    let first = values::of_first(command);
    Entry { name: command.name, summary: command.summary, options, words, first, arguments }
}

/// Returns the option and its negation.
fn choices(spec: &Spec) -> Vec<Choice> {
    let help = spec.help.split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "'");
    let value = values::of_option(spec);
    let value = value.map(|(is_optional, values)| Value { is_optional, values });
    let short = spec.short().map(char::from);
    // A command that parses its own words declares the alternatives in the spelling:
    // `--form=(a|b)`.
    let long = spec.long().map(|long| long.split_once('=').unwrap_or((long, "")));
    let stuck = long.map(|(_, stuck)| stuck).filter(|stuck| !stuck.is_empty());
    let stuck = stuck.map(|stuck| Value { is_optional: true, values: values::alternatives(stuck) });
    let long = long.map(|(long, _)| long.to_owned());
    let mut found = vec![Choice { short, long, help, value: value.or(stuck) }];
    if let (Some(long), Some(negation)) = (spec.long(), spec.negation().filter(|name| !name.contains('='))) {
        let help = format!("opposite of --{long}");
        found.push(Choice { short: None, long: Some(negation), help, value: None });
    }
    found
}

/// Fills a template: replaces each line `@name@` by the table of that name.
pub(super) fn filled(frame: &str, tables: &[(&str, String)]) -> String {
    let line = |line: &str| match tables.iter().find(|(name, _)| line == format!("@{name}@")) {
        Some((_, table)) => table.clone(),
        None => format!("{line}\n"),
    };
    frame.lines().map(line).collect()
}
