//! Prompts for the user: by an askpass program, or at the terminal.

use std::{
    io::Read as _,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bstr::{BStr, BString, ByteSlice as _};

use sys::terminal::Echo;

use crate::{Env, MessageSink, config::Config};

/// Prompts the user.
pub(super) struct Prompter {
    /// `GIT_ASKPASS`, `core.askPass`, `SSH_ASKPASS`
    program: Option<BString>,
    env: Env,
    terminal: Result<bool, ()>,
    messages: MessageSink,
    interrupt: Option<Arc<AtomicBool>>,
}

impl Prompter {
    pub(super) fn new(
        config: &Config,
        env: &Env,
        messages: MessageSink,
        interrupt: Option<Arc<AtomicBool>>,
    ) -> Prompter {
        let program = env
            .bytes("GIT_ASKPASS")
            .or_else(|| config.string("core.askPass"))
            .or_else(|| env.bytes("SSH_ASKPASS"))
            .filter(|program| !program.is_empty())
            .map(BStr::to_owned);
        let terminal = env.boolean("GIT_TERMINAL_PROMPT").map(|on| on.unwrap_or(true)).map_err(drop);
        Prompter { program, env: env.clone(), terminal, messages, interrupt }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Prints a line for the user.
    pub(super) fn print(&self, line: String) {
        self.messages.print([line]);
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
        command.arg(sys::os_str(question)).env_clear().envs(self.env.iter()).stdout(Stdio::piped());
        sys::interrupt::install();
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
