//! The order of pairs: by the patterns of a file (`-O`), then rotated to a path (`--rotate-to`,
//! `--skip-to`).

use std::{io::Read as _, path::PathBuf};

use bstr::{BStr, BString, ByteSlice as _};
use engine::diff::Pair;
use format::wildmatch::{Mode, wildmatch};
use repo::Repository;
use sapwood::UserPath;

use super::options::{FirstPath, Presence, Request};
use crate::{
    session::invocation::Invocation,
    term::{console::text, failure::Failure, text::os_error},
};

/// Puts `pairs` into the requested order. Without pairs, reads no file and reports no missing path.
pub(super) fn arrange(
    run: &Invocation,
    repo: &Repository,
    request: &Request,
    pairs: &mut Vec<Pair>,
) -> Result<(), Failure> {
    if pairs.is_empty() {
        return Ok(());
    }
    let file = request.order_files.iter().rev().find(|(file, presence)| {
        let (_, path) = place_of(run, repo, request, file.as_bstr());
        *presence == Presence::Needed
            || !path.is_ok_and(|path| matches!(sys::by_path::stat_followed(&path), Ok(None)))
    });
    if let Some((file, _)) = file {
        let content = read(run, repo, request, file.as_bstr())?;
        let patterns: Vec<&[u8]> = patterns(&content).collect();
        pairs.sort_by_cached_key(|pair| place(&patterns, pair.path.as_bstr()));
    }
    if let Some((from, path)) = &request.from {
        let Some(at) = pairs.iter().position(|pair| pair.path == *path) else {
            return Err(Failure::Fatal(text!("No such path '", path, "' in the diff")));
        };
        pairs.rotate_left(at);
        if *from == FirstPath::Skip {
            pairs.truncate(pairs.len() - at);
        }
    }
    Ok(())
}

/// Returns Git's name for a file of `-O`, and the file's path.
fn place_of(
    run: &Invocation,
    repo: &Repository,
    request: &Request,
    file: &BStr,
) -> (BString, Result<PathBuf, sys::Refused>) {
    // Git works at the root of the worktree and names the file from there. `-` is a file, not
    // standard input.
    let is_from_top = file.starts_with(b"/") || file == "-";
    let prefix = if is_from_top { BStr::new("") } else { repo.prefix() };
    let name = text!(prefix, file);
    let path = match repo.work_tree() {
        Some(top) if !request.cached || file == "-" => UserPath::new(&name).resolve(top),
        _ => UserPath::new(file).resolve(&run.cwd),
    };
    (name, path)
}

fn read(run: &Invocation, repo: &Repository, request: &Request, file: &BStr) -> Result<Vec<u8>, Failure> {
    let (name, path) = place_of(run, repo, request, file);
    let mut content = Vec::new();
    let opened = path.map_err(Into::into).and_then(|path| sys::by_path::open(&path));
    let read = opened.and_then(|mut file| file.read_to_end(&mut content));
    read.map_err(|error| Failure::Fatal(text!("failed to read orderfile '", name, "': ", os_error(&error))))?;
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
