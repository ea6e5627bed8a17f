//! `sapwood help`: opens a page of the manual, prints it, or writes all pages into a directory.

use std::{
    io::{IsTerminal as _, Write as _},
    process::{Command as Process, Stdio},
};

use bstr::{BString, ByteSlice as _};

use super::{
    mistyped, native, overview,
    page::{self, Page},
    registry::Registry,
    render, settings,
};
use crate::{
    commands::{
        self,
        record::{Command, Group},
    },
    session::invocation::Invocation,
    term::{
        args::{Grammar, Opt, Set, Table},
        console,
        failure::Failure,
        files,
        interrupt::Interrupt,
        text::os_error,
    },
};

#[derive(Default)]
struct Request {
    native: bool,
    markdown: bool,
    settings: bool,
    man: Option<BString>,
}

/// The record of `help`. This module lacks the records of all commands, so its `run` does nothing.
pub(super) const COMMAND: Command = Command {
    name: "help",
    summary: "Open the manual of a command",
    about: "Without a command, prints the commands by task. With one, opens its page in man(1), or prints the \
            page if standard output is not a terminal or there is no `man`. `sapwood <command> -h` is shorter: it \
            lists the options.",
    group: Group::Own,
    syntax: &HELP,
    ..Command::BASE
};

const HELP: Table<Set<Request>> = Table {
    usage: &["sapwood help [<command>]", "sapwood help --native", "sapwood help --man <directory>"],
    options: &[
        Opt::flag("--native", "list the commands that the shim serves", field!(native)).only(),
        Opt::flag("--markdown", "print docs/commands.md", field!(markdown)).only().hidden(),
        Opt::flag("--settings", "print docs/settings.md", field!(settings)).only().hidden(),
        Opt::text("--man <directory>", "write all pages of the manual into a directory", field!(man)).only(),
    ],
    grammar: Grammar::Mixed,
};

/// Runs `sapwood help`. Returns the exit code.
pub(super) fn run(registry: &Registry, run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let words = HELP.parse(args)?.store(&mut request)?;
    if request.native {
        let native = commands::COMMANDS.iter().filter(|command| command.is_gits());
        native.flat_map(|command| command.leaves()).for_each(|command| console::out(command.name));
        return Ok(0);
    }
    if request.markdown {
        console::out_raw(native::page().as_bytes());
        return Ok(0);
    }
    if request.settings {
        console::out_raw(settings::page().as_bytes());
        return Ok(0);
    }
    if let Some(directory) = request.man {
        return write_all(registry, run, &directory);
    }
    let Some(word) = words.first() else {
        console::out_raw(overview::text(registry).as_bytes());
        return Ok(0);
    };
    if word == "sapwood" {
        return show(run, &page::program(registry));
    }
    match registry.find(word) {
        Some(command) => page_of(run, command),
        None => page_of(run, mistyped::corrected(registry, run, word.as_bstr())?),
    }
}

/// Shows the manual page of a command.
pub(super) fn page_of(run: &Invocation, command: &'static Command) -> Result<u8, Failure> {
    show(run, &page::of(command))
}

/// Opens a page in `man` if standard output is a terminal, or prints it as text.
fn show(run: &Invocation, page: &Page) -> Result<u8, Failure> {
    if !(std::io::stdout().is_terminal() && opened(run, page)) {
        console::out_raw(render::plain(page).as_bytes());
    }
    Ok(0)
}

/// Returns true if `man` exists and has shown the page.
fn opened(run: &Invocation, page: &Page) -> bool {
    let mut man = Process::new("man");
    man.args(["-l", "-"]).env_clear().envs(&run.env).stdin(Stdio::piped());
    Interrupt::install_now();
    let Ok(mut man) = man.spawn() else { return false };
    if let Some(mut input) = man.stdin.take() {
        // If `man` stops reading, its exit status reports the failure.
        let _ = input.write_all(render::roff(page).as_bytes());
    }
    man.wait().is_ok_and(|status| status.success())
}

/// Writes a file for each page: `sapwood.1`, `sapwood-clone.1`, ...
fn write_all(registry: &Registry, run: &Invocation, directory: &BString) -> Result<u8, Failure> {
    let directory = run.path(directory)?;
    let failed = |path: &std::path::Path, error: &std::io::Error| {
        Failure::fatal(format!("cannot write '{}': {}", path.display(), os_error(error)))
    };
    files::create_dir_all(&directory).map_err(|error| failed(&directory, &error))?;
    for page in page::pages(registry) {
        let path = directory.join(format!("{}.1", page.name));
        // Replace an existing file or link of this name; do not write through it.
        let _ = files::remove_file(&path);
        let written = files::create_new(&path, 0o666)
            .and_then(|mut file| file.write_all(render::roff(&page).as_bytes()));
        written.map_err(|error| failed(&path, &error))?;
    }
    Ok(0)
}
