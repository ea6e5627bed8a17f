//! The engine on real repositories and real file systems.
#![allow(clippy::disallowed_methods, clippy::print_stderr)]

mod alternates;
mod bases;
mod changes;
mod edit_tree;
mod execute;
mod fleet;
mod floors;
mod importing;
mod lost;
mod place;
mod renames;
