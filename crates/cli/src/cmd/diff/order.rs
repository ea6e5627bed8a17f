//! In which order pairs are shown: by the patterns of a file (`-O`), then from a path on (`--rotate-to`, `--skip-to`).

use std::{ffi::OsStr, io::Read as _, os::unix::ffi::OsStrExt as _};

use bstr::{BStr, ByteSlice as _};
use engine::{diff::Pair, pathspec::wildmatch};
use repo::Repository;

use super::options::{From, Request};
use crate::{console::text, failure::Failure, global::Invocation, text::os_error};

/// Puts `pairs` into the order that was asked for. Where there are none, nothing is read and no path missed.
pub(super) fn arrange(
    run: &Invocation,
    repo: &Repository,
    request: &Request,
    pairs: &mut Vec<Pair>,
) -> Result<(), Failure> {
    if pairs.is_empty() {
        return Ok(());
    }
    if let Some(file) = &request.order_file {
        let content = read(run, repo, request, file.as_bstr())?;
        let patterns: Vec<&[u8]> = patterns(&content).collect();
        pairs.sort_by_cached_key(|pair| place(&patterns, pair.path.as_bstr()));
    }
    if let Some((from, path)) = &request.from {
        let Some(at) = pairs.iter().position(|pair| pair.path == *path) else {
            return Err(Failure::Fatal(text!("No such path '", path, "' in the diff")));
        };
        pairs.rotate_left(at);
        if *from == From::Only {
            pairs.truncate(pairs.len() - at);
        }
    }
    Ok(())
}

fn read(run: &Invocation, repo: &Repository, request: &Request, file: &BStr) -> Result<Vec<u8>, Failure> {
    // Git is at the top of the worktree and names the file from there.
    let prefix = if file.starts_with(b"/") { BStr::new("") } else { repo.prefix() };
    let name = text!(prefix, file);
    let path = match repo.work_tree() {
        Some(top) if !request.cached => top.join(OsStr::from_bytes(&name)),
        _ => run.cwd.join(OsStr::from_bytes(file)),
    };
    let mut content = Vec::new();
    let read = sys::by_path::open(&path).and_then(|mut file| file.read_to_end(&mut content));
    read.map_err(|error| Failure::Fatal(text!("failed to read orderfile '", name, "': ", os_error(&error))))?;
    Ok(content)
}

/// One a line, but for empty lines and comments.
fn patterns(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = content.split(|&byte| byte == b'\n');
    let kept = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"));
    kept.map(|line| line.split(|&byte| byte == 0).next().unwrap_or_default())
}

/// The number of the first pattern that a path, or a directory it is in, matches.
fn place(patterns: &[&[u8]], path: &BStr) -> usize {
    let is_match = |pattern: &&[u8]| {
        let slashes = path.rfind_iter(b"/");
        let ends = std::iter::once(path.len()).chain(slashes);
        ends.into_iter().any(|end| wildmatch(pattern, &path[..end], false, false))
    };
    patterns.iter().position(is_match).unwrap_or(patterns.len())
}
