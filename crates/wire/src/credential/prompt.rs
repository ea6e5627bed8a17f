//! Prompts for the user: by an askpass program, or at the terminal.

use std::{
    ffi::OsString,
    io::Read as _,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bstr::{BStr, BString, ByteSlice as _};
use format::keys;

use sys::terminal::Echo;

use crate::{Settings, settings::boolean_variable};

/// Prompts the user.
pub(super) struct Prompter {
    /// `GIT_ASKPASS`, `core.askPass`, `SSH_ASKPASS`
    program: Option<BString>,
    variables: Vec<(OsString, OsString)>,
    terminal: Result<bool, ()>,
    print: fn(&str),
    interrupt: Option<Arc<AtomicBool>>,
}

impl Prompter {
    pub(super) fn new(settings: &dyn Settings, interrupt: Option<Arc<AtomicBool>>) -> Prompter {
        let program = settings
            .variable("GIT_ASKPASS")
            .or_else(|| settings.string(keys::core::ASK_PASS.name()))
            .or_else(|| settings.variable("SSH_ASKPASS"))
            .filter(|program| !program.is_empty())
            .map(BStr::to_owned);
        let terminal = boolean_variable(settings, "GIT_TERMINAL_PROMPT");
        Prompter {
            program,
            variables: settings.variables(),
            terminal: terminal.map(|on| on.unwrap_or(true)).map_err(drop),
            print: settings.message_printer(),
            interrupt,
        }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Prints a line for the user.
    pub(super) fn print(&self, line: String) {
        (self.print)(&line);
    }

    /// Prompts for one value. The error is the reason why there is no input.
    pub(super) fn ask(&self, question: &BStr, echo: Echo) -> Result<BString, String> {
        if let Some(answer) =
            self.program.as_ref().and_then(|program| self.ask_program(program.as_bstr(), question))
        {
            return Ok(answer);
        }
        match self.terminal {
            Ok(true) => match sys::terminal::ask(question, echo, &|| self.is_interrupted()) {
                Ok(answer) => Ok(answer.into()),
                Err(error) => Err(sys::reason(&error)),
            },
            Ok(false) => Err("terminal prompts disabled".into()),
            Err(()) => Err("bad boolean environment value for 'GIT_TERMINAL_PROMPT'".into()),
        }
    }

    fn ask_program(&self, program: &BStr, question: &BStr) -> Option<BString> {
        let mut command = Command::new(sys::os_str(program));
        command
            .arg(sys::os_str(question))
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::piped());
        sys::interrupt::install();
        sys::terminal::note_question();
        let answer = command.spawn().ok().and_then(|mut child| {
            let mut text = Vec::new();
            let read = child.stdout.take().map(|mut output| output.read_to_end(&mut text));
            let ended = child.wait().ok()?;
            (read.is_some_and(|read| read.is_ok()) && ended.success()).then_some(text)
        });
        let Some(answer) = answer else {
            self.print(format!("error: unable to read askpass response from '{program}'"));
            return None;
        };
        Some(answer[..answer.find_byteset(b"\r\n").unwrap_or(answer.len())].into())
    }
}
