//! Formats against files real Git made.

mod index;
