//! Applies the response of a file system monitor to an index. The query itself is not done here.
//!
//! Afterwards, the monitor vouches for the entries that had its flag and are not in the response
//! ([`Index::is_fsmonitor_valid`]). Records of the untracked cache that have changed are invalid.
//! The flags were correct when the token was issued, and the response contains all changes since,
//! so the remaining flags are correct now. Later changes are reported to the next query, which uses
//! the token in this response.
//!
//! If the monitor cannot respond, it vouches for no entry and the untracked cache is invalid. An
//! index that is written with the new token then contains only facts that were examined.
//!
//! Sources: git-config(1) `core.fsmonitor`, githooks(5) `fsmonitor-watchman`, the behavior of Git.

use std::collections::HashSet;

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    Mode,
    index::{Fsmonitor, Index, MonitorAnswer},
    path::{self, Protect},
};

/// The monitor's response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The token for the next query.
    pub token: BString,
    /// The changes since the token of this query.
    pub changes: Changes,
}

/// The changes that the monitor reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changes {
    /// Changes to each of these paths: files, directories (including everything below), or paths
    /// that no longer exist.
    To(Vec<BString>),
    /// Unknown to the monitor: any path may have changed.
    Unknown,
}

/// The way in which the monitor's names are compared with those of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameComparison {
    /// Byte by byte.
    Exact,
    /// Case-insensitively, for a file system that ignores case (`core.ignoreCase`).
    IgnoreCase,
}

/// The benefit of writing an index in which nothing else changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteIndex {
    /// Not needed: the index is correct, and the next response repeats only a few paths.
    NotNeeded,
    /// Worthwhile: otherwise the next command repeats the work of this one.
    Worthwhile,
}

/// With more paths than this, the index is written, so that the monitor does not report them again.
const MANY: usize = 100;

impl Response {
    /// Parses a response that begins with its token. Returns `None` if the token is empty.
    pub fn parse(said: &[u8]) -> Option<Response> {
        let (token, paths) = said.split_once_str("\0").unwrap_or((said, b""));
        (!token.is_empty()).then(|| Response { token: token.into(), changes: Changes::parse(paths) })
    }

    /// Returns the response to use when the monitor failed.
    pub fn none(token: impl Into<BString>) -> Response {
        Response { token: token.into(), changes: Changes::Unknown }
    }
}

impl Changes {
    /// Parses paths that are separated by NULs. A lone slash, or any path outside of the worktree,
    /// means that everything may have changed.
    pub fn parse(said: &[u8]) -> Changes {
        let paths: Vec<BString> =
            said.split_str("\0").filter(|path| !path.is_empty()).map(BString::from).collect();
        if paths.iter().any(|path| path.starts_with(b"/")) { Changes::Unknown } else { Changes::To(paths) }
    }
}

/// Applies the response to the query with the index's token. An index without a token is monitored
/// from now on. For such an index the monitor vouches for no entry yet, regardless of the response.
pub fn apply(index: &mut Index, response: Response, comparison: NameComparison) -> WriteIndex {
    let is_new = index.fsmonitor.is_none();
    let (word, worth) = match response.changes {
        Changes::To(paths) if !is_new => {
            forget(index, &paths, comparison);
            (
                MonitorAnswer::Changes,
                if paths.len() > MANY { WriteIndex::Worthwhile } else { WriteIndex::NotNeeded },
            )
        }
        Changes::To(_) | Changes::Unknown => {
            let is_news = forget_all(index) || is_new;
            (MonitorAnswer::Everything, if is_news { WriteIndex::Worthwhile } else { WriteIndex::NotNeeded })
        }
    };
    index.fsmonitor = Some(Fsmonitor { token: response.token, answer: word });
    worth
}

/// Removes the monitor from the index.
pub fn remove(index: &mut Index) -> WriteIndex {
    match index.fsmonitor.take() {
        Some(_) => {
            clear(index, 0..index.len());
            WriteIndex::Worthwhile
        }
        None => WriteIndex::NotNeeded,
    }
}

/// Clears all flags of the monitor, and invalidates the untracked cache. Returns true if an entry
/// had the flag.
fn forget_all(index: &mut Index) -> bool {
    if let Some(untracked) = &mut index.untracked {
        untracked.invalidate_all();
    }
    clear(index, 0..index.len())
}

fn forget(index: &mut Index, paths: &[BString], comparison: NameComparison) {
    let mut unknown: HashSet<Vec<u8>> = HashSet::new();
    for path in paths {
        let path = path.strip_suffix(b"/").unwrap_or(path).as_bstr();
        invalidate_path(index, path);
        let (same, below) = (index.range_of(path), index.range_below(path));
        if same.is_empty() && below.is_empty() && comparison == NameComparison::IgnoreCase {
            unknown.insert(path.to_ascii_lowercase());
        }
        clear(index, same);
        clear(index, below);
    }
    if unknown.is_empty() {
        return;
    }
    for at in 0..index.len() {
        let folded = index.path_at(at).to_ascii_lowercase();
        let ends = folded.find_iter("/").chain([folded.len()]);
        if let Some(end) = ends.into_iter().find(|&end| unknown.contains(&folded[..end])) {
            clear(index, at..at + 1);
            let spelled = index.path_at(at)[..end].as_bstr().to_owned();
            invalidate_path(index, spelled.as_bstr());
        }
    }
}

/// Clears the monitor's flags in `range`. Returns true if an entry had the flag.
fn clear(index: &mut Index, range: std::ops::Range<usize>) -> bool {
    range.fold(false, |any, at| index.clear_fsmonitor_valid(at) | any)
}

/// Invalidates the untracked cache at a changed path. Paths that are invalid in an index (`.git`)
/// are not in the cache. Their directory is invalidated instead, because it may have become a
/// repository or ceased to be one.
fn invalidate_path(index: &mut Index, path: &BStr) {
    let Some(untracked) = &mut index.untracked else { return };
    if path::verify(path, Mode::FILE, Protect::default()).is_err() {
        let parts: Vec<&[u8]> = path.split_str("/").collect();
        let git = parts.iter().position(|part| part.eq_ignore_ascii_case(b".git"));
        if let Some(at) = git.filter(|&at| at > 0) {
            untracked.invalidate_on_disk(bstr::join("/", &parts[..at]).as_bstr());
        }
        return;
    }
    untracked.invalidate_on_disk(path);
    let (dir, name) = path.rsplit_once_str("/").unwrap_or((b"", path));
    if name.eq_ignore_ascii_case(b".gitignore") {
        // The ignore rules changed: everything below may be classified differently.
        if dir.is_empty() { untracked.invalidate_all() } else { untracked.invalidate_on_disk(dir.as_bstr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use format::{
        HashKind, ObjectId,
        index::{Flags, NewEntry, Stage, Stat},
    };

    /// Returns an index with the token `one` whose entries all have the monitor's flag.
    fn watched(paths: &[&str]) -> Index {
        let mut index = Index::empty(HashKind::Sha1);
        for path in paths {
            let oid = ObjectId::from_bytes(HashKind::Sha1, &[7; 20]).expect("twenty bytes");
            let flags = Flags::FSMONITOR_VALID;
            let entry =
                NewEntry { stat: Stat::default(), oid, mode: Mode::FILE, flags, stage: Stage::Normal };
            index.push((*path).into(), entry);
        }
        index.fsmonitor = Some(Fsmonitor { token: "one".into(), answer: MonitorAnswer::NotAsked });
        index
    }

    fn vouched_for(index: &Index) -> Vec<&BStr> {
        index
            .entries()
            .iter()
            .filter(|entry| index.is_fsmonitor_valid(entry))
            .map(|entry| index.path(entry))
            .collect()
    }

    fn changes(paths: &[&str]) -> Response {
        Response {
            token: "two".into(),
            changes: Changes::To(paths.iter().map(|&path| path.into()).collect()),
        }
    }

    #[test]
    fn parses_responses() {
        let to = |paths: &[&str]| changes(paths).changes;
        assert_eq!(Response::parse(b"two\0a\0b/\0"), Some(changes(&["a", "b/"])));
        assert_eq!(Response::parse(b"two\0a\0b c"), Some(changes(&["a", "b c"])));
        assert_eq!(Response::parse(b"two"), Some(changes(&[])));
        assert_eq!(Response::parse(b"two\0/\0"), Some(Response::none("two")));
        assert_eq!((Response::parse(b""), Response::parse(b"\0a\0")), (None, None));
        assert_eq!((Changes::parse(b""), Changes::parse(b"a\0/\0")), (to(&[]), Changes::Unknown));
    }

    #[test]
    fn vouches_for_nothing_before_the_first_query() {
        let mut index = watched(&["a"]);
        assert_eq!(vouched_for(&index), Vec::<&BStr>::new());
        assert!(!index.set_fsmonitor_valid(0));
        apply(&mut index, changes(&[]), NameComparison::Exact);
        assert_eq!(vouched_for(&index), ["a"]);
    }

    #[test]
    fn does_not_vouch_for_named_paths_and_those_below() {
        let mut index = watched(&["a", "a-b", "b-c", "b/x/y", "b/z", "b0", "c"]);
        let worth = apply(&mut index, changes(&["a", "b/", "nothing"]), NameComparison::Exact);
        assert_eq!(
            (vouched_for(&index), worth),
            (vec!["a-b".into(), "b-c".into(), "b0".into(), "c".into()], WriteIndex::NotNeeded)
        );
        assert_eq!(index.fsmonitor.as_ref().expect("watched").token, "two");
        apply(&mut index, changes(&["b0"]), NameComparison::Exact);
        assert!(index.set_fsmonitor_valid(0) && !index.set_fsmonitor_valid(0));
        assert_eq!(vouched_for(&index), ["a", "a-b", "b-c", "c"]);
    }

    #[test]
    fn compares_case_unless_the_file_system_ignores_it() {
        for (comparison, left) in [(NameComparison::Exact, 3), (NameComparison::IgnoreCase, 1)] {
            let mut index = watched(&["Dir/File", "Other", "file"]);
            apply(&mut index, changes(&["dir", "OTHER"]), comparison);
            assert_eq!(vouched_for(&index).len(), left);
        }
    }

    #[test]
    fn without_a_response_vouches_for_nothing() {
        let mut index = watched(&["a", "b"]);
        assert_eq!(apply(&mut index, Response::none("two"), NameComparison::Exact), WriteIndex::Worthwhile);
        assert_eq!(vouched_for(&index), Vec::<&BStr>::new());
        assert_eq!(apply(&mut index, Response::none("three"), NameComparison::Exact), WriteIndex::NotNeeded);
        let mut index = watched(&["a", "b"]);
        // Flags without a token were set by another monitor.
        index.fsmonitor = None;
        assert_eq!(apply(&mut index, changes(&[]), NameComparison::Exact), WriteIndex::Worthwhile);
        assert_eq!((vouched_for(&index), index.monitor_answer()), (vec![], MonitorAnswer::Everything));
    }

    #[test]
    fn many_changed_paths_make_a_write_worthwhile() {
        let paths: Vec<String> = (0..=MANY).map(|number| format!("untracked{number}")).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let mut index = watched(&["a"]);
        assert_eq!(apply(&mut index, changes(&paths[..MANY]), NameComparison::Exact), WriteIndex::NotNeeded);
        assert_eq!(apply(&mut index, changes(&paths), NameComparison::Exact), WriteIndex::Worthwhile);
    }
}
