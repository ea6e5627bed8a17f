//! Which untracked paths are ignored: `.gitignore` files, `info/exclude` and `core.excludesFile`.
//!
//! Source: `gitignore(5)`. Files are read when first needed and kept; a `.gitignore` that is a symbolic
//! link is not read, as in Git.

use std::{collections::HashMap, io, io::Read as _};

use bstr::{BStr, BString, ByteSlice};

use crate::pathspec::wildmatch;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    pattern: BString,
    negative: bool,
    directory: bool,
    /// Without a slash: compared with the last component only.
    anywhere: bool,
}

/// The rules of a worktree.
pub struct Ignores<'a> {
    root: &'a sys::Dir,
    /// From files outside the worktree, the strongest first.
    outside: Vec<Vec<Rule>>,
    icase: bool,
    inside: HashMap<BString, Vec<Rule>>,
    directories: HashMap<BString, bool>,
}

impl<'a> Ignores<'a> {
    /// Of the worktree `root`; `outside` are the contents of `info/exclude` and of `core.excludesFile`,
    /// in this order. `icase` is `core.ignoreCase`.
    pub fn new(root: &'a sys::Dir, outside: &[&[u8]], icase: bool) -> Self {
        let outside = outside.iter().map(|content| parse(content)).collect();
        Ignores { root, outside, icase, inside: HashMap::new(), directories: HashMap::new() }
    }

    /// Whether `path` is ignored, itself or with a directory above it. An error is that of reading a
    /// `.gitignore`.
    pub fn is_ignored(&mut self, path: &BStr, is_dir: bool) -> io::Result<bool> {
        if let Some(slash) = path.rfind_byte(b'/') {
            let above = path[..slash].as_bstr();
            let ignored = match self.directories.get(above) {
                Some(&known) => known,
                None => {
                    let ignored = self.is_ignored(above, true)?;
                    self.directories.insert(above.to_owned(), ignored);
                    ignored
                }
            };
            if ignored {
                return Ok(true);
            }
        }
        let mut dir = path.rfind_byte(b'/').map(|slash| path[..slash].as_bstr()).unwrap_or_default();
        loop {
            self.load(dir)?;
            let rules = &self.inside[dir];
            let below = if dir.is_empty() { path } else { path[dir.len() + 1..].as_bstr() };
            if let Some(rule) = last_match(rules, below, is_dir, self.icase) {
                return Ok(!rule.negative);
            }
            if dir.is_empty() {
                break;
            }
            dir = dir.rfind_byte(b'/').map(|slash| dir[..slash].as_bstr()).unwrap_or_default();
        }
        let found = self.outside.iter().find_map(|rules| last_match(rules, path, is_dir, self.icase));
        Ok(found.is_some_and(|rule| !rule.negative))
    }

    fn load(&mut self, dir: &BStr) -> io::Result<()> {
        if self.inside.contains_key(dir) {
            return Ok(());
        }
        let mut file = dir.to_owned();
        if !file.is_empty() {
            file.push(b'/');
        }
        file.extend_from_slice(b".gitignore");
        let mut content = Vec::new();
        // Missing, a link, or below something that is no directory: no rules.
        if let Ok(mut open) = self.root.open_file(&file)
            && sys::stat_of(&open)?.file_type == sys::FileType::File
        {
            open.read_to_end(&mut content)?;
        }
        self.inside.insert(dir.to_owned(), parse(&content));
        Ok(())
    }
}

/// The patterns of a sparse checkout (`info/sparse-checkout`), of either mode: they have the syntax of ignore
/// files and say what is in the worktree.
pub struct SparsePatterns {
    rules: Vec<Rule>,
    icase: bool,
}

impl SparsePatterns {
    /// Of the file's content.
    pub fn new(content: &[u8], icase: bool) -> Self {
        SparsePatterns { rules: parse(content), icase }
    }

    /// Whether the file at `path` belongs in the worktree. What no pattern names goes with its directory.
    pub fn includes(&self, path: &BStr) -> bool {
        let mut included = false;
        for end in path.find_iter("/").chain([path.len()]) {
            let matched = last_match(&self.rules, path[..end].as_bstr(), end < path.len(), self.icase);
            included = matched.map_or(included, |rule| !rule.negative);
        }
        included
    }
}

fn parse(content: &[u8]) -> Vec<Rule> {
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    content.lines().filter_map(Rule::parse).collect()
}

impl Rule {
    fn parse(line: &[u8]) -> Option<Rule> {
        if line.first() == Some(&b'#') {
            return None;
        }
        let (negative, line) = match line.strip_prefix(b"!") {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let line = trim_spaces(line);
        let (directory, line) = match line.strip_suffix(b"/") {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let anywhere = !line.contains(&b'/');
        let pattern = line.strip_prefix(b"/").unwrap_or(line);
        (!line.is_empty()).then(|| Rule { pattern: pattern.into(), negative, directory, anywhere })
    }

    fn matches(&self, path: &BStr, is_dir: bool, icase: bool) -> bool {
        if self.directory && !is_dir {
            return false;
        }
        if !self.anywhere {
            return wildmatch(&self.pattern, path, true, icase);
        }
        let name = path.rfind_byte(b'/').map_or(path, |slash| path[slash + 1..].as_bstr());
        wildmatch(&self.pattern, name, false, icase)
    }
}

/// Trailing spaces go, unless a backslash is before them.
fn trim_spaces(line: &[u8]) -> &[u8] {
    let mut end = 0;
    let mut at = 0;
    while at < line.len() {
        match line[at] {
            b'\\' => {
                at += 2;
                end = at.min(line.len());
            }
            b' ' => at += 1,
            _ => {
                at += 1;
                end = at;
            }
        }
    }
    &line[..end]
}

fn last_match<'r>(rules: &'r [Rule], path: &BStr, is_dir: bool, icase: bool) -> Option<&'r Rule> {
    rules.iter().rev().find(|rule| rule.matches(path, is_dir, icase))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ignored(rules: &[u8], path: &str, is_dir: bool) -> Option<bool> {
        last_match(&parse(rules), path.into(), is_dir, false).map(|rule| !rule.negative)
    }

    #[test]
    fn sparse_patterns_of_both_modes() {
        let cone = SparsePatterns::new(b"/*\n!/*/\n/a/\n!/a/*/\n/a/b/\n", false);
        let inside = ["top", "a/x", "a/b/x", "a/b/c/x"];
        let outside = ["z/x", "a/c/x", "z/a/x"];
        assert!(inside.iter().all(|path| cone.includes((*path).into())));
        assert!(!outside.iter().any(|path| cone.includes((*path).into())));
        let free = SparsePatterns::new(b"*.c\n!/old/\n", false);
        assert!(free.includes("x/y.c".into()) && !free.includes("x/y.h".into()));
    }

    #[test]
    fn lines() {
        assert_eq!(ignored(b"*.o\n!keep.o", "a/b.o", false), Some(true));
        assert_eq!(ignored(b"*.o\n!keep.o", "a/keep.o", false), Some(false));
        assert_eq!(ignored(b"/top", "a/top", false), None);
        assert_eq!(ignored(b"/top", "top", false), Some(true));
        assert_eq!(ignored(b"out/", "out", false), None);
        assert_eq!(ignored(b"out/", "a/out", true), Some(true));
        assert_eq!(ignored(b"a/*.c", "a/x.c", false), Some(true));
        assert_eq!(ignored(b"a/*.c", "a/b/x.c", false), None);
        assert_eq!(ignored(b"a/**/x", "a/b/c/x", false), Some(true));
        assert_eq!(ignored(b"# x\n\\#x\n", "#x", false), Some(true));
        assert_eq!(ignored(b"x  \n", "x", false), Some(true));
        assert_eq!(ignored(b"x\\ \n", "x ", false), Some(true));
        assert_eq!(ignored(b"x\r\n", "x", false), Some(true));
        assert_eq!(ignored(b"\n/\n", "x", false), None);
    }
}
