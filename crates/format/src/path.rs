//! Git's rules for paths in a repository (Git's `verify_path`).
//!
//! A valid path can be written beneath a worktree without leaving it and without touching its
//! `.git`, on any file system that the [`Protect`] flags select. The rules refuse empty components,
//! `.`, `..`, and `.git` in every spelling: other case, backslashes, NTFS short names (`git~1`),
//! streams (`.git::$INDEX_ALLOCATION`), trailing dots and spaces, and the code points that HFS+
//! ignores. A symbolic link must not be named `.gitmodules`, in the same spellings.
//!
//! Source: the behaviour of Git's `update-index --cacheinfo`, `read-tree` and `fsck`;
//! `core.protectHFS` and `core.protectNTFS` in `git-config(1)`.

use bstr::BStr;

use crate::Mode;

/// The file systems whose spellings of `.git` are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protect {
    /// `core.protectHFS`
    pub hfs: bool,
    /// `core.protectNTFS`
    pub ntfs: bool,
}

impl Default for Protect {
    /// Git's defaults on Linux.
    fn default() -> Self {
        Protect { hfs: false, ntfs: true }
    }
}

/// The path is not allowed in the index or the worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid path")]
pub struct InvalidPath;

/// Checks a complete path with slashes, as it would be stored in the index with `mode`. Only the
/// path of a (sparse) directory may end in a slash.
pub fn verify(path: &BStr, mode: Mode, protect: Protect) -> Result<(), InvalidPath> {
    let path: &[u8] = path;
    let mut start = 0;
    loop {
        let end = path[start..].iter().position(|&byte| byte == b'/').map_or(path.len(), |at| start + at);
        if start == end {
            // An empty component is valid only after the trailing slash of a directory.
            let after_last_slash = start == path.len() && start > 0;
            return if after_last_slash && mode.is_tree() { Ok(()) } else { Err(InvalidPath) };
        }
        verify_component(path, start, end, mode, protect)?;
        if end == path.len() {
            return Ok(());
        }
        start = end + 1;
    }
}

/// Checks `path[start..end]`, which is not empty and contains no slash.
fn verify_component(
    path: &[u8],
    start: usize,
    end: usize,
    mode: Mode,
    protect: Protect,
) -> Result<(), InvalidPath> {
    let name = &path[start..end];
    let link = mode.is_symlink();
    if matches!(name, b"." | b"..") || name.eq_ignore_ascii_case(b".git") {
        return Err(InvalidPath);
    }
    if link && name.eq_ignore_ascii_case(b".gitmodules") {
        return Err(InvalidPath);
    }
    if protect.hfs && (is_hfs_dot(name, b"git") || link && is_hfs_dot(name, Dot::Modules.word())) {
        return Err(InvalidPath);
    }
    if protect.ntfs {
        // On NTFS, a backslash separates components too. The name of a stream may contain slashes,
        // so the check includes the text after the component.
        let mut at = start;
        loop {
            if is_ntfs_dot_git(&path[at..]) || link && is_ntfs_dot(&path[at..], Dot::Modules) {
                return Err(InvalidPath);
            }
            // Git does not check the text after a backslash at the start of a component.
            let from = at.max(start + 1);
            match path[from..end].iter().position(|&byte| byte == b'\\') {
                Some(backslash) => at = from + backslash + 1,
                None => break,
            }
        }
    }
    Ok(())
}

/// A file that Git reads from the worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Dot {
    Modules,
    Attributes,
    Ignore,
    Mailmap,
}

impl Dot {
    /// Returns the name of the file without its dot.
    pub fn word(self) -> &'static [u8] {
        match self {
            Dot::Modules => b"gitmodules",
            Dot::Attributes => b"gitattributes",
            Dot::Ignore => b"gitignore",
            Dot::Mailmap => b"mailmap",
        }
    }

    /// Returns the start of the short name that NTFS builds from a hash.
    fn hashed(self) -> &'static [u8; 6] {
        match self {
            Dot::Modules => b"gi7eba",
            Dot::Attributes => b"gi7d29",
            Dot::Ignore => b"gi250a",
            Dot::Mailmap => b"maba30",
        }
    }
}

/// Returns true if NTFS treats the component at the start of `rest` as `.git`.
pub fn is_ntfs_dot_git(rest: &[u8]) -> bool {
    let starts = |with: &[u8]| rest.get(..with.len()).is_some_and(|head| head.eq_ignore_ascii_case(with));
    let after = match () {
        () if starts(b".git") => 4,
        () if starts(b"git~1") => 5,
        () => return false,
    };
    match rest[after..].iter().find(|&&byte| !matches!(byte, b'.' | b' ')) {
        None => true,
        Some(&byte) => matches!(byte, b'/' | b'\\' | b':'),
    }
}

/// Returns true if NTFS treats `rest` as the file `dot`, in full or as one of its short names.
pub fn is_ntfs_dot(rest: &[u8], dot: Dot) -> bool {
    // The short name is six letters, `~` and 1 to 4. If those names are taken, NTFS builds one from
    // a hash.
    let (name, hashed) = (dot.word(), dot.hashed());
    let ends = |at: usize| match rest[at..].iter().find(|&&byte| !matches!(byte, b'.' | b' ')) {
        None => true,
        Some(&byte) => byte == b':',
    };
    if rest.first() == Some(&b'.')
        && let Some(word) = rest.get(1..1 + name.len())
        && word.eq_ignore_ascii_case(name)
    {
        return ends(1 + name.len());
    }
    let Some(short) = rest.get(..8) else { return false };
    if short[..6].eq_ignore_ascii_case(&name[..6]) && short[6] == b'~' && matches!(short[7], b'1'..=b'4') {
        return ends(8);
    }
    let Some(tilde) = short.iter().position(|&byte| byte == b'~') else { return false };
    tilde <= 6
        && short[..tilde].eq_ignore_ascii_case(&hashed[..tilde])
        && matches!(short[tilde + 1], b'1'..=b'9')
        && short[tilde + 2..].iter().all(u8::is_ascii_digit)
        && ends(8)
}

/// Returns true if HFS+ treats the component `name` as `.` followed by `word`.
pub fn is_hfs_dot(name: &[u8], word: &[u8]) -> bool {
    let mut rest = name;
    if next_hfs_char(&mut rest) != Some('.') {
        return false;
    }
    for &letter in word {
        match next_hfs_char(&mut rest) {
            Some(c) if c.is_ascii() && c.to_ascii_lowercase() == letter as char => {}
            _ => return false,
        }
    }
    // Malformed UTF-8 is treated as the end of the name, because the file system's escape for it is
    // unknown.
    next_hfs_char(&mut rest).is_none()
}

/// Returns the next code point that HFS+ does not ignore, or `None` at the end and at malformed
/// UTF-8.
fn next_hfs_char(rest: &mut &[u8]) -> Option<char> {
    loop {
        let (c, len) = bstr::decode_utf8(*rest);
        *rest = &rest[len..];
        match c? {
            '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}' => {}
            // These are not characters, and Git treats them as malformed.
            '\u{fffe}' | '\u{ffff}' => return None,
            c => return Some(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use proptest::prelude::*;

    use super::*;

    fn refused(path: &str, mode: Mode, protect: Protect) -> bool {
        verify(path.into(), mode, protect).is_err()
    }

    #[test]
    fn refuses_every_spelling_of_dot_git() {
        let none = Protect { hfs: false, ntfs: false };
        let (hfs, ntfs) = (Protect { hfs: true, ..none }, Protect { ntfs: true, ..none });
        for path in ["", "/", "a/", "/a", "a//b", ".", "a/..", "../a", ".git", "a/.GIT/b", ".gIt"] {
            assert!(refused(path, Mode::FILE, none), "{path}");
        }
        for path in [
            "git~1",
            "GIT~1/x",
            ".git ",
            ".git. .",
            ".git::$INDEX_ALLOCATION/x",
            ".git\\x",
            "a\\.git",
            "a\\git~1\\b",
        ] {
            assert!(!refused(path, Mode::FILE, none), "{path}");
            assert!(refused(path, Mode::FILE, ntfs), "{path}");
        }
        for path in [".g\u{200c}it", "a/\u{feff}.GIT\u{206f}/b"] {
            assert!(!refused(path, Mode::FILE, ntfs), "{path}");
            assert!(refused(path, Mode::FILE, hfs), "{path}");
        }
        for path in
            ["gitmod~1", "GITMOD~4", ".gitmodules .", ".gitmodules:x", "gi7eba~1", "GI7EB~10", "~1000000"]
        {
            assert!(!refused(path, Mode::FILE, ntfs), "{path}");
            assert!(refused(path, Mode::SYMLINK, ntfs), "{path}");
        }
        assert!(refused(".gitmodules", Mode::SYMLINK, none));
        assert!(refused(".gitmodules/x", Mode::SYMLINK, none));
        for path in ["git", "a.git", ".gitx", ".github/x", "git~2", "...", ".gitignore", ".git~1", "gi7eb~1"]
        {
            assert!(!refused(path, Mode::SYMLINK, Protect { hfs: true, ntfs: true }), "{path}");
        }
        assert!(!refused("a/", Mode::TREE, none));
    }

    /// Generates paths from the parts that the rules test for.
    fn paths() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            ".git",
            "git",
            ".",
            "..",
            "/",
            "/",
            "~1",
            "~4",
            "~",
            "1",
            "0",
            "9",
            " ",
            ":",
            "\\",
            "modules",
            "MODULES",
            "mod",
            "gi7eba",
            "GI7E",
            ".GIT",
            "\u{200c}",
            "\u{feff}",
            "\u{ffff}",
            "a",
            "$INDEX_ALLOCATION",
        ]);
        prop::collection::vec(piece, 1..6).prop_map(|pieces| pieces.concat())
    }

    #[test]
    #[allow(clippy::disallowed_methods)]
    fn agrees_with_git() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let git = |args: &[&str]| {
            Command::new("git")
                .current_dir(dir.path())
                .args(args)
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .env("HOME", dir.path())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .expect("git runs")
                .success()
        };
        assert!(git(&["init", "-q"]));
        let oid = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
        let modes = prop::sample::select(vec![Mode::FILE, Mode::SYMLINK]);
        let mut runner = prop::test_runner::TestRunner::new(ProptestConfig::with_cases(400));
        runner
            .run(&(paths(), modes, any::<bool>(), any::<bool>()), |(path, mode, hfs, ntfs)| {
                let accepted = git(&[
                    "-c",
                    &format!("core.protectHFS={hfs}"),
                    "-c",
                    &format!("core.protectNTFS={ntfs}"),
                    "update-index",
                    "--add",
                    "--replace",
                    "--cacheinfo",
                    &format!("{:o},{oid},{path}", mode.bits()),
                ]);
                prop_assert_eq!(
                    verify(path.as_str().into(), mode, Protect { hfs, ntfs }).is_ok(),
                    accepted,
                    "{:?} {:?}",
                    path,
                    mode
                );
                Ok(())
            })
            .expect("as git does");
    }
}
