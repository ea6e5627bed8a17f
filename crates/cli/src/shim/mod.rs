//! The binary called as `git`: it runs the commands that sapwood serves as Git does, and becomes
//! the real Git for all others.
//!
//! Order: the name of the program; `SAPWOOD_SHIM`; the decision ([`decide`]), which reads the
//! command line, the configuration and the repository and changes nothing; then the command in this
//! process, or `exec` of the real Git with the original arguments, environment, directory and
//! standard input. In doubt, the real Git runs. Design: docs/design/shim.md.

mod decide;
mod doctor;
mod install;
mod log;

use std::{ffi::OsString, os::unix::ffi::OsStrExt as _, path::Path, time::Instant};

use bstr::ByteSlice as _;
use repo::Env;

use self::log::{Log, Outcome};
use crate::{
    commands::{self, reason::Reason, record::Command},
    git::{self, Find, RealGit},
    session::{
        input,
        invocation::{Invocation, Program},
        trace::Trace,
    },
    term::{
        args,
        console::{self, text},
        failure::Failure,
        interrupt::{self, Interrupt},
        process,
    },
};

/// The commands that manage the shim. They read the table of all others, and therefore are not in
/// it.
pub(crate) const COMMANDS: &[Command] = &[install::COMMAND, doctor::COMMAND];

/// The value of `SAPWOOD_SHIM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShimMode {
    On,
    Off,
    NativeOnly,
}

impl ShimMode {
    fn of(env: &Env) -> Result<ShimMode, Failure> {
        match env.get(std::ffi::OsStr::new("SAPWOOD_SHIM")).map(|value| value.as_bytes()) {
            None | Some(b"" | b"on") => Ok(ShimMode::On),
            Some(b"off") => Ok(ShimMode::Off),
            Some(b"native-only") => Ok(ShimMode::NativeOnly),
            Some(other) => Err(Failure::Fatal(text!(
                "unknown value of SAPWOOD_SHIM: '",
                other,
                "' (it may be 'on', 'off' or 'native-only')"
            ))),
        }
    }
}

/// Returns the name that this program was called by, if it is Git's: `git`, or `git-<command>`.
pub(crate) fn called_as_git(argv0: Option<&OsString>) -> Option<OsString> {
    let name = Path::new(argv0?).file_name()?;
    (name == "git" || name.as_bytes().starts_with(b"git-")).then(|| name.to_owned())
}

/// Returns true if the real Git can start over: this process has changed nothing, shown no result,
/// and consumed no input.
fn can_start_again() -> bool {
    !process::changes_were_made() && !console::was_printed() && !input::was_consumed()
}

/// One run as `git`.
struct Call {
    name: OsString,
    argv: Vec<OsString>,
    env: Env,
    log: Log,
}

/// Runs as `git`. Returns the exit code, or does not return if the process becomes another program.
pub(crate) fn run(name: OsString, argv: Vec<OsString>, started: Instant) -> u8 {
    let env: Env = std::env::vars_os().collect();
    let log = Log::new(&env, &argv, started);
    Call { name, argv, env, log }.run()
}

impl Call {
    fn run(self) -> u8 {
        let switch = match ShimMode::of(&self.env) {
            Ok(switch) => switch,
            Err(failure) => return conclude(failure),
        };
        if switch == ShimMode::Off {
            return self.hand_over("", &Reason::Off);
        }
        // `git-switch topic` means `git switch topic`.
        let dashed = self.name.as_bytes().strip_prefix(b"git-").map(sys::os_str);
        let args = dashed.map(ToOwned::to_owned).into_iter().chain(self.argv.iter().skip(1).cloned());
        let mut run = match Invocation::parse(Program::Git, args, self.env.clone()) {
            Ok(run) => run,
            Err(_) => {
                let reason = Reason::command_line("options before the command that sapwood does not have");
                return self.refuse_or_hand_over(switch, "", reason);
            }
        };
        run.lazy_fetch = Some(commands::lazy_fetch(&run));
        match decide::decide(&mut run, || self.find().ok()) {
            Ok(()) => self.native(switch, run),
            Err(reason) => self.refuse_or_hand_over(switch, &run.command.to_string(), reason),
        }
    }

    fn find(&self) -> Result<RealGit, git::Error> {
        let cwd = std::env::current_dir().unwrap_or_default();
        Find { env: &self.env, cwd: &cwd }.git()
    }

    /// Runs the command in this process.
    fn native(self, switch: ShimMode, mut run: Invocation) -> u8 {
        let starts_programs =
            commands::find(run.command.as_bstr()).is_none_or(|command| !command.traits.starts_no_program);
        let git = if starts_programs { self.find().ok() } else { None };
        run.git = git.as_ref().map(|git| git.path.clone());
        // Hooks and filters find Git's own programs on PATH, as when Git starts them.
        if let Some(path) = git.and_then(|git| git.path_for_children(&self.env)) {
            run.env.insert("PATH".into(), path);
            if let Some(repo) = run.opened.get_mut() {
                repo.set_env(run.env.clone());
            }
        }
        args::call_it_git();
        console::hold_results();
        if decide::colours_hints(&run) {
            console::colour_hints();
        }
        let mut trace = None;
        if self.log.is_on() {
            Interrupt::install_now();
        }
        let result = run.enter().and_then(|()| {
            trace = Some(Trace::start(&mut run, &self.argv, self.log.started()));
            match commands::find(run.command.as_bstr()) {
                Some(command) => commands::start(&run, command),
                None => Err(commands::unknown(run.command.as_bstr())),
            }
        });
        let (code, signal) = match process::readable(run.interrupt.settle(result)) {
            Ok(code) => (code, None),
            Err(Failure::Unserved(what)) if can_start_again() => {
                // Every lock was released when its owner was dropped.
                let _ = std::env::set_current_dir(&run.started_in);
                return self.refuse_or_hand_over(switch, &run.command.to_string(), Reason::repository(what));
            }
            Err(failure) => {
                let failure = failure.plain();
                failure.print();
                let signal = match failure {
                    Failure::Signal(signal) => Some(signal),
                    _ => None,
                };
                (failure.code(), signal)
            }
        };
        // A signal ends Git before it can flush.
        if signal.is_none() {
            console::flush();
        }
        self.log.write(&run.command.to_str_lossy(), &Outcome::Native { code });
        if let Some(trace) = trace {
            trace.exit(code);
        }
        match signal {
            Some(signal) => interrupt::die_by(signal),
            None => code,
        }
    }

    fn refuse_or_hand_over(self, switch: ShimMode, command: &str, reason: Reason) -> u8 {
        if switch != ShimMode::NativeOnly {
            return self.hand_over(command, &reason);
        }
        self.log.write(command, &Outcome::Refused { reason: &reason });
        conclude(Failure::fatal(format!("not native, and SAPWOOD_SHIM=native-only: {reason}")))
    }

    /// Replaces this process by the real Git.
    fn hand_over(self, command: &str, reason: &Reason) -> u8 {
        let git = match self.find() {
            Ok(git) => git,
            Err(error) => return conclude(Failure::fatal(error.to_string())),
        };
        self.log.write(command, &Outcome::HandedOver { reason });
        conclude(git.exec(&self.name, &self.argv, &self.env))
    }
}

fn conclude(failure: Failure) -> u8 {
    failure.print();
    failure.code()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_decides() {
        let name = |argv0: &str| called_as_git(Some(&argv0.into()));
        assert_eq!(name("git"), Some("git".into()));
        assert_eq!(name("/home/me/bin/git"), Some("git".into()));
        assert_eq!(name("../git-checkout"), Some("git-checkout".into()));
        assert_eq!(name("sapwood"), None);
        assert_eq!(name("gitk"), None);
        assert_eq!(name(""), None);
        assert_eq!(called_as_git(None), None);
    }

    #[test]
    fn the_switch() {
        let switch = |value: &str| ShimMode::of(&Env::from([("SAPWOOD_SHIM".into(), value.into())])).ok();
        assert_eq!(switch("on"), Some(ShimMode::On));
        assert_eq!(switch(""), Some(ShimMode::On));
        assert_eq!(switch("off"), Some(ShimMode::Off));
        assert_eq!(switch("native-only"), Some(ShimMode::NativeOnly));
        assert_eq!(switch("native_only"), None);
        assert_eq!(ShimMode::of(&Env::default()).ok(), Some(ShimMode::On));
    }
}
