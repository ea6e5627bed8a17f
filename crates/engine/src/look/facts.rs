//! The probe: finds the state of the worktree at the paths that a plan depends on.
//!
//! Queries are grouped by directory. Directories are probed in parallel through one handle each,
//! those nearer to the root first. A directory that is missing, or blocked by a file or link,
//! settles all remaining queries below it. If many new paths are in one directory, the directory is
//! listed once instead.
//!
//! Nothing is changed. The first failure ends the probe; the error names the path.

use std::{
    collections::{HashMap, HashSet},
    io::ErrorKind,
    sync::{Mutex, PoisonError, RwLock},
};

use bstr::{BStr, BString, ByteSlice};
use format::index::Index;
use sys::{Dir, FileType, Stat};

use crate::{
    crew::{self, Tuning},
    look::LookError,
};

/// The kind of query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryKind {
    /// The path is expected to be absent.
    Absence,
    /// The stat of an entry's file.
    Stat,
    /// Like `Stat`, but a failure results in [`Seen::Unknown`] instead of an error.
    StatIfAny,
}

/// The state of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Not probed, or the probe failed.
    Unknown,
    /// The path or a leading directory does not exist.
    Absent,
    /// The leading part of this length exists and is not a directory.
    Blocked(usize, Stat),
    /// A file, link or directory with this stat.
    There(Stat),
}

/// The facts about a row's path on which the decision is based.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fact {
    pub(crate) seen: Seen,
    /// True if the file has the content of its index entry.
    pub(crate) clean: bool,
}

/// One fact for each row. A checkout into an empty tree has mostly two kinds of facts. These take
/// four bytes each.
#[derive(Debug)]
pub(crate) struct Facts {
    /// [`UNKNOWN`], [`ABSENT`], or an index into `others` plus [`OTHERS`].
    codes: Vec<u32>,
    others: Vec<Fact>,
}

const UNKNOWN: u32 = 0;
const ABSENT: u32 = 1;
const OTHERS: u32 = 2;

impl Facts {
    /// Creates facts for `rows` rows, all unknown.
    pub(crate) fn unknown(rows: usize) -> Facts {
        Facts { codes: vec![UNKNOWN; rows], others: Vec::new() }
    }

    /// Sets the fact of a row.
    pub(crate) fn set(&mut self, row: usize, fact: Fact) {
        self.codes[row] = match fact {
            Fact { seen: Seen::Unknown, clean: false } => UNKNOWN,
            Fact { seen: Seen::Absent, clean: false } => ABSENT,
            other => {
                self.others.push(other);
                u32::try_from(self.others.len() - 1).expect("an index counts its entries in 32 bits") + OTHERS
            }
        };
    }

    /// Returns the facts in the order of the rows.
    pub(crate) fn into_iter(self) -> impl Iterator<Item = Fact> {
        let Facts { codes, others } = self;
        codes.into_iter().map(move |code| match code {
            UNKNOWN => Fact { seen: Seen::Unknown, clean: false },
            ABSENT => Fact { seen: Seen::Absent, clean: false },
            other => others[(other - OTHERS) as usize],
        })
    }
}

/// With fewer new paths than this, a directory is not listed; its paths are probed one by one.
const LIST_FROM: usize = 4;
/// A directory is listed only if the index has at most this many entries in it for each new path.
const LIST_RATIO: usize = 32;
/// With this many queries for absence, the root is listed first, as it may be empty.
const EMPTY_FROM: usize = 16;
/// Opening a directory and probing this many names takes about as long as writing a file.
const NAMES_PER_STEP: usize = 8;

/// The state of a directory.
enum DirectoryState {
    Absent,
    Blocked(usize, Stat),
    Listed(HashSet<Vec<u8>>),
}

/// The queries about one directory.
struct Group<'a> {
    dir: &'a BStr,
    members: Vec<usize>,
    /// An upper bound for the size of the directory, from the index.
    tracked: usize,
}

/// Returns the states of the queried paths, in the order of the queries.
pub(crate) fn probe(
    root: &Dir,
    index: &Index,
    queries: &[(&BStr, QueryKind)],
) -> Result<Vec<Seen>, LookError> {
    let mut states = vec![Seen::Unknown; queries.len()];
    let absences = queries.iter().filter(|(_, kind)| *kind == QueryKind::Absence).count();
    if absences >= EMPTY_FROM {
        let names = root.list().map_err(|source| LookError::Examine { path: ".".into(), source })?;
        if names.iter().all(|(name, _)| name == b".git") {
            states.fill(Seen::Absent);
            return Ok(states);
        }
    }
    let mut groups = groups(queries, index);
    groups.sort_by_cached_key(
        |group| if group.dir.is_empty() { 0 } else { 1 + group.dir.find_iter("/").count() },
    );
    let known: RwLock<HashMap<BString, DirectoryState>> = RwLock::default();
    let found = crew::map(
        "examine",
        &Tuning::default(),
        &groups,
        |group| 1 + group.members.len() / NAMES_PER_STEP,
        &Mutex::new(Vec::new()),
        |_| (),
        |(), group| {
            // A panic while the lock is held leaves the map consistent.
            let settled = settle(&known.read().unwrap_or_else(PoisonError::into_inner), group.dir);
            if let Some(seen) = settled {
                return Ok::<_, LookError>(vec![seen; group.members.len()]);
            }
            let (seen, about) = query(root, queries, group)?;
            if let Some((dir, fact)) = about {
                known.write().unwrap_or_else(PoisonError::into_inner).insert(dir, fact);
            }
            Ok(seen)
        },
    )?;
    for (group, seen) in groups.iter().zip(found) {
        group.members.iter().zip(seen).for_each(|(&at, seen)| states[at] = seen);
    }
    Ok(states)
}

fn groups<'a>(queries: &[(&'a BStr, QueryKind)], index: &Index) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let mut by_dir: HashMap<&BStr, usize> = HashMap::new();
    for (at, &(path, _)) in queries.iter().enumerate() {
        let dir = path.rfind_byte(b'/').map_or(BStr::new(""), |slash| path[..slash].as_bstr());
        let group = *by_dir.entry(dir).or_insert_with(|| {
            groups.push(Group { dir, members: Vec::new(), tracked: index.range_below(dir).len() });
            groups.len() - 1
        });
        groups[group].members.push(at);
    }
    groups
}

/// Returns the state of all paths in `dir`, if a directory above determines it.
fn settle(known: &HashMap<BString, DirectoryState>, dir: &BStr) -> Option<Seen> {
    let mut above = BStr::new("");
    let mut rest = dir;
    loop {
        match known.get(above) {
            Some(DirectoryState::Absent) => return Some(Seen::Absent),
            Some(&DirectoryState::Blocked(len, stat)) => return Some(Seen::Blocked(len, stat)),
            Some(DirectoryState::Listed(names)) => {
                let name = rest.split_once_str("/").map_or(rest.as_bytes(), |(name, _)| name);
                if !rest.is_empty() && !names.contains(name) {
                    return Some(Seen::Absent);
                }
            }
            None => {}
        }
        if rest.is_empty() {
            return None;
        }
        let end = rest.find_byte(b'/').unwrap_or(rest.len());
        above = dir[..dir.len() - rest.len() + end].as_bstr();
        rest = rest[(end + 1).min(rest.len())..].as_bstr();
    }
}

/// Runs all queries about one directory. If all of them are [`QueryKind::StatIfAny`], a failure
/// results in unknown states.
fn query(root: &Dir, queries: &[(&BStr, QueryKind)], group: &Group<'_>) -> Result<QueryResult, LookError> {
    let lenient = group.members.iter().all(|&at| queries[at].1 == QueryKind::StatIfAny);
    match query_strictly(root, queries, group) {
        Err(_) if lenient => Ok((vec![Seen::Unknown; group.members.len()], None)),
        result => result,
    }
}

type QueryResult = (Vec<Seen>, Option<(BString, DirectoryState)>);

fn query_strictly(
    root: &Dir,
    queries: &[(&BStr, QueryKind)],
    group: &Group<'_>,
) -> Result<QueryResult, LookError> {
    let fail = |source| LookError::Examine { path: group.dir.to_owned(), source };
    let opened;
    let dir = if group.dir.is_empty() {
        root
    } else {
        match root.open_dir(group.dir) {
            Ok(dir) => {
                opened = dir;
                &opened
            }
            Err(error) if is_obstacle(&error) => return obstacle(root, group),
            Err(error) => return Err(fail(error)),
        }
    };
    let absences = group.members.iter().filter(|&&at| queries[at].1 == QueryKind::Absence).count();
    let names: Option<HashSet<Vec<u8>>> = if absences >= LIST_FROM && group.tracked <= absences * LIST_RATIO {
        Some(dir.list().map_err(fail)?.into_iter().map(|(name, _)| name).collect())
    } else {
        None
    };
    let seen = group.members.iter().map(|&at| {
        let (path, kind) = queries[at];
        let name = path[if group.dir.is_empty() { 0 } else { group.dir.len() + 1 }..].as_bytes();
        if kind == QueryKind::Absence && names.as_ref().is_some_and(|names| !names.contains(name)) {
            return Ok(Seen::Absent);
        }
        match dir.stat(name) {
            Ok(Some(stat)) => Ok(Seen::There(stat)),
            Ok(None) => Ok(Seen::Absent),
            Err(_) if kind == QueryKind::StatIfAny => Ok(Seen::Unknown),
            Err(source) => Err(LookError::Examine { path: path.to_owned(), source }),
        }
    });
    let seen = seen.collect::<Result<_, _>>()?;
    Ok((seen, names.map(|names| (group.dir.to_owned(), DirectoryState::Listed(names)))))
}

/// Returns true if a directory could not be opened because it is missing or is not a directory.
pub(super) fn is_obstacle(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.kind() == ErrorKind::NotADirectory || is_loop(error)
}

/// ELOOP: the path leads through a symbolic link.
fn is_loop(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(40)
}

/// Finds the first component that is missing or not a directory, after a directory could not be
/// opened.
fn obstacle(root: &Dir, group: &Group<'_>) -> Result<QueryResult, LookError> {
    let all =
        |seen, prefix: &BStr, known| Ok((vec![seen; group.members.len()], Some((prefix.to_owned(), known))));
    let ends = group.dir.find_iter("/").chain([group.dir.len()]);
    for end in ends {
        let prefix = group.dir[..end].as_bstr();
        match root.stat(prefix) {
            Ok(None) => return all(Seen::Absent, prefix, DirectoryState::Absent),
            Ok(Some(stat)) if stat.file_type == FileType::Directory => {}
            Ok(Some(stat)) => {
                return all(Seen::Blocked(end, stat), prefix, DirectoryState::Blocked(end, stat));
            }
            Err(source) => return Err(LookError::Examine { path: prefix.to_owned(), source }),
        }
    }
    // The directory appeared meanwhile, so another process is changing the worktree.
    let source = std::io::Error::from(ErrorKind::ResourceBusy);
    Err(LookError::Examine { path: group.dir.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_come_back_in_the_order_of_the_rows() {
        let fact = |seen, clean| Fact { seen, clean };
        let given = [
            fact(Seen::Absent, false),
            fact(Seen::Unknown, true),
            fact(Seen::Unknown, false),
            fact(Seen::Absent, true),
        ];
        let mut facts = Facts::unknown(6);
        given.into_iter().enumerate().rev().for_each(|(row, fact)| facts.set(row, fact));
        let unknown = fact(Seen::Unknown, false);
        let expected: Vec<Fact> = given.into_iter().chain([unknown; 2]).collect();
        assert_eq!(facts.into_iter().collect::<Vec<_>>(), expected);
    }
}
