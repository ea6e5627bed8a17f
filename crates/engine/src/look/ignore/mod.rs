//! Decides which untracked paths are ignored: `.gitignore` files, `info/exclude` and
//! `core.excludesFile`.
//!
//! Source: `gitignore(5)`. [`Rules`] are the rules of one file. [`Ignores`] checks one path at a
//! time and caches the files it reads. Like Git, it does not read a `.gitignore` that is a symbolic
//! link. A walk of directories has a [`Level`] for each directory with rules. [`check`] returns the
//! matching rule and its file.

pub mod check;

use std::{collections::HashMap, io, path::Path, sync::Arc};

use bstr::{BStr, BString, ByteSlice};
use format::pattern::Pattern;
use repo::keys;
use sys::{Refused, UserPath};

/// The size in bytes from which a rule file is ignored, as in Git. No more is read, because anybody
/// can make a sparse file of any size.
pub(crate) const LARGEST: usize = 100 << 20;

/// The rule in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pattern: Pattern,
    /// The line number; 0 if it is not from a file.
    line: u32,
    negative: bool,
}

/// The rules of one file.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    rules: Vec<Rule>,
    icase: bool,
}

impl Rules {
    /// Parses the content of a file. `icase` is `core.ignoreCase`.
    pub fn parse(content: &[u8], icase: bool) -> Rules {
        let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
        let lines = (1..).zip(content.split(|&byte| byte == b'\n')).filter(|(_, line)| !line.is_empty());
        let rules = lines.filter_map(|(number, line)| {
            let rule = Rule::parse_line(line.strip_suffix(b"\r").unwrap_or(line))?;
            Some(Rule { line: number, ..rule })
        });
        Rules { rules: rules.collect(), icase }
    }

    /// Creates rules from patterns that are not lines of a file: `#` and trailing spaces are part
    /// of a pattern.
    pub fn of_patterns<'p>(patterns: impl IntoIterator<Item = &'p BStr>, icase: bool) -> Rules {
        Rules { rules: patterns.into_iter().map(|pattern| Rule::new(pattern)).collect(), icase }
    }

    /// Returns true if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns true if `path`, relative to the file's directory, is ignored, false if it is
    /// re-included, or `None` if no rule matches.
    pub fn decide(&self, path: &BStr, is_dir: bool) -> Option<bool> {
        self.position(path, || is_dir).map(|at| !self.rules[at].negative)
    }

    /// Returns the rule that matches `path`. `is_dir` is called only if a rule depends on it.
    fn position(&self, path: &BStr, is_dir: impl Fn() -> bool) -> Option<usize> {
        let name = path.rfind_byte(b'/').map_or(path, |slash| path[slash + 1..].as_bstr());
        self.rules.iter().rposition(|Rule { pattern, .. }| {
            pattern.matches(path, name, self.icase) && (!pattern.is_for_directories() || is_dir())
        })
    }
}

/// The rules of a directory and of those above it.
#[derive(Debug)]
pub struct Level {
    rules: Rules,
    /// The length of the directory's path, with a slash at the end.
    base: usize,
    above: Option<Arc<Level>>,
}

impl Level {
    /// Creates the level of a directory with `rules`. `base` is the length of its path with the
    /// slash.
    pub fn new(rules: Rules, base: usize, above: Option<Arc<Level>>) -> Arc<Level> {
        Arc::new(Level { rules, base, above })
    }
}

/// Reads `info/exclude` and `core.excludesFile`. As in Git, a file that is missing or cannot be
/// opened has no rules. A file that can be opened but not read is an error.
pub fn outside(repo: &repo::Repository) -> Result<Vec<Vec<u8>>, repo::Error> {
    Ok(outside_files(repo)?.into_iter().flatten().collect())
}

/// Like [`outside`], with a result for each file: `info/exclude` first. `None` if it could not be
/// read.
pub(crate) fn outside_files(repo: &repo::Repository) -> Result<[Option<Vec<u8>>; 2], repo::Error> {
    let own = rule_file(&repo.common_dir().join("info/exclude"), &repo.display_common_file("info/exclude"))?;
    let users = match users_file(repo)? {
        Some(path) => users_rule_file(repo, &path)?,
        None => RuleFile::Missing,
    };
    Ok([own.content(), users.content()])
}

/// A rule file outside of the worktree.
enum RuleFile {
    Content(Vec<u8>),
    Missing,
    /// The file could not be opened, so it may exist.
    Unopened(io::Error),
}

impl RuleFile {
    fn content(self) -> Option<Vec<u8>> {
        match self {
            RuleFile::Content(content) => Some(content),
            RuleFile::Missing | RuleFile::Unopened(_) => None,
        }
    }
}

/// Reads a rule file, whose name in messages is `called`. Returns an error if the file can be
/// opened but not read. Git dies in this case.
fn rule_file(path: &Path, called: &Path) -> Result<RuleFile, repo::Error> {
    match sys::by_path::read(path) {
        Ok(content) => Ok(content.map_or(RuleFile::Missing, RuleFile::Content)),
        // A signal ended the wait for a FIFO; another `open` would wait again.
        Err(error) if sys::interrupt::is_stop(&error) => Ok(RuleFile::Unopened(error)),
        Err(error) if sys::by_path::open(path).is_err() => Ok(RuleFile::Unopened(error)),
        Err(_) => Err(repo::Error::new(format!("cannot use {} as an exclude file", called.display()))),
    }
}

/// Returns the path of the user's rule file: `core.excludesFile`, or its default.
fn users_file(repo: &repo::Repository) -> Result<Option<UserPath>, repo::Error> {
    let configured = repo.config_path(&keys::core::EXCLUDES_FILE)?;
    Ok(configured.or_else(|| repo.env().xdg_config("ignore")))
}

/// Reads the user's rule file. An empty path means no file.
fn users_rule_file(repo: &repo::Repository, file: &UserPath) -> Result<RuleFile, repo::Error> {
    match file.resolve(repo.base_dir()) {
        Ok(path) => rule_file(&path, Path::new(file.as_os_str())),
        Err(Refused::Empty) => Ok(RuleFile::Missing),
        Err(refused) => Ok(RuleFile::Unopened(refused.into())),
    }
}

/// Rules for the whole worktree.
#[derive(Clone, Debug, Default)]
pub struct GlobalRules {
    /// Rules from the command line, which override all files.
    pub first: Rules,
    /// Rules from files outside of the worktree, in descending order of precedence. All files
    /// inside the worktree override them.
    pub last: Vec<Rules>,
}

impl GlobalRules {
    /// Returns true if `path`, in a directory of `level`, is ignored. Directories above it were
    /// checked before.
    pub fn ignores(&self, level: Option<&Level>, path: &BStr, is_dir: bool) -> bool {
        let mut decided = self.first.decide(path, is_dir);
        let mut next = level;
        while let (None, Some(level)) = (decided, next) {
            decided = level.rules.decide(path[level.base..].as_bstr(), is_dir);
            next = level.above.as_deref();
        }
        decided.or_else(|| self.last.iter().find_map(|rules| rules.decide(path, is_dir))).unwrap_or(false)
    }
}

/// A `.gitignore` that can be opened but not read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read '{path}': {reason}", reason = sys::reason(.source))]
pub struct Unreadable {
    /// The path from the root of the worktree.
    pub path: BString,
    /// The reason.
    pub source: io::Error,
}

/// Returns the content of a file `.gitignore`; empty if there is none.
type ReadRules<'a> = Box<dyn Fn(&BStr) -> io::Result<Vec<u8>> + 'a>;

/// The rules of a worktree.
pub struct Ignores<'a> {
    read: ReadRules<'a>,
    /// The rules from files outside of the worktree, in descending order of precedence.
    outside: Vec<Rules>,
    icase: bool,
    inside: HashMap<BString, Rules>,
    directories: HashMap<BString, bool>,
}

impl<'a> Ignores<'a> {
    /// Creates the rules for the worktree `root`. `outside` are the contents of `info/exclude` and
    /// `core.excludesFile`, in this order. `icase` is `core.ignoreCase`.
    pub fn new(root: &'a sys::Dir, outside: &[&[u8]], icase: bool) -> Self {
        Ignores::reading(|file| read_in(root, file), outside, icase)
    }

    /// Like [`Ignores::new`], for files that are not in a directory: `read` returns the content of
    /// a `.gitignore`.
    pub fn reading(read: impl Fn(&BStr) -> io::Result<Vec<u8>> + 'a, outside: &[&[u8]], icase: bool) -> Self {
        let outside = outside.iter().map(|content| Rules::parse(content, icase)).collect();
        let (inside, directories) = (HashMap::new(), HashMap::new());
        Ignores { read: Box::new(read), outside, icase, inside, directories }
    }

    /// Returns true if `path` or a directory above it is ignored. Fails if a `.gitignore` cannot be
    /// read.
    pub fn is_ignored(&mut self, path: &BStr, is_dir: bool) -> Result<bool, Unreadable> {
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
            if let Some(ignored) = rules.decide(below, is_dir) {
                return Ok(ignored);
            }
            if dir.is_empty() {
                break;
            }
            dir = dir.rfind_byte(b'/').map(|slash| dir[..slash].as_bstr()).unwrap_or_default();
        }
        Ok(self.outside.iter().find_map(|rules| rules.decide(path, is_dir)).unwrap_or(false))
    }

    fn load(&mut self, dir: &BStr) -> Result<(), Unreadable> {
        if self.inside.contains_key(dir) {
            return Ok(());
        }
        let mut file = dir.to_owned();
        if !file.is_empty() {
            file.push(b'/');
        }
        file.extend_from_slice(b".gitignore");
        let content = match (self.read)(file.as_bstr()) {
            Ok(content) => content,
            Err(source) => return Err(Unreadable { path: file, source }),
        };
        self.inside.insert(dir.to_owned(), Rules::parse(&content, self.icase));
        Ok(())
    }
}

/// Reads a file. If it is missing, is a link, has a path through a non-directory, or is too large,
/// it has no rules.
fn read_in(root: &sys::Dir, file: &BStr) -> io::Result<Vec<u8>> {
    let Ok(open) = root.open_file(file) else { return Ok(Vec::new()) };
    let stat = sys::stat_of(&open)?;
    if stat.file_type != sys::FileType::File || stat.size >= LARGEST as u64 {
        return Ok(Vec::new());
    }
    let content = read_start(&open, stat.size)?;
    Ok(if content.len() < LARGEST { content } else { Vec::new() })
}

/// Reads at most [`LARGEST`] bytes of a file whose stat says `size`.
pub(crate) fn read_start(file: &sys::File, size: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    sys::read_up_to(file, size, LARGEST as u64, &mut content)?;
    Ok(content)
}

impl Rule {
    fn parse_line(line: &[u8]) -> Option<Rule> {
        // Git parses lines as C strings, so a NUL ends a line.
        let line = line.split(|&byte| byte == 0).next().unwrap_or_default();
        if line.first() == Some(&b'#') {
            return None;
        }
        Some(Rule::new(trim_spaces(line)))
    }

    /// An empty pattern (of spaces, or a single slash) matches an empty name, as in a path with a
    /// slash at its end.
    fn new(pattern: &[u8]) -> Rule {
        let (negative, pattern) = match pattern.strip_prefix(b"!") {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        Rule { pattern: Pattern::new(pattern), line: 0, negative }
    }
}

/// Removes trailing spaces, unless a backslash precedes them.
pub(crate) fn trim_spaces(line: &[u8]) -> &[u8] {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ignored(rules: &[u8], path: &str, is_dir: bool) -> Option<bool> {
        Rules::parse(rules, false).decide(path.into(), is_dir)
    }

    #[test]
    fn parses_lines() {
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
        assert_eq!(ignored(b"*", "a/b", false), Some(true));
        assert_eq!(ignored(b"*o\\", "foo\\", false), None);
        assert_eq!(ignored(b"/*.o", "a/b.o", false), None);
    }

    #[test]
    fn rules_of_directories_override_global_ones() {
        let rules = |content: &str| Rules::parse(content.as_bytes(), false);
        let top = Level::new(rules("*.o\nsub/x\n"), 0, None);
        let sub = Level::new(rules("!keep.o\n/y\n"), 4, Some(Arc::clone(&top)));
        let everywhere =
            GlobalRules { first: Rules::of_patterns(["#first".into()], false), last: vec![rules("z\n")] };
        let ignored = |path: &str| everywhere.ignores(Some(&sub), path.into(), false);
        assert!(ignored("sub/a.o") && ignored("sub/x") && ignored("sub/y") && ignored("sub/z"));
        assert!(ignored("sub/#first"));
        assert!(!ignored("sub/keep.o") && !ignored("sub/d/y") && !ignored("sub/d/x"));
    }
}
