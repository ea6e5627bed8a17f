//! Compares the formats with files made by real Git, and images with the kernel.

mod erofs;
mod index;
mod reference;
mod wildmatch;
