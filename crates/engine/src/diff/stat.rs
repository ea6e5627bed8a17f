//! The size of differences in lines, as in `--shortstat`.

use bstr::BStr;
use format::Mode;
use repo::{
    Repository,
    attributes::{Attributes, Source, Value},
    keys,
    objects::Reader,
};

use super::{Pair, Side, Status};
use crate::look::LookError;

/// Files and lines that differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The number of files.
    pub files: usize,
    /// The number of lines that are added.
    pub added: usize,
    /// The number of lines that are removed.
    pub removed: usize,
}

/// The size of one difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Change {
    /// Numbers of lines.
    Lines { added: usize, removed: usize },
    /// The sizes of binary contents in bytes. Both are 0 if the sides are equal.
    Binary { old: u64, new: u64 },
}

/// The number of bytes that Git searches for a NUL to detect binary files.
const EXAMINED: usize = 8000;

/// A side of a pair.
enum Content {
    Text(Vec<u8>),
    Binary(u64),
}

impl Content {
    fn len(&self) -> u64 {
        match self {
            Content::Text(text) => text.len() as u64,
            Content::Binary(len) => *len,
        }
    }
}

/// Counts the lines of `pairs`, whose sides all have object names. Attributes come from `index`
/// where the worktree has none. Files of more than `big_file_threshold` bytes count as binary.
/// Returns `None` if an attribute selects a diff driver whose settings affect the counts, which is
/// not supported.
pub fn count(
    repo: &Repository,
    index: &format::index::Index,
    pairs: &[Pair],
    big_file_threshold: u64,
) -> Result<Option<Stat>, LookError> {
    let mut counter = Counter::new(repo, index, big_file_threshold)?;
    let mut stat = Stat::default();
    for pair in pairs.iter().filter(|pair| pair.status != Status::Unmerged) {
        stat.files += 1;
        if pair.old.map(|side| side.oid) == pair.new.map(|side| side.oid) {
            continue;
        }
        match counter.change(pair)? {
            None => return Ok(None),
            Some(Change::Binary { .. }) => {}
            Some(Change::Lines { added, removed }) => {
                stat.added += added;
                stat.removed += removed;
            }
        }
    }
    Ok(Some(stat))
}

/// Like [`count`], for each of `pairs`, none of which is unmerged.
pub fn each(
    repo: &Repository,
    index: &format::index::Index,
    pairs: &[Pair],
    big_file_threshold: u64,
) -> Result<Option<Vec<Change>>, LookError> {
    let mut counter = Counter::new(repo, index, big_file_threshold)?;
    pairs.iter().map(|pair| counter.change(pair)).collect()
}

struct Counter<'a> {
    repo: &'a Repository,
    attributes: Attributes<&'a Repository, &'a format::index::Index>,
    reader: Reader<'a>,
    big_file_threshold: u64,
}

impl<'a> Counter<'a> {
    fn new(
        repo: &'a Repository,
        index: &'a format::index::Index,
        big_file_threshold: u64,
    ) -> Result<Self, LookError> {
        let names = ["diff".into()];
        let attributes = Attributes::new(repo, index, Source::Worktree, &names, "info/attributes".into())?;
        Ok(Counter { repo, attributes, reader: repo.objects().reader(), big_file_threshold })
    }

    /// Returns the size of a pair's difference, or `None` if an attribute selects a diff driver
    /// whose settings affect it.
    fn change(&mut self, pair: &Pair) -> Result<Option<Change>, LookError> {
        let mut sides = [Content::Text(Vec::new()), Content::Text(Vec::new())];
        let paths = [pair.source.as_ref().unwrap_or(&pair.path), &pair.path];
        for (number, side) in [pair.old, pair.new].into_iter().enumerate() {
            let Some(side) = side else { continue };
            self.attributes.look_up(paths[number].as_ref());
            let is_text = match self.attributes.value("diff".into()) {
                Value::Set => Some(true),
                Value::Unset => Some(false),
                Value::Unspecified => None,
                Value::Text(driver) if is_plain(self.repo, driver) => None,
                Value::Text(_) => return Ok(None),
            };
            sides[number] = read(&mut self.reader, side, is_text, self.big_file_threshold)?;
        }
        let is_same = pair.old.map(|side| side.oid) == pair.new.map(|side| side.oid);
        Ok(Some(match &sides {
            [Content::Text(_), Content::Text(_)] if is_same => Change::Lines { added: 0, removed: 0 },
            [Content::Text(old), Content::Text(new)] => {
                let (removed, added) = super::lines::count_changes(old, new);
                Change::Lines { added, removed }
            }
            _ if is_same => Change::Binary { old: 0, new: 0 },
            [old, new] => Change::Binary { old: old.len(), new: new.len() },
        }))
    }
}

/// Returns true if a diff driver does not affect these counts.
fn is_plain(repo: &Repository, driver: &BStr) -> bool {
    repo.config_str(&keys::diff::DRIVER_BINARY.of(driver)).is_none()
        && repo.config_str(&keys::diff::DRIVER_ALGORITHM.of(driver)).is_none()
}

fn read(
    reader: &mut Reader<'_>,
    side: Side,
    is_text: Option<bool>,
    big_file_threshold: u64,
) -> Result<Content, LookError> {
    let oid = side.oid.expect("the caller compares what has names");
    if side.mode == Mode::GITLINK {
        return Ok(Content::Text(format!("Subproject commit {oid}\n").into_bytes()));
    }
    let len = reader.size(&oid)?;
    if is_text == Some(false) || is_text.is_none() && len > big_file_threshold {
        return Ok(Content::Binary(len));
    }
    let (_, content) = reader.read(&oid)?;
    let is_binary = is_text.is_none() && content[..content.len().min(EXAMINED)].contains(&0);
    Ok(if is_binary { Content::Binary(len) } else { Content::Text(content.to_vec()) })
}
