//! The facts about an entry: the blob `info`.
//!
//! Lines `<name> SP <value> LF`, an empty line, and the label to the end. Unknown names are
//! ignored.

use bstr::{BString, ByteSlice as _};
use format::{HashKind, ObjectId};

use crate::text;

/// The version of the format.
const VERSION: &str = "1";

/// How an entry came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It was asked for.
    Checkpoint,
    /// An undo or redo has stored the state that it was about to leave.
    Left,
    /// The state that an undo reached.
    Undo,
    /// The state that a redo reached.
    Redo,
    /// The start of a fork.
    Fork,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Checkpoint, Kind::Left, Kind::Undo, Kind::Redo, Kind::Fork];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Checkpoint => "checkpoint",
            Kind::Left => "left",
            Kind::Undo => "undo",
            Kind::Redo => "redo",
            Kind::Fork => "fork",
        }
    }
}

/// The place of an entry in the history that undo and redo walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A new state, which follows `parent`.
    New {
        /// The entry before it, if there is one.
        parent: Option<u64>,
    },
    /// The state of an earlier entry.
    At {
        /// That entry.
        shows: u64,
        /// The last entry of the way that a redo goes.
        tip: u64,
    },
}

/// The facts about an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// When it was made, in seconds since 1970.
    pub time: i64,
    /// How it came about.
    pub kind: Kind,
    /// Its place in the history.
    pub place: Place,
    /// The commit of HEAD; `None` for an unborn branch.
    pub head: Option<ObjectId>,
    /// The branch of HEAD by its full name; `None` if HEAD was detached.
    pub branch: Option<BString>,
    /// The command that made it.
    pub command: BString,
    /// The text of the user.
    pub label: BString,
}

impl Info {
    /// Returns the content of the blob.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut lines = text!("version ", VERSION, "\ntime ", self.time.to_string());
        let mut line = |name: &str, value: &[u8]| lines.extend_from_slice(&text!("\n", name, " ", value));
        line("kind", self.kind.name().as_bytes());
        match self.place {
            Place::New { parent: Some(parent) } => line("parent", parent.to_string().as_bytes()),
            Place::New { parent: None } => {}
            Place::At { shows, tip } => {
                line("shows", shows.to_string().as_bytes());
                line("tip", tip.to_string().as_bytes());
            }
        }
        if let Some(head) = self.head {
            line("head", head.to_string().as_bytes());
        }
        if let Some(branch) = &self.branch {
            line("branch", branch);
        }
        line("command", &self.command.replace("\n", " "));
        lines.extend_from_slice(&text!("\n\n", self.label));
        lines.into()
    }

    /// Returns the version of a blob if a later sapwood wrote it.
    pub(super) fn newer_version(blob: &[u8]) -> Option<u64> {
        let version = value(blob.split_once_str("\n\n")?.0, "version")?;
        let version = version.to_str().ok()?.parse().ok()?;
        (Some(version) > VERSION.parse().ok()).then_some(version)
    }

    /// Returns the facts of a blob; `None` if it is damaged, or of another version.
    pub(super) fn decode(hash: HashKind, blob: &[u8]) -> Option<Info> {
        let (lines, label) = blob.split_once_str("\n\n")?;
        let value = |name: &str| value(lines, name);
        let number = |name: &str| value(name)?.to_str().ok()?.parse().ok();
        if value("version")? != VERSION.as_bytes() {
            return None;
        }
        let kind = value("kind")?;
        let place = match number("shows") {
            Some(shows) => Place::At { shows, tip: number("tip")? },
            None => Place::New { parent: number("parent") },
        };
        Some(Info {
            time: value("time")?.to_str().ok()?.parse().ok()?,
            kind: Kind::ALL.into_iter().find(|one| one.name().as_bytes() == kind)?,
            place,
            head: value("head").and_then(|hex| ObjectId::from_hex(hash, hex)),
            branch: value("branch").map(BString::from),
            command: value("command").unwrap_or_default().into(),
            label: label.into(),
        })
    }
}

/// Returns the value on the line with this name.
fn value<'l>(lines: &'l [u8], name: &str) -> Option<&'l [u8]> {
    let mut pairs = lines.lines().filter_map(|line| line.split_once_str(" "));
    pairs.find(|(found, _)| *found == name.as_bytes()).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_version_is_recognized() {
        let newer = |blob: &str| Info::newer_version(blob.as_bytes());
        assert_eq!(newer("version 2\ntime soon\n\n"), Some(2));
        assert_eq!([newer("version 1\ntime 1\n\n"), newer("version x\n\n"), newer("")], [None; 3]);
    }

    #[test]
    fn info_is_read_as_it_was_written() {
        let hash = HashKind::Sha1;
        let first = Info {
            time: 1_700_000_000,
            kind: Kind::Checkpoint,
            place: Place::New { parent: None },
            head: None,
            branch: Some("refs/heads/main".into()),
            command: "sapwood checkpoint".into(),
            label: "two\n\nparagraphs\n".into(),
        };
        let moved = Info {
            kind: Kind::Undo,
            place: Place::At { shows: 3, tip: 7 },
            head: Some(ObjectId::empty_blob(hash)),
            branch: None,
            label: BString::default(),
            ..first.clone()
        };
        let later = Info { place: Place::New { parent: Some(2) }, ..moved.clone() };
        for info in [first, moved, later] {
            assert_eq!(Info::decode(hash, &info.encode()), Some(info));
        }
    }

    #[test]
    fn damaged_info_is_no_info() {
        for blob in [
            "",
            "\n\n",
            "version 1\n\n",
            "version 2\ntime 1\nkind undo\n\n",
            "version 1\ntime x\nkind undo\n\n",
        ] {
            assert_eq!(Info::decode(HashKind::Sha1, blob.as_bytes()), None, "{blob:?}");
        }
    }
}
