//! Tests of the layers of the crate.

mod floors;
