//! `sapwood completion`: scripts for the completion of shells, made of records.
//!
//! A script is a frame, a file beside this one, with tables in the places of its `@...@` lines. The
//! values of an option and the arguments of a command are told by their names in the help:
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

/// Runs `sapwood completion`. Returns the exit code.
pub(super) fn run(registry: &Registry, args: &[BString]) -> Result<u8, Failure> {
    let rest = TABLE.parse(args)?.rest;
    let entries = entry::entries(registry.listed());
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
