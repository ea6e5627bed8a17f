//! Pathspecs: select the paths of a command. Semantics: gitglossary(7), "pathspec".
//!
//! A pathspec is compared with whole `/`-separated paths from the root of the worktree. All magic
//! words are supported, in the long form `:(top,icase)` and the short form `:/`. `attr` needs a
//! source of attributes ([`Defaults::attributes`]). With `prefix:<n>` Git passes to its
//! subprocesses, which run in the root, the length of the user's directory within a pathspec.

mod attr;
mod item;
mod magic;

use std::{ops::Range, sync::Arc};

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    Mode,
    index::{Flags, Index},
    wildmatch::{self, wildmatch},
};

use crate::look::sparse::{Patterns, Purpose};
pub use attr::Attributes;
pub use item::normalize;
use item::{Item, MatchKind};

/// The message for an empty pathspec. This error takes precedence over all others.
const EMPTY: &[u8] =
    b"empty string is not a valid pathspec. please use . instead if you meant to match all paths";

/// The pathspecs of one command line.
#[derive(Clone, Debug, Default)]
pub struct Pathspecs {
    items: Vec<Item>,
}

/// Defaults from `GIT_LITERAL_PATHSPECS` and related variables, and the source of attributes.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Defaults {
    pub literal: bool,
    pub glob: bool,
    pub icase: bool,
    /// The source of attributes. Without a source, `attr` is an error.
    pub attributes: Option<Arc<Attributes>>,
}

/// An invalid pathspec. The messages are Git's.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// Git's text without `fatal: `. It may not be valid UTF-8.
    pub message: BString,
}

impl Pathspecs {
    /// Parses `specs` as given in the directory `prefix` (with a trailing slash, or empty) of the
    /// worktree at `root`. If all of them are exclusions, they apply to the whole worktree.
    pub fn parse(specs: &[BString], prefix: &BStr, root: &BStr, defaults: Defaults) -> Result<Self, Error> {
        Self::parse_within(specs, prefix, root, defaults, BStr::new(""))
    }

    /// Like [`Pathspecs::parse`]. If all specs are exclusions, they apply to the pathspec `all`.
    fn parse_within(
        specs: &[BString],
        prefix: &BStr,
        root: &BStr,
        defaults: Defaults,
        all: &BStr,
    ) -> Result<Self, Error> {
        if specs.iter().any(|spec| spec.is_empty()) {
            return Err(fail(&[EMPTY]));
        }
        let mut items = Vec::with_capacity(specs.len());
        for spec in specs {
            let item = Item::parse(spec, prefix, root, &defaults)?;
            if item.attr.as_ref().is_some_and(|attr| !attr.can_be_checked()) {
                return Err(fail(&[spec, b": pathspec magic not supported by this command: 'attr'"]));
            }
            items.push(item);
        }
        if !items.is_empty() && items.iter().all(|item| item.exclude) {
            items.push(Item {
                original: ".".into(),
                pattern: all.to_owned(),
                literal: all.len(),
                prefix: all.len(),
                exclude: false,
                icase: false,
                glob: false,
                literal_magic: false,
                attr: None,
            });
        }
        Ok(Pathspecs { items })
    }

    /// Like [`Pathspecs::parse`], but selects the current directory if `specs` is empty or contains
    /// only exclusions.
    pub fn parse_or_here(
        specs: &[BString],
        prefix: &BStr,
        root: &BStr,
        defaults: Defaults,
    ) -> Result<Self, Error> {
        let mut parsed = Pathspecs::parse_within(specs, prefix, root, defaults, prefix)?;
        if specs.is_empty() && !prefix.is_empty() {
            parsed.items.push(Item {
                original: prefix.to_owned(),
                pattern: prefix.to_owned(),
                literal: prefix.len(),
                prefix: prefix.len(),
                exclude: false,
                icase: false,
                glob: false,
                literal_magic: false,
                attr: None,
            });
        }
        Ok(parsed)
    }

    /// Returns true if Git expands a sparse index before it resets the selected paths. These paths
    /// may be part of a collapsed directory, or may be outside of the cone and not in the index.
    pub fn need_full_index(&self, index: &Index, patterns: &Patterns) -> bool {
        let skipped = || index.entries().iter().filter(|entry| entry.flags.contains(Flags::SKIP_WORKTREE));
        self.items.iter().any(|item| {
            let (pattern, literal) = (item.pattern.as_bstr(), item.literal);
            if item.exclude || item.icase || item.glob || item.attr.is_some() {
                return true;
            }
            if literal == pattern.len() {
                let is_meant = |path: &BStr| {
                    let below = path.strip_prefix(pattern.trim_end_with(|letter| letter == '/'));
                    below.is_some_and(|below| below.is_empty() || below[0] == b'/')
                };
                return !patterns.includes(pattern) && !skipped().any(|entry| is_meant(index.path(entry)));
            }
            if pattern[literal..].iter().all(|&byte| byte == b'*') && patterns.includes(pattern) {
                return false;
            }
            skipped().filter(|entry| entry.mode.is_tree()).any(|entry| {
                let dir = index.path(entry);
                literal > dir.len() && pattern.starts_with(dir)
                    || dir.starts_with(&pattern[..literal])
                        && wildmatch(pattern, dir, wildmatch::Mode::default())
            })
        })
    }

    /// Parses paths like [`Pathspecs::parse`]. The only supported magic is `top`.
    pub fn parse_paths(
        specs: &[BString],
        prefix: &BStr,
        root: &BStr,
        defaults: Defaults,
    ) -> Result<Self, Error> {
        let items = specs.iter().map(|spec| {
            let item = Item::parse(spec, prefix, root, &defaults)?;
            let magic = [
                (item.literal_magic, "'literal'"),
                (item.glob, "'glob'"),
                (item.icase, "'icase'"),
                (item.exclude, "'exclude' (mnemonic: '!')"),
                (item.attr.is_some(), "'attr'"),
            ];
            let given: Vec<&str> = magic.iter().filter(|(given, _)| *given).map(|(_, name)| *name).collect();
            if given.is_empty() {
                Ok(item)
            } else {
                let names = given.join(", ");
                Err(fail(&[spec, b": pathspec magic not supported by this command: ", names.as_bytes()]))
            }
        });
        Ok(Pathspecs { items: items.collect::<Result<_, _>>()? })
    }

    /// Returns each pathspec in two forms: relative to the root of the worktree, and as the user
    /// gave it.
    pub fn patterns(&self) -> impl Iterator<Item = (&BStr, &BStr)> {
        self.items.iter().map(|item| (item.pattern.as_bstr(), item.original.as_bstr()))
    }

    /// Returns true if any entry is selected. Names are looked up. Only wildcards are compared with
    /// every entry.
    pub fn match_any(&self, index: &Index) -> bool {
        let names = |item: &Item| {
            let name = item.pattern.strip_suffix(b"/").unwrap_or(&item.pattern).as_bstr();
            let mut here = index.range_of(name);
            let is_here = if name.len() == item.pattern.len() {
                !here.is_empty()
            } else {
                here.any(|at| index.mode_at(at).is_gitlink())
            };
            is_here || !index.range_below(name).is_empty()
        };
        if self.are_names() {
            self.items.iter().any(names)
        } else {
            (0..index.len())
                .any(|at| self.matches_entry(index.path_at(at), index.mode_at(at), &mut Seen::default()))
        }
    }

    /// Returns true if each pathspec is a plain path, which also selects everything below it.
    fn are_names(&self) -> bool {
        self.items.iter().all(|item| {
            !item.exclude && !item.icase && item.attr.is_none() && item.literal == item.pattern.len()
        })
    }

    /// Returns ranges that contain all selected entries, in ascending order and disjoint. It is the
    /// whole index unless each pathspec is a plain path.
    pub fn ranges(&self, index: &Index) -> Vec<Range<usize>> {
        if self.items.is_empty() || !self.are_names() {
            let all = 0..index.len();
            return vec![all];
        }
        let of = |item: &Item| {
            let name = item.pattern.strip_suffix(b"/").unwrap_or(&item.pattern).as_bstr();
            [index.range_of(name), index.range_below(name)]
        };
        let mut found: Vec<Range<usize>> = self.items.iter().flat_map(of).collect();
        found.retain(|range| !range.is_empty());
        found.sort_by_key(|range| range.start);
        let mut ranges: Vec<Range<usize>> = Vec::with_capacity(found.len());
        for range in found {
            match ranges.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => ranges.push(range),
            }
        }
        ranges
    }

    /// Returns the positions in [`Pathspecs::ranges`], in ascending order.
    pub fn positions(&self, index: &Index) -> impl Iterator<Item = usize> + use<> {
        self.ranges(index).into_iter().flatten()
    }

    /// Returns true if there are no pathspecs. Then nothing matches, and the caller decides about
    /// the meaning.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns true if there is exactly one pathspec. If all are exclusions, an implicit one counts
    /// too.
    pub fn is_single(&self) -> bool {
        self.items.len() == 1
    }

    /// Returns true if `path` is selected. Pathspecs that matched are recorded in `seen`; see
    /// [`Pathspecs::unseen`].
    pub fn matches(&self, path: &BStr, seen: &mut Seen) -> bool {
        self.any(seen, |item| item.matches(path))
    }

    /// Like [`Pathspecs::matches`] for an entry with this mode: `sub/` selects the submodule `sub`.
    pub fn matches_entry(&self, path: &BStr, mode: Mode, seen: &mut Seen) -> bool {
        if mode.is_gitlink() {
            self.any(seen, |item| item.matches(path) || item.matches_directory(path))
        } else {
            self.matches(path, seen)
        }
    }

    /// Like [`Pathspecs::matches_entry`], for a caller that checks a path each time it could be
    /// shown. After a pathspec without wildcards has matched a whole path, it is not compared with
    /// further paths. This also holds for exclusions and duplicates. A directory that is not an
    /// entry has no slash at the end.
    pub fn matches_in_turn(&self, path: &BStr, mode: Mode, seen: &mut Seen) -> bool {
        seen.0.resize(self.items.len(), MatchKind::None);
        let is_directory = mode.is_gitlink() || mode.is_tree();
        let kind = |item: &Item| match item.match_kind(path) {
            MatchKind::None if is_directory && item.matches_directory(path) => MatchKind::Exact,
            kind => kind,
        };
        let is_done =
            |item: &Item, seen: MatchKind| seen == MatchKind::Exact && item.literal == item.pattern.len();
        let mut found = false;
        let turns = self.items.iter().zip(&mut seen.0);
        for (item, seen) in turns.filter(|(item, seen)| !item.exclude && !is_done(item, **seen)) {
            let kind = kind(item);
            found |= kind != MatchKind::None;
            *seen = kind.max(*seen);
        }
        let mut is_left_out = false;
        let turns = self.items.iter().zip(&mut seen.0);
        for (item, seen) in turns.filter(|(item, seen)| found && item.exclude && !is_done(item, **seen)) {
            let kind = kind(item);
            is_left_out |= kind != MatchKind::None;
            *seen = kind.max(MatchKind::Wildcard);
        }
        found && !is_left_out
    }

    /// Returns true if a pathspec requires attributes.
    pub fn ask_attributes(&self) -> bool {
        self.items.iter().any(|item| item.attr.is_some())
    }

    /// Returns the pathspecs without exclusions.
    pub fn without_exclusions(&self) -> Pathspecs {
        Pathspecs { items: self.items.iter().filter(|item| !item.exclude).cloned().collect() }
    }

    fn any(&self, seen: &mut Seen, matches: impl Fn(&Item) -> bool) -> bool {
        seen.0.resize(self.items.len(), MatchKind::None);
        let mut found = false;
        for (item, seen) in self.items.iter().zip(&mut seen.0) {
            if !item.exclude && matches(item) {
                *seen = MatchKind::Wildcard.max(*seen);
                found = true;
            }
        }
        // An exclusion counts as matched only if an including pathspec matched.
        let exclusions = self.items.iter().zip(&mut seen.0).filter(|(item, _)| item.exclude && found);
        exclusions.for_each(|(_, seen)| *seen = MatchKind::Wildcard.max(*seen));
        found && !self.items.iter().any(|item| item.exclude && matches(item))
    }

    /// Returns true if a path below the directory `dir` (without a trailing slash, empty for the
    /// root) may be selected.
    pub fn may_match_below(&self, dir: &BStr) -> bool {
        dir.is_empty()
            || self.items.iter().any(|item| {
                if item.exclude {
                    return false;
                }
                let literal = item.pattern[..item.literal].trim_end_with(|letter| letter == '/');
                let shared = literal.len().min(dir.len());
                item.icase || literal[..shared] == dir[..shared]
            })
    }

    /// Returns how the pathspecs select a directory, whose path has a slash at the end. Without
    /// pathspecs everything is selected.
    pub fn reach(&self, dir: &BStr) -> Reach {
        if self.items.is_empty() {
            return Reach::Whole;
        }
        let included = self.items.iter().filter(|item| !item.exclude);
        let reach = included.map(|item| item.reach(dir)).max().unwrap_or(Reach::None);
        let excluded = || self.items.iter().any(|item| item.exclude && item.matches(dir));
        if reach == Reach::None || excluded() { Reach::None } else { reach }
    }

    /// Returns the purpose for a collapsed directory of a sparse index: `whole` if a directory
    /// above it is selected, [`Purpose::None`] if nothing in it is selected, otherwise
    /// [`Purpose::Files`].
    pub fn purpose(&self, dir: &BStr, whole: Purpose) -> Purpose {
        // Files in the directory may have attributes that the directory lacks.
        if self.ask_attributes() {
            return Purpose::Files;
        }
        match self.reach(dir) {
            Reach::None => Purpose::None,
            Reach::Whole if !self.items.iter().any(|item| item.exclude) => whole,
            _ => Purpose::Files,
        }
    }

    /// Returns true if `path` and all paths below it are certainly not selected. Wildcards are not
    /// evaluated.
    pub fn rules_out(&self, path: &BStr) -> bool {
        !self.items.is_empty()
            && !self.items.iter().any(|item| {
                let shared = item.literal.min(path.len());
                item.same(&item.pattern[..shared], &path[..shared])
            })
    }

    /// Returns true if the literal part of a pathspec is `path` or a path below it. Exclusions
    /// count too.
    pub fn name(&self, path: &BStr) -> bool {
        self.items.iter().any(|item| {
            let leads = item.literal == path.len()
                || item.literal > path.len() && item.pattern.get(path.len()) == Some(&b'/');
            leads && item.same(&item.pattern[..path.len()], path)
        })
    }

    /// Returns true if the pathspecs select every path.
    pub fn are_everything(&self) -> bool {
        self.items.iter().all(|item| item.pattern.is_empty() && !item.exclude && item.attr.is_none())
    }

    /// Returns the deepest directory that contains all selected paths, with a slash at the end.
    /// Empty for the root.
    pub fn common_directory(&self) -> &BStr {
        let included: Vec<&Item> = self.items.iter().filter(|item| !item.exclude).collect();
        // Git compares only with the first pathspec, and returns the root if that is an exclusion.
        let Some(first) = self.items.first().filter(|first| !first.exclude) else { return BStr::new("") };
        let mut longest: Option<usize> = None;
        for item in included {
            let literal = if item.icase { item.prefix } else { item.literal };
            let limit = longest.unwrap_or(usize::MAX).min(literal);
            let shared = item.pattern.iter().zip(first.pattern.iter()).take(limit);
            let shared = shared.take_while(|(one, other)| one == other).count();
            longest = Some(item.pattern[..shared].rfind_byte(b'/').map_or(0, |slash| slash + 1));
        }
        first.pattern[..longest.unwrap_or(0)].as_bstr()
    }

    /// Returns the pathspecs, as the user gave them, that have not matched yet. An exclusion counts
    /// as matched if an including pathspec matched.
    pub fn unseen<'a>(&'a self, seen: &'a Seen) -> impl Iterator<Item = &'a BStr> {
        self.items.iter().enumerate().filter_map(move |(number, item)| {
            let kind = seen.0.get(number).copied().unwrap_or(MatchKind::None);
            (kind == MatchKind::None).then_some(item.original.as_bstr())
        })
    }

    /// Returns each pathspec with its best match so far.
    pub fn uses<'a>(&'a self, seen: &'a Seen) -> impl Iterator<Item = Use<'a>> {
        self.items.iter().enumerate().map(move |(number, item)| Use {
            number,
            pattern: item.pattern.as_bstr(),
            original: item.original.as_bstr(),
            excludes: item.exclude,
            is_pattern: item.glob || item.icase,
            matched: match seen.0.get(number).copied().unwrap_or(MatchKind::None) {
                MatchKind::None => Matched::Nothing,
                MatchKind::Below => Matched::Below,
                MatchKind::Wildcard | MatchKind::Exact => Matched::Path,
            },
        })
    }
}

/// A pathspec with its best match.
#[derive(Clone, Copy, Debug)]
pub struct Use<'a> {
    /// The index of the pathspec.
    pub number: usize,
    /// The pattern relative to the root of the worktree.
    pub pattern: &'a BStr,
    /// The pathspec as the user gave it.
    pub original: &'a BStr,
    /// True for an exclusion.
    pub excludes: bool,
    /// True for `glob` or `icase`: the pattern may not be a literal path.
    pub is_pattern: bool,
    /// The best match of [`Pathspecs::matches_in_turn`].
    pub matched: Matched,
}

/// The best match of a pathspec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matched {
    /// It has matched no path.
    Nothing,
    /// It has matched only paths below it.
    Below,
    /// It has matched a path literally or by a wildcard.
    Path,
}

/// The way in which pathspecs select a directory. The greatest value of all pathspecs applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Nothing in the directory is selected.
    None,
    /// The whole directory is selected, because a directory above it is.
    Whole,
    /// Paths below the directory may be selected.
    Below,
    /// The whole directory is selected: a pattern matches it, or it is named.
    Matched,
}

/// The pathspecs that have matched so far.
#[derive(Clone, Debug, Default)]
pub struct Seen(Vec<MatchKind>);

fn fail(parts: &[&[u8]]) -> Error {
    Error { message: parts.concat().into() }
}

#[cfg(test)]
mod tests {
    use format::{
        HashKind, ObjectId,
        index::{Edit, Flags, NewEntry, Stage, Stat},
    };

    use super::*;

    fn parse(specs: &[&str], prefix: &str) -> Result<Pathspecs, Error> {
        let specs: Vec<BString> = specs.iter().map(|&spec| spec.into()).collect();
        Pathspecs::parse(&specs, prefix.into(), "/top".into(), Defaults::default())
    }

    fn matched(specs: &[&str], prefix: &str) -> Vec<&'static str> {
        const PATHS: [&str; 8] =
            ["a", "a.c", "d", "dir/a.c", "dir/sub/b.c", "dir/sub/deep/c.h", "dirx", "X.C"];
        let specs = parse(specs, prefix).expect("valid");
        let mut seen = Seen::default();
        PATHS.into_iter().filter(|&path| specs.matches(path.into(), &mut seen)).collect()
    }

    #[test]
    fn matches_names_directories_and_wildcards() {
        assert_eq!(matched(&["a"], ""), ["a"]);
        assert_eq!(matched(&["dir"], ""), ["dir/a.c", "dir/sub/b.c", "dir/sub/deep/c.h"]);
        assert_eq!(matched(&["dirx/"], ""), [""; 0]);
        assert_eq!(matched(&["."], "dir/sub/"), ["dir/sub/b.c", "dir/sub/deep/c.h"]);
        assert_eq!(matched(&["*.c"], ""), ["a.c", "dir/a.c", "dir/sub/b.c"]);
        assert_eq!(matched(&["*.c"], "dir/"), ["dir/a.c", "dir/sub/b.c"]);
        assert_eq!(matched(&["../a?c"], "dir/"), ["a.c"]);
        assert_eq!(matched(&["/top/dir/a.c"], ""), ["dir/a.c"]);
    }

    #[test]
    fn finds_the_common_directory() {
        let common =
            |specs: &[&str], prefix: &str| parse(specs, prefix).expect("valid").common_directory().to_owned();
        assert_eq!(common(&["d/*", "d/e/f"], "in/"), "in/d/");
        assert_eq!(common(&["d/*"], "in/[ab]/"), "in/[ab]/");
    }

    #[test]
    fn parses_magic() {
        assert_eq!(matched(&[":/a"], "dir/"), ["a"]);
        assert_eq!(matched(&[":(glob)*.c"], ""), ["a.c"]);
        assert_eq!(matched(&[":(glob)**/*.c"], ""), ["a.c", "dir/a.c", "dir/sub/b.c"]);
        assert_eq!(matched(&[":(glob)dir/**"], ""), ["dir/a.c", "dir/sub/b.c", "dir/sub/deep/c.h"]);
        assert_eq!(matched(&[":(glob)dir/**/c.h"], ""), ["dir/sub/deep/c.h"]);
        assert_eq!(matched(&[":(icase)x.c"], ""), ["X.C"]);
        assert_eq!(matched(&[":(literal)*.c"], ""), [""; 0]);
        assert_eq!(matched(&["dir", ":!*.h"], ""), ["dir/a.c", "dir/sub/b.c"]);
        assert_eq!(matched(&[":^dir"], ""), ["a", "a.c", "d", "dirx", "X.C"]);
        assert_eq!(matched(&[":(icase,prefix:4)dir/A.C"], ""), ["dir/a.c"]);
        assert_eq!(matched(&[":(icase,prefix:4)DIR/A.C"], ""), [""; 0]);
        assert_eq!(matched(&[":(prefix:5)dir/*"], ""), [""; 0]);
        assert_eq!(matched(&[":(prefix:-5)./a"], "dir/"), ["dir/a.c"; 0]);
        assert_eq!(matched(&[":(prefix:-5)../a"], "dir/"), ["a"]);
        for from_the_root in [":/./a", ":(prefix:)./a", ":(top)/top/a"] {
            assert_eq!(matched(&[from_the_root], ""), [""; 0]);
        }
    }

    #[test]
    fn plain_paths_select_ranges_of_the_index() {
        let mut index = Index::empty(HashKind::Sha1);
        let content = NewEntry {
            stat: Stat::default(),
            oid: ObjectId::null(HashKind::Sha1),
            mode: Mode::FILE,
            flags: Flags::empty(),
            stage: Stage::Normal,
        };
        let paths = ["a", "d.c", "d/a", "d/b", "d0", "e", "f/g", "h"];
        let edit = |path: &str| Edit { path: path.into(), entries: vec![content] };
        index.apply(paths.map(edit).into());
        let ranges = |specs: &[&str]| parse(specs, "").expect("valid").ranges(&index);
        assert_eq!(ranges(&["h", "a", "none"]), [0..1, 7..8]);
        assert_eq!(ranges(&["d", "d/b", "d/a", "h"]), [2..4, 7..8]);
        assert_eq!(ranges(&["d0", "d/", "f"]), [2..5, 6..7]);
        assert!(ranges(&["none"]).is_empty());
        let all = 0..paths.len();
        for specs in [&[][..], &["a", "*.c"], &[":!a"], &[":(icase)A", "h"]] {
            assert_eq!(ranges(specs), std::slice::from_ref(&all), "{specs:?}");
        }
    }

    #[test]
    fn refuses_invalid_pathspecs() {
        let message = |spec: &str, prefix: &str| parse(&[spec], prefix).expect_err("refused").message;
        assert!(message("", "").starts_with(b"empty string is not a valid pathspec."));
        assert_eq!(message("../x", ""), "../x: '../x' is outside repository at '/top'");
        assert_eq!(message("/topless", ""), "/topless: '/topless' is outside repository at '/top'");
        assert_eq!(message(":(wrong)x", ""), "Invalid pathspec magic 'wrong' in ':(wrong)x'");
        assert_eq!(message(":(attr:)x", ""), "attr spec must not be empty");
        assert_eq!(message(":(attr:a,attr:b)x", ""), "Only one 'attr:' specification is allowed.");
        assert_eq!(message(":(attr:a !-b)x", ""), "invalid attribute name -b");
        assert_eq!(message(":(attr:a=b*)x", ""), "cannot use '*' for value matching");
        assert_eq!(message(":(attr:a=b\\(x", ""), "cannot use '(' for value matching");
        assert_eq!(
            message(":(attr:a=b\\", ""),
            "Escape character '\\' not allowed as last character in attr value"
        );
        assert_eq!(
            message(":(attr:a=b\\,c", ""),
            "Missing ')' at the end of pathspec magic in ':(attr:a=b\\,c'"
        );
        for number in ["x", " ", "+", "--1", "1k", "2\\"] {
            let spec = format!(":(prefix:{number},top)a");
            assert_eq!(message(&spec, ""), "invalid parameter for pathspec magic 'prefix'");
        }
        assert_eq!(
            message(":(prefix:0)a", "dir/"),
            "'prefix' magic is supposed to be used at worktree's root"
        );
        for number in ["2", "2147483647", "4294967299"] {
            assert_eq!(message(&format!(":(prefix:{number})a"), ""), "error initializing pathspec_item");
        }
        assert_eq!(message(":(top", ""), "Missing ')' at the end of pathspec magic in ':(top'");
    }

    #[test]
    fn remembers_pathspecs_that_matched_nothing() {
        let specs = parse(&["a", "nowhere", ":!d"], "").expect("valid");
        let mut seen = Seen::default();
        assert!(specs.matches("a".into(), &mut seen));
        assert_eq!(specs.unseen(&seen).collect::<Vec<_>>(), ["nowhere"]);
        assert!(!specs.may_match_below("other".into()));
        assert!(parse(&["dir/*.c"], "").expect("valid").may_match_below("dir".into()));
        assert!(parse(&["dir/a/b"], "").expect("valid").may_match_below("dir".into()));
    }
}
