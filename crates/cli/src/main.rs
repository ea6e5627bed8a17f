//! The binary `sapwood`.
fn main() {}
