//! The entries of one worktree: `refs/sapwood/checkpoints/<series>/<number>`.
//!
//! The series of the main worktree is `main`. That of a linked one is `worktrees/<id>`, or with a
//! number after it if another worktree has a series of that name, or has left entries. The file
//! `sapwood-checkpoints` in the worktree's Git directory names it.
//!
//! An entry that cannot be read is named by its ref in an error, and does not affect the others.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    io::ErrorKind,
    ops::ControlFlow,
    os::unix::ffi::OsStrExt as _,
    path::Path,
};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    checkpoint::{self, State},
    workspace::record,
};
use format::{
    ObjectId,
    refname::{self, Levels},
};
use repo::{ListScope, Repository};
use store::refs::{Change, Edit, Expected, Failures, Logged, NewLog, Old, RefTransaction};
use sys::{File, by_path};

use super::{
    info::{Info, Kind, Place},
    limits::Limits,
};
use crate::{Context, Error, Notice, text};

/// All entries.
const CHECKPOINTS: &str = "refs/sapwood/checkpoints/";

/// The series of the main worktree.
const MAIN: &str = "main";

/// The series of linked worktrees.
const LINKED: &str = "worktrees/";

/// The file that names the series of a linked worktree.
const FILE: &str = "sapwood-checkpoints";

/// The directory in the common Git directory that holds [`LOCK`].
const LOCK_DIRECTORY: &str = "sapwood";

/// The file that is locked while a series gets its name.
const LOCK: &str = "checkpoint-series";

/// The largest number of an entry. Programs that read JSON keep it exactly.
const LAST: u64 = (1 << 53) - 1;

/// The number of entries that one run reads to find expired ones.
const READ_FOR_EXPIRY: usize = 256;

/// The number of times that a new entry gets another number, because another process took it.
const ATTEMPTS: usize = 20;

/// The entries of a worktree.
#[derive(Debug)]
pub(super) struct Series {
    /// Its name; `None` if the worktree has no entry yet.
    name: Option<BString>,
    /// The trees by number. That of a broken ref is null.
    entries: BTreeMap<u64, ObjectId>,
    /// The number of the next entry.
    next: u64,
}

/// An entry.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its number.
    pub number: u64,
    /// The tree that its ref points to.
    pub tree: ObjectId,
    /// The facts about it.
    pub info: Info,
    /// Its state.
    pub state: State,
}

impl Entry {
    /// Returns the entry whose state this is.
    pub fn place(&self) -> u64 {
        match self.info.place {
            Place::New { .. } => self.number,
            Place::At { shows, .. } => shows,
        }
    }

    /// Returns the last entry of the way that a redo goes.
    pub(super) fn tip(&self) -> u64 {
        match self.info.place {
            Place::New { .. } => self.number,
            Place::At { tip, .. } => tip,
        }
    }
}

impl Series {
    /// Lists the entries of the worktree.
    pub(super) fn find(repo: &Repository) -> Result<Series, Error> {
        let name = if is_main(repo) { Some(MAIN.into()) } else { read_name(repo.git_dir())? };
        let mut series = Series { name, entries: BTreeMap::new(), next: 1 };
        series.list(repo)?;
        Ok(series)
    }

    /// Lists the entries again. The next number is one that no lock of a killed process blocks.
    fn list(&mut self, repo: &Repository) -> Result<(), Error> {
        let Some(name) = &self.name else { return Ok(()) };
        self.entries = entries(repo, name.as_bstr())?;
        let newest = self.entries.keys().next_back();
        self.next = newest.map_or(1, |newest| newest + 1);
        let lock = |series: &Series| text!(series.name_of(series.next), ".lock");
        while matches!(by_path::stat(&repo.refs_dir().join(sys::os_str(&lock(self)))), Ok(Some(_))) {
            self.next += 1;
        }
        Ok(())
    }

    /// Returns the numbers, in order.
    pub(super) fn numbers(&self) -> impl DoubleEndedIterator<Item = u64> {
        self.entries.keys().copied()
    }

    /// Returns the number of the next entry.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the full name of the ref of an entry.
    pub(super) fn name_of(&self, number: u64) -> BString {
        let name: &BStr = self.name.as_ref().map_or(BStr::new(""), |name| name.as_bstr());
        text!(CHECKPOINTS, name, "/", number.to_string())
    }

    /// Returns true if there is an entry of this number, which may be unreadable.
    pub(super) fn has(&self, number: u64) -> bool {
        self.entries.contains_key(&number)
    }

    /// Reads the newest entry that can be read, if there is one. Reports the newer ones.
    pub(super) fn newest(&self, context: Context<'_>) -> Option<Entry> {
        let notice = |error: Error| context.events.notice(Notice::CheckpointLeftOut(error.to_string()));
        self.numbers().rev().find_map(|number| self.read(context.repo, number).map_err(notice).ok())
    }

    /// Reads an entry.
    pub(super) fn read(&self, repo: &Repository, number: u64) -> Result<Entry, Error> {
        let tree = *self.entries.get(&number).ok_or(Error::NoCheckpoint(number))?;
        let unreadable = |reason: String| self.unreadable(number, reason);
        if tree.is_null() {
            return Err(unreadable("the ref is broken".to_owned()));
        }
        let read = checkpoint::read(repo, tree).map_err(|error| unreadable(error.to_string()))?;
        let (state, info) = read;
        if let Some(version) = Info::newer_version(&info) {
            return Err(unreadable(format!("a newer sapwood wrote it, in version {version} of the format")));
        }
        let foreign = || unreadable(checkpoint::Error::NoEntry(tree).to_string());
        let info = Info::decode(repo.hash(), &info).ok_or_else(foreign)?;
        Ok(Entry { number, tree, info, state })
    }

    /// Returns the error of an entry that cannot be read.
    pub(super) fn unreadable(&self, number: u64, reason: String) -> Error {
        Error::UnreadableCheckpoint { name: self.name_of(number), reason }
    }

    /// Appends an entry whose objects are published: its tree, and the facts in it. Returns its
    /// number, which is `number` if nobody else took it; otherwise a higher one, unless `exact` is
    /// set.
    pub(super) fn append(
        &mut self,
        context: Context<'_>,
        tree: ObjectId,
        info: &Info,
        exact: bool,
        limits: &Limits,
    ) -> Result<u64, Error> {
        let options = options(context, info.time)?;
        if self.name.is_none() {
            self.name = Some(begin(context, &options, limits)?);
        }
        let null = ObjectId::null(context.repo.hash());
        let message = match info.kind {
            Kind::Checkpoint if !info.label.is_empty() => text!("checkpoint: ", info.label),
            kind => kind.name().into(),
        };
        let mut attempt = 0;
        loop {
            let number = self.next;
            let name = self.name_of(number);
            // `gc` keeps the commit of HEAD as long as the reflog has this line.
            let logged = Logged { old: info.head, new: None };
            let edit = Edit::set(name.as_bstr(), tree, message.as_bstr());
            let edit = Edit { old: Old::Id(null), log: NewLog::Always, logged, ..edit };
            let mut transaction = RefTransaction::new(&options, Failures::EndAll);
            let made = transaction.add(edit).and_then(|()| transaction.commit().map(drop));
            attempt += 1;
            match made {
                Ok(()) => {
                    self.entries.insert(number, tree);
                    self.next = number + 1;
                    return Ok(number);
                }
                Err(error) => {
                    self.list(context.repo)?;
                    if self.next == number || attempt == ATTEMPTS {
                        return Err(engine::switch::Error::from(error).into());
                    }
                    if exact {
                        return Err(Error::OtherCheckpoint);
                    }
                }
            }
        }
    }

    /// Removes the entries that are too many or too old, except the newest one, `saved`, the place
    /// in the history, and the way of redo: the work before an undo must not be lost by it. While
    /// the index is locked, all stay: another undo may be on its way to one of them.
    pub(super) fn expire(
        &mut self,
        context: Context<'_>,
        limits: &Limits,
        saved: Option<u64>,
    ) -> Result<(), Error> {
        if is_index_locked(context.repo) {
            return Ok(());
        }
        let mut doomed: Vec<u64> = self.numbers().collect();
        doomed.pop();
        let surplus = (doomed.len() + 1).saturating_sub(limits.keep);
        // The times are those of the numbers' order. An unreadable entry goes with a later one.
        let mut old = 0;
        if let Some(before) = limits.before {
            for (at, number) in doomed.iter().skip(surplus).take(READ_FOR_EXPIRY).enumerate() {
                match self.read(context.repo, *number) {
                    Ok(entry) if entry.info.time < before => old = at + 1,
                    Ok(_) => break,
                    Err(_) => {}
                }
            }
        }
        doomed.truncate(surplus + old);
        if doomed.is_empty() {
            return Ok(());
        }
        let kept = self.present_way(context.repo);
        let stays = |number: u64| kept.contains(&number) || Some(number) == saved;
        let found = doomed.into_iter().filter_map(|number| Some((number, *self.entries.get(&number)?)));
        let doomed: Vec<(u64, ObjectId)> = found.filter(|(number, _)| !stays(*number)).collect();
        delete(context, doomed.iter().map(|(number, tree)| (self.name_of(*number), *tree)))?;
        doomed.iter().for_each(|(number, _)| {
            self.entries.remove(number);
        });
        Ok(())
    }
}

impl Series {
    /// Returns the newest entry, the place, and the entries from there to the end of redo.
    fn present_way(&self, repo: &Repository) -> BTreeSet<u64> {
        let newest = self.numbers().rev().find_map(|number| self.read(repo, number).ok());
        let Some(newest) = newest else { return BTreeSet::new() };
        let mut way = BTreeSet::from([newest.number, newest.place(), newest.tip()]);
        let mut at = newest.tip();
        while at > newest.place() {
            let Ok(Some(parent)) = self.parent(repo, at) else { break };
            way.insert(parent);
            at = parent;
        }
        way
    }

    /// Returns the number of the entry before `number`, in the order in which the states were made.
    /// It may have expired.
    pub(super) fn parent(&self, repo: &Repository, number: u64) -> Result<Option<u64>, Error> {
        // A damaged entry must not lead in a circle.
        Ok(match self.read(repo, number)?.info.place {
            Place::New { parent } => parent.filter(|parent| *parent < number),
            Place::At { shows, .. } => Some(shows).filter(|shows| *shows < number),
        })
    }
}

/// Returns the options for the refs of entries. Their reflogs name no user, so an entry needs no
/// identity, and have the real time, which decides when `gc` removes a line.
fn options(context: Context<'_>, time: i64) -> Result<store::refs::Options, Error> {
    let committer = Ok(text!("sapwood <sapwood@localhost> ", time.to_string(), " +0000"));
    Ok(store::refs::Options { committer, ..context.settings.refs_with_hook(context.repo)? })
}

/// Removes refs with these values. If that fails, they stay, and the next run tries again.
fn delete(context: Context<'_>, doomed: impl Iterator<Item = (BString, ObjectId)>) -> Result<(), Error> {
    // A broken ref has the null name. It would end the transaction.
    let (broken, doomed): (Vec<_>, Vec<_>) = doomed.partition(|(_, tree)| tree.is_null());
    if broken.is_empty() && doomed.is_empty() {
        return Ok(());
    }
    let options = context.settings.refs_with_hook(context.repo)?;
    let deletion = |(name, tree)| Change::Delete { name, expected: Expected::Is(tree) };
    let deleted = store::refs::apply(&options, doomed.into_iter().map(deletion).collect());
    let removed =
        broken.iter().try_for_each(|(name, _)| store::refs::remove_broken(&options, name.as_bstr()));
    if let Err(error) = deleted.and(removed) {
        context.events.notice(Notice::CheckpointsStay(error.to_string()));
    }
    Ok(())
}

/// Returns true if a command holds the index of the worktree, and is in the middle of its changes.
pub(super) fn is_index_locked(repo: &Repository) -> bool {
    let mut lock = repo.index_path().into_os_string();
    lock.push(".lock");
    matches!(by_path::stat(lock.as_ref()), Ok(Some(_)))
}

fn is_main(repo: &Repository) -> bool {
    repo.git_dir() == repo.common_dir()
}

/// Returns the first name of the series of a linked worktree.
fn first_name(git_dir: &Path) -> BString {
    let id = git_dir.file_name().unwrap_or_default();
    text!(LINKED, refname::sanitized(id.as_bytes().as_bstr()))
}

/// Returns the series that the file in a Git directory names. A file that was copied from another
/// Git directory names none.
fn read_name(git_dir: &Path) -> Result<Option<BString>, Error> {
    let path = git_dir.join(FILE);
    let content = by_path::read(&path).map_err(Error::cannot_open(&path))?;
    let name = content.map(|content| BString::from(content.trim_end()));
    let first = first_name(git_dir);
    let is_valid = |name: &BString| {
        let generation = match name.strip_prefix(first.as_slice()) {
            Some(b"") => Some(1),
            rest => rest.and_then(|rest| rest.strip_prefix(b"-")).and_then(number),
        };
        generation.is_some() && refname::check(text!(CHECKPOINTS, name).as_bstr(), Levels::One).is_ok()
    };
    Ok(name.filter(is_valid))
}

/// Parses a number that is written as sapwood writes it.
fn number(text: &[u8]) -> Option<u64> {
    let number: u64 = text.to_str().ok()?.parse().ok()?;
    (number.to_string().as_bytes() == text && (1..LAST).contains(&number)).then_some(number)
}

/// Lists the refs below a prefix. Broken ones have the null name.
fn refs_below(repo: &Repository, prefix: &BStr) -> Result<Vec<(BString, ObjectId)>, Error> {
    let mut all = Vec::new();
    let _flow = repo.each_ref(ListScope::Below(prefix), None, |listed| {
        all.push((listed.name.to_owned(), listed.id));
        Ok::<_, Error>(ControlFlow::Continue(()))
    })?;
    Ok(all)
}

/// Lists the entries of a series.
fn entries(repo: &Repository, name: &BStr) -> Result<BTreeMap<u64, ObjectId>, Error> {
    let prefix = text!(CHECKPOINTS, name, "/");
    let found = refs_below(repo, prefix.as_bstr())?.into_iter();
    Ok(found.filter_map(|(full, oid)| Some((number(full.strip_prefix(prefix.as_slice())?)?, oid))).collect())
}

/// Gives a linked worktree a series that no other worktree has, and none with entries had. Removes
/// expired entries of worktrees that are gone.
fn begin(context: Context<'_>, options: &store::refs::Options, limits: &Limits) -> Result<BString, Error> {
    let repo = context.repo;
    let _lock = lock_names(context)?;
    // Another process may have begun meanwhile.
    if let Some(name) = read_name(repo.git_dir())? {
        return Ok(name);
    }
    let live = live(repo)?;
    let entries = numbered(repo)?;
    let used: HashSet<&BString> = entries.iter().map(|(series, ..)| series).chain(&live).collect();
    let first = first_name(repo.git_dir());
    let candidates = (1..).map(|number| match number {
        1 => first.clone(),
        number => text!(first, "-", u64::to_string(&number)),
    });
    let mut free = candidates.filter(|name| !used.contains(name));
    let name = free.next().expect("there are more numbers than refs");
    let path = repo.git_dir().join(FILE);
    record::clear_stale_lock(&path);
    let mut lock = store::Lock::take(&path, &context.settings.locks)?;
    lock.write(&text!(name, "\n"))?;
    lock.commit_synced(&options.fsync, store::Components::REFERENCE)?;
    expire_of_gone(context, limits, &live, entries)?;
    Ok(name)
}

/// Waits for the lock under which series get their names. The kernel releases it if the process is
/// killed.
fn lock_names(context: Context<'_>) -> Result<File, Error> {
    let shared = context.settings.locks.shared;
    let dir = context.repo.common_dir().join(LOCK_DIRECTORY);
    match shared.create_dir_all(&dir) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(Error::cannot_open(&dir)(error));
        }
        _ => {}
    }
    let path = dir.join(LOCK);
    let locked = by_path::lock_file(&path, shared.file_mode(0o666)).and_then(|file| {
        shared.adjust_file(&file)?;
        sys::lock(&file)?;
        Ok(file)
    });
    locked.map_err(Error::cannot_open(&path))
}

/// Returns the names of the series of all linked worktrees.
fn live(repo: &Repository) -> Result<HashSet<BString>, Error> {
    let linked = repo.worktrees()?.into_iter().filter(|worktree| worktree.id.is_some());
    let names = linked.filter_map(|worktree| read_name(&worktree.git_dir).transpose());
    names.collect()
}

/// Returns all entries of linked worktrees: series, number and tree.
fn numbered(repo: &Repository) -> Result<Vec<(BString, BString, ObjectId)>, Error> {
    let all = refs_below(repo, text!(CHECKPOINTS, LINKED).as_bstr())?;
    let parts = |(full, oid): (BString, ObjectId)| {
        let (series, _) = full.strip_prefix(CHECKPOINTS.as_bytes())?.rsplit_once_str("/")?;
        Some((BString::from(series), full, oid))
    };
    Ok(all.into_iter().filter_map(parts).collect())
}

/// Removes the expired entries of worktrees that are gone.
fn expire_of_gone(
    context: Context<'_>,
    limits: &Limits,
    live: &HashSet<BString>,
    entries: Vec<(BString, BString, ObjectId)>,
) -> Result<(), Error> {
    let repo = context.repo;
    let Some(before) = limits.before else { return Ok(()) };
    let gone = entries.into_iter().filter(|(series, ..)| !live.contains(series));
    let is_old = |tree: ObjectId| {
        if tree.is_null() {
            return false;
        }
        let info = checkpoint::read(repo, tree).ok().and_then(|(_, info)| Info::decode(repo.hash(), &info));
        info.is_some_and(|info| info.time < before)
    };
    let old = gone.take(READ_FOR_EXPIRY).filter(|(_, _, tree)| is_old(*tree));
    delete(context, old.map(|(_, name, tree)| (name, tree)))
}
