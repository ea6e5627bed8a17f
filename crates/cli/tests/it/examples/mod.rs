//! The unchanged files in `examples/`, executed.

mod agents;
mod fixture;
mod kubernetes;
mod runners;
mod slurm;
mod yaml;

use std::path::{Path, PathBuf};

/// Returns the path of a file or directory in `examples/`.
fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}
