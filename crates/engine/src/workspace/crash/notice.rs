//! The file `crash` in the state of a workspace: the paths that a crash damaged. It stays until a
//! commit of sapwood in the workspace, or until the user removes it.
//!
//! Each entry is a word, a space, the path, and a NUL.

use std::{io::ErrorKind, path::Path};

use bstr::{BStr, BString, ByteSlice as _};
use sys::by_path;

use super::super::backend::Error;

/// The damage to a path, or its repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The file held nothing of the user's. It has the content of the base again.
    Restored,
    /// Bytes of the base that the user never changed were missing. They are there again.
    Completed,
    /// The user changed the file, and a part of it is missing.
    Incomplete,
    /// The file is shorter than in the base. The crash or the user may have shortened it.
    Shorter,
    /// A renamed directory whose content is missing in the base.
    Misplaced,
}

impl Damage {
    const ALL: [Damage; 5] =
        [Damage::Restored, Damage::Completed, Damage::Incomplete, Damage::Shorter, Damage::Misplaced];

    /// Returns the name in the file and in JSON documents.
    pub fn name(self) -> &'static str {
        match self {
            Damage::Restored => "restored",
            Damage::Completed => "completed",
            Damage::Incomplete => "incomplete",
            Damage::Shorter => "shorter",
            Damage::Misplaced => "misplaced",
        }
    }
}

/// A damaged path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The damage.
    pub damage: Damage,
    /// The path from the root of the worktree.
    pub path: BString,
}

/// The damaged paths of a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// The paths, in the order in which they were found.
    pub findings: Vec<Finding>,
}

/// The name of the file in the state of a workspace.
const NAME: &str = "crash";

impl Notice {
    /// Returns the path of the file.
    pub fn place(state: &Path) -> std::path::PathBuf {
        state.join(NAME)
    }

    /// Reads the notice of a workspace. It is empty if there is none.
    pub fn read(state: &Path) -> Result<Notice, Error> {
        let path = Notice::place(state);
        let content = by_path::read(&path).map_err(Error::io("read", &path))?.unwrap_or_default();
        Ok(Notice { findings: content.split(|byte| *byte == 0).filter_map(parse).collect() })
    }

    /// Adds findings to the notice of a workspace.
    pub(super) fn add(state: &Path, findings: &[Finding]) -> Result<(), Error> {
        use std::io::Write as _;
        if findings.is_empty() {
            return Ok(());
        }
        let mut notice = Notice::read(state)?;
        let known: std::collections::HashSet<BString> =
            notice.findings.iter().map(|finding| finding.path.clone()).collect();
        notice.findings.extend(findings.iter().filter(|new| !known.contains(&new.path)).cloned());
        let line =
            |finding: &Finding| [finding.damage.name().as_bytes(), b" ", &finding.path, b"\0"].concat();
        let content: Vec<u8> = notice.findings.iter().flat_map(line).collect();
        let (path, staged) = (Notice::place(state), state.join(format!(".{NAME}-{}", std::process::id())));
        let written = || {
            let _ = by_path::remove_file(&staged);
            let mut file = by_path::create_new(&staged, 0o666)?;
            file.write_all(&content)?;
            sys::sync_file(&file)?;
            by_path::rename(&staged, &path)
        };
        written().map_err(|source| {
            let _ = by_path::remove_file(&staged);
            Error::io("write", &path)(source)
        })
    }

    /// Removes the notice of a workspace, if there is one.
    pub fn remove(state: &Path) -> Result<(), Error> {
        let path = Notice::place(state);
        match by_path::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("remove", &path)(error)),
            _ => Ok(()),
        }
    }
}

fn parse(entry: &[u8]) -> Option<Finding> {
    let (word, path) = entry.split_once_str(" ")?;
    let damage = Damage::ALL.into_iter().find(|damage| damage.name().as_bytes() == word)?;
    Some(Finding { damage, path: BStr::new(path).to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_each_path_once_until_it_is_removed() {
        let state = tempfile::tempdir().expect("a directory for tests");
        let finding = |damage, path: &str| Finding { damage, path: path.into() };
        let all: Vec<Finding> = Damage::ALL.map(|damage| finding(damage, damage.name())).into();
        Notice::add(state.path(), &all[..3]).expect("written");
        Notice::add(state.path(), &[]).expect("nothing to write");
        Notice::add(state.path(), &all).expect("written");
        let odd = finding(Damage::Restored, "a b\nc");
        Notice::add(state.path(), &[finding(Damage::Shorter, "restored"), odd.clone()]).expect("written");
        let expected: Vec<Finding> = all.into_iter().chain([odd]).collect();
        assert_eq!(Notice::read(state.path()).expect("read").findings, expected);
        Notice::remove(state.path()).expect("removed");
        Notice::remove(state.path()).expect("nothing to remove");
        assert_eq!(Notice::read(state.path()).expect("read"), Notice::default());
    }
}
