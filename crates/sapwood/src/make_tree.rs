//! A tree from a list of entries.
//!
//! Planning checks that names, modes, kinds and objects fit together. The run writes the tree, and
//! publishes it before its name is returned.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, make_tree::{self, Entry, Kind, Request}};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let oid = repository.resolve("HEAD:file")?;
//! let entries = vec![Entry { mode: 0o100644, kind: Kind::Blob, name: "file".into(), oid }];
//! let plan = make_tree::plan(&repository, Request { entries, allow_missing: false })?;
//! println!("{}", plan.run(&Silent)?.tree);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;

use bstr::BString;
pub use format::loose::Kind;
use format::{Mode, ObjectId};
use repo::Repository as Inner;
use store::objects::ObjectTransaction;

use crate::{Context, Error, Events, PlanError, Repository, RunError, new_commit, text};

/// An entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its mode.
    pub mode: u32,
    /// The kind of its object.
    pub kind: Kind,
    /// Its name, without slashes.
    pub name: BString,
    /// Its object.
    pub oid: ObjectId,
}

impl Entry {
    /// Returns the sort key of the entry: a directory sorts as if its name ended in a slash.
    fn order(&self) -> BString {
        if self.kind == Kind::Tree { text!(self.name, "/") } else { self.name.clone() }
    }

    /// Returns an error if name, mode, kind and object do not fit together. With `allow_missing`,
    /// the object need not exist.
    pub fn check(&self, repo: &Inner, allow_missing: bool) -> Result<(), Error> {
        let Entry { mode, kind, name, oid } = self;
        let of_mode = match mode & 0o170000 {
            0o040000 => Kind::Tree,
            0o160000 => Kind::Commit,
            _ => Kind::Blob,
        };
        let wrong = |what: BString| Err(Error::Failed(text!("entry '", name, "' object ", what)));
        if of_mode != *kind {
            return wrong(format!("type ({kind}) doesn't match mode type ({of_mode})").into());
        }
        let objects = repo.objects();
        let found = if objects.contains(oid) { Some(objects.header(oid)?.0) } else { None };
        match found {
            None if !allow_missing && !Mode::from_raw(*mode).is_gitlink() => {
                wrong(format!("{oid} is unavailable").into())
            }
            Some(found) if found != of_mode => {
                wrong(format!("{oid} is a {found} but specified type was ({of_mode})").into())
            }
            _ if name.contains(&b'/') => Err(Error::Failed(text!("path ", name, " contains slash"))),
            _ => Ok(()),
        }
    }
}

/// The entries.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The entries, in any order.
    pub entries: Vec<Entry>,
    /// The objects need not exist.
    pub allow_missing: bool,
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The name of the tree.
    pub tree: ObjectId,
}

/// A tree to write.
pub struct Plan<'r> {
    repository: &'r Repository,
    entries: Vec<Entry>,
}

/// Checks the entries. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let Request { entries, allow_missing } = request;
    entries.iter().try_for_each(|entry| entry.check(&repository.inner, allow_missing))?;
    Ok(Plan { repository, entries })
}

impl Plan<'_> {
    /// Writes the tree.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let tree = write(self.repository.recording_context(events), self.entries)?;
        Ok(Report { tree })
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "write a tree of {} entries", self.entries.len())
    }
}

/// Writes the tree of entries that were checked. Returns its name.
pub fn write(context: Context<'_>, mut entries: Vec<Entry>) -> Result<ObjectId, Error> {
    entries.sort_by_cached_key(Entry::order);
    let mut content = Vec::new();
    for Entry { mode, name, oid, .. } in entries {
        content.extend_from_slice(format!("{mode:o} ").as_bytes());
        content.extend_from_slice(&name);
        content.push(0);
        content.extend_from_slice(oid.as_bytes());
    }
    let objects = ObjectTransaction::new(context.settings.objects(context.repo));
    let oid = new_commit::record(context.repo, &objects, Kind::Tree, &content)?;
    objects.publish()?;
    Ok(oid)
}
