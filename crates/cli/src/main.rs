//! The binary `sapwood`: arguments -> options -> engine -> text.
//!
//! Order: the name that the program was called by ([`shim`] handles `git`); signal handlers, global
//! options, the command. Only this module determines the exit code.

#![cfg_attr(not(test), no_main)]

/// Returns the function that borrows a field of a command's request, for an option's declaration.
macro_rules! field {
    ($($name:ident).+) => {
        |request: &mut Request| &mut request.$($name).+
    };
}

mod commands;
mod git;
mod help;
mod session;
mod shim;
mod term;

use std::ffi::OsString;

use session::{
    invocation::{Invocation, Program},
    trace::Trace,
};
use term::{failure::Failure, interrupt, process};

/// musl's allocator has one lock for all threads (docs/design/build.md).
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

// The program defines the C function `main` itself and skips the set-up of Rust's library. The test
// harness has a `main` of its own, and nothing calls `start` there.
#[cfg(not(test))]
process::entry!(start);

#[cfg_attr(test, allow(dead_code))]
fn start(argv: Vec<OsString>) -> u8 {
    let started = std::time::Instant::now();
    process::set_up();
    if let Some(name) = shim::called_as_git(argv.first()) {
        return shim::run(name, argv, started);
    }
    process::readable(run(argv, started)).unwrap_or_else(conclude)
}

fn run(argv: Vec<OsString>, started: std::time::Instant) -> Result<u8, Failure> {
    let env = std::env::vars_os().collect();
    let mut invocation = Invocation::parse(Program::Sapwood, argv.iter().skip(1).cloned(), env)?;
    invocation.lazy_fetch = Some(commands::lazy_fetch(&invocation));
    invocation.enter()?;
    invocation.profile.start()?;
    let trace = Trace::start(&mut invocation, &argv, started);
    let result = invocation.interrupt.settle(help::dispatch(&invocation));
    invocation.profile.report(&invocation.command.to_string());
    trace.exit(result.as_ref().map_or_else(Failure::code, |code| *code));
    result
}

/// Prints the pending messages of a failure and returns the exit code.
fn conclude(failure: Failure) -> u8 {
    failure.print();
    match failure {
        Failure::Signal(signal) => interrupt::die_by(signal),
        other => other.code(),
    }
}
