//! The program against Git: same command, same repository, same result.

mod args;

/// The program under test.
const SAPWOOD: &str = env!("CARGO_BIN_EXE_sapwood");
