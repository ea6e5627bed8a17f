//! Contents for tests: repositories with a real history, stored as bundles outside of this
//! repository, and bytes that do not compress.

use std::path::{Path, PathBuf};

/// Returns the path of the file `name` in `shared/data`, the directory beside the checkout.
///
/// If the file is missing, the function prints a line and returns `None`, and the caller skips its
/// test. If the variable `CI` is set it panics instead, so that CI cannot pass by skipping.
pub fn shared_data(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    find(path, in_ci)
}

fn find(path: PathBuf, in_ci: bool) -> Option<PathBuf> {
    if path.exists() {
        return Some(path);
    }
    assert!(!in_ci, "{} is missing, and under CI a test may not skip", path.display());
    println!("skipped: {} is missing", path.display());
    None
}

/// Returns bytes that do not compress. Equal seeds give equal bytes.
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(next).flatten().take(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_outside_ci() {
        assert_eq!(find("/nowhere/x.bundle".into(), false), None);
    }

    #[test]
    #[should_panic(expected = "is missing")]
    fn fails_under_ci() {
        find("/nowhere/x.bundle".into(), true);
    }
}
