//! The records of all commands.

use crate::commands::record::{Command, Group};

/// The groups of commands and their titles, in the order of `help`.
pub(super) const GROUPS: &[(Group, &str)] = &[
    (Group::Starts, "start a working tree"),
    (Group::Looks, "look at it"),
    (Group::Changes, "change it"),
    (Group::Worktrees, "work in several trees, or in a part of one"),
    (Group::Own, "sapwood's own tools"),
    (Group::Scripts, "for scripts"),
];

/// The records of all commands.
pub(super) struct Registry {
    pub(super) commands: Vec<&'static Command>,
}

impl Registry {
    /// Returns the commands that `help` lists.
    pub(super) fn listed(&self) -> impl Iterator<Item = &'static Command> {
        self.commands
            .iter()
            .copied()
            .filter(|command| !matches!(command.group, Group::Internal | Group::Hidden))
    }

    /// Returns the commands of a group.
    pub(super) fn of_group(&self, group: Group) -> impl Iterator<Item = &'static Command> {
        self.commands.iter().copied().filter(move |command| command.group == group)
    }

    /// Returns the command called `name`.
    pub(super) fn find(&self, name: &[u8]) -> Option<&'static Command> {
        self.commands.iter().copied().find(|command| name == command.name.as_bytes())
    }
}
