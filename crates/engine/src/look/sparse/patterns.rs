//! The file `info/sparse-checkout`: ignore patterns, or in cone mode directories, that select the
//! paths in the worktree.
//!
//! If cone mode is configured and the file is not a valid cone, its lines are used as patterns,
//! with a warning.

use std::{
    io,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice};
use format::index::{Index, Stage};

use repo::keys;

use super::cone::{Cone, ConePosition};
use crate::look::ignore::{self, Rules};

/// The patterns that select the paths in the worktree.
#[derive(Clone, Debug)]
pub struct Patterns {
    rules: Rules,
    lines: Vec<BString>,
    cone: Option<Cone>,
}

/// Patterns, and Git's warnings about them.
#[derive(Debug)]
pub struct Loaded {
    /// The patterns.
    pub patterns: Patterns,
    /// The texts of the warnings, without `warning: `.
    pub warnings: Vec<BString>,
}

/// The reason why the file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The configuration could not be read.
    #[error(transparent)]
    Repo(#[from] repo::Error),
    /// The file could not be read.
    #[error("cannot read '{}': {source}", .path.display())]
    #[allow(missing_docs)]
    Read { path: PathBuf, source: io::Error },
}

/// Returns true if the worktree is sparse (`core.sparseCheckout`).
pub fn is_on(repo: &repo::Repository) -> Result<bool, repo::Error> {
    repo.config(&keys::core::SPARSE_CHECKOUT)
}

/// Returns the path of the file.
pub fn path(repo: &repo::Repository) -> PathBuf {
    repo.git_dir().join("info/sparse-checkout")
}

/// Loads the patterns of a sparse worktree. Returns `None` if it is not sparse, or there is no
/// file.
pub fn load(repo: &repo::Repository) -> Result<Option<Loaded>, LoadError> {
    if !is_on(repo)? {
        return Ok(None);
    }
    let is_cone = repo.config(&keys::core::SPARSE_CHECKOUT_CONE)?;
    Patterns::read(&path(repo), is_cone, repo.config(&keys::core::IGNORE_CASE)?)
}

/// The decision for all paths below a directory.
#[derive(Debug)]
enum State {
    /// All paths below are included.
    All,
    /// No path below is included.
    Nothing,
    /// Each path is decided by its own pattern. Contains the decision for paths without a pattern.
    Undecided(bool),
}

impl Patterns {
    /// Reads the file at `path`. Returns `None` if it is missing.
    pub fn read(path: &Path, cone: bool, icase: bool) -> Result<Option<Loaded>, LoadError> {
        let content = sys::by_path::read(path);
        let content = content.map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
        Ok(content.map(|content| Patterns::parse(&content, cone, icase)))
    }

    /// Parses the content of the file. `cone` selects cone mode.
    pub fn parse(content: &[u8], cone: bool, icase: bool) -> Loaded {
        let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
        let lines = content.lines().filter(|line| !line.is_empty() && line[0] != b'#');
        Patterns::of_lines(lines.map(ignore::trim_spaces), cone, icase)
    }

    /// Parses lines as patterns, including lines that begin with `#`.
    pub fn of_lines<'a>(lines: impl Iterator<Item = &'a [u8]>, cone: bool, icase: bool) -> Loaded {
        let mut patterns =
            Patterns { rules: Rules::default(), lines: Vec::new(), cone: cone.then(|| Cone::new(icase)) };
        let mut warnings = Vec::new();
        for line in lines {
            patterns.lines.push(line.into());
            let Some(cone) = &mut patterns.cone else { continue };
            let (negative, pattern) = match line.strip_prefix(b"!") {
                Some(rest) => (true, rest),
                None => (false, line),
            };
            let bare = pattern.strip_suffix(b"/").unwrap_or(pattern);
            if let Err(wrong) = cone.take(bare, negative, bare.len() < pattern.len()) {
                warnings.push(wrong.message(bare));
                warnings.push("disabling cone pattern matching".into());
                patterns.cone = None;
            }
        }
        patterns.rules = Rules::of_patterns(patterns.lines.iter().map(|line| line.as_bstr()), icase);
        Loaded { patterns, warnings }
    }

    /// Creates the patterns of a cone.
    pub fn of_cone(cone: Cone) -> Patterns {
        let file = cone.to_file();
        let icase = cone.icase();
        Patterns { cone: Some(cone), ..Patterns::parse(&file, false, icase).patterns }
    }

    /// Returns the cone, if the patterns are one.
    pub fn cone(&self) -> Option<&Cone> {
        self.cone.as_ref()
    }

    /// Returns the lines as in the file.
    pub fn lines(&self) -> &[BString] {
        &self.lines
    }

    /// Returns the content of the file for these patterns.
    pub fn to_file(&self) -> BString {
        match &self.cone {
            Some(cone) => cone.to_file(),
            None => self
                .lines
                .iter()
                .flat_map(|line| [line.as_bytes(), b"\n"].concat())
                .collect::<Vec<_>>()
                .into(),
        }
    }

    /// Returns true if the file at `path` belongs in the worktree, based on the path alone. A path
    /// without a matching pattern has the decision of its directory. A directory path has a slash
    /// at the end.
    pub fn includes(&self, path: &BStr) -> bool {
        if let Some(cone) = &self.cone {
            return cone.position(path) != ConePosition::Outside;
        }
        self.walk(path.find_iter("/").chain([path.len()]).map(|end| path[..end].as_bstr()), path.len())
    }

    fn walk<'a>(&self, parts: impl Iterator<Item = &'a BStr>, length: usize) -> bool {
        let mut included = false;
        for part in parts {
            included = self.decided(part, part.len() < length).unwrap_or(included);
        }
        included
    }

    /// Returns the decision of the last matching pattern.
    fn decided(&self, path: &BStr, is_dir: bool) -> Option<bool> {
        self.rules.decide(path, is_dir)
    }

    /// Returns the state below the directory `path`. `default` is the decision for its parent
    /// directory.
    fn enter(&self, path: &BStr, default: bool) -> State {
        match &self.cone {
            Some(cone) => match cone.position(path) {
                ConePosition::InsideWithAllBelow => State::All,
                ConePosition::Inside => State::Undecided(false),
                ConePosition::Outside => State::Nothing,
            },
            None => State::Undecided(self.decided(path, true).unwrap_or(default)),
        }
    }

    fn file(&self, path: &BStr, default: bool) -> bool {
        match &self.cone {
            Some(cone) => cone.position(path) != ConePosition::Outside,
            None => self.decided(path, false).unwrap_or(default),
        }
    }

    /// Returns true if the file at `path` belongs in the worktree by Git's walk of an index, which
    /// does not enter an excluded directory. For a cone that includes all parents, this equals
    /// [`Patterns::includes`].
    pub fn keeps(&self, path: &BStr) -> bool {
        let mut default = false;
        for end in path.find_iter("/") {
            match self.enter(path[..end].as_bstr(), default) {
                State::All => return true,
                State::Nothing => return false,
                State::Undecided(matched) => default = matched,
            }
        }
        self.file(path, default)
    }

    /// Returns false if [`Patterns::keeps`] is false for every file below the directory `dir`,
    /// because no pattern can decide otherwise.
    pub(crate) fn may_keep_below(&self, dir: &BStr) -> bool {
        let mut default = false;
        for end in dir.find_iter("/").chain([dir.len()]) {
            match self.enter(dir[..end].as_bstr(), default) {
                State::All => return true,
                State::Nothing => return false,
                State::Undecided(matched) => default = matched,
            }
        }
        true
    }

    /// Returns a bool for each entry: true if it is outside of the sparse worktree. Unmerged
    /// entries never are.
    pub fn outside(&self, index: &Index) -> Vec<bool> {
        let mut walk = Walk::default();
        let outside = |at: usize| !walk.keeps(self, index.path_at(at)) && index.stage_at(at) == Stage::Normal;
        (0..index.len()).map(outside).collect()
    }
}

/// Decides many paths like [`Patterns::keeps`], by the same patterns. Each directory is decided
/// once if the paths come in the order of the index.
#[derive(Debug, Default)]
pub struct Walk {
    /// The directories above the last path, each with the end of its path and its state.
    open: Vec<(usize, State)>,
    last: BString,
}

impl Walk {
    /// Returns true if the file at `path` belongs in the worktree.
    pub fn keeps(&mut self, patterns: &Patterns, path: &BStr) -> bool {
        let same = self.last.iter().zip(path.iter()).take_while(|(one, other)| one == other).count();
        while self.open.last().is_some_and(|(end, _)| *end >= same) {
            self.open.pop();
        }
        let known = self.open.last().map_or(0, |(end, _)| end + 1);
        for end in path[known..].find_iter("/").map(|at| known + at) {
            let state = match self.open.last() {
                Some((_, State::All)) => State::All,
                Some((_, State::Nothing)) => State::Nothing,
                Some(&(_, State::Undecided(default))) => patterns.enter(path[..end].as_bstr(), default),
                None => patterns.enter(path[..end].as_bstr(), false),
            };
            self.open.push((end, state));
        }
        self.last.clear();
        self.last.extend_from_slice(path);
        match self.open.last() {
            Some((_, State::All)) => true,
            Some((_, State::Nothing)) => false,
            Some(&(_, State::Undecided(default))) => patterns.file(path, default),
            None => patterns.file(path, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use format::{
        HashKind, Mode, ObjectId,
        index::{Flags, NewEntry, Stat},
    };

    use super::*;

    fn index(paths: &[&str]) -> Index {
        let mut index = Index::empty(HashKind::Sha1);
        let oid = ObjectId::empty_blob(HashKind::Sha1);
        let (mode, flags, stage) = (Mode::FILE, Flags::empty(), Stage::Normal);
        for path in paths {
            index.push((*path).into(), NewEntry { stat: Stat::default(), oid, mode, flags, stage });
        }
        index
    }

    fn inside(loaded: &Loaded, paths: &[&'static str]) -> Vec<&'static str> {
        let index = index(paths);
        let outside = loaded.patterns.outside(&index);
        let kept: Vec<&str> =
            paths.iter().zip(&outside).filter(|(_, out)| !**out).map(|(path, _)| *path).collect();
        let one_by_one: Vec<&str> =
            paths.iter().copied().filter(|path| loaded.patterns.keeps((*path).into())).collect();
        assert_eq!(kept, one_by_one);
        kept
    }

    #[test]
    fn a_cone_includes_directories_and_the_files_above() {
        let paths = ["a-z/x", "a/b/c/x", "a/b/x", "a/c/x", "a/x", "top", "z/a/x", "z/x"];
        let file = b"/*\n!/*/\n/a/\n!/a/*/\n/a/b/\n";
        let kept = ["a/b/c/x", "a/b/x", "a/x", "top"];
        for cone in [true, false] {
            let loaded = Patterns::parse(file, cone, false);
            assert_eq!(loaded.patterns.cone().is_some(), cone);
            assert!(loaded.warnings.is_empty());
            assert_eq!(inside(&loaded, &paths), kept);
            assert!(paths.iter().all(|path| loaded.patterns.includes((*path).into()) == kept.contains(path)));
            assert_eq!(loaded.patterns.to_file(), file.as_bstr());
        }
    }

    #[test]
    fn unmatched_paths_go_with_their_directory() {
        let loaded = Patterns::parse(b"*.c\n!/old/\n/old/keep/\n", false, false);
        let kept = inside(&loaded, &["old/keep/x", "old/x.c", "old/y", "x/y.c", "x/y.h"]);
        assert_eq!(kept, ["old/keep/x", "old/x.c", "x/y.c"]);
    }

    #[test]
    fn warns_and_reads_patterns_if_the_file_is_not_a_cone() {
        for (file, warning) in [
            ("/*\n!/*/\n/a/*\n", "unrecognized pattern: '/a/*'"),
            ("/*\n!/*/\na\n", "unrecognized pattern: 'a'"),
            ("/*\n!/*/\n/a?/\n", "unrecognized pattern: '/a?'"),
            ("/*\n!/*/\n!/a/*/\n", "unrecognized negative pattern: '/a/*'"),
            ("/*\n!/*/\n!/a/\n", "unrecognized negative pattern: '/a'"),
            (
                "/*\n!/*/\n/a/\n!/a/*/\n/a/\n",
                "your sparse-checkout file may have issues: pattern '/a' is repeated",
            ),
        ] {
            let loaded = Patterns::parse(file.as_bytes(), true, false);
            assert!(loaded.patterns.cone().is_none(), "{file}");
            assert_eq!(loaded.warnings, [warning, "disabling cone pattern matching"]);
        }
    }

    #[test]
    fn escapes_wildcards_in_names() {
        let mut cone = Cone::new(false);
        cone.add("/a\\b/c*d".into());
        let file = cone.to_file();
        assert_eq!(file, "/*\n!/*/\n/a\\\\b/\n!/a\\\\b/*/\n/a\\\\b/c\\*d/\n");
        let loaded = Patterns::parse(&file, true, false);
        assert_eq!(loaded.patterns.cone().expect("a cone").directories(), ["a\\b/c*d"]);
    }
}
