//! The binary `sapwood`: arguments -> options -> engine -> text.
//!
//! Order: signal handlers, global options, the command. Whatever happens, the exit code is decided
//! here and nowhere else.

mod args;
mod cmd;
mod console;
mod failure;
mod global;
mod hook;
mod interrupt;
mod progress;
mod settings;
mod text;
mod work;

use std::process::ExitCode;

use failure::Failure;

fn main() -> ExitCode {
    sys::bound_heap();
    let code = match run() {
        Ok(code) => code,
        Err(failure) => conclude(failure),
    };
    ExitCode::from(code)
}

fn run() -> Result<u8, Failure> {
    let interrupt = interrupt::Interrupt::install()
        .map_err(|error| Failure::fatal(format!("cannot handle signals: {error}")))?;
    let env = std::env::vars_os().collect();
    let invocation = global::Invocation::parse(std::env::args_os().skip(1), env, interrupt)?;
    cmd::dispatch(&invocation)
}

/// Says what is left to say and gives the exit code.
fn conclude(failure: Failure) -> u8 {
    failure.say();
    match failure {
        Failure::Signal(signal) => interrupt::die_by(signal),
        other => other.code(),
    }
}
