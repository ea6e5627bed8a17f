//! The text of `sapwood` without a command: the commands by task, in 80 columns.

use super::{
    registry::{GROUPS, Registry},
    text::wrap,
};
use crate::{commands::record::Group, term::args::USAGE};

const WIDTH: usize = 80;
/// The column where summaries begin.
const SUMMARIES: usize = 19;

const END: &str = "
'sapwood help <command>' opens the manual of a command; 'sapwood <command> -h'
lists its options.";

/// Returns the text.
pub(super) fn text(registry: &Registry) -> String {
    let mut text = format!("{USAGE}\n");
    for &(group, title) in GROUPS {
        let mut commands = registry.of_group(group).peekable();
        if commands.peek().is_none() {
            continue;
        }
        text += &format!("\n{title}\n");
        if group == Group::Scripts {
            let names: Vec<&str> = commands.map(|command| command.name).collect();
            wrap(&names.join(", "), WIDTH - 3).iter().for_each(|line| text += &format!("   {line}\n"));
            continue;
        }
        for command in commands {
            let summary = wrap(&command.summary.replace('`', ""), WIDTH - SUMMARIES);
            for (number, line) in summary.iter().enumerate() {
                let name = if number == 0 { command.name } else { "" };
                text += &format!("   {name:15} {line}\n");
            }
        }
    }
    text + END.trim_end() + "\n"
}
