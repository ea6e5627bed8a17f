//! The order of pairs: by the patterns of a file (`-O`), then rotated to a path (`--rotate-to`,
//! `--skip-to`).

use std::{io::Read as _, path::PathBuf};

use bstr::{BStr, ByteSlice as _};
use engine::diff::Pair;
use format::wildmatch::{Mode, wildmatch};
use repo::Repository;
use sys::{UserPath, by_path};

use super::{FirstPath, Presence, Request};
use crate::{Error, text};

/// Puts `pairs` into the requested order. Without pairs, reads no file and reports no missing path.
pub(super) fn arrange(repo: &Repository, request: &Request, pairs: &mut Vec<Pair>) -> Result<(), Error> {
    if pairs.is_empty() {
        return Ok(());
    }
    let file = request.order_files.iter().rev().find(|(file, presence)| {
        *presence == Presence::Needed
            || !place_of(repo, request, file.as_bstr())
                .is_ok_and(|path| matches!(by_path::stat_followed(&path), Ok(None)))
    });
    if let Some((file, _)) = file {
        let content = read(repo, request, file.as_bstr())?;
        let patterns: Vec<&[u8]> = patterns(&content).collect();
        pairs.sort_by_cached_key(|pair| place(&patterns, pair.path.as_bstr()));
    }
    if let Some((from, path)) = &request.from {
        let Some(at) = pairs.iter().position(|pair| pair.path == *path) else {
            return Err(Error::Failed(text!("No such path '", path, "' in the diff")));
        };
        pairs.rotate_left(at);
        if *from == FirstPath::Skip {
            pairs.truncate(pairs.len() - at);
        }
    }
    Ok(())
}

/// Git works at the root of the worktree and names the file from there. `-` is a file, not standard
/// input.
fn prefix<'a>(repo: &'a Repository, file: &BStr) -> &'a BStr {
    if file.starts_with(b"/") || file == "-" { BStr::new("") } else { repo.prefix() }
}

/// Returns the path of a file with patterns.
fn place_of(repo: &Repository, request: &Request, file: &BStr) -> Result<PathBuf, sys::Refused> {
    match repo.work_tree() {
        Some(top) if !request.cached || file == "-" => {
            UserPath::new(&text!(prefix(repo, file), file)).resolve(top)
        }
        _ => UserPath::new(file).resolve(repo.cwd()),
    }
}

fn read(repo: &Repository, request: &Request, file: &BStr) -> Result<Vec<u8>, Error> {
    let mut content = Vec::new();
    let opened = place_of(repo, request, file).map_err(Into::into).and_then(|path| by_path::open(&path));
    opened.and_then(|mut file| file.read_to_end(&mut content)).map_err(|error| {
        let name = text!(prefix(repo, file), file);
        Error::Failed(text!("failed to read orderfile '", name, "': ", sys::reason(&error)))
    })?;
    Ok(content)
}

/// Returns the patterns, one per line, without empty lines and comments.
fn patterns(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = content.split(|&byte| byte == b'\n');
    let kept = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"));
    kept.map(|line| line.split(|&byte| byte == 0).next().unwrap_or_default())
}

/// Returns the index of the first pattern that matches a path or one of its parent directories.
fn place(patterns: &[&[u8]], path: &BStr) -> usize {
    let is_match = |pattern: &&[u8]| {
        let slashes = path.rfind_iter(b"/");
        let ends = std::iter::once(path.len()).chain(slashes);
        ends.into_iter().any(|end| wildmatch(pattern, &path[..end], Mode::default()))
    };
    patterns.iter().position(is_match).unwrap_or(patterns.len())
}
