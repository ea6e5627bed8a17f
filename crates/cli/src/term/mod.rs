//! The terminal side of the program: arguments, output, failures, progress, text. It imports
//! nothing else from this crate.

pub(crate) mod args;
pub(crate) mod console;
pub(crate) mod failure;
pub(crate) mod interrupt;
pub(crate) mod library;
pub(crate) mod notice;
pub(crate) mod progress;
pub(crate) mod text;
