//! Workspaces on real mounts.
//!
//! The kernel lets only a single-threaded process enter a user namespace, so this is a separate
//! program. It runs in its own mount namespace, so failures leave no mounts behind. Without root,
//! only the checks that do not need root are run.

#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::print_stderr)]

/// Skips a check that needs root.
macro_rules! need_root {
    () => {
        if !crate::place::is_root() {
            println!("needs root");
            return;
        }
    };
}

mod crashes;
mod fuse;
mod holding;
mod mounting;
mod place;
mod promises;

use std::{
    os::unix::process::CommandExt as _,
    panic::{AssertUnwindSafe, catch_unwind},
    process::{Command, ExitCode},
};

/// A check with its name.
type Check = (&'static str, fn());

/// The environment variable that marks a run in its own namespace.
const OWN: &str = "SAPWOOD_TEST_OWN_NAMESPACE";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    if let Some(code) = place::helper(&words) {
        return code;
    }
    let all: Vec<Check> =
        [mounting::CHECKS, crashes::CHECKS, holding::CHECKS, fuse::CHECKS, promises::CHECKS].concat();
    if words.contains(&"--list") {
        all.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    if place::is_root() && std::env::var_os(OWN).is_none() {
        let own = std::env::current_exe().expect("this program has a path");
        let mut again = Command::new("unshare");
        again.args(["--mount", "--propagation", "private"]).arg(own).args(&args).env(OWN, "1");
        panic!("cannot make a mount namespace: {}", again.exec());
    }
    let filters: Vec<&str> = words.into_iter().filter(|word| !word.starts_with('-')).collect();
    let chosen = all
        .iter()
        .filter(|(name, _)| filters.is_empty() || filters.iter().any(|filter| name.contains(filter)));
    let mut failed = Vec::new();
    let mut count = 0;
    for (name, check) in chosen {
        let outcome = catch_unwind(AssertUnwindSafe(check));
        println!("test {name} ... {}", if outcome.is_ok() { "ok" } else { "FAILED" });
        count += 1;
        if outcome.is_err() {
            failed.push(*name);
        }
    }
    if failed.is_empty() {
        println!("\ntest result: ok. {count} passed");
        return ExitCode::SUCCESS;
    }
    println!("\nfailures:\n    {}\n", failed.join("\n    "));
    println!("test result: FAILED. {} passed; {} failed", count - failed.len(), failed.len());
    ExitCode::FAILURE
}
