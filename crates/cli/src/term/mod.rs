//! The terminal side of the program: arguments, input, output, files, signals, failures, progress,
//! text. It imports nothing else from this crate.

pub(crate) mod args;
pub(crate) mod console;
pub(crate) mod failure;
pub(crate) mod files;
pub(crate) mod interrupt;
pub(crate) mod library;
pub(crate) mod notice;
pub(crate) mod process;
pub(crate) mod profile;
pub(crate) mod progress;
pub(crate) mod stdin;
pub(crate) mod text;
