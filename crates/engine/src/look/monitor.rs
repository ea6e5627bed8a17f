//! What a file system monitor's answer makes of an index. Asking is not done here.
//!
//! Afterwards the monitor vouches for the entries that were marked before and that it does not name
//! ([`Index::is_fsmonitor_valid`]), and the untracked cache calls nothing valid that changed. The marks were true when the token was given
//! and the answer names all that happened since, so they are true now; whatever happens from now on will be named
//! to who asks with the token that came with the answer.
//!
//! Where the monitor cannot answer, nothing is vouched for and the untracked cache holds nothing: an index that is written with the new
//! token says no more than was looked at.
//!
//! Source: git-config(1) `core.fsmonitor`, githooks(5) `fsmonitor-watchman`, the behaviour of Git.

use std::collections::HashSet;

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    Mode,
    index::{Fsmonitor, Index, MonitorAnswer},
    path::{self, Protect},
};

/// The monitor's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What to ask with the next time.
    pub token: BString,
    /// What happened since the token that was asked with.
    pub changes: Changes,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changes {
    /// Something to each of these paths: files, directories (all that is below them counts), or what is nothing any more.
    To(Vec<BString>),
    /// The monitor does not know.
    Unknown,
}

/// How the monitor's names are those of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Byte by byte.
    Exact,
    /// On a file system that ignores case (`core.ignoreCase`).
    IgnoreCase,
}

/// Whether an index is to be written although nothing else in it changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worth {
    /// What it says is true; the next answer will repeat a few paths.
    Little,
    /// Else the next one pays again for what this one found out.
    Writing,
}

/// More paths than these are not to be told twice.
const MANY: usize = 100;

impl Answer {
    /// An answer that begins with its token. `None` if that is empty.
    pub fn parse(said: &[u8]) -> Option<Answer> {
        let (token, paths) = said.split_once_str("\0").unwrap_or((said, b""));
        (!token.is_empty()).then(|| Answer { token: token.into(), changes: Changes::parse(paths) })
    }

    /// What is left when the monitor failed.
    pub fn none(token: impl Into<BString>) -> Answer {
        Answer { token: token.into(), changes: Changes::Unknown }
    }
}

impl Changes {
    /// Paths with NULs between them. A slash alone, or any path that is not of the worktree, stands for everything.
    pub fn parse(said: &[u8]) -> Changes {
        let paths: Vec<BString> =
            said.split_str("\0").filter(|path| !path.is_empty()).map(BString::from).collect();
        match paths.iter().any(|path| path.starts_with(b"/")) {
            true => Changes::Unknown,
            false => Changes::To(paths),
        }
    }
}

/// Takes the answer to what the index's token asked. An index without a token begins to be watched: whatever the answer was, nothing
/// is vouched for yet.
pub fn apply(index: &mut Index, answer: Answer, names: Names) -> Worth {
    let is_new = index.fsmonitor.is_none();
    let (word, worth) = match answer.changes {
        Changes::To(paths) if !is_new => {
            forget(index, &paths, names);
            (MonitorAnswer::Changes, if paths.len() > MANY { Worth::Writing } else { Worth::Little })
        }
        Changes::To(_) | Changes::Unknown => {
            let is_news = forget_all(index) || is_new;
            (MonitorAnswer::Everything, if is_news { Worth::Writing } else { Worth::Little })
        }
    };
    index.fsmonitor = Some(Fsmonitor { token: answer.token, answer: word });
    worth
}

/// There is no monitor (any more).
pub fn remove(index: &mut Index) -> Worth {
    match index.fsmonitor.take() {
        Some(_) => {
            clear(index, 0..index.len());
            Worth::Writing
        }
        None => Worth::Little,
    }
}

/// Whether anything was vouched for.
fn forget_all(index: &mut Index) -> bool {
    if let Some(untracked) = &mut index.untracked {
        untracked.invalidate_all();
    }
    clear(index, 0..index.len())
}

fn forget(index: &mut Index, paths: &[BString], names: Names) {
    let mut unknown: HashSet<Vec<u8>> = HashSet::new();
    for path in paths {
        let path = path.strip_suffix(b"/").unwrap_or(path).as_bstr();
        happened(index, path);
        let (same, below) = (index.range_of(path), index.range_below(path));
        if same.is_empty() && below.is_empty() && names == Names::IgnoreCase {
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
            happened(index, spelled.as_bstr());
        }
    }
}

/// Takes the marks away. Whether there were any.
fn clear(index: &mut Index, range: std::ops::Range<usize>) -> bool {
    range.fold(false, |any, at| index.clear_fsmonitor_valid(at) | any)
}

/// The untracked cache learns of it. What no index may hold (`.git`) is not in the cache either, but the directory it is in may be a repository
/// now, or none any more.
fn happened(index: &mut Index, path: &BStr) {
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
        // Other rules: whatever is below may be another's.
        match dir.is_empty() {
            true => untracked.invalidate_all(),
            false => untracked.invalidate_on_disk(dir.as_bstr()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use format::{
        HashKind, ObjectId,
        index::{Flags, NewEntry, Stage, Stat},
    };

    /// An index whose entries are all marked, as a monitor left it at `token`.
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

    fn changes(paths: &[&str]) -> Answer {
        Answer { token: "two".into(), changes: Changes::To(paths.iter().map(|&path| path.into()).collect()) }
    }

    #[test]
    fn answers() {
        let to = |paths: &[&str]| changes(paths).changes;
        assert_eq!(Answer::parse(b"two\0a\0b/\0"), Some(changes(&["a", "b/"])));
        assert_eq!(Answer::parse(b"two\0a\0b c"), Some(changes(&["a", "b c"])));
        assert_eq!(Answer::parse(b"two"), Some(changes(&[])));
        assert_eq!(Answer::parse(b"two\0/\0"), Some(Answer::none("two")));
        assert_eq!((Answer::parse(b""), Answer::parse(b"\0a\0")), (None, None));
        assert_eq!((Changes::parse(b""), Changes::parse(b"a\0/\0")), (to(&[]), Changes::Unknown));
    }

    #[test]
    fn nothing_is_vouched_for_before_it_was_asked() {
        let mut index = watched(&["a"]);
        assert_eq!(vouched_for(&index), Vec::<&BStr>::new());
        assert!(!index.set_fsmonitor_valid(0));
        apply(&mut index, changes(&[]), Names::Exact);
        assert_eq!(vouched_for(&index), ["a"]);
    }

    #[test]
    fn what_is_named_and_what_is_below_it_is_not_vouched_for() {
        let mut index = watched(&["a", "a-b", "b-c", "b/x/y", "b/z", "b0", "c"]);
        let worth = apply(&mut index, changes(&["a", "b/", "nothing"]), Names::Exact);
        assert_eq!(
            (vouched_for(&index), worth),
            (vec!["a-b".into(), "b-c".into(), "b0".into(), "c".into()], Worth::Little)
        );
        assert_eq!(index.fsmonitor.as_ref().expect("watched").token, "two");
        apply(&mut index, changes(&["b0"]), Names::Exact);
        assert!(index.set_fsmonitor_valid(0) && !index.set_fsmonitor_valid(0));
        assert_eq!(vouched_for(&index), ["a", "a-b", "b-c", "c"]);
    }

    #[test]
    fn case_counts_unless_the_file_system_ignores_it() {
        for (names, left) in [(Names::Exact, 3), (Names::IgnoreCase, 1)] {
            let mut index = watched(&["Dir/File", "Other", "file"]);
            apply(&mut index, changes(&["dir", "OTHER"]), names);
            assert_eq!(vouched_for(&index).len(), left);
        }
    }

    #[test]
    fn without_an_answer_everything_has_to_be_looked_at() {
        let mut index = watched(&["a", "b"]);
        assert_eq!(apply(&mut index, Answer::none("two"), Names::Exact), Worth::Writing);
        assert_eq!(vouched_for(&index), Vec::<&BStr>::new());
        assert_eq!(apply(&mut index, Answer::none("three"), Names::Exact), Worth::Little);
        let mut index = watched(&["a", "b"]);
        // Marks without a token are another monitor's.
        index.fsmonitor = None;
        assert_eq!(apply(&mut index, changes(&[]), Names::Exact), Worth::Writing);
        assert_eq!((vouched_for(&index), index.monitor_answer()), (vec![], MonitorAnswer::Everything));
    }

    #[test]
    fn many_paths_are_not_to_be_told_again() {
        let paths: Vec<String> = (0..=MANY).map(|number| format!("untracked{number}")).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let mut index = watched(&["a"]);
        assert_eq!(apply(&mut index, changes(&paths[..MANY]), Names::Exact), Worth::Little);
        assert_eq!(apply(&mut index, changes(&paths), Names::Exact), Worth::Writing);
    }
}
