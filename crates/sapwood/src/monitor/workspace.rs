//! The monitor of a workspace: its upper layer. No program or daemon is involved.

use std::path::Path;

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    ignore,
    monitor::Response,
    stat::StatRules,
    workspace::upper::{self, Everything, IgnoredDirectories, Layer, MonitorClient, Prune},
};
use repo::{Repository, keys};
use sys::Dir;

/// Returns true for the command that `workspace create` writes to `core.fsmonitor`.
pub(super) fn is_own_command(command: &BStr) -> bool {
    let Some(program) = command.strip_suffix(upper::MONITOR_COMMAND.as_bytes()) else { return false };
    let name = program.rsplit_once_str("/").map_or(program, |(_, name)| name);
    name.trim_end_with(|letter| letter == ' ').trim_end_with(|letter| letter == '\'') == b"sapwood"
}

/// Returns the changes in a workspace or union since `token`. If the upper layer cannot be read,
/// the error means that any file may have changed.
///
/// `has_tracked` returns true if the index has entries below a directory. `repository` has the
/// client's settings. Without it, any file may have changed.
pub fn query(
    layer: Layer,
    top: &Path,
    token: &BStr,
    client: MonitorClient,
    repository: Option<&Repository>,
    has_tracked: impl FnMut(&BStr) -> bool,
) -> Result<Response, upper::Error> {
    let Some(rules) = repository.and_then(|repo| StatRules::of(repo).ok()) else {
        return Ok(super::everything());
    };
    let worktree =
        Dir::open(top).map_err(|source| upper::Error::Unreadable { path: top.to_owned(), source })?;
    let mut prune = Lazy { state: State::New(repository, Some(has_tracked)), worktree: &worktree };
    upper::respond(&layer.under(rules), &worktree, token, client, &mut prune)
}

/// Loads the ignore rules when the first directory is checked.
struct Lazy<'r, 'w, T> {
    state: State<'r, 'w, T>,
    worktree: &'w Dir,
}

enum State<'r, 'w, T> {
    New(Option<&'r Repository>, Option<T>),
    Ready(Box<dyn Prune + 'w>),
}

impl<'w, T: FnMut(&BStr) -> bool + 'w> Prune for Lazy<'_, 'w, T> {
    fn is_left_out(&mut self, path: &BStr) -> bool {
        if let State::New(repository, has_tracked) = &mut self.state {
            let (repository, has_tracked) = (repository.take(), has_tracked.take());
            let ready = repository.zip(has_tracked);
            self.state = State::Ready(match ready.and_then(|(repo, has)| rules(repo, self.worktree, has)) {
                Some(rules) => Box::new(rules),
                None => Box::new(Everything),
            });
        }
        match &mut self.state {
            State::Ready(prune) => prune.is_left_out(path),
            State::New(..) => false,
        }
    }
}

/// Returns the ignore rules; `None` in a sparse worktree, where a `.gitignore` that applies may be
/// missing, so that no directory may be left out.
fn rules<'w>(
    repo: &Repository,
    worktree: &'w Dir,
    has_tracked: impl FnMut(&BStr) -> bool + 'w,
) -> Option<IgnoredDirectories<'w>> {
    if repo.config(&keys::core::SPARSE_CHECKOUT).ok()? {
        return None;
    }
    let icase = repo.config(&keys::core::IGNORE_CASE).ok()?;
    let outside = ignore::outside(repo).ok()?;
    let outside: Vec<&[u8]> = outside.iter().map(Vec::as_slice).collect();
    Some(IgnoredDirectories::new(worktree, &outside, icase, has_tracked))
}

/// Returns the response as a hook of version 2 prints it.
pub fn printed(response: &Response) -> BString {
    let mut out = response.token.clone();
    out.push(0);
    match &response.changes {
        engine::monitor::Changes::Unknown => out.push(b'/'),
        engine::monitor::Changes::To(paths) => {
            for path in paths {
                out.extend_from_slice(path);
                out.push(0);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_its_own_command() {
        for own in [
            "sapwood workspace changes",
            "/usr/bin/sapwood workspace changes",
            "'/a b/sapwood' workspace changes",
        ] {
            assert!(is_own_command(own.into()), "{own}");
        }
        for other in ["sapwood workspace changes 1", "xsapwood workspace changes", "workspace changes", ""] {
            assert!(!is_own_command(other.into()), "{other}");
        }
    }
}
