//! The engine on real repositories and real file systems.
#![allow(clippy::disallowed_methods)]

mod execute;
