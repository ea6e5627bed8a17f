//! Compares the formats with files made by real Git.

mod index;
mod reference;
mod wildmatch;
