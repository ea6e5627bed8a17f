//! A transaction over several refs, as in Git's files backend.
//!
//! Order: each ref is locked, read under its lock and checked, and its new value is written into
//! the lock file. A symbolic ref that is followed adds an update of its target; a change of the
//! branch that HEAD points to adds an update of HEAD's reflog. Then names are checked against
//! packed refs and against each other. Then packed-refs is locked if refs are removed. Nothing has
//! changed so far, and any failure releases all locks (`prepare.rs`).
//!
//! Then lines are appended to reflogs. They and the lock files are synced in parallel. Then all
//! lock files are renamed, and their directories are synced in parallel. Removals come last:
//! reflogs, packed-refs, loose files, and directories that become empty (`finish.rs`).
//!
//! If a rename fails (on a full disk, for example), earlier refs have changed and later ones have
//! not. The files backend has no journal to prevent this.

mod finish;
mod lock;
mod prepare;

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    path::PathBuf,
};

use bstr::{BStr, BString, ByteSlice};
use format::ObjectId;

use super::{
    Change, Edit, Error, Follow, New, NewLog, Old, Options, Rejection,
    edit::Logged,
    packed::PackedLock,
    paths,
    read::{Raw, Reader},
};
pub use finish::remove_broken;
use lock::Finder;
pub(super) use lock::{RefLock, lock_existing};

/// The effect of an error that concerns one edit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Failures {
    /// No edit is made.
    #[default]
    EndAll,
    /// The edit is skipped and reported; the others are made.
    RejectOne,
}

/// A step of a transaction, as reported to an observer (the hook `reference-transaction`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Stage {
    Preparing,
    Prepared,
    Committed,
    Aborted,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Preparing => "preparing",
            Stage::Prepared => "prepared",
            Stage::Committed => "committed",
            Stage::Aborted => "aborted",
        })
    }
}

/// Receives each stage with its edits, one line each: `<old> SP <new> SP <name> LF`. Returns false
/// to abort the transaction, which has an effect only before the refs have changed.
pub type Observer<'a> = Box<dyn FnMut(Stage, &[u8]) -> bool + 'a>;

/// A rejected edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The name of the ref.
    pub name: BString,
    /// Its new value, if it has one. Null for a symbolic ref, as in Git.
    pub new: Option<ObjectId>,
    /// The expected old value, if any. Null for a symbolic ref.
    pub old: Option<ObjectId>,
    /// The kind of the error.
    pub kind: Rejection,
    /// The message of the error.
    pub message: String,
}

/// The effect of an update on its ref.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The ref itself is updated.
    Ref,
    /// Only a line is logged: the ref is symbolic, and its target is updated.
    LogOnly,
    /// Only a line is logged for HEAD, whose branch is updated.
    HeadLog,
}

/// One update: an edit, or an update that an edit implies.
struct Update {
    name: BString,
    new: New,
    old: Old,
    follow: Follow,
    log: NewLog,
    message: BString,
    logged: Logged,
    role: Role,
    /// The update that implied this one.
    parent: Option<usize>,
    /// True if HEAD led to this update, so that HEAD's log needs no other line.
    via_head: bool,
    /// An index into [`RefTransaction::held`].
    lock: Option<usize>,
    /// True if the lock file contains the new value.
    is_written: bool,
    rejected: Option<(Rejection, String)>,
}

impl Update {
    fn deletes(&self) -> bool {
        self.role == Role::Ref && self.sets_null()
    }

    fn sets_null(&self) -> bool {
        matches!(self.new, New::Id(oid) if oid.is_null())
    }
}

/// A lock, and the state of the ref under this lock.
struct Held<'a> {
    lock: RefLock<'a>,
    raw: Raw,
    /// The old value. For a symbolic ref, the value of its target.
    old: ObjectId,
}

/// A transaction: edits are added, prepared and committed. Dropping it before the commit changes
/// nothing.
pub struct RefTransaction<'a> {
    finder: Finder<'a>,
    failures: Failures,
    observer: Option<Observer<'a>>,
    updates: Vec<Update>,
    held: Vec<Held<'a>>,
    locks: HashMap<BString, usize>,
    /// The update numbers of missing refs, whose names must be checked against packed refs.
    missing: Vec<usize>,
    /// The rejected updates, in the order of their rejection.
    rejected: Vec<usize>,
    /// The branch that HEAD points to.
    branch: Option<BString>,
    /// True if one transaction may change both HEAD and its branch. HEAD's log then gets its own
    /// line.
    allows_head: bool,
    packed_lock: Option<PackedLock<'a>>,
    packed_lines: Vec<u8>,
    /// Parents of new directories of refs.
    new_dirs: BTreeSet<PathBuf>,
    is_prepared: bool,
}

/// Applies all changes, or none. [`Error`] lists Git's reasons for a refusal.
///
/// To move the branch that HEAD points to, change the branch. HEAD's reflog also gets the line,
/// unless the same transaction changes HEAD.
pub fn apply(options: &Options, changes: Vec<Change>) -> Result<(), Error> {
    let mut transaction = RefTransaction::new(options, Failures::EndAll);
    transaction.allows_head = true;
    let null = ObjectId::null(options.hash);
    for change in changes {
        check_name(&change)?;
        transaction.push(Edit::of(change, null));
    }
    transaction.commit().map(drop)
}

/// Returns an error if Git would not write a ref of this name.
pub(super) fn check_name(change: &Change) -> Result<(), Error> {
    let name = change.name();
    let allowed = match change {
        Change::Update { .. } => paths::may_write(name),
        Change::Symbolic { target, .. } => paths::may_write(name) && paths::may_write(target.as_bstr()),
        Change::Delete { .. } => paths::may_delete(name),
    };
    if allowed { Ok(()) } else { Err(Error::BadName { name: name.to_owned() }) }
}

/// Returns an error if Git would refuse this edit because of the ref's name.
pub fn check_name_of(edit: &Edit) -> Result<(), Error> {
    let name = edit.name.as_bstr();
    if name == "FETCH_HEAD" || name == "MERGE_HEAD" {
        return Err(Error::Pseudoref { name: edit.name.clone() });
    }
    let is_set = matches!(edit.new, New::Id(oid) if !oid.is_null());
    match if is_set { paths::is_valid(name) } else { paths::is_safe(name) } {
        true => Ok(()),
        false => Err(Error::BadName { name: edit.name.clone() }),
    }
}

impl<'a> RefTransaction<'a> {
    /// Starts an empty transaction.
    pub fn new(options: &'a Options, failures: Failures) -> RefTransaction<'a> {
        RefTransaction {
            finder: Finder { options, reader: Reader::new(options), names: BTreeSet::new() },
            failures,
            observer: None,
            updates: Vec::new(),
            held: Vec::new(),
            locks: HashMap::new(),
            missing: Vec::new(),
            rejected: Vec::new(),
            branch: None,
            allows_head: false,
            packed_lock: None,
            packed_lines: Vec::new(),
            new_dirs: BTreeSet::new(),
            is_prepared: false,
        }
    }

    /// Sets the observer, which is notified of each stage.
    pub fn observed_by(&mut self, observer: Observer<'a>) {
        self.observer = Some(observer);
    }

    /// Adds an edit. This checks only its name.
    pub fn add(&mut self, edit: Edit) -> Result<(), Error> {
        check_name_of(&edit)?;
        self.push(edit);
        Ok(())
    }

    fn push(&mut self, edit: Edit) {
        let Edit { name, new, old, follow, log, message, logged } = edit;
        self.updates.push(Update {
            name,
            new,
            old,
            follow,
            log,
            message,
            logged,
            role: Role::Ref,
            parent: None,
            via_head: false,
            lock: None,
            is_written: false,
            rejected: None,
        });
    }

    /// Ends the transaction without changes.
    pub fn abort(mut self) {
        self.release();
        self.tell(Stage::Aborted);
    }

    fn release(&mut self) {
        self.held.clear();
        self.locks.clear();
        self.packed_lock = None;
    }

    /// Notifies the observer. Returns false if the observer aborts.
    fn tell(&mut self, stage: Stage) -> bool {
        if self.observer.is_none() {
            return true;
        }
        let lines = self.lines();
        self.observer.as_mut().is_none_or(|observer| observer(stage, &lines))
    }

    /// Like [`RefTransaction::tell`], for the refs that are removed from packed-refs: in Git their
    /// removal is a separate transaction.
    fn tell_packed(&mut self, stage: Stage) -> bool {
        let RefTransaction { observer, packed_lines, .. } = self;
        packed_lines.is_empty() || observer.as_mut().is_none_or(|observer| observer(stage, packed_lines))
    }

    /// Returns the edits in the format for the observer.
    fn lines(&self) -> Vec<u8> {
        let null = ObjectId::null(self.finder.options.hash).to_string();
        let mut lines = Vec::new();
        for update in self.updates.iter().filter(|update| update.role == Role::Ref) {
            let old = match &update.old {
                Old::Any => null.clone().into(),
                Old::Id(oid) => oid.to_string().into(),
                Old::Symbolic(target) => BString::from([b"ref:", target.as_slice()].concat()),
            };
            let new = match &update.new {
                New::Keep => null.clone().into(),
                New::Id(oid) => oid.to_string().into(),
                New::Symbolic(target) => BString::from([b"ref:", target.as_slice()].concat()),
            };
            lines.extend_from_slice(&[&old[..], b" ", &new, b" ", &update.name, b"\n"].concat());
        }
        lines
    }

    /// Returns the rejected edits, once the transaction is committed.
    fn rejections(&self) -> Vec<Rejected> {
        let null = ObjectId::null(self.finder.options.hash);
        let one = |&at: &usize| {
            let update = &self.updates[at];
            let (kind, message) = update.rejected.clone()?;
            let new = match update.new {
                New::Keep => None,
                New::Id(oid) => Some(oid),
                New::Symbolic(_) => Some(null),
            };
            let old = match update.old {
                Old::Any => None,
                Old::Id(oid) => Some(oid),
                Old::Symbolic(_) => Some(null),
            };
            Some(Rejected { name: update.name.clone(), new, old, kind, message })
        };
        self.rejected.iter().filter_map(one).collect()
    }
}

/// Returns the prefixes of `name` that are directories: `refs` and `refs/heads` for
/// `refs/heads/main`.
pub(super) fn above(name: &BStr) -> impl Iterator<Item = &BStr> {
    name.find_iter("/").map(|slash| name[..slash].as_bstr())
}
