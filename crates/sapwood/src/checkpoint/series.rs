//! The entries of one worktree: `refs/sapwood/checkpoints/<series>/<number>`.
//!
//! The series of the main worktree is `main`. That of a linked one is `worktrees/<id>`, or with a
//! number after it if an earlier worktree of that name has left entries. The file
//! `sapwood-checkpoints` in the worktree's Git directory names it.

use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    checkpoint::{self, State},
    worktree::prune::Expire,
};
use format::{
    ObjectId,
    refname::{self, Levels},
};
use repo::{Repository, keys};
use store::refs::{Change, Edit, Expected, Failures, Logged, NewLog, Old, RefTransaction};
use sys::by_path;

use super::info::{Info, Kind, Place};
use crate::{
    Context, Error, Notice,
    settings::{self, expiry::expire_date},
    text,
};

/// All entries.
const CHECKPOINTS: &str = "refs/sapwood/checkpoints/";

/// The series of the main worktree.
const MAIN: &str = "main";

/// The series of linked worktrees.
const LINKED: &str = "worktrees/";

/// The file that names the series of a linked worktree.
const FILE: &str = "sapwood-checkpoints";

/// The number of entries that one run reads to find expired ones.
const READ_FOR_EXPIRY: usize = 256;

/// The number of times that a new entry gets another number, because another process took it.
const ATTEMPTS: usize = 20;

/// The entries of a worktree.
#[derive(Debug)]
pub(super) struct Series {
    /// Its name; `None` if the worktree has no entry yet.
    name: Option<BString>,
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
        self.next = newest.map_or(1, |newest| newest.saturating_add(1));
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

    /// Reads the newest entry, if there is one.
    pub(super) fn newest(&self, repo: &Repository) -> Result<Option<Entry>, Error> {
        self.numbers().next_back().map(|newest| self.read(repo, newest)).transpose()
    }

    /// Reads an entry.
    pub(super) fn read(&self, repo: &Repository, number: u64) -> Result<Entry, Error> {
        let tree = *self.entries.get(&number).ok_or(Error::NoCheckpoint(number))?;
        let (state, info) = checkpoint::read(repo, tree)?;
        let damaged = || Error::Checkpoint(checkpoint::Error::NoEntry(tree));
        let info = Info::decode(repo.hash(), &info).ok_or_else(damaged)?;
        Ok(Entry { number, tree, info, state })
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
    ) -> Result<u64, Error> {
        let options = options(context, info.time)?;
        if self.name.is_none() {
            self.name = Some(begin(context, &options)?);
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
                    self.next = number.saturating_add(1);
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

    /// Removes the entries that are too many or too old, except the newest one, `saved`, and the
    /// one at which the way of redo ends: the work before an undo must not be lost by it.
    pub(super) fn expire(&mut self, context: Context<'_>, saved: Option<u64>) -> Result<(), Error> {
        let keep = keep(context.repo)?;
        let limit = expiry(context.repo)?;
        let mut doomed: Vec<u64> = self.numbers().collect();
        doomed.pop();
        let surplus = (doomed.len() + 1).saturating_sub(keep);
        let is_old = |number: &u64| {
            let entry = self.read(context.repo, *number);
            limit.is_some_and(|limit| entry.is_ok_and(|entry| entry.info.time < limit))
        };
        let old =
            doomed.iter().skip(surplus).take(READ_FOR_EXPIRY).take_while(|number| is_old(number)).count();
        doomed.truncate(surplus + old);
        if doomed.is_empty() {
            return Ok(());
        }
        let tip = self.newest(context.repo)?.map(|newest| newest.tip());
        doomed.retain(|number| Some(*number) != tip && Some(*number) != saved);
        let deletion = |number: &u64| Change::Delete {
            name: self.name_of(*number),
            expected: self.entries.get(number).map_or(Expected::Any, |oid| Expected::Is(*oid)),
        };
        delete(context, doomed.iter().map(deletion).collect())?;
        doomed.iter().for_each(|number| {
            self.entries.remove(number);
        });
        Ok(())
    }
}

/// Returns the options for the refs of entries. Their reflogs name no user, so an entry needs no
/// identity, and have the real time, which decides when `gc` removes a line.
fn options(context: Context<'_>, time: i64) -> Result<store::refs::Options, Error> {
    let committer = Ok(text!("sapwood <sapwood@localhost> ", time.to_string(), " +0000"));
    Ok(store::refs::Options { committer, ..context.settings.refs_with_hook(context.repo)? })
}

/// Removes refs. If that fails, they stay, and the next run tries again.
fn delete(context: Context<'_>, changes: Vec<Change>) -> Result<(), Error> {
    if changes.is_empty() {
        return Ok(());
    }
    let options = context.settings.refs_with_hook(context.repo)?;
    if let Err(error) = store::refs::apply(&options, changes) {
        context.events.notice(Notice::CheckpointsStay(error.to_string()));
    }
    Ok(())
}

fn is_main(repo: &Repository) -> bool {
    repo.git_dir() == repo.common_dir()
}

/// Returns the series that the file in a Git directory names.
fn read_name(git_dir: &Path) -> Result<Option<BString>, Error> {
    let path = git_dir.join(FILE);
    let content = by_path::read(&path).map_err(Error::cannot_open(&path))?;
    let name = content.map(|content| BString::from(content.trim_end()));
    let is_valid = |name: &BString| {
        let full = text!(CHECKPOINTS, name);
        name.starts_with_str(LINKED) && refname::check(full.as_bstr(), Levels::One).is_ok()
    };
    Ok(name.filter(is_valid))
}

/// Lists the entries of a series.
fn entries(repo: &Repository, name: &BStr) -> Result<BTreeMap<u64, ObjectId>, Error> {
    let prefix = text!(CHECKPOINTS, name, "/");
    let number = |full: &BString| full.strip_prefix(prefix.as_slice())?.to_str().ok()?.parse().ok();
    let found = repo.refs(&prefix.to_str_lossy())?;
    Ok(found
        .into_iter()
        .filter(|(_, oid)| !oid.is_null())
        .filter_map(|(full, oid)| Some((number(&full)?, oid)))
        .collect())
}

/// Gives a linked worktree a series, which no other worktree ever had. Removes expired entries of
/// worktrees that are gone.
fn begin(context: Context<'_>, options: &store::refs::Options) -> Result<BString, Error> {
    let repo = context.repo;
    let id = repo.git_dir().file_name().unwrap_or_default();
    let id = refname::sanitized(id.as_encoded_bytes().as_bstr());
    let used: HashSet<BString> = numbered(repo)?.into_iter().map(|(series, ..)| series).collect();
    let candidates = (1..).map(|number| match number {
        1 => text!(LINKED, id),
        number => text!(LINKED, id, "-", u64::to_string(&number)),
    });
    let mut free = candidates.filter(|name| !used.contains(name));
    let name = free.next().expect("there are more numbers than refs");
    let path = repo.git_dir().join(FILE);
    let mut lock = store::Lock::take(&path, &context.settings.locks)?;
    // Another process may have begun meanwhile.
    if let Some(name) = read_name(repo.git_dir())? {
        return Ok(name);
    }
    lock.write(&text!(name, "\n"))?;
    lock.commit_synced(&options.fsync, store::Components::REFERENCE)?;
    expire_of_gone(context)?;
    Ok(name)
}

/// Returns all entries of linked worktrees: series, number and tree.
fn numbered(repo: &Repository) -> Result<Vec<(BString, BString, ObjectId)>, Error> {
    let all = repo.refs(&format!("{CHECKPOINTS}{LINKED}"))?;
    let parts = |(full, oid): (BString, ObjectId)| {
        let (series, _) = full.strip_prefix(CHECKPOINTS.as_bytes())?.rsplit_once_str("/")?;
        Some((BString::from(series), full, oid))
    };
    Ok(all.into_iter().filter_map(parts).collect())
}

/// Removes the expired entries of worktrees that are gone.
fn expire_of_gone(context: Context<'_>) -> Result<(), Error> {
    let repo = context.repo;
    let Some(limit) = expiry(repo)? else { return Ok(()) };
    let mut live = HashSet::new();
    for worktree in repo.worktrees()? {
        live.extend(read_name(&worktree.git_dir)?);
    }
    let gone = numbered(repo)?.into_iter().filter(|(series, ..)| !live.contains(series));
    let is_old = |tree: ObjectId| {
        let info = checkpoint::read(repo, tree).ok().and_then(|(_, info)| Info::decode(repo.hash(), &info));
        info.is_some_and(|info| info.time < limit)
    };
    let old = gone.take(READ_FOR_EXPIRY).filter(|(_, _, tree)| is_old(*tree));
    let deletion = |(_, name, oid)| Change::Delete { name, expected: Expected::Is(oid) };
    delete(context, old.map(deletion).collect())
}

/// `sapwood.checkpointKeep`
fn keep(repo: &Repository) -> Result<usize, Error> {
    let key = keys::sapwood::CHECKPOINT_KEEP;
    let value = repo.config(&key)?;
    let bad = || settings::Error::Own {
        name: key.name(),
        value: value.to_string().into(),
        expected: "it is a number of entries, at least 1",
    };
    Ok(usize::try_from(value).ok().filter(|keep| *keep > 0).ok_or_else(bad)?)
}

/// `sapwood.checkpointExpire`: entries from before this time are removed. `None` if none are.
fn expiry(repo: &Repository) -> Result<Option<i64>, Error> {
    let key = keys::sapwood::CHECKPOINT_EXPIRE;
    let value = repo.config_text(&key);
    match expire_date(value.as_bstr()) {
        Some(Expire::At(0)) => Ok(None),
        Some(Expire::At(time)) => Ok(Some(time)),
        Some(Expire::Now) => Ok(Some(i64::MAX)),
        None => {
            let expected = "it is 'never', 'now', or a time such as '2.weeks.ago'";
            Err(settings::Error::Own { name: key.name(), value, expected }.into())
        }
    }
}
