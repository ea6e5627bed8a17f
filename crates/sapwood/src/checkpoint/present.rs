//! The present state of a worktree, stored as objects that are not published yet.

use std::time::{SystemTime, UNIX_EPOCH};

use bstr::BString;
use engine::checkpoint::{self, Scope, Snapshot, State};
use format::{ObjectId, index::Index};
use repo::Head;
use store::objects::{ObjectTransaction, PackOnAdd};
use sys::Dir;

use super::info::{Info, Kind, Place};
use crate::{Context, Error};

/// With this number of objects, an entry is written as a pack. A pack costs three flushes: its
/// file, its index and the directory. A loose object costs two.
const PACK_FROM: usize = 2;

/// The present state. Its objects are staged.
pub(super) struct Present<'a> {
    context: Context<'a>,
    objects: ObjectTransaction<'a>,
    head: Head,
    pub(super) snapshot: Snapshot,
}

impl<'a> Present<'a> {
    /// Stores the state, and the ignored files `also`. `index` is full, and its monitor was
    /// queried. Afterwards it has the content of the worktree.
    pub(super) fn take(
        context: Context<'a>,
        root: &Dir,
        index: &mut Index,
        also: &[BString],
    ) -> Result<Present<'a>, Error> {
        let head = context.repo.head()?;
        let objects = transaction(context);
        let big_file_threshold = context.settings.big_file_threshold;
        let scope = Scope { also, big_file_threshold, interrupt: context.interrupt };
        let snapshot = checkpoint::snapshot(context.repo, root, index, &scope, &objects)?;
        Ok(Present { context, objects, head, snapshot })
    }

    /// Returns the facts about an entry that is made now.
    pub(super) fn info(&self, kind: Kind, place: Place, command: &BString) -> Info {
        Info {
            time: now(),
            kind,
            place,
            head: self.head.oid(),
            branch: self.head.branch().map(ToOwned::to_owned),
            command: command.clone(),
            label: BString::default(),
        }
    }

    /// Stages the tree of an entry.
    pub(super) fn entry(&self, state: &State, info: &Info) -> Result<ObjectId, Error> {
        Ok(checkpoint::write(self.context.repo, &self.objects, state, &info.encode())?)
    }

    /// Makes the objects visible, and durable if the policy says so.
    pub(super) fn publish(self) -> Result<Snapshot, Error> {
        self.objects.publish()?;
        Ok(self.snapshot)
    }
}

/// Writes the tree of an entry whose other objects are published.
pub(super) fn write(context: Context<'_>, state: &State, info: &Info) -> Result<ObjectId, Error> {
    let objects = transaction(context);
    let tree = checkpoint::write(context.repo, &objects, state, &info.encode())?;
    objects.publish()?;
    Ok(tree)
}

fn transaction(context: Context<'_>) -> ObjectTransaction<'_> {
    let mut options = context.settings.objects(context.repo);
    if options.pack_on_add == PackOnAdd::Auto {
        options.pack_on_add = PackOnAdd::From(PACK_FROM);
        // A fourth flush for each entry. Readers of a small pack compute its content at once, and
        // the pack into which small ones are folded gets the file again.
        options.reverse_index = false;
    }
    ObjectTransaction::new(options)
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
