//! The manual pages, built from the command records. Renderers do not depend on commands.

use super::{
    registry::{GROUPS, Registry},
    text::{self, Text},
};
use crate::{
    commands::record::Command,
    term::args::{Spec, USAGE},
};

/// One page of section 1.
#[derive(Debug)]
pub(super) struct Page {
    /// `sapwood-clone`
    pub(super) name: String,
    pub(super) blocks: Vec<Block>,
}

/// A part of a page.
#[derive(Debug)]
pub(super) enum Block {
    Section(String),
    Subsection(String),
    Paragraph(Text),
    /// A command line. Continuation lines are indented.
    Usage(Text),
    /// A term, and its description below it.
    Item(Text, Text),
}

/// A one-line summary of the program.
const SUMMARY: &str = "a fast working-tree engine for Git repositories";

/// The global options, which come before the command.
const GLOBAL_OPTIONS: &[(&str, &str)] = &[
    ("-v, --version", "Print the version."),
    ("-h, --help", "Print the commands by task, or the page of a command."),
    ("-C <path>", "Run as if sapwood was started in <path>."),
    ("-c <name>=<value>", "Override a setting for this run."),
    ("--config-env=<name>=<envvar>", "Override a setting with the value of an environment variable."),
    ("-P, --no-pager", "Write to the terminal directly."),
    ("-p, --paginate", "Act as with a pager."),
    ("--git-dir=<path>", "Use this Git directory instead of looking for one."),
    ("--work-tree=<path>", "Use this directory as the worktree."),
    ("--bare", "Treat the repository as bare."),
    ("--no-replace-objects", "Ignore replacement objects."),
    ("--no-lazy-fetch", "Fetch no missing objects of a partial clone."),
    ("--no-optional-locks", "Take no locks that the command can do without."),
    ("--no-advice", "Print no hints."),
    ("--literal-pathspecs", "Treat pathspecs as plain paths."),
    ("--glob-pathspecs", "Treat all pathspecs as patterns in which `*` does not match `/`."),
    ("--noglob-pathspecs", "Treat pathspecs without magic as plain paths."),
    ("--icase-pathspecs", "Match pathspecs without regard to case."),
    ("--attr-source=<tree-ish>", "Read attributes from this tree instead of the worktree."),
    ("--verbose", "Print the number of workers of each phase, and how long it took. sapwood only."),
    (
        "--profile[=<file>]",
        "Print where the time went, on and off the CPU, or draw it as an SVG picture. sapwood only.",
    ),
];

/// Environment variables that users may set.
const VARIABLES: &[(&str, &str)] = &[
    ("SAPWOOD_GIT", "The path of the real Git. Without it, PATH decides."),
    (
        "SAPWOOD_SHIM",
        "`on`, `off` (the shim always hands over to the real Git), or `native-only` (it never does).",
    ),
    ("SAPWOOD_SHIM_LOG", "A file to which the shim adds a line of JSON for each call."),
    ("GIT_TRACE2_EVENT", "A file or descriptor for Git's trace events, with the workers as threads."),
];

const DESCRIPTION: &[&str] = &[
    "sapwood runs Git's commands that look at a worktree and fill or change one. It reads and writes in \
     parallel, and its plans leave out work that is not needed. It uses Git's own formats, so `git` and \
     sapwood can work on one repository at any time. Names, options, settings, output and exit codes are \
     Git's.",
    "`sapwood shim install` puts a `git` first on PATH that is sapwood. It runs a command itself where it \
     does exactly what Git does, and becomes the real Git otherwise. `sapwood doctor` shows which \
     commands that are in a repository.",
];

/// Returns all pages, the program's own first.
pub(super) fn pages(registry: &Registry) -> Vec<Page> {
    std::iter::once(program(registry)).chain(registry.listed().map(of)).collect()
}

/// Returns the page of the program.
pub(super) fn program(registry: &Registry) -> Page {
    let mut page = Page { name: "sapwood".into(), blocks: Vec::new() };
    page.section("NAME");
    page.paragraph(&format!("sapwood - {}", SUMMARY));
    page.section("SYNOPSIS");
    let usage: Vec<&str> = USAGE.trim_start_matches("usage: ").split_ascii_whitespace().collect();
    page.blocks.push(Block::Usage(text::line(&usage.join(" "))));
    page.section("DESCRIPTION");
    DESCRIPTION.iter().for_each(|paragraph| page.paragraph(paragraph));
    page.section("OPTIONS");
    page.paragraph("These options come before the command.");
    for (option, explanation) in GLOBAL_OPTIONS {
        page.blocks.push(Block::Item(text::line(option), text::prose(explanation)));
    }
    page.section("COMMANDS");
    page.paragraph("Each command has a page: sapwood-<command>(1).");
    for &(group, title) in GROUPS {
        page.blocks.push(Block::Subsection(title.to_owned()));
        for command in registry.of_group(group) {
            let name = text::prose(&format!("`{}`", command.name));
            page.blocks.push(Block::Item(name, text::sentence(command.summary)));
        }
    }
    page.section("ENVIRONMENT");
    for (name, explanation) in VARIABLES {
        page.blocks.push(Block::Item(text::prose(&format!("`{name}`")), text::prose(explanation)));
    }
    page.section("EXIT STATUS");
    page.paragraph(
        "0 for success, 1 if a command found what it looks for or failed in part, 128 for a failure, 129 for \
         a wrong command line, as in Git.",
    );
    page.section("SEE ALSO");
    page.paragraph("git(1), sapwood-shim(1), sapwood-doctor(1)");
    page
}

/// Returns the page of a command and its subcommands.
pub(super) fn of(command: &'static Command) -> Page {
    let mut page = Page { name: format!("sapwood-{}", command.name), blocks: Vec::new() };
    page.section("NAME");
    page.paragraph(&format!("{} - {}", page.name, command.summary));
    page.section("SYNOPSIS");
    page.usage(command);
    page.section("DESCRIPTION");
    match command.about {
        "" => page.blocks.push(Block::Paragraph(text::sentence(command.summary))),
        about => page.paragraphs(about),
    }
    if command.subcommands.is_empty() {
        page.options(command, "OPTIONS");
    } else {
        page.section("SUBCOMMANDS");
        for subcommand in command.subcommands {
            page.subcommand(subcommand);
        }
    }
    if command.is_gits() {
        page.section("AS GIT");
        page.native(command);
    }
    page.section("SEE ALSO");
    let own = if command.name == "doctor" { "sapwood-shim(1)" } else { "sapwood-doctor(1)" };
    page.paragraph(&if command.is_gits() {
        format!("git-{}(1), sapwood(1), {own}", command.name)
    } else {
        format!("sapwood(1), {own}")
    });
    page
}

impl Page {
    fn section(&mut self, title: &str) {
        self.blocks.push(Block::Section(title.to_owned()));
    }

    fn paragraph(&mut self, text: &str) {
        self.blocks.push(Block::Paragraph(text::prose(text)));
    }

    fn paragraphs(&mut self, text: &str) {
        text.split("\n\n").for_each(|paragraph| self.paragraph(paragraph));
    }

    fn usage(&mut self, command: &'static Command) {
        let lines = command.leaves().iter().flat_map(|leaf| leaf.syntax.usage());
        let words = |line: &str| line.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        self.blocks.extend(lines.map(|line| Block::Usage(text::line(&words(line)))));
        if command.leaves().iter().all(|leaf| leaf.syntax.usage().is_empty()) {
            self.blocks.push(Block::Usage(text::line(&format!("sapwood {}", command.name))));
        }
    }

    fn options(&mut self, command: &'static Command, title: &str) {
        let specs = command.syntax.specs();
        let shown: Vec<&&Spec> = specs.iter().filter(|spec| !spec.hidden).collect();
        if !shown.is_empty() && !title.is_empty() {
            self.section(title);
        }
        for spec in shown {
            self.blocks.push(Block::Item(text::line(&spec.head()), text::sentence(spec.help)));
            if let Some(opposite) = spec.opposite() {
                let explanation = text::prose(&format!("Opposite of `--no-{opposite}`."));
                self.blocks.push(Block::Item(text::line(&format!("--{opposite}")), explanation));
            }
        }
    }

    fn subcommand(&mut self, subcommand: &'static Command) {
        self.blocks.push(Block::Subsection(subcommand.word().to_owned()));
        match subcommand.about {
            "" => self.blocks.push(Block::Paragraph(text::sentence(subcommand.summary))),
            about => self.paragraphs(about),
        }
        self.options(subcommand, "");
    }

    /// Adds a sentence on the forms in which the shim runs the command.
    fn native(&mut self, command: &'static Command) {
        let quoted =
            |names: &[String]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let is_whole = |leaf: &Command| {
            let specs = leaf.syntax.specs();
            specs.iter().filter(|spec| !spec.hidden).all(|spec| spec.is_wholly_native())
        };
        let (whole, partial): (Vec<&Command>, Vec<&Command>) =
            command.leaves().iter().partition(|leaf| is_whole(leaf));
        if !whole.is_empty() {
            let names: Vec<String> = whole.iter().map(|leaf| leaf.name.to_owned()).collect();
            let names = quoted(&names);
            self.paragraph(&format!("Called as `git`, sapwood runs {names} itself, with every option."));
        }
        for leaf in partial {
            let specs = leaf.syntax.specs();
            let forms: Vec<String> = specs.iter().filter_map(|spec| spec.native_form()).collect();
            let condition = match &forms[..] {
                [] => "if it has no option".to_owned(),
                forms => format!("with the options {}", quoted(forms)),
            };
            let name = leaf.name;
            self.paragraph(&format!(
                "Called as `git`, sapwood runs `{name}` itself {condition}. With any other option the real Git runs."
            ));
        }
        self.paragraph(
            "The real Git also runs if the repository or its settings need it: `sapwood doctor` lists the reasons.",
        );
    }
}

#[cfg(test)]
mod tests {
    use repo::Env;

    use super::*;
    use crate::session::invocation::{Invocation, Program};

    /// The program accepts every option that its page and its usage name.
    #[test]
    fn global_options_exist() {
        for (heads, _) in GLOBAL_OPTIONS {
            for head in heads.split(", ") {
                let name = head.split(['=', '[', ' ']).next().expect("a first piece");
                let args = match head.contains('<') && name != "--profile" {
                    true if name == "-C" => vec![name, "/"],
                    true if name == "--config-env" => vec![name, "a.b=PATH"],
                    true => vec![name, "value"],
                    false => vec![name],
                };
                let args = args.into_iter().chain(["status"]).map(std::ffi::OsString::from);
                let env = Env::from([("PATH".into(), "/bin".into())]);
                let parsed = Invocation::parse(Program::Sapwood, args, env);
                assert!(parsed.is_ok(), "{name}");
            }
        }
        for word in USAGE.split(['[', ']', ' ', '|', '=', '\n']).filter(|word| word.starts_with('-')) {
            assert!(GLOBAL_OPTIONS.iter().any(|(heads, _)| heads.contains(word)), "{word}");
        }
    }
}
