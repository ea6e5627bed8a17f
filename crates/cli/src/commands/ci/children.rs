//! The commands of a checkout, as children of this process: they are called `git`, so that each
//! form that is not native goes to the real Git.

use std::{
    io::{Read as _, Write as _},
    process::{Child, Command, Stdio},
};

use bstr::{BStr, BString};
use sapwood::ci::{Program, Step};

use crate::{
    session::{invocation::Invocation, reexec, tasks},
    term::{console, failure::Failure, interrupt::Interrupt, text::os_error, text::os_str},
};

/// Starts the commands.
pub(super) struct Children<'a> {
    pub(super) run: &'a Invocation,
    /// The variables that hold secrets, which no child gets.
    pub(super) hidden: &'a [BString],
    /// True if a user may be asked for a password.
    pub(super) asks: bool,
}

impl Program for Children<'_> {
    type Error = Failure;

    fn run(&self, step: Step<'_>) -> Result<u8, Failure> {
        self.finish(self.command(step, &[]), step)
    }

    fn read(&self, step: Step<'_>) -> Result<Option<BString>, Failure> {
        let mut command = self.command(step, &[]);
        let mut child = self.spawn(command.stdout(Stdio::piped()), step)?;
        let mut output = Vec::new();
        if let Some(mut stdout) = child.stdout.take() {
            // The exit code says whether the output is complete.
            let _ = stdout.read_to_end(&mut output);
        }
        let code = tasks::wait(child);
        self.run.interrupt.check()?;
        Ok((code == 0).then(|| output.into()))
    }

    fn base(&self, step: Step<'_>) -> Result<u8, Failure> {
        let mut command = self.command(step, &["base"]);
        std::os::unix::process::CommandExt::arg0(&mut command, "sapwood");
        self.finish(command, step)
    }
}

impl Children<'_> {
    fn command(&self, step: Step<'_>, first: &[&str]) -> Command {
        let mut command = reexec::in_submodule(self.run, step.dir);
        // A repository without objects of its own must not be looked for in the directories above.
        command.env("GIT_DIR", ".git").env_remove("GIT_WORK_TREE");
        self.hidden.iter().for_each(|name| {
            command.env_remove(os_str(name));
        });
        let settings: Vec<BString> = self.run.config.iter().chain(step.settings).cloned().collect();
        let before = self.run.variable("GIT_CONFIG_PARAMETERS").map(BStr::new);
        if let Some(parameters) = repo::config_parameters(before, &settings) {
            command.env("GIT_CONFIG_PARAMETERS", parameters);
        }
        if !self.asks {
            command.env("GIT_TERMINAL_PROMPT", "0");
        }
        command.args(first).args(step.args.iter().map(|arg| os_str(arg)));
        command
    }

    fn finish(&self, mut command: Command, step: Step<'_>) -> Result<u8, Failure> {
        // Standard output has the result of the checkout alone.
        let child = self.spawn(command.stdout(std::io::stderr()), step)?;
        let code = tasks::wait(child);
        self.run.interrupt.check()?;
        Ok(code)
    }

    fn spawn(&self, command: &mut Command, step: Step<'_>) -> Result<Child, Failure> {
        console::flush();
        Interrupt::install_now();
        command.stdin(if step.input.is_empty() { Stdio::null() } else { Stdio::piped() });
        let mut child = command.spawn().map_err(|error| {
            Failure::fatal(format!("cannot run {}: {}", command.get_program().display(), os_error(&error)))
        })?;
        if let Some(mut stdin) = child.stdin.take() {
            // A child that does not read all of it fails.
            let _ = stdin.write_all(step.input);
        }
        Ok(child)
    }
}
