//! Programs that a test needs and a machine may not have. The table of `.ci/packages` names the
//! package of each.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const PACKAGES: &str = include_str!("../../../.ci/packages");

/// Returns true if the program exists. If it does not, prints that the test is skipped. If the
/// variable `CI` is set it panics instead, so that CI cannot pass by skipping.
#[must_use]
#[track_caller]
pub fn has_program(name: &str) -> bool {
    if exists(name) {
        return true;
    }
    let missing = missing(name);
    assert!(!in_ci(), "{missing}, and under CI a test may not skip");
    println!("skipped: {missing}");
    false
}

/// Panics unless the program exists. The message names its package.
#[track_caller]
pub fn need_program(name: &str) {
    assert!(exists(name), "{}", missing(name));
}

/// Like [`need_program`], for a program that may be only in root's `PATH`. Returns its path.
#[track_caller]
pub(crate) fn need_system_program(name: &str) -> PathBuf {
    find_system_program(name).unwrap_or_else(|| panic!("{}", missing(name)))
}

pub(crate) fn find_system_program(name: &str) -> Option<PathBuf> {
    let dirs = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
    dirs.iter().map(|dir| Path::new(dir).join(name)).find(|path| path.exists())
}

/// Writes an executable file. The kernel executes no file that a process has open for writing
/// (ETXTBSY), and a child that another thread of this process has just forked inherits the open
/// files: a shell writes the file instead.
pub fn write_program(path: &Path, text: impl AsRef<[u8]>) {
    let mut shell = Command::new("sh")
        .args(["-c", "cat >\"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell");
    shell.stdin.take().expect("a pipe").write_all(text.as_ref()).expect("the shell reads it");
    assert!(shell.wait().expect("a child").success(), "{} is not written", path.display());
}

/// Copies a program. Another program does it, for the reason that [`write_program`] names.
pub fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("install").args([from, to]).status().expect("a program of coreutils");
    assert!(copied.success(), "{} is not written", to.display());
}

/// Returns true if the program can be started.
fn exists(name: &str) -> bool {
    let tried = Command::new(name)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    tried.is_ok()
}

/// Returns the message that a program is missing, with its package.
#[track_caller]
pub(crate) fn missing(name: &str) -> String {
    let package = package_of(name).unwrap_or_else(|| panic!("the table of .ci/packages lacks '{name}'"));
    format!("there is no '{name}': install the package {package} (.ci/packages installs all)")
}

fn package_of(name: &str) -> Option<&'static str> {
    let rows = PACKAGES.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    rows.filter(|row| row.len() == 3 && row[1] == name).map(|row| row[2]).next()
}

/// Returns true if the variable `CI` is set.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_package_of_a_program() {
        assert_eq!(package_of("fusermount3"), Some("fuse3"));
        assert_eq!(package_of("perf"), Some("linux-perf"));
        assert!(missing("mkntfs").contains("install the package ntfs-3g"));
        assert_eq!(package_of("nothing"), None);
    }

    #[test]
    #[should_panic(expected = "the table of .ci/packages lacks 'nothing'")]
    fn a_program_without_a_package_is_an_error() {
        need_program("nothing");
    }
}
