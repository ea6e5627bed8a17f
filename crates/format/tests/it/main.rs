//! Formats against files real Git made.

mod index;
mod reference;
mod wildmatch;
