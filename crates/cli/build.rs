//! Links the parts of libgcc that unwinding needs into the binary, gives it a fixed address, and
//! tells it its commit.
//!
//! Rust's standard library links the shared `libgcc_s`. Every run then has to find, map and
//! relocate it, which takes a tenth of the time of a short command. If the compiler has the static
//! library, a linker script in the shared one's place leads to it; elsewhere nothing changes.

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

// The environment is how cargo talks to it.
#[allow(clippy::disallowed_methods)]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let target = env::var("TARGET")?;
    let native = target == env::var("HOST")?;
    if native && env::var("CARGO_CFG_TARGET_ENV")? == "gnu" && has_static_unwinder() {
        let directory = env::var("OUT_DIR")?;
        fs::write(Path::new(&directory).join("libgcc_s.so"), "INPUT(-lgcc_eh -lgcc)\n")?;
        println!("cargo::rustc-link-search=native={directory}");
    }
    // A program at a fixed address needs no relocations, which saves 37 page faults: a tenth of the
    // time of a short command (docs/design/shim.md). Heap, stack and libraries stay at random
    // addresses. A static program gets a fixed address from the relocation model (.ci/release).
    if env::var("CARGO_CFG_TARGET_OS")? == "linux" && env::var("CARGO_CFG_TARGET_ENV")? == "gnu" {
        println!("cargo::rustc-link-arg-bin=sapwood=-no-pie");
    }
    println!("cargo::rustc-env=SAPWOOD_TARGET={target}");
    println!("cargo::rustc-env=SAPWOOD_COMMIT={}", commit()?);
    Ok(())
}

/// The name alone is the compiler's answer when it has no such file.
fn has_static_unwinder() -> bool {
    let answer = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    answer.is_ok_and(|answer| answer.status.success() && answer.stdout.starts_with(b"/"))
}

/// Returns the commit of the sources; empty if it is unknown, and in builds for tests, which would
/// link everything again after each commit.
#[allow(clippy::disallowed_methods)]
fn commit() -> Result<String, Box<dyn Error>> {
    // The release script sets it.
    println!("cargo::rerun-if-env-changed=SAPWOOD_COMMIT");
    if let Ok(commit) = env::var("SAPWOOD_COMMIT") {
        return Ok(commit);
    }
    let sources = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    // A crate from a registry has this file.
    if let Ok(text) = fs::read_to_string(sources.join(".cargo_vcs_info.json")) {
        let quoted = text.split('"').skip_while(|word| *word != "sha1").nth(2);
        return Ok(quoted.unwrap_or_default().to_owned());
    }
    if env::var("PROFILE")? != "release" {
        return Ok(String::new());
    }
    let git = |args: &[&str]| {
        let output = Command::new("git").arg("-C").arg(&sources).args(args).output().ok()?;
        let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        Some(text.trim_end().to_owned())
    };
    // Each commit and checkout writes a line there.
    match git(&["rev-parse", "--git-path", "logs/HEAD"]).map(|log| sources.join(log)) {
        Some(log) if log.exists() => println!("cargo::rerun-if-changed={}", log.display()),
        _ => return Ok(String::new()),
    }
    Ok(git(&["rev-parse", "--verify", "-q", "HEAD"]).unwrap_or_default())
}
