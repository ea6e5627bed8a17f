//! The Git that asks a workspace's monitor.
//!
//! Git 2.32 to 2.42 reads stat data that it never filled in, if a monitor reports an entry as
//! unchanged: `diff HEAD` and `diff-index` then name files as deleted now and then. Such a Git is
//! told that everything may have changed. It examines every file, and is right.

use std::{
    ffi::OsStr,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use bstr::{BStr, ByteSlice as _};
use engine::worktree::admin;
use sys::{Stat, by_path, namespace};

/// A version of Git: major and minor.
type Version = (u32, u32);

/// Returns true if the Git that started this process misreads the answers of a monitor. Its version
/// is kept in `state`, the workspace's state directory. Without a Git above, returns false.
pub fn has_defect(state: &Path) -> bool {
    let is_git = |name: &OsStr| name.as_encoded_bytes().starts_with(b"git");
    let version = namespace::program_above(is_git).and_then(|git| version_of(&git, state));
    version.is_some_and(is_defective)
}

fn is_defective(version: Version) -> bool {
    ((2, 32)..(2, 43)).contains(&version)
}

fn version_of(git: &Path, state: &Path) -> Option<Version> {
    let stat = by_path::stat_followed(git).ok()??;
    let file = cache(state, &stat);
    let known = by_path::read(&file).ok().flatten();
    if let Some(version) = known.and_then(|line| cached(line.as_bstr(), &stat)) {
        return Some(version);
    }
    let printed = Command::new(git).arg0("git").arg("version").output().ok()?.stdout;
    let version = printed_version(printed.as_bstr())?;
    // Without the file, the next answer asks again.
    let _ = admin::write(&file, line(version, &stat).as_bytes());
    Some(version)
}

/// Returns the file that holds the version of the program with this stat data.
fn cache(state: &Path, stat: &Stat) -> PathBuf {
    state.join(format!("asking-git.{}.{}", stat.dev, stat.ino))
}

fn line((major, minor): Version, stat: &Stat) -> String {
    format!("{} {:?} {major}.{minor}\n", stat.size, stat.mtime)
}

/// Returns the version in a line, if the program has not changed since.
fn cached(line: &BStr, stat: &Stat) -> Option<Version> {
    let known = format!("{} {:?} ", stat.size, stat.mtime);
    version_in(line.strip_prefix(known.as_bytes())?.trim_end())
}

/// Returns the version in the output of `git version`.
fn printed_version(printed: &BStr) -> Option<Version> {
    version_in(printed.strip_prefix(b"git version ")?)
}

fn version_in(text: &[u8]) -> Option<Version> {
    let mut numbers = text.splitn(3, |byte| *byte == b'.');
    let mut number = || std::str::from_utf8(numbers.next()?.trim_end()).ok()?.parse().ok();
    Some((number()?, number()?))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_versions_that_misread_answers() {
        for (printed, expected) in [
            ("git version 2.31.8\n", Some(false)),
            ("git version 2.32.0\n", Some(true)),
            ("git version 2.39.5\n", Some(true)),
            ("git version 2.42\n", Some(true)),
            ("git version 2.43.0\n", Some(false)),
            ("git version 2.55.0.rc1.12.gabcdef\n", Some(false)),
            ("git version 3.0.0 (Vendor 1)\n", Some(false)),
            ("something else\n", None),
            ("", None),
        ] {
            assert_eq!(printed_version(printed.into()).map(is_defective), expected, "{printed}");
        }
    }

    #[test]
    fn a_version_is_kept_until_the_program_changes() {
        let dir = tempfile::tempdir().expect("a directory");
        let git = dir.path().join("git");
        let state = dir.path();
        let install = |version: &str| {
            let script =
                format!("#!/bin/sh\necho x >>{}\necho git version {version}\n", state.join("runs").display());
            std::fs::write(&git, script).expect("written");
            std::process::Command::new("chmod").arg("+x").arg(&git).status().expect("changed");
        };
        let runs = || std::fs::read(state.join("runs")).expect("it ran").len() / 2;
        install("2.39.5");
        assert_eq!((version_of(&git, state), runs()), (Some((2, 39)), 1));
        assert_eq!((version_of(&git, state), runs()), (Some((2, 39)), 1));
        install("2.55.0.1");
        assert_eq!((version_of(&git, state), runs()), (Some((2, 55)), 2));
    }
}
