//! The files of the object directory: [`count`] counts them, and [`prune_packed`] removes loose
//! objects that packs also contain.

pub mod count;
mod dir;
mod packs;
pub mod prune_packed;

use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
};

use format::ObjectId;
use repo::Repository;
use sys::by_path;

pub use self::dir::ObjectDir;
use crate::{Events, Notice};

/// A directory of loose objects.
struct Loose {
    dir: PathBuf,
    /// Its path in messages.
    shown: PathBuf,
    files: Vec<Found>,
}

/// A file in a directory of loose objects.
struct Found {
    /// Its object, if its name is that of one.
    object: Option<ObjectId>,
    name: OsString,
}

/// Returns the numbers of the directories of loose objects that exist, in order. A small repository
/// has a few of the 256, and each missing one would cost a call.
fn directories(repo: &Repository) -> Vec<u8> {
    let number = |name: &OsStr| match name.as_encoded_bytes() {
        [high, low] => Some(nibble(*high)? << 4 | nibble(*low)?),
        _ => None,
    };
    match by_path::list(repo.objects_dir()) {
        Ok(entries) => {
            let mut numbers: Vec<u8> = entries.iter().filter_map(|(name, _)| number(name)).collect();
            numbers.sort_unstable();
            numbers
        }
        // A directory that cannot be listed may have others that can.
        Err(_) => (0..=u8::MAX).collect(),
    }
}

/// Returns the value of a digit, as names of directories spell it: in lower case.
fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// Returns the directory of loose objects `number`. `None` if it cannot be listed, which is
/// reported.
fn loose(repo: &Repository, shown: &Path, number: u8, events: &dyn Events) -> Option<Loose> {
    let name = format!("{number:02x}");
    let (dir, shown) = (repo.objects_dir().join(&name), shown.join(&name));
    let names = match by_path::list(&dir) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            let reason = sys::reason(&error);
            let unreadable = format!("unable to open {}: {reason}", shown.display());
            events.notice(Notice::UnreadableObjects(unreadable));
            return None;
        }
    };
    let hash = repo.hash();
    let mut hex = name.into_bytes();
    let mut found = |name: OsString| {
        hex.truncate(2);
        hex.extend_from_slice(name.as_encoded_bytes());
        let object = ObjectId::from_hex(hash, &hex).filter(|_| hex.len() == hash.hex_len());
        Found { object, name }
    };
    let files = names.into_iter().map(|(name, _)| found(name)).collect();
    Some(Loose { dir, shown, files })
}
