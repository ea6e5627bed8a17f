//! Rules for ref names (`git-check-ref-format(1)`), and the files of refs.

use std::{
    borrow::Cow,
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice};

/// The minimum number of components of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Levels {
    /// At least one: for names of branches and tags, and for `HEAD` and similar refs.
    One,
    /// At least two: for full names such as `refs/heads/main`.
    Two,
}

/// The name is not valid for a ref.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid ref name")]
pub struct InvalidRefName;

/// Checks a ref name. A component must not be empty, begin with a dot or end in `.lock`. The name
/// must not contain `..`, `@{`, a control character, a space or one of `~^:?*[\`. It must not end
/// with a dot, and must not be `@`.
pub fn check(name: &BStr, levels: Levels) -> Result<(), InvalidRefName> {
    // A listing checks every name, so this is a single pass.
    let bytes = name.as_bytes();
    let (mut start, mut slashes, mut last) = (0, 0, b'/');
    for (at, &byte) in bytes.iter().enumerate() {
        let valid = match byte {
            b'/' => {
                slashes += 1;
                is_end_of_component(&bytes[start..at])
            }
            b'.' => last != b'.' && last != b'/',
            b'{' => last != b'@',
            byte => !is_forbidden(byte),
        };
        if !valid {
            return Err(InvalidRefName);
        }
        if byte == b'/' {
            start = at + 1;
        }
        last = byte;
    }
    let valid = is_end_of_component(&bytes[start..])
        && last != b'.'
        && bytes != b"@"
        && (levels == Levels::One || slashes > 0);
    if valid { Ok(()) } else { Err(InvalidRefName) }
}

/// Returns true if a name can end or continue after this component.
fn is_end_of_component(component: &[u8]) -> bool {
    !component.is_empty() && !component.ends_with(b".lock")
}

fn is_forbidden(byte: u8) -> bool {
    matches!(byte, 0..=b' ' | 127 | b'~' | b'^' | b':' | b'?' | b'*' | b'[' | b'\\')
}

/// Returns true if a name that fails [`check`] can still be used safely: it stays below `refs/`, or
/// consists of capitals and underscores.
pub fn is_safe(name: &BStr) -> bool {
    match name.strip_prefix(b"refs/") {
        Some(rest) => rest.split(|&byte| byte == b'/').all(|part| !matches!(part, b"" | b"." | b"..")),
        None => !name.is_empty() && name.iter().all(|byte| matches!(byte, b'A'..=b'Z' | b'_')),
    }
}

/// Returns true for names directly in the Git directory: `HEAD`, `ORIG_HEAD` and other names in
/// capitals.
pub fn is_root(name: &BStr) -> bool {
    !name.is_empty() && name.iter().all(|byte| matches!(byte, b'A'..=b'Z' | b'-' | b'_'))
}

/// Returns true for the names that Git lists with the refs of the Git directory: HEAD, names that
/// end in `_HEAD`, and a few others. `FETCH_HEAD` and `MERGE_HEAD` hold more than a ref.
pub fn is_listed_root(name: &BStr) -> bool {
    const OTHERS: [&str; 6] = [
        "HEAD",
        "AUTO_MERGE",
        "BISECT_EXPECTED_REV",
        "NOTES_MERGE_PARTIAL",
        "NOTES_MERGE_REF",
        "MERGE_AUTOSTASH",
    ];
    let is_other = || OTHERS.iter().any(|other| name == *other);
    let is_pseudo = name == "FETCH_HEAD" || name == "MERGE_HEAD";
    is_root(name) && !is_pseudo && (name.ends_with(b"_HEAD") || is_other())
}

/// The directories of refs that are separate for each worktree.
pub const PER_WORKTREE: [&str; 3] = ["refs/bisect/", "refs/worktree/", "refs/rewritten/"];

/// Returns true if each worktree has its own ref with this name.
pub fn is_per_worktree(name: &BStr) -> bool {
    is_root(name) || PER_WORKTREE.iter().any(|dir| name.starts_with(dir.as_bytes()))
}

/// The worktree that a ref belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefScope<'a> {
    /// All worktrees.
    Shared,
    /// This worktree.
    ThisWorktree,
    /// The main worktree: `main-worktree/<name>`.
    MainWorktree,
    /// The worktree with this id: `worktrees/<id>/<name>`.
    OtherWorktree(&'a BStr),
}

impl<'a> RefScope<'a> {
    /// Returns the scope of the ref `name`, and the ref's name within that scope.
    pub fn of(name: &'a BStr) -> (RefScope<'a>, &'a BStr) {
        let other = name.strip_prefix(b"worktrees/").and_then(|rest| rest.split_once_str("/"));
        let main = name.strip_prefix(b"main-worktree/").map(|rest| rest.as_bstr());
        match (other, main) {
            (Some((id, rest)), _) if is_per_worktree(rest.as_bstr()) => {
                (RefScope::OtherWorktree(id.as_bstr()), rest.as_bstr())
            }
            (_, Some(rest)) if is_per_worktree(rest) => (RefScope::MainWorktree, rest),
            _ if is_per_worktree(name) => (RefScope::ThisWorktree, name),
            _ => (RefScope::Shared, name),
        }
    }

    /// Returns the directory of refs in this scope. Their reflogs are below its `logs/`.
    pub fn dir<'d>(self, git_dir: &'d Path, common_dir: &'d Path) -> Cow<'d, Path> {
        match self {
            RefScope::ThisWorktree => Cow::Borrowed(git_dir),
            RefScope::Shared | RefScope::MainWorktree => Cow::Borrowed(common_dir),
            RefScope::OtherWorktree(id) => Cow::Owned(common_dir.join("worktrees").join(os_str(id))),
        }
    }
}

/// Returns the path of the loose ref `name`.
pub fn file(git_dir: &Path, common_dir: &Path, name: &BStr) -> PathBuf {
    let (scope, name) = RefScope::of(name);
    scope.dir(git_dir, common_dir).join(os_str(name))
}

/// Returns the path of the reflog of `name`.
pub fn log_file(git_dir: &Path, common_dir: &Path, name: &BStr) -> PathBuf {
    let (scope, name) = RefScope::of(name);
    scope.dir(git_dir, common_dir).join("logs").join(os_str(name))
}

/// Converts `name` to a valid ref name component: removes slashes and replaces invalid bytes by
/// dashes. Git names the administrative directories of worktrees this way.
pub fn sanitized(name: &BStr) -> BString {
    if name == "@" {
        return BString::from("-");
    }
    let mut clean = BString::default();
    let mut last = 0;
    for &byte in name.iter().filter(|byte| **byte != b'/') {
        match byte {
            b'.' if last == b'.' => {}
            b'{' if last == b'@' => clean.push(b'-'),
            byte if is_forbidden(byte) => clean.push(b'-'),
            byte => clean.push(byte),
        }
        last = byte;
    }
    if name.starts_with(b".") && !clean.is_empty() {
        clean[0] = b'-';
    }
    if name.ends_with(b".lock") {
        while let Some(stem) = clean.strip_suffix(b".lock") {
            clean = stem.into();
        }
    }
    clean
}

/// Converts a name from the repository to the system's string type.
#[expect(clippy::disallowed_methods, reason = "names of refs and worktrees, no paths that a user wrote")]
fn os_str(name: &[u8]) -> &OsStr {
    OsStr::from_bytes(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_valid_and_refuses_invalid_names() {
        for good in ["refs/heads/main", "a/@", "a/@a{", "a/b.lock.c", "a/b./c", "a/-", "ä/ö", "a/b}"] {
            assert_eq!(check(good.into(), Levels::Two), Ok(()), "{good}");
        }
        for bad in [
            "", "/", "a/", "/a", "a//b", "a/.b", ".a/b", "a/b..c", "a/b.", "a/b.lock", "a.lock/b", "a/b@{c",
            "a/b c", "a/b\t", "a/\x7f", "a/~", "a/^", "a/:", "a/?", "a/*", "a/[", "a/\\", "a/\0",
        ] {
            assert_eq!(check(bad.into(), Levels::Two), Err(InvalidRefName), "{bad:?}");
            assert_eq!(check(bad.into(), Levels::One), Err(InvalidRefName), "{bad:?}");
        }
        assert_eq!(check("main".into(), Levels::One), Ok(()));
        assert_eq!(check("main".into(), Levels::Two), Err(InvalidRefName));
        assert_eq!(check("@".into(), Levels::One), Err(InvalidRefName));
    }

    #[test]
    fn finds_the_files_of_worktree_refs() {
        let file = |name: &str| file("w".as_ref(), "c".as_ref(), name.into()).display().to_string();
        for (name, path) in [
            ("HEAD", "w/HEAD"),
            ("refs/heads/a", "c/refs/heads/a"),
            ("refs/bisect/bad", "w/refs/bisect/bad"),
            ("main-worktree/HEAD", "c/HEAD"),
            ("main-worktree/refs/worktree/a", "c/refs/worktree/a"),
            ("main-worktree/refs/heads/a", "c/main-worktree/refs/heads/a"),
            ("worktrees/x/HEAD", "c/worktrees/x/HEAD"),
            ("worktrees/x/refs/bisect/a", "c/worktrees/x/refs/bisect/a"),
            ("worktrees/x/refs/heads/a", "c/worktrees/x/refs/heads/a"),
            ("topic", "c/topic"),
        ] {
            assert_eq!(file(name), path, "{name}");
        }
        let log = log_file("w".as_ref(), "c".as_ref(), "worktrees/x/HEAD".into());
        assert_eq!(log, Path::new("c/worktrees/x/logs/HEAD"));
        assert!(is_safe("refs/a..b".into()) && is_safe("A_B".into()));
        for bad in ["", "a", "refs/", "refs/../a", "refs/a//b", "refs/a/"] {
            assert!(!is_safe(bad.into()), "{bad:?}");
        }
    }

    #[test]
    fn sanitizes_invalid_names() {
        for (name, clean) in [
            ("plain", "plain"),
            (".a..b", "-a.b"),
            ("a b~c", "a-b-c"),
            ("x.lock.lock", "x"),
            ("@", "-"),
            ("a@{b", "a@-b"),
        ] {
            assert_eq!(sanitized(name.into()), clean, "{name}");
        }
    }
}
