//! docs/commands.md: the native forms of each command, and the conditions that hand it over to the
//! real Git. All of it comes from the records.

use std::collections::BTreeMap;

use crate::commands::{
    self,
    obstacles::VARIABLES,
    record::Command,
    rules::{IN_REPOSITORIES, When},
};

const INTRODUCTION: &str = "\
# Native or handed over

`just documents` prints this page from the records of the commands; do not edit it.

Called as `git`, sapwood runs a command itself if the command line, the settings, the environment and the
repository have no obstacle of this page. Otherwise the process becomes the real Git. A command that is not
here is the real Git's. [design/shim.md](design/shim.md) says how the decision is made, and `sapwood doctor`
lists the obstacles of a repository.

Called as `sapwood`, nobody takes over. An option for the real Git is then one of sapwood's own
(`--dry-run`), or an error, as is an option that is not here. *Refused* marks a setting or variable that is an
error too, because it would change the result. Under the other conditions `sapwood` does the work, with
messages of its own, or names what it does not support.

These hand over any command: no command or an unknown one, `-h`, a mistake in the command line, `--paginate`,
an alias that is more than a command and plain words, a repository that cannot be opened or of which Git
warns, and `SAPWOOD_SHIM=off`.

Some conditions are *found while it works*, and for any command these: a tree holds a name twice, files are
outside of the cone of a sparse index, or a part of a directory changes that is one entry of it. The command is
handed over then if it has changed nothing, shown no result and consumed no input; otherwise it ends with an
error.
";

/// The names of the commands with some property, in the order of the table.
type Names = Vec<&'static str>;

/// Returns the page.
pub(super) fn page() -> String {
    let leaves: Vec<&Command> = commands::COMMANDS
        .iter()
        .filter(|command| command.is_gits())
        .flat_map(|command| command.leaves())
        .collect();
    let shared = shared_conditions(&leaves);
    let mut page = INTRODUCTION.to_owned();
    page += "\n## Commands\n";
    leaves.iter().for_each(|command| page += &section(command.name, command, &shared));
    for command in commands::COMMANDS {
        // A form without a subcommand that has conditions of its own.
        if let Some(assumed) = command.assumed
            && leaves.iter().any(|leaf| leaf.name == assumed.name && conditions(leaf) != conditions(assumed))
        {
            page += &section(&format!("{}, without a subcommand", command.name), assumed, &shared);
        }
    }
    page += "\n## Conditions of several commands\n\n| condition | commands |\n|---|---|\n";
    for (condition, names) in &shared {
        page += &row(&[condition, &listed(names, &leaves)]);
    }
    page += "\n## Settings\n\n| setting | obstacle if it is | commands | as `sapwood` |\n|---|---|---|---|\n";
    for ((name, value, door), names) in settings(&leaves) {
        page += &row(&[&format!("`{name}`"), &value, &listed(&names, &leaves), door]);
    }
    page += "\n## Variables\n\nAn empty value counts as unset.\n\n";
    page += "| variable | obstacle if it is | commands | as `sapwood` |\n|---|---|---|---|\n";
    for ((name, value, door), names) in variables(&leaves) {
        page += &row(&[&format!("`{name}`"), &value, &listed(&names, &leaves), door]);
    }
    page
}

/// Returns a line of a table.
pub(super) fn row(cells: &[&str]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}

/// Returns the part about one command: its options, and the conditions that no other command has.
fn section(title: &str, command: &Command, shared: &BTreeMap<&str, Names>) -> String {
    let specs = command.syntax.specs();
    let shown = || specs.iter().filter(|spec| !spec.hidden);
    let native: Vec<String> = shown().filter_map(|spec| spec.native_head()).collect();
    let foreign: Vec<String> =
        shown().filter(|spec| spec.native_head().is_none()).map(|spec| spec.head()).collect();
    let mut text = format!("\n### {title}\n\n");
    let mut line = |title: &str, items: &[String], separator: &str| {
        if !items.is_empty() {
            text += &format!("- {title}: {}\n", items.join(separator));
        }
    };
    let quoted = |items: &[String]| items.iter().map(|item| format!("`{item}`")).collect::<Vec<_>>();
    line("native options", &quoted(&native), ", ");
    line("options for the real Git", &quoted(&foreign), ", ");
    let own = conditions(command).into_iter().filter(|condition| !shared.contains_key(condition));
    line("handed over", &own.map(str::to_owned).collect::<Vec<_>>(), "; ");
    // Markdown takes `<name>` for a tag of HTML.
    let late: Vec<String> = command.late.iter().map(|condition| condition.replace('<', "\\<")).collect();
    line("found while it works", &late, "; ");
    if text.ends_with("\n\n") { text + "No option, and no condition of its own.\n" } else { text }
}

/// Returns the conditions that the checks of a command detect. A semicolon separates those of one
/// check.
fn conditions(command: &Command) -> Vec<&'static str> {
    let lines = command.line.iter().map(|check| check.about);
    let checks = command.checks.iter().flat_map(|checks| checks.iter()).map(|check| check.about);
    lines.chain(checks).flat_map(|about| about.split("; ")).collect()
}

/// Returns the conditions that several commands have.
fn shared_conditions(leaves: &[&Command]) -> BTreeMap<&'static str, Names> {
    let mut all: BTreeMap<&str, Names> = BTreeMap::new();
    for command in leaves {
        for condition in conditions(command) {
            let names = all.entry(condition).or_default();
            if names.last() != Some(&command.name) {
                names.push(command.name);
            }
        }
    }
    all.retain(|_, names| names.len() > 1);
    all
}

/// The name of a setting or variable, the values that are an obstacle, and what `sapwood` does.
type Rule = (&'static str, String, &'static str);

const RUNS: &str = "";
const REFUSED: &str = "refused";

fn settings(leaves: &[&Command]) -> BTreeMap<Rule, Names> {
    let mut all: BTreeMap<Rule, Names> = BTreeMap::new();
    for command in leaves {
        let unserved = command.unserved.settings.iter().map(|rule| (rule, REFUSED));
        let own = command.settings.iter().flat_map(|table| table.iter()).map(|rule| (rule, RUNS));
        for ((name, when), door) in unserved.chain(own) {
            all.entry((name, words(*when), door)).or_default().push(command.name);
        }
    }
    all
}

fn variables(leaves: &[&Command]) -> BTreeMap<Rule, Names> {
    let mut all: BTreeMap<Rule, Names> = BTreeMap::new();
    for command in leaves {
        let own: Vec<_> = command.variables.iter().flat_map(|table| table.iter()).collect();
        // A command's own rule overrides the general one.
        let general = VARIABLES.iter().filter(|(name, _)| !own.iter().any(|(it, _)| it == name));
        let own = own.iter().filter(|(_, when)| !matches!(when, When::Never)).copied();
        let refused = IN_REPOSITORIES.variables.iter().chain(command.unserved.variables);
        let rules = general.chain(own).map(|rule| (rule, RUNS)).chain(refused.map(|rule| (rule, REFUSED)));
        for ((name, when), door) in rules {
            all.entry((name, words(*when), door)).or_default().push(command.name);
        }
    }
    all
}

/// Returns the values with which a rule applies.
fn words(when: When) -> String {
    match when {
        When::Never => "never".to_owned(),
        When::Set => "set".to_owned(),
        When::True => "not false".to_owned(),
        When::NotBoolean => "no boolean".to_owned(),
        When::Not([""]) => "not empty".to_owned(),
        When::Not([value]) => format!("not `{value}`"),
        When::Not(values) => {
            let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
            format!("none of {}", values.join(", "))
        }
    }
}

/// The most commands that are named as exceptions.
const EXCEPTIONS: usize = 9;

/// Returns the commands called `names` in one line.
fn listed(names: &[&str], leaves: &[&Command]) -> String {
    let others: Vec<&str> =
        leaves.iter().map(|leaf| leaf.name).filter(|name| !names.contains(name)).collect();
    let exceptions = families(&others);
    match exceptions.len() {
        0 => "every command".to_owned(),
        1..=EXCEPTIONS if others.len() < names.len() => {
            format!("every command but {}", exceptions.join(", "))
        }
        _ => families(names).join(", "),
    }
}

/// Returns `names`, with the name of the family for all its members.
fn families(names: &[&str]) -> Vec<&'static str> {
    let mut shown: Vec<&'static str> = Vec::new();
    for command in commands::COMMANDS.iter().filter(|command| command.is_gits()) {
        let members = command.leaves().iter().map(|leaf| leaf.name);
        let present: Vec<&'static str> = members.filter(|name| names.contains(name)).collect();
        if present.len() == command.leaves().len() {
            shown.push(command.name);
        } else {
            shown.extend(present);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_has_a_text() {
        for command in commands::COMMANDS.iter().flat_map(|command| command.leaves()) {
            assert!(conditions(command).iter().all(|condition| !condition.is_empty()), "{}", command.name);
        }
    }
}
