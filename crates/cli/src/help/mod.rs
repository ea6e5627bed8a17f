//! Texts generated from the command records: `help` and the manual, the lists that tests and
//! scripts read, shell completion, and the response to an unknown command.
//!
//! The submodules get the records as a [`Registry`]: this module alone imports all tables.

mod completion;
mod manual;
mod mistyped;
mod native;
mod overview;
mod page;
mod registry;
mod render;
mod settings;
mod text;
mod version;

use bstr::ByteSlice as _;
use registry::Registry;

use crate::{
    commands::{
        self,
        record::{Command, Group},
    },
    session::invocation::Invocation,
    shim,
    term::{console, failure::Failure},
};

/// The commands of this module. They read all records, and therefore are in a table of their own.
const COMMANDS: &[Command] = &[
    Command {
        name: "completion",
        summary: "Print the completion of a shell: bash, zsh or fish",
        about: "Prints a script that completes commands, options, branches, worktrees and paths. Packages install \
                it. Otherwise load it from the shell's start-up file.\n\n\
                For bash, add to `~/.bashrc`: `eval \"$(sapwood completion bash)\"`. For zsh, after compinit in \
                `~/.zshrc`: `eval \"$(sapwood completion zsh)\"`. For fish, in `~/.config/fish/config.fish`: \
                `sapwood completion fish | source`.",
        group: Group::Own,
        syntax: &completion::TABLE,
        run: |_, args| completion::run(&registry(), args),
        ..Command::BASE
    },
    Command { run: |run, args| manual::run(&registry(), run, args), ..manual::COMMAND },
    version::COMMAND,
];

/// Returns the records of all commands.
fn registry() -> Registry {
    Registry { commands: commands::COMMANDS.iter().chain(shim::COMMANDS).chain(COMMANDS).collect() }
}

/// Runs the command that the user named. Returns its exit code.
pub(crate) fn dispatch(run: &Invocation) -> Result<u8, Failure> {
    let registry = registry();
    if run.command.is_empty() {
        console::out_raw(overview::text(&registry).as_bytes());
        return Ok(1);
    }
    let command = match registry.find(&run.command) {
        Some(command) if run.args.first().is_some_and(|arg| arg == "--help") => {
            return manual::page_of(run, command);
        }
        Some(command) => command,
        None => mistyped::corrected(&registry, run, run.command.as_bstr())?,
    };
    commands::start(run, command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_description() {
        let missing: Vec<&str> = registry()
            .listed()
            .filter(|command| command.about.is_empty())
            .map(|command| command.name)
            .collect();
        assert!(missing.is_empty(), "the field `about` is empty: {missing:?}");
    }

    #[test]
    fn every_command_is_in_the_overview() {
        let text = overview::text(&registry());
        for command in registry().listed() {
            assert!(text.contains(command.name), "{}", command.name);
        }
        let wide: Vec<&str> = text.lines().filter(|line| line.len() > 80).collect();
        assert!(wide.is_empty(), "{wide:?}");
    }
}
