//! Paths as messages show them: relative to the directory where the command was started.

use bstr::{BStr, BString, ByteSlice as _};

/// Returns `path`, relative to the worktree's root, as seen from the directory `prefix` (with a
/// slash at its end, or empty).
pub fn relative(path: &BStr, prefix: &BStr) -> BString {
    if prefix.strip_prefix(path.as_bytes()).is_some_and(|rest| rest.starts_with(b"/")) {
        // The path was a file, and is now a directory that contains the current directory.
        let up = prefix[path.len()..].split_str("/").filter(|part| !part.is_empty()).count();
        return if up == 0 { "./".into() } else { "../".repeat(up).into() };
    }
    let shared = path.iter().zip(prefix.iter()).take_while(|(one, other)| one == other).count();
    let shared = path[..shared].rfind_byte(b'/').map_or(0, |slash| slash + 1);
    let up = prefix[shared..].split_str("/").filter(|part| !part.is_empty()).count();
    let mut relative = BString::from("../".repeat(up));
    relative.extend_from_slice(&path[shared..]);
    if relative.is_empty() { "./".into() } else { relative }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_and_down() {
        let seen = |path: &str, prefix: &str| relative(path.into(), prefix.into()).to_string();
        assert_eq!(seen("a/b", ""), "a/b");
        assert_eq!(seen("sub/a", "sub/"), "a");
        assert_eq!(seen("sub/", "sub/"), "./");
        assert_eq!(seen("a", "sub/"), "../a");
        assert_eq!(seen("sub", "sub/"), "./");
        assert_eq!(seen("sub", "sub/deep/er/"), "../../");
        assert_eq!(seen("subs/a", "sub/"), "../subs/a");
        assert_eq!(seen("one/two/x", "one/three/four/"), "../../two/x");
    }
}
