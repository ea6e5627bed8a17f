//! Finds the rule that ignores or keeps a path, and its file. Serves `check-ignore`, and ignored
//! files that are tracked (`ls-files -ci`).
//!
//! Paths are checked one at a time. The rules of the directories above the last path are cached, so
//! if paths are checked in order, each file is read once. An unreadable file causes a warning and
//! has no rules.

use std::path::Path;

use bstr::{BStr, BString, ByteSlice as _};
use format::index::{Flags, Index};
use repo::{Repository, keys};
use sys::{Dir, FileType};

use super::{LARGEST, Rule, RuleFile, Rules, read_start};

/// The rules of one file.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The file's name in Git's messages.
    pub name: BString,
    /// The file's rules.
    pub rules: Rules,
}

/// The sources of rules.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Rules from the command line, which override all files.
    pub first: Rules,
    /// The name of the rule file in each directory, if any.
    pub per_directory: Option<BString>,
    /// Files for the whole worktree, in ascending order of precedence.
    pub last: Vec<Source>,
    /// Warnings about unreadable files.
    pub warnings: Vec<BString>,
}

/// A rule that matches a path.
#[derive(Clone, Copy, Debug)]
pub struct Match<'c> {
    /// The file's name in Git's messages.
    pub source: &'c BStr,
    /// The line number.
    pub line: u32,
    /// The pattern without `!` and without the slash at its end.
    pub pattern: &'c BStr,
    /// True for `!`: the path is not ignored.
    pub negative: bool,
    /// True for a slash at the end: the rule applies to directories.
    pub directory: bool,
}

impl Sources {
    /// Adds Git's own sources: `.gitignore` in each directory, `core.excludesFile`, and
    /// `info/exclude`, whose name in messages is `info_exclude`.
    pub fn add_standard(&mut self, repo: &Repository, info_exclude: &BStr) -> Result<(), repo::Error> {
        self.per_directory = Some(".gitignore".into());
        let icase = folds_case(repo)?;
        if let Some(users) = super::users_file(repo)? {
            self.add_if_there(users.as_bytes().into(), super::users_rule_file(repo, &users)?, icase);
        }
        let called = Path::new(sys::os_str(info_exclude));
        let own = super::rule_file(&repo.common_dir().join("info/exclude"), called)?;
        self.add_if_there(info_exclude.to_owned(), own, icase);
        Ok(())
    }

    fn add_if_there(&mut self, name: BString, file: RuleFile, icase: bool) {
        match file {
            RuleFile::Content(content) => self.add(name, &content, icase),
            RuleFile::Missing => {}
            RuleFile::Unopened(error) => self.warnings.push(unable(name.as_bstr(), &error)),
        }
    }

    /// Adds the content of a file, which overrides the files added before.
    pub fn add(&mut self, name: BString, content: &[u8], icase: bool) {
        if content.len() >= LARGEST {
            self.warnings.push(too_large(name.as_bstr()))
        } else {
            self.last.push(Source { name, rules: Rules::parse(content, icase) })
        }
    }
}

/// Returns true if patterns ignore case.
pub fn folds_case(repo: &Repository) -> Result<bool, repo::Error> {
    repo.config(&keys::core::IGNORE_CASE)
}

fn unable(name: &BStr, error: &std::io::Error) -> BString {
    [b"unable to access '", name.as_bytes(), b"': ", sys::reason(error).as_bytes()].concat().into()
}

fn too_large(name: &BStr) -> BString {
    [b"ignoring excessively large pattern file: ", name.as_bytes()].concat().into()
}

/// A directory above the last path.
struct Place {
    /// The length of its path with the slash at the end; 0 for the root.
    end: usize,
    own: Source,
    /// The rule that ignores the directory, if any. Nothing below is then checked.
    ignored: Option<Found>,
}

/// The position of a rule: its file, and its index in the file's rules.
#[derive(Clone, Copy)]
struct Found {
    file: File,
    rule: usize,
}

#[derive(Clone, Copy)]
enum File {
    CommandLine,
    /// The index of its [`Place`].
    Directory(usize),
    Outside(usize),
}

/// Checks paths one after another.
pub struct Checker<'a> {
    repo: &'a Repository,
    worktree: Option<&'a Dir>,
    index: Option<&'a Index>,
    sources: Sources,
    icase: bool,
    dir: BString,
    places: Vec<Place>,
    warnings: Vec<BString>,
}

impl<'a> Checker<'a> {
    /// Creates a checker for the paths of a worktree. Rule files in `index` that are not checked
    /// out are read too.
    pub fn new(
        repo: &'a Repository,
        worktree: Option<&'a Dir>,
        index: Option<&'a Index>,
        mut sources: Sources,
    ) -> Result<Self, repo::Error> {
        let warnings = std::mem::take(&mut sources.warnings);
        let (icase, dir, places) = (folds_case(repo)?, BString::default(), Vec::new());
        Ok(Checker { repo, worktree, index, sources, icase, dir, places, warnings })
    }

    /// Returns the warnings since the last call.
    pub fn take_warnings(&mut self) -> Vec<BString> {
        std::mem::take(&mut self.warnings)
    }

    /// Returns the rule that matches `path`: the one that ignores a directory above it, otherwise
    /// the last matching one. `is_dir` is true if the path is a directory. With `None` the type is
    /// looked up if a rule depends on it.
    pub fn find(&mut self, path: &BStr, is_dir: Option<bool>) -> Option<Match<'_>> {
        self.enter(path);
        let worktree = self.worktree;
        let found = match self.places.last().and_then(|place| place.ignored) {
            Some(found) => Some(found),
            None => self.search(path, || is_dir.unwrap_or_else(|| is_directory(worktree, path))),
        };
        found.map(|found| self.shown(found))
    }

    /// Loads the rules of the directories above `path`.
    fn enter(&mut self, path: &BStr) {
        let dir = &path[..path.rfind_byte(b'/').map_or(0, |slash| slash + 1)];
        let kept = self
            .places
            .iter()
            .take_while(|place| place.end <= dir.len() && self.dir.get(..place.end) == dir.get(..place.end))
            .count();
        self.places.truncate(kept);
        self.dir = dir.into();
        if self.places.is_empty() {
            let own = self.load(BStr::new(""));
            self.places.push(Place { end: 0, own, ignored: None });
        }
        let done = self.places.last().map_or(0, |place| place.end);
        for end in dir.find_iter("/").map(|slash| slash + 1).filter(|&end| end > done) {
            if self.places.last().is_some_and(|place| place.ignored.is_some()) {
                return;
            }
            let found = self.search(dir[..end - 1].as_bstr(), || true);
            let ignored = found.filter(|&found| !self.rule(found).negative);
            let own = match ignored {
                Some(_) => Source::default(),
                None => self.load(dir[..end].as_bstr()),
            };
            self.places.push(Place { end, own, ignored });
        }
    }

    /// Searches the rules of the loaded directories, and those for the whole worktree.
    fn search(&self, path: &BStr, is_dir: impl Fn() -> bool) -> Option<Found> {
        let within =
            |file, rules: &Rules, path: &BStr| rules.position(path, &is_dir).map(|rule| Found { file, rule });
        let first = within(File::CommandLine, &self.sources.first, path);
        let inside = || {
            let mut places = self.places.iter().enumerate().rev();
            places.find_map(|(at, place)| {
                within(File::Directory(at), &place.own.rules, path[place.end..].as_bstr())
            })
        };
        let outside = || {
            let mut files = self.sources.last.iter().enumerate().rev();
            files.find_map(|(at, file)| within(File::Outside(at), &file.rules, path))
        };
        first.or_else(inside).or_else(outside)
    }

    fn source(&self, file: File) -> (&BStr, &Rules) {
        match file {
            File::CommandLine => (BStr::new("--exclude option"), &self.sources.first),
            File::Directory(at) => (self.places[at].own.name.as_bstr(), &self.places[at].own.rules),
            File::Outside(at) => (self.sources.last[at].name.as_bstr(), &self.sources.last[at].rules),
        }
    }

    fn rule(&self, found: Found) -> &Rule {
        &self.source(found.file).1.rules[found.rule]
    }

    fn shown(&self, found: Found) -> Match<'_> {
        let Rule { pattern, line, negative } = self.rule(found);
        Match {
            source: self.source(found.file).0,
            line: *line,
            pattern: pattern.text(),
            negative: *negative,
            directory: pattern.is_for_directories(),
        }
    }

    /// Loads the rule file in `dir`, which has a slash at the end or is empty.
    fn load(&mut self, dir: &BStr) -> Source {
        let Some(per_directory) = &self.sources.per_directory else { return Source::default() };
        let name: BString = [dir.as_bytes(), per_directory.as_bytes()].concat().into();
        // The leading directory of a rule file may have become a symbolic link.
        let content = match self.worktree.map(|worktree| worktree.open_file_through_links(&name)) {
            // A read fails, for example, if the path is a directory.
            Some(Ok(file)) => read_start(&file, sys::stat_of(&file).map_or(0, |stat| stat.size)).ok(),
            Some(Err(error)) => {
                use std::io::ErrorKind::{NotADirectory, NotFound};
                if !matches!(error.kind(), NotFound | NotADirectory) {
                    self.warnings.push(unable(name.as_bstr(), &error));
                }
                self.read_from_index(name.as_bstr())
            }
            None => self.read_from_index(name.as_bstr()),
        };
        let content = content.unwrap_or_default();
        if content.len() >= LARGEST {
            self.warnings.push(too_large(name.as_bstr()));
            return Source::default();
        }
        Source { name, rules: Rules::parse(&content, self.icase) }
    }

    fn read_from_index(&self, path: &BStr) -> Option<Vec<u8>> {
        let index = self.index?;
        let mut entries = index.entries_in(index.range_of(path));
        let entry = entries.find(|entry| entry.flags.contains(Flags::SKIP_WORKTREE))?;
        self.repo.objects().reader().read(&entry.oid).ok().map(|(_, content)| content.to_vec())
    }
}

fn is_directory(worktree: Option<&Dir>, path: &BStr) -> bool {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    if path.is_empty() {
        return true;
    }
    let found = worktree.and_then(|worktree| worktree.stat_below(path.as_bytes()).ok().flatten());
    found.is_some_and(|stat| stat.file_type == FileType::Directory)
}
