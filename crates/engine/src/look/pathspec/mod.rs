//! Pathspecs: select the paths of a command. Semantics: gitglossary(7), "pathspec".
//!
//! A pathspec is compared with whole `/`-separated paths from the root of the worktree. All magic
//! words are supported, in the long form `:(top,icase)` and the short form `:/`. `attr` needs a
//! source of attributes ([`Defaults::attributes`]). With `prefix:<n>` Git tells its own processes,
//! which run in the root, how much of a pathspec is the user's directory.

mod attr;
mod magic;

use std::{ops::Range, sync::Arc};

use attr::Attr;
use bstr::{BStr, BString, ByteSlice as _, ByteVec as _};
use format::{
    Mode,
    index::{Flags, Index},
    wildmatch::{self, literal_length, wildmatch},
};

use crate::look::sparse::{Patterns, Purpose};
pub use attr::Attributes;
use magic::Magic;

/// Reported before any other error.
const EMPTY: &[u8] =
    b"empty string is not a valid pathspec. please use . instead if you meant to match all paths";

/// The pathspecs of one command line.
#[derive(Clone, Debug, Default)]
pub struct Pathspecs {
    items: Vec<Item>,
}

#[derive(Clone, Debug)]
struct Item {
    original: BString,
    /// From the root of the worktree; empty for everything.
    pattern: BString,
    /// The length of the part of `pattern` without wildcards.
    literal: usize,
    /// The length of the part that is the current directory, to which no magic applies.
    prefix: usize,
    exclude: bool,
    icase: bool,
    /// `:(glob)`: wildcards stop at slashes.
    glob: bool,
    /// `:(literal)`
    literal_magic: bool,
    /// `:(attr:...)`
    attr: Option<Attr>,
}

/// Defaults from `GIT_LITERAL_PATHSPECS` and related variables, and the source of attributes.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Defaults {
    pub literal: bool,
    pub glob: bool,
    pub icase: bool,
    /// The source of attributes; without one, `attr` is refused.
    pub attributes: Option<Arc<Attributes>>,
}

/// An invalid pathspec. The messages are Git's.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// Git's text without `fatal: `; not always UTF-8.
    pub message: BString,
}

impl Pathspecs {
    /// Parses `specs` as given in the directory `prefix` (with a trailing slash, or empty) of the
    /// worktree at `root`. If all of them exclude, they apply to everything.
    pub fn parse(specs: &[BString], prefix: &BStr, root: &BStr, defaults: Defaults) -> Result<Self, Error> {
        Self::parse_within(specs, prefix, root, defaults, BStr::new(""))
    }

    /// `all` is what excluding pathspecs apply to if there are no others.
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
            if item.attr.as_ref().is_some_and(|attr| !attr.can_be_asked()) {
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

    /// Like [`Pathspecs::parse`], but without specs, or if all of them exclude, the current
    /// directory is selected.
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

    /// Returns true if Git expands a sparse index before it resets the selected paths: they may be
    /// a part of a directory that is a single entry, or are outside of the cone and not in the
    /// index.
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

    /// Parses paths like [`Pathspecs::parse`]; the only magic is `top`.
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
            match given.is_empty() {
                true => Ok(item),
                false => {
                    let names = given.join(", ");
                    Err(fail(&[spec, b": pathspec magic not supported by this command: ", names.as_bytes()]))
                }
            }
        });
        Ok(Pathspecs { items: items.collect::<Result<_, _>>()? })
    }

    /// Returns each pathspec as it is compared with paths from the root of the worktree, and as
    /// given.
    pub fn patterns(&self) -> impl Iterator<Item = (&BStr, &BStr)> {
        self.items.iter().map(|item| (item.pattern.as_bstr(), item.original.as_bstr()))
    }

    /// Returns true if an entry is selected. Names are looked up; only wildcards are compared with
    /// every entry.
    pub fn match_any(&self, index: &Index) -> bool {
        let names = |item: &Item| {
            let name = item.pattern.strip_suffix(b"/").unwrap_or(&item.pattern).as_bstr();
            let mut here = index.range_of(name);
            let is_here = match name.len() == item.pattern.len() {
                true => !here.is_empty(),
                false => here.any(|at| index.mode_at(at).is_gitlink()),
            };
            is_here || !index.range_below(name).is_empty()
        };
        match self.are_names() {
            true => self.items.iter().any(names),
            false => (0..index.len())
                .any(|at| self.matches_entry(index.path_at(at), index.mode_at(at), &mut Seen::default())),
        }
    }

    /// Returns true if each pathspec is the name of a path, which includes everything below.
    fn are_names(&self) -> bool {
        self.items.iter().all(|item| {
            !item.exclude && !item.icase && item.attr.is_none() && item.literal == item.pattern.len()
        })
    }

    /// Returns a range that contains all selected entries, as far as a lookup can tell.
    pub fn bounds(&self, index: &Index) -> Range<usize> {
        if self.items.is_empty() || !self.are_names() {
            return 0..index.len();
        }
        let ranges = self.items.iter().map(|item| {
            let name = item.pattern.strip_suffix(b"/").unwrap_or(&item.pattern).as_bstr();
            let here = index.range_of(name);
            here.start..index.range_below(name).end.max(here.end)
        });
        let both = |one: Range<usize>, two: Range<usize>| one.start.min(two.start)..one.end.max(two.end);
        ranges.reduce(both).unwrap_or(0..0)
    }

    /// Returns true if there are no pathspecs: then nothing matches, and the caller decides what
    /// that means.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns true if there is exactly one. Those that only exclude have another one added.
    pub fn is_single(&self) -> bool {
        self.items.len() == 1
    }

    /// Returns true if `path` is selected. `seen` has an element for each pathspec and marks those
    /// that matched; see [`Pathspecs::unseen`].
    pub fn matches(&self, path: &BStr, seen: &mut Seen) -> bool {
        self.any(seen, |item| item.matches(path))
    }

    /// Like [`Pathspecs::matches`] for an entry with this mode: `sub/` selects the submodule `sub`.
    pub fn matches_entry(&self, path: &BStr, mode: Mode, seen: &mut Seen) -> bool {
        match mode.is_gitlink() {
            true => self.any(seen, |item| item.matches(path) || item.matches_directory(path)),
            false => self.matches(path, seen),
        }
    }

    /// Like [`Pathspecs::matches_entry`], for a caller that asks about a path each time it could be
    /// shown. After a pathspec without wildcards has matched a whole path, the path is not compared
    /// with further ones, not even with an excluding or equal one. A directory that is not an entry
    /// has no slash at the end.
    pub fn matches_in_turn(&self, path: &BStr, mode: Mode, seen: &mut Seen) -> bool {
        seen.0.resize(self.items.len(), Hit::None);
        let is_directory = mode.is_gitlink() || mode.is_tree();
        let hit = |item: &Item| match item.hit(path) {
            Hit::None if is_directory && item.matches_directory(path) => Hit::Exact,
            hit => hit,
        };
        let is_done = |item: &Item, seen: Hit| seen == Hit::Exact && item.literal == item.pattern.len();
        let mut found = false;
        let turns = self.items.iter().zip(&mut seen.0);
        for (item, seen) in turns.filter(|(item, seen)| !item.exclude && !is_done(item, **seen)) {
            let hit = hit(item);
            found |= hit != Hit::None;
            *seen = hit.max(*seen);
        }
        let mut is_left_out = false;
        let turns = self.items.iter().zip(&mut seen.0);
        for (item, seen) in turns.filter(|(item, seen)| found && item.exclude && !is_done(item, **seen)) {
            let hit = hit(item);
            is_left_out |= hit != Hit::None;
            *seen = hit.max(Hit::Part);
        }
        found && !is_left_out
    }

    /// Returns true if a pathspec needs attributes.
    pub fn ask_attributes(&self) -> bool {
        self.items.iter().any(|item| item.attr.is_some())
    }

    /// Returns the pathspecs that do not exclude.
    pub fn without_exclusions(&self) -> Pathspecs {
        Pathspecs { items: self.items.iter().filter(|item| !item.exclude).cloned().collect() }
    }

    fn any(&self, seen: &mut Seen, matches: impl Fn(&Item) -> bool) -> bool {
        seen.0.resize(self.items.len(), Hit::None);
        let mut found = false;
        for (item, seen) in self.items.iter().zip(&mut seen.0) {
            if !item.exclude && matches(item) {
                *seen = Hit::Part.max(*seen);
                found = true;
            }
        }
        // An exclusion counts as seen only after something else matched.
        let exclusions = self.items.iter().zip(&mut seen.0).filter(|(item, _)| item.exclude && found);
        exclusions.for_each(|(_, seen)| *seen = Hit::Part.max(*seen));
        found && !self.items.iter().any(|item| item.exclude && matches(item))
    }

    /// Returns true if something below the directory `dir` (without a trailing slash, empty for the
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

    /// Returns how the pathspecs apply to a directory, which has a slash at the end. Without
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

    /// Returns what is selected of a directory that is a single entry of a sparse index: `whole` if
    /// a directory above it is selected, nothing, or possibly a part.
    pub fn purpose(&self, dir: &BStr, whole: Purpose) -> Purpose {
        // The content of a directory may have attributes that the directory lacks.
        if self.ask_attributes() {
            return Purpose::Files;
        }
        match self.reach(dir) {
            Reach::None => Purpose::None,
            Reach::Whole if !self.items.iter().any(|item| item.exclude) => whole,
            _ => Purpose::Files,
        }
    }

    /// Returns true if nothing at or below `path` can be selected, judged without wildcards.
    pub fn rules_out(&self, path: &BStr) -> bool {
        !self.items.is_empty()
            && !self.items.iter().any(|item| {
                let shared = item.literal.min(path.len());
                item.same(&item.pattern[..shared], &path[..shared])
            })
    }

    /// Returns true if the part without wildcards of a pathspec is `path` or leads through it. An
    /// excluding pathspec counts, too.
    pub fn name(&self, path: &BStr) -> bool {
        self.items.iter().any(|item| {
            let leads = item.literal == path.len()
                || item.literal > path.len() && item.pattern.get(path.len()) == Some(&b'/');
            leads && item.same(&item.pattern[..path.len()], path)
        })
    }

    /// Returns true if everything is selected without a look at any path.
    pub fn are_everything(&self) -> bool {
        self.items.iter().all(|item| item.pattern.is_empty() && !item.exclude && item.attr.is_none())
    }

    /// Returns the directory that contains everything selected, with a slash at the end, or empty.
    pub fn common_directory(&self) -> &BStr {
        let included: Vec<&Item> = self.items.iter().filter(|item| !item.exclude).collect();
        // Git compares with the first pathspec only, and gives up if that one excludes.
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

    /// Returns the pathspecs, as given, that have not matched yet. An excluding one counts as
    /// matched if something else matched.
    pub fn unseen<'a>(&'a self, seen: &'a Seen) -> impl Iterator<Item = &'a BStr> {
        self.items.iter().enumerate().filter_map(move |(number, item)| {
            let hit = seen.0.get(number).copied().unwrap_or(Hit::None);
            (hit == Hit::None).then_some(item.original.as_bstr())
        })
    }

    /// Returns each pathspec, and how it has matched so far.
    pub fn uses<'a>(&'a self, seen: &'a Seen) -> impl Iterator<Item = Use<'a>> {
        self.items.iter().enumerate().map(move |(number, item)| Use {
            number,
            pattern: item.pattern.as_bstr(),
            original: item.original.as_bstr(),
            excludes: item.exclude,
            is_pattern: item.glob || item.icase,
            matched: match seen.0.get(number).copied().unwrap_or(Hit::None) {
                Hit::None => Matched::Nothing,
                Hit::Below => Matched::Below,
                Hit::Part | Hit::Exact => Matched::Path,
            },
        })
    }
}

/// A pathspec, and how it has matched.
#[derive(Clone, Copy, Debug)]
pub struct Use<'a> {
    /// Its number.
    pub number: usize,
    /// From the root of the worktree.
    pub pattern: &'a BStr,
    /// As the user gave it.
    pub original: &'a BStr,
    /// It selects what is left out.
    pub excludes: bool,
    /// It has `glob` or `icase`, so that it may be no name of a file.
    pub is_pattern: bool,
    /// The best match of [`Pathspecs::matches_in_turn`].
    pub matched: Matched,
}

/// How a pathspec has matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matched {
    /// Not at all.
    Nothing,
    /// Only paths below it.
    Below,
    /// A path, by its name or by a wildcard.
    Path,
}

/// How pathspecs apply to a directory. The greatest value of all pathspecs counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Nothing in it is selected.
    None,
    /// All of it is, together with a directory above.
    Whole,
    /// Something below it may be.
    Below,
    /// All of it is: a pattern matches it, or it is named.
    Matched,
}

/// The pathspecs that have matched so far.
#[derive(Clone, Debug, Default)]
pub struct Seen(Vec<Hit>);

/// How a pathspec matched. The greatest value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Hit {
    None,
    /// By the name of a directory above.
    Below,
    /// By a wildcard.
    Part,
    /// By the whole path.
    Exact,
}

impl Item {
    fn parse(spec: &BString, prefix: &BStr, root: &BStr, defaults: &Defaults) -> Result<Item, Error> {
        if spec.is_empty() {
            return Err(fail(&[EMPTY]));
        }
        let mut magic = Magic { icase: defaults.icase, glob: defaults.glob, ..Magic::default() };
        let rest = if defaults.literal {
            magic.literal = true;
            spec.as_bstr()
        } else {
            magic.take_from(spec.as_bstr())?
        };
        if magic.prefix.is_some() && !prefix.is_empty() {
            return Err(fail(&[b"'prefix' magic is supposed to be used at worktree's root"]));
        }
        if magic.literal && magic.glob && !defaults.glob {
            return Err(fail(&[spec, b": 'literal' and 'glob' are incompatible"]));
        }
        // The current directory is literal even if its name contains wildcards. If it does, nothing
        // else is literal, as in Git.
        let (pattern, shared) = match magic.prefix {
            Some(length) if length > rest.len() => return Err(fail(&[b"error initializing pathspec_item"])),
            // A path from the root is not normalized.
            Some(length) => (rest.to_owned(), length),
            None if magic.top => (rest.to_owned(), 0),
            None => {
                let pattern = normalize(rest, prefix, root).ok_or_else(|| {
                    fail(&[spec, b": '", rest, b"' is outside repository at '", root, b"'"])
                })?;
                let kept = prefix.len().min(pattern.len());
                let shared = if pattern[..kept] == prefix[..kept] { kept } else { 0 };
                (pattern, shared)
            }
        };
        let literal = if magic.literal { pattern.len() } else { literal_length(&pattern).max(shared) };
        Ok(Item {
            original: spec.clone(),
            pattern,
            literal,
            prefix: shared,
            exclude: magic.exclude,
            icase: magic.icase,
            glob: magic.glob && !magic.literal,
            literal_magic: magic.literal,
            attr: magic.attr.map(|required| Attr::new(required, defaults.attributes.clone())),
        })
    }

    fn matches(&self, path: &BStr) -> bool {
        self.hit(path) != Hit::None
    }

    /// Returns how the pathspec matches, if the path has the attributes.
    fn hit(&self, path: &BStr) -> Hit {
        match self.hit_by_name(path) {
            hit if hit != Hit::None && self.has_attributes(path) => hit,
            _ => Hit::None,
        }
    }

    fn has_attributes(&self, path: &BStr) -> bool {
        self.attr.as_ref().is_none_or(|attr| attr.holds(path))
    }

    fn hit_by_name(&self, path: &BStr) -> Hit {
        let pattern = self.pattern.as_bstr();
        // The current directory is compared exactly.
        if self.icase && !path.starts_with(&pattern[..self.prefix]) {
            return Hit::None;
        }
        if pattern.is_empty() {
            return Hit::Below;
        }
        if path.len() >= pattern.len() && self.same(&path[..pattern.len()], pattern) {
            if path.len() == pattern.len() {
                return Hit::Exact;
            }
            if pattern.ends_with(b"/") || path[pattern.len()] == b'/' {
                return Hit::Below;
            }
        }
        let mode = wildmatch::Mode { pathname: self.glob, icase: self.icase };
        let is_wild = self.literal < pattern.len()
            && path.len() >= self.literal
            && self.same(&path[..self.literal], &pattern[..self.literal])
            && wildmatch(&pattern[self.literal..], &path[self.literal..], mode);
        if is_wild { Hit::Part } else { Hit::None }
    }

    /// Returns true if the pathspec is `path` as a directory: with a slash and nothing after it.
    fn matches_directory(&self, path: &BStr) -> bool {
        let is_it = self.pattern.strip_suffix(b"/").is_some_and(|pattern| self.same(pattern, path));
        is_it && self.has_attributes(path)
    }

    fn same(&self, left: &[u8], right: &[u8]) -> bool {
        match self.icase {
            true => left.eq_ignore_ascii_case(right),
            false => left == right,
        }
    }

    /// See [`Pathspecs::reach`].
    fn reach(&self, dir: &BStr) -> Reach {
        let pattern = self.pattern.as_bstr();
        if self.matches(dir) {
            let above = pattern.len() < dir.len() && self.same(&dir[..pattern.len()], pattern);
            return if above { Reach::Whole } else { Reach::Matched };
        }
        if self.icase && !dir.starts_with(&pattern[..self.prefix]) {
            return Reach::None;
        }
        let named = dir.len() < pattern.len()
            && pattern[dir.len() - 1] == b'/'
            && self.same(&pattern[..dir.len()], dir);
        // The part before the first wildcard has to match in full; wildcards are not compared with
        // the beginning of a path.
        let wild = self.literal < pattern.len() && {
            dir.len() >= self.literal && self.same(&pattern[..self.literal], &dir[..self.literal])
        };
        // A directory without the attributes is not entered, whatever it holds.
        if (named || wild) && self.has_attributes(dir) { Reach::Below } else { Reach::None }
    }
}

fn fail(parts: &[&[u8]]) -> Error {
    Error { message: parts.concat().into() }
}

/// Makes `spec` relative to the root of the worktree and resolves `.` and `..`. Returns `None` if
/// it is outside. Keeps a trailing slash.
pub fn normalize(spec: &BStr, prefix: &BStr, root: &BStr) -> Option<BString> {
    let mut path = BString::default();
    let spec: &[u8] = match spec.strip_prefix(b"/") {
        None => {
            path.push_str(prefix);
            spec
        }
        Some(_) => match spec.strip_prefix(root.as_bytes())? {
            b"" => b"",
            below if root.ends_with(b"/") => below,
            below => below.strip_prefix(b"/")?,
        },
    };
    path.push_str(spec);
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split_str("/") {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    let below = matches!(path.rsplit_str("/").next(), Some(b"" | b"." | b".."));
    let mut joined: BString = parts.join(&b'/').into();
    if below && !joined.is_empty() {
        joined.push(b'/');
    }
    Some(joined)
}

#[cfg(test)]
mod tests {
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
