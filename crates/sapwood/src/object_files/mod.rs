//! The files of the object directory: [`count`] counts them, and [`prune_packed`] removes loose
//! objects that packs also contain.

pub mod count;
mod packs;
pub mod prune_packed;

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
};

use format::ObjectId;
use repo::Repository;
use sys::by_path;

use crate::{Events, Notice};

/// A file in a directory of loose objects.
struct Found {
    /// Its object, if its name is that of one.
    object: Option<ObjectId>,
    path: PathBuf,
    /// Its path in messages.
    shown: PathBuf,
}

/// Returns the numbers of the directories of loose objects that exist, in order. A small repository
/// has a few of the 256, and each missing one would cost a call.
fn directories(repo: &Repository) -> Vec<u8> {
    let all = 0..=u8::MAX;
    match by_path::list(repo.objects_dir()) {
        Ok(entries) => {
            let names: BTreeSet<OsString> = entries.into_iter().map(|(name, _)| name).collect();
            all.filter(|number| names.contains(OsStr::new(&format!("{number:02x}")))).collect()
        }
        // A directory that cannot be listed may have others that can.
        Err(_) => all.collect(),
    }
}

/// Returns the files in the directory of loose objects `number`. `None` if it cannot be listed,
/// which is reported.
fn loose(repo: &Repository, shown: &Path, number: u8, events: &dyn Events) -> Option<Vec<Found>> {
    let name = format!("{number:02x}");
    let dir = repo.objects_dir().join(&name);
    let shown = shown.join(&name);
    let files = match by_path::list(&dir) {
        Ok(files) => files,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(Vec::new()),
        Err(error) => {
            let reason = sys::reason(&error);
            let unreadable = format!("unable to open {}: {reason}", shown.display());
            events.notice(Notice::UnreadableObjects(unreadable));
            return None;
        }
    };
    let hash = repo.hash();
    let found = |file: OsString| {
        let hex = [name.as_bytes(), file.as_encoded_bytes()].concat();
        let object = ObjectId::from_hex(hash, &hex).filter(|_| hex.len() == hash.hex_len());
        Found { object, path: dir.join(&file), shown: shown.join(&file) }
    };
    Some(files.into_iter().map(|(file, _)| found(file)).collect())
}
