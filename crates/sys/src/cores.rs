//! How many threads can run at once.

use std::{sync::OnceLock, thread};

/// The number of cores this process may use; asked once, for the answer takes a dozen system calls.
pub fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, usize::from))
}
