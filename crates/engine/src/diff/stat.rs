//! The size of differences in lines, as `--shortstat` counts it.

use bstr::BStr;
use format::Mode;
use repo::{
    Repository,
    attributes::{Attributes, Source, Value},
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

/// Git looks for a NUL in so many bytes.
const EXAMINED: usize = 8000;

/// A side of a pair.
enum Content {
    Text(Vec<u8>),
    Binary,
}

/// Counts the lines of `pairs`, all of whose sides have names. Attributes come from `index` where
/// the worktree has none. Files of more than `big` bytes are not text. `None`: an attribute asks
/// for rules that are not known here.
pub fn count(
    repo: &Repository,
    index: &format::index::Index,
    pairs: &[Pair],
    big: u64,
) -> Result<Option<Stat>, LookError> {
    let names = ["diff".into()];
    let mut attributes = Attributes::new(repo, index, Source::Worktree, &names, "info/attributes".into())?;
    let mut reader = repo.objects().reader();
    let mut stat = Stat::default();
    for pair in pairs.iter().filter(|pair| pair.status != Status::Unmerged) {
        stat.files += 1;
        if pair.old.map(|side| side.oid) == pair.new.map(|side| side.oid) {
            continue;
        }
        let mut sides = [Content::Text(Vec::new()), Content::Text(Vec::new())];
        let paths = [pair.source.as_ref().unwrap_or(&pair.path), &pair.path];
        for (number, side) in [pair.old, pair.new].into_iter().enumerate() {
            let Some(side) = side else { continue };
            attributes.look_up(paths[number].as_ref());
            let is_text = match attributes.value("diff".into()) {
                Value::Set => Some(true),
                Value::Unset => Some(false),
                Value::Unspecified => None,
                Value::Text(driver) if is_plain(repo, driver) => None,
                Value::Text(_) => return Ok(None),
            };
            sides[number] = read(&mut reader, side, is_text, big)?;
        }
        let [Content::Text(old), Content::Text(new)] = sides else { continue };
        let (removed, added) = super::lines::count_changes(&old, &new);
        stat.removed += removed;
        stat.added += added;
    }
    Ok(Some(stat))
}

/// Returns true if a driver changes nothing of what is counted here.
fn is_plain(repo: &Repository, driver: &BStr) -> bool {
    let is_set = |key: &str| repo.config_str(&format!("diff.{driver}.{key}")).is_some();
    !is_set("binary") && !is_set("algorithm")
}

fn read(reader: &mut Reader<'_>, side: Side, is_text: Option<bool>, big: u64) -> Result<Content, LookError> {
    let oid = side.oid.expect("the caller compares what has names");
    if side.mode == Mode::GITLINK {
        return Ok(Content::Text(format!("Subproject commit {oid}\n").into_bytes()));
    }
    if is_text == Some(false) || is_text.is_none() && reader.header(&oid)?.1 > big {
        return Ok(Content::Binary);
    }
    let (_, content) = reader.read(&oid)?;
    let is_binary = is_text.is_none() && content[..content.len().min(EXAMINED)].contains(&0);
    Ok(if is_binary { Content::Binary } else { Content::Text(content.to_vec()) })
}
