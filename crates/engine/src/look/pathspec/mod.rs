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
mod tests;
