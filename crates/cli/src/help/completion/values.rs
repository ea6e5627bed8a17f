//! The values that a shell offers, determined by their names in usage lines and option help.

use crate::{
    commands::record::{Command, Revisions},
    term::args::{Spec, Takes},
};

/// The kinds of values to offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Values {
    /// Nothing: any value is possible.
    Free,
    Files,
    Directories,
    Branches,
    /// Branches, tags and `HEAD`.
    Revisions,
    /// Revisions and files.
    RevisionsAndFiles,
    Worktrees,
    /// Names of workspaces.
    Workspaces,
    /// sapwood's commands.
    Commands,
    Words(Vec<&'static str>),
}

/// The kind of a value by its name. Any other name means [`Values::Free`].
const FILES: &[&str] = &["<file>", "<path>", "<gitignore>", "<repo>", "<pathspec>", "<gitdir>"];
const DIRECTORIES: &[&str] = &["<directory>", "<template-directory>", "<subdirectory>/"];
const BRANCHES: &[&str] = &["<branch>"];
const REVISIONS: &[&str] =
    &["<tree-ish>", "<commit>", "<commit-ish>", "<rev>", "<start-point>", "<object>", "<ref>"];

/// Returns the values of an option, and true if the option can stand without one.
pub(super) fn of_option(spec: &Spec) -> Option<(bool, Values)> {
    let (is_optional, name) = match spec.takes() {
        Takes::Nothing => return None,
        Takes::Value(name) => (false, name),
        Takes::Optional(form) => (true, form.trim_start_matches("[=").trim_end_matches(']')),
    };
    let is = |names: &[&str]| names.contains(&name);
    let values = match name.trim_start_matches('<').strip_prefix('(') {
        _ if is(FILES) => Values::Files,
        _ if is(DIRECTORIES) => Values::Directories,
        _ if is(BRANCHES) => Values::Branches,
        _ if is(REVISIONS) => Values::Revisions,
        Some(_) if name.trim_end_matches('>').ends_with(')') => alternatives(name),
        _ => listed_in(spec.help).map_or(Values::Free, Values::Words),
    };
    Some((is_optional, values))
}

/// Returns the words of `(direct|inherit)`.
pub(super) fn alternatives(form: &'static str) -> Values {
    let words = form.trim_start_matches(['<', '(']).trim_end_matches([')', '>']).split('|').collect();
    Values::Words(words)
}

/// Returns the words that the help of an option lists: `... modes: all, normal, no.`, `(merge,
/// diff3, or zdiff3)`.
fn listed_in(help: &'static str) -> Option<Vec<&'static str>> {
    let list = match help.split_once("modes: ") {
        Some((_, list)) => list.split(['.', '(']).next()?,
        None => help.rsplit_once('(')?.1.strip_suffix(')')?,
    };
    let words: Vec<&str> =
        list.split([',', '|']).map(|word| word.trim().trim_start_matches("or ").trim()).collect();
    let is_word = |word: &&str| {
        word.len() > 1 && word.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'-')
    };
    (words.len() > 1 && words.iter().all(is_word)).then_some(words)
}

/// Returns the words that the first argument may be: literal in the usage lines, or alternatives in
/// brackets.
pub(super) fn words(command: &Command) -> Vec<&'static str> {
    let lead = format!("sapwood {} ", command.name);
    let mut found: Vec<&str> = Vec::new();
    for usage in command.syntax.usage() {
        let Some(rest) = usage.strip_prefix(&lead[..]) else { continue };
        match rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            Some((words, _)) => found.extend(words.split('|').map(str::trim)),
            None => found.extend(rest.split(' ').next()),
        }
    }
    found.retain(|word| {
        let is_letter = |letter: u8| letter.is_ascii_lowercase() || letter == b'-';
        !word.is_empty() && !word.starts_with('-') && word.bytes().all(is_letter)
    });
    found
}

/// Returns the values of the first argument, if they differ from those of the other ones.
pub(super) fn of_first(command: &Command) -> Option<Values> {
    after_workspace(command).filter(|after| is_operand(after)).map(|_| Values::Workspaces)
}

/// Returns the part of the usage after `<workspace>`.
fn after_workspace(command: &Command) -> Option<&'static str> {
    command.syntax.usage().iter().find_map(|usage| Some(usage.split_once("<workspace>")?.1))
}

/// Returns true if other arguments follow: not just more of the first kind.
fn is_operand(after: &str) -> bool {
    !after.starts_with("...") && after.contains('<')
}

/// Returns the values of a command's arguments.
pub(super) fn of_arguments(command: &Command) -> Values {
    match after_workspace(command) {
        Some(after) if !is_operand(after) => return Values::Workspaces,
        Some(after) if after.contains("<commit>") => return Values::Revisions,
        Some(_) => return Values::Files,
        None => {}
    }
    let has = |name: &str| command.syntax.usage().iter().any(|usage| usage.contains(name));
    match command.revisions {
        Revisions::Leading if has("<branch>") && !has("<file>") => Values::Branches,
        Revisions::Leading | Revisions::AfterFirst => Values::RevisionsAndFiles,
        Revisions::None if has("<command>") => Values::Commands,
        Revisions::None if has("<worktree>") => Values::Worktrees,
        Revisions::None if has("<patterns>") || has("[<dir>]") => Values::Directories,
        Revisions::None if !has("<") && !command.syntax.usage().is_empty() => Values::Free,
        Revisions::None => Values::Files,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::COMMANDS;

    fn command(name: &str) -> &'static Command {
        let mut leaves = COMMANDS.iter().flat_map(|command| command.leaves());
        leaves.find(|command| command.name == name).expect("a command")
    }

    #[test]
    fn values_follow_from_the_help() {
        let option = |name: &str, option: &str| {
            let specs = command(name).syntax.specs();
            let spec = specs.iter().find(|spec| spec.name() == option).expect("an option");
            of_option(spec)
        };
        assert_eq!(option("switch", "--track"), Some((true, Values::Words(vec!["direct", "inherit"]))));
        assert_eq!(
            option("switch", "--conflict"),
            Some((false, Values::Words(vec!["merge", "diff3", "zdiff3"])))
        );
        assert_eq!(
            option("status", "--untracked-files"),
            Some((true, Values::Words(vec!["all", "normal", "no"])))
        );
        assert_eq!(option("restore", "--source"), Some((false, Values::Revisions)));
        assert_eq!(option("clone", "--depth"), Some((false, Values::Free)));
        assert_eq!(option("clone", "--quiet"), None);
    }

    #[test]
    fn arguments_follow_from_the_usage() {
        assert_eq!(of_arguments(command("switch")), Values::Branches);
        assert_eq!(of_arguments(command("checkout")), Values::RevisionsAndFiles);
        assert_eq!(of_arguments(command("worktree remove")), Values::Worktrees);
        assert_eq!(of_arguments(command("clean")), Values::Files);
        let both = |name: &str| (of_first(command(name)), of_arguments(command(name)));
        for name in ["enter", "mount", "unmount", "remove", "freeze", "thaw"] {
            assert_eq!(both(&format!("workspace {name}")), (None, Values::Workspaces), "{name}");
        }
        assert_eq!(both("workspace exec"), (Some(Values::Workspaces), Values::Files));
        assert_eq!(both("workspace move"), (Some(Values::Workspaces), Values::Files));
        assert_eq!(both("workspace rebase"), (Some(Values::Workspaces), Values::Revisions));
        assert_eq!(words(command("status")), [""; 0]);
    }
}
