//! `sapwood shell-init`: a function that changes into a workspace, its completion, and the name of
//! the current workspace for the prompt. The scripts are files in this directory.

use bstr::BString;

use super::record::{Command, Group, Traits};
use crate::{
    session::invocation::Invocation,
    term::{
        args::{Grammar, Table},
        console,
        failure::Failure,
    },
};

/// The record of `shell-init`.
pub(super) const COMMAND: Command = Command {
    name: "shell-init",
    summary: "Print functions for a shell: bash, zsh or fish",
    about: "Prints a script for the start-up file of a shell. `sw <workspace>` changes into a workspace and mounts \
            it if necessary, `sw -c <workspace> [<commit>]` creates it first, and `sw` lists the workspaces. Names \
            are completed.\n\n\
            Before each prompt the variable `sapwood_workspace` gets the name of the workspace that contains the \
            current directory. No program is started for it. The prompt itself is yours: in bash \
            `PS1='${sapwood_workspace:+[$sapwood_workspace] }'$PS1`, in zsh the same with PROMPT after \
            `setopt prompt_subst`, in fish `set -q sapwood_workspace; and echo -n \"[$sapwood_workspace] \"` in the \
            function fish_prompt.\n\n\
            For bash, add to `~/.bashrc`: `eval \"$(sapwood shell-init bash)\"`. For zsh, after compinit in \
            `~/.zshrc`: `eval \"$(sapwood shell-init zsh)\"`. For fish, in `~/.config/fish/config.fish`: \
            `sapwood shell-init fish | source`.",
    group: Group::Own,
    syntax: &TABLE,
    traits: Traits { outside: true, starts_no_program: true, ..Command::BASE.traits },
    run,
    ..Command::BASE
};

const TABLE: Table<()> =
    Table { usage: &["sapwood shell-init (bash | zsh | fish)"], options: &[], grammar: Grammar::Mixed };

/// Runs the command. Returns its exit code.
fn run(_: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let rest = TABLE.parse(args)?.rest;
    let script = match &rest[..] {
        [shell] if shell == "bash" => include_str!("sw.bash"),
        [shell] if shell == "zsh" => include_str!("sw.zsh"),
        [shell] if shell == "fish" => include_str!("sw.fish"),
        _ => {
            return Err(Failure::Misused(
                "name the shell: 'sapwood shell-init bash', 'zsh' or 'fish'".into(),
            ));
        }
    };
    console::out_raw(script.as_bytes());
    Ok(0)
}
