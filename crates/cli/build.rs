//! Links the parts of libgcc that unwinding needs into the binary, and gives it a fixed address.
//!
//! Rust's standard library links the shared `libgcc_s`. Every run then has to find, map and
//! relocate it, which takes a tenth of the time of a short command. If the compiler has the static
//! library, a linker script in the shared one's place leads to it; elsewhere nothing changes.

use std::{env, error::Error, fs, path::Path, process::Command};

// The environment is how cargo talks to it.
#[allow(clippy::disallowed_methods)]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let native = env::var("TARGET")? == env::var("HOST")?;
    if native && env::var("CARGO_CFG_TARGET_ENV")? == "gnu" && has_static_unwinder() {
        let directory = env::var("OUT_DIR")?;
        fs::write(Path::new(&directory).join("libgcc_s.so"), "INPUT(-lgcc_eh -lgcc)\n")?;
        println!("cargo::rustc-link-search=native={directory}");
    }
    // A program at a fixed address needs no relocations, which saves 37 page faults: a tenth of the
    // time of a short command (docs/design/shim.md). Heap, stack and libraries stay at random
    // addresses.
    if env::var("CARGO_CFG_TARGET_OS")? == "linux" {
        println!("cargo::rustc-link-arg-bin=sapwood=-no-pie");
    }
    Ok(())
}

/// The name alone is the compiler's answer when it has no such file.
fn has_static_unwinder() -> bool {
    let answer = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    answer.is_ok_and(|answer| answer.status.success() && answer.stdout.starts_with(b"/"))
}
