//! Programs that a test needs and a machine may not have.

use std::process::{Command, Stdio};

/// Returns true if the program exists. If it does not, prints that the test is skipped. If the
/// variable `CI` is set it panics instead, so that CI cannot pass by skipping.
#[must_use]
pub fn has_program(name: &str) -> bool {
    let tried = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if tried.is_ok() {
        return true;
    }
    assert!(!in_ci(), "there is no '{name}', and under CI a test may not skip");
    println!("skipped: there is no '{name}'");
    false
}

/// Returns true if the variable `CI` is set.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty())
}
