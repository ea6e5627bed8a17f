//! An unknown command: Git's message and suggestions, and `help.autocorrect`.

use std::time::Duration;

use bstr::{BStr, BString, ByteSlice as _};
use repo::keys::{self, Key};

use super::registry::Registry;
use crate::{
    commands::{
        self,
        record::{Command, Group},
    },
    git::builtins,
    session::invocation::Invocation,
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// From this distance on, names are not similar. As in Git.
const TOO_FAR: usize = 7;

/// The costs of one edit, as in Git: swapped letters cost nothing, and a missing letter costs less
/// than a superfluous one.
const SUBSTITUTE: usize = 2;
const INSERT: usize = 1;
const DELETE: usize = 3;

/// The values of `help.autocorrect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Autocorrect {
    /// Print suggestions.
    Show,
    /// Print no suggestions.
    Never,
    /// Run the command that is the only similar one, after a delay.
    After(Duration),
}

/// Returns the command that the user meant, if `help.autocorrect` lets it run. Otherwise prints the
/// failure, which names the similar commands, and returns its exit code.
pub(super) fn corrected(
    registry: &Registry,
    run: &Invocation,
    name: &BStr,
) -> Result<&'static Command, Failure> {
    let correct = configured(run)?;
    let similar = match correct {
        Autocorrect::Never => Vec::new(),
        _ => similar(registry.listed(), name),
    };
    let is_gits = builtins::is_builtin(name);
    if let (Autocorrect::After(delay), [meant], false) = (correct, &similar[..], is_gits) {
        proceed(name, meant, delay);
        return Ok(meant);
    }
    let failure = commands::unknown(name);
    match &similar[..] {
        _ if is_gits => console::hint(text!("Git has it: 'git ", name, "'.")),
        [] => {}
        [_] => console::eprint_line("\nThe most similar command is"),
        _ => console::eprint_line("\nThe most similar commands are"),
    }
    if !is_gits {
        similar.iter().for_each(|command| console::eprint_line(text!("\t", command.name)));
    }
    Err(failure)
}

/// Announces the command that runs instead, and waits.
fn proceed(name: &BStr, meant: &Command, delay: Duration) {
    console::eprint_line(text!(
        "WARNING: You called a sapwood command named '",
        name,
        "', which does not exist."
    ));
    let meant = meant.name;
    if delay.is_zero() {
        console::eprint_line(text!("Continuing under the assumption that you meant '", meant, "'."));
        return;
    }
    let seconds = format!("{:.1}", delay.as_secs_f32());
    console::eprint_line(text!(
        "Continuing in ",
        seconds,
        " seconds, assuming that you meant '",
        meant,
        "'."
    ));
    std::thread::sleep(delay);
}

fn configured(run: &Invocation) -> Result<Autocorrect, Failure> {
    const KEY: Key<Option<BString>> = keys::help::AUTOCORRECT;
    let value = match run.look_for_repository() {
        Ok(repo) => repo.config_value(&KEY),
        Err(_) => repo::StandaloneConfig::load(&run.outside())?.config_value(&KEY),
    };
    let Some(value) = value else { return Ok(Autocorrect::Show) };
    parse(value.as_ref().map(|value| value.as_bstr())).ok_or_else(|| {
        let value = value.unwrap_or_default();
        Failure::Fatal(text!("bad numeric config value '", value, "' for '", KEY.lower(), "': invalid unit"))
    })
}

/// Parses a value; `None` means a key without a value. Prompting is not supported.
fn parse(value: Option<&BStr>) -> Option<Autocorrect> {
    let now = Autocorrect::After(Duration::ZERO);
    let Some(value) = value else { return Some(now) };
    let word = value.to_str().ok()?;
    match &word.to_ascii_lowercase()[..] {
        "" | "false" | "no" | "off" => return Some(Autocorrect::Show),
        "true" | "yes" | "on" => return Some(now),
        _ => {}
    }
    match word {
        "show" => Some(Autocorrect::Show),
        "immediate" => Some(now),
        "never" | "prompt" => Some(Autocorrect::Never),
        number => Some(match number.parse::<i32>().ok()? {
            0 => Autocorrect::Show,
            ..0 | 1 => now,
            tenths => Autocorrect::After(Duration::from_millis(u64::from(tenths.unsigned_abs()) * 100)),
        }),
    }
}

/// Returns the commands for people that begin with `name`, then those at the smallest distance.
fn similar(all: impl Iterator<Item = &'static Command>, name: &BStr) -> Vec<&'static Command> {
    let is_begun = |command: &&Command| {
        !matches!(command.group, Group::Scripts) && command.name.as_bytes().starts_with(name)
    };
    let (mut begun, others): (Vec<&Command>, Vec<&Command>) = all.partition(is_begun);
    begun.sort_by_key(|command| command.name);
    let mut others: Vec<(usize, &str, &Command)> = others
        .into_iter()
        .map(|command| (distance(name, command.name.as_bytes()) + 1, command.name, command))
        .collect();
    others.sort_by_key(|&(distance, name, _)| (distance, name));
    match others.first().map(|&(distance, ..)| distance) {
        Some(least) if least < TOO_FAR => {
            let nearest = others.iter().take_while(|&&(distance, ..)| distance == least);
            begun.extend(nearest.map(|&(.., command)| command));
            begun
        }
        // Git suggests nothing in this case. Commands that begin with the word are still useful.
        _ => begun,
    }
}

/// Returns the lowest cost of the edits that turn `from` into `to` (Damerau-Levenshtein), where
/// swapping two neighbours is free.
fn distance(from: &[u8], to: &[u8]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).map(|length| length * INSERT).collect();
    for (row, &letter) in from.iter().enumerate() {
        let mut next = vec![(row + 1) * DELETE];
        for (column, &wanted) in to.iter().enumerate() {
            let kept = last[column] + if letter == wanted { 0 } else { SUBSTITUTE };
            let mut least = kept.min(last[column + 1] + DELETE).min(next[column] + INSERT);
            let is_swapped = row > 0 && column > 0 && letter == to[column - 1] && from[row - 1] == wanted;
            if is_swapped {
                least = least.min(before[column - 1]);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut last, next);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(word: &str) -> Vec<&'static str> {
        similar(commands::COMMANDS.iter(), word.into()).iter().map(|command| command.name).collect()
    }

    #[test]
    fn each_edit_costs_what_it_costs_in_git() {
        let distance = |from: &str, to: &str| distance(from.as_bytes(), to.as_bytes());
        assert_eq!(distance("status", "status"), 0);
        assert_eq!(distance("stauts", "status"), 0);
        assert_eq!(distance("statos", "status"), SUBSTITUTE);
        assert_eq!(distance("statu", "status"), INSERT);
        assert_eq!(distance("statuss", "status"), DELETE);
        assert_eq!(distance("", "ab"), 2 * INSERT);
        assert_eq!(distance("ab", ""), 2 * DELETE);
    }

    #[test]
    fn similar_commands() {
        assert_eq!(names("stauts"), ["status"]);
        assert_eq!(names("worktre"), ["worktree"]);
        assert_eq!(names("swich"), ["switch"]);
        assert_eq!(names("frobnicate"), [""; 0]);
        assert_eq!(names("check")[0], "checkout");
        // Plumbing commands are found by their distance only.
        assert_eq!(names("diff-file"), ["diff-files"]);
    }

    #[test]
    fn values_of_autocorrect() {
        let parse = |value: &str| parse(Some(value.into()));
        let after = |tenths: u64| Some(Autocorrect::After(Duration::from_millis(tenths * 100)));
        for value in ["0", "", "false", "off", "show"] {
            assert_eq!(parse(value), Some(Autocorrect::Show), "{value}");
        }
        for value in ["1", "-1", "TRUE", "immediate"] {
            assert_eq!(parse(value), after(0), "{value}");
        }
        assert_eq!(parse("3"), after(3));
        assert_eq!(parse("never"), Some(Autocorrect::Never));
        assert_eq!(parse("5x"), None);
        assert_eq!(super::parse(None), after(0));
    }
}
