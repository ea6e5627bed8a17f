//! The number of threads that can run at once.

use std::{sync::OnceLock, thread};

/// Returns the number of cores that this process may use. The value is read once and cached,
/// because reading it takes a dozen system calls.
pub fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, usize::from))
}
