//! Texts made of all records: `help`, the lists that tests and scripts read, and shell completion.

use bstr::{BString, ByteSlice as _};

use crate::{
    commands::{
        self,
        record::{Command, Group},
    },
    session::invocation::Invocation,
    shim,
    term::{
        args::{Grammar, Opt, Set, Table, USAGE},
        console,
        failure::Failure,
    },
};

/// The commands of this module. They read all records, and so stand above the other tables.
const COMMANDS: &[Command] = &[
    Command {
        name: "completion",
        summary: "Print the completion of a shell: bash or fish",
        group: Group::Own,
        syntax: &Table::<()> {
            usage: &["sapwood completion (bash | fish)"],
            options: &[],
            grammar: Grammar::Mixed,
        },
        run: completion,
        ..Command::BASE
    },
    Command { name: "help", syntax: &HELP, run: help, ..Command::BASE },
    Command { name: "version", run: version, ..Command::BASE },
];

/// Every command.
pub(crate) fn all() -> impl Iterator<Item = &'static Command> {
    commands::COMMANDS.iter().chain(shim::COMMANDS).chain(COMMANDS)
}

#[derive(Default)]
struct Request {
    native: bool,
}

const HELP: Table<Set<Request>> = Table {
    usage: &["sapwood help [--native] [<command>]"],
    options: &[Opt::flag("--native", "list the commands that the shim serves", |request: &mut Request| {
        &mut request.native
    })
    .only()],
    grammar: Grammar::Mixed,
};

fn help(_: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let words = HELP.parse(args)?.store(&mut request)?;
    if request.native {
        let native = commands::COMMANDS.iter().filter(|command| command.is_gits());
        native.flat_map(|command| command.leaves()).for_each(|command| console::out(command.name));
        return Ok(0);
    }
    let Some(word) = words.first() else {
        console::out(overview());
        return Ok(0);
    };
    let command =
        all().find(|command| word == command.name).ok_or_else(|| commands::unknown(word.as_bstr()))?;
    console::out(format!("sapwood {} - {}\n", command.name, command.summary));
    console::out_raw(command.help().as_bytes());
    Ok(0)
}

fn version(_: &Invocation, _: &[BString]) -> Result<u8, Failure> {
    console::out(concat!("sapwood version ", env!("CARGO_PKG_VERSION")));
    Ok(0)
}

/// The text of `sapwood help`.
pub(crate) fn overview() -> String {
    let mut text = format!("{USAGE}\n");
    for (group, title) in [
        (Group::Changes, "Git's commands that look at, fill and change a worktree:"),
        (Group::Looks, "and that look at one:"),
        (Group::Own, "Beside them:"),
    ] {
        text += &format!("\n{title}\n\n");
        for command in all().filter(|command| command.group == group) {
            match command.name.len() {
                0..=10 => text += &format!("   {:10} {}\n", command.name, command.summary),
                _ => text += &format!("   {}\n              {}\n", command.name, command.summary),
            }
        }
    }
    text + "\n'sapwood <command> -h' lists the options of a command; --dry-run with any of\nthem prints what would be done and changes nothing."
}

fn completion(_: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let script = match args {
        [shell] if shell == "bash" => bash(),
        [shell] if shell == "fish" => fish(),
        _ => return Err(Failure::Misused("name the shell: 'sapwood completion bash' or 'fish'".into())),
    };
    console::out_raw(script.as_bytes());
    Ok(0)
}

/// The commands that a user calls.
fn listed() -> impl Iterator<Item = &'static Command> {
    all().filter(|command| command.group != Group::Internal)
}

/// The options of a command, and of its subcommands, in the spellings that a shell completes.
fn spellings(command: &'static Command) -> Vec<String> {
    let leaves = command.leaves().iter();
    let mut found: Vec<String> = leaves
        .flat_map(|leaf| leaf.syntax.specs())
        .filter(|spec| !spec.hidden)
        .flat_map(|spec| spec.spellings())
        .chain(command.subcommands.iter().map(|leaf| leaf.word().to_owned()))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn bash() -> String {
    let names: Vec<&str> = listed().map(|command| command.name).collect();
    let mut cases = String::new();
    for command in listed() {
        cases += &format!("    {}) words=\"{}\" ;;\n", command.name, spellings(command).join(" "));
    }
    format!(
        "_sapwood() {{\n  local word=\"${{COMP_WORDS[COMP_CWORD]}}\" words\n  case \"$COMP_CWORD:${{COMP_WORDS[1]}}\" in\n    1:*) words=\"{}\" ;;\n    *) case \"${{COMP_WORDS[1]}}\" in\n{cases}    esac ;;\n  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}}\ncomplete -o default -F _sapwood sapwood\n",
        names.join(" ")
    )
}

fn fish() -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    let mut lines = String::new();
    for command in listed() {
        let (name, summary) = (command.name, quoted(command.summary));
        lines += &format!("complete -c sapwood -n __fish_use_subcommand -a {name} -d {summary}\n");
        for word in spellings(command) {
            lines += &format!(
                "complete -c sapwood -n '__fish_seen_subcommand_from {name}' -a {}\n",
                quoted(&word)
            );
        }
    }
    lines
}
