//! `sapwood completion`: completion scripts for shells, generated from the command records.
//!
//! A script is a template, a file in this directory, in which tables replace the `@...@` lines. The
//! values of an option and the arguments of a command are recognized by their names in the help:
//! `<branch>`, `<tree-ish>`, `(direct|inherit)`.

mod bash;
mod entry;
mod fish;
mod values;
mod zsh;

use bstr::BString;

use super::registry::Registry;
use crate::term::{
    args::{Grammar, Table},
    console,
    failure::Failure,
};

pub(super) const TABLE: Table<()> =
    Table { usage: &["sapwood completion (bash | zsh | fish)"], options: &[], grammar: Grammar::Mixed };

/// Returns all commands and subcommands.
fn entries(registry: &Registry) -> Vec<entry::Entry> {
    entry::entries(registry.listed())
}

/// Runs `sapwood completion`. Returns the exit code.
pub(super) fn run(registry: &Registry, args: &[BString]) -> Result<u8, Failure> {
    let rest = TABLE.parse(args)?.rest;
    let entries = entries(registry);
    let script = match &rest[..] {
        [shell] if shell == "bash" => bash::script(&entries),
        [shell] if shell == "zsh" => zsh::script(&entries),
        [shell] if shell == "fish" => fish::script(&entries),
        _ => {
            return Err(Failure::Misused(
                "name the shell: 'sapwood completion bash', 'zsh' or 'fish'".into(),
            ));
        }
    };
    console::out_raw(script.as_bytes());
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::COMMANDS;

    /// The scripts do not quote option names.
    #[test]
    fn options_are_plain_words() {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        for entry in entries(&Registry { commands: COMMANDS.iter().collect() }) {
            let names = entry.options.iter().flat_map(|option| &option.long);
            names.for_each(|name| assert!(name.chars().all(is_plain), "{}: {name}", entry.name));
        }
    }
}
