//! `clean`: removes untracked paths.
//!
//! Order: the walk ([`crate::look::untracked`]) finds paths, [`doomed`] selects the ones to remove,
//! [`remove()`] removes them. Tracked paths are never touched. A directory stays if it holds an
//! ignored file, another repository, or the command's current directory.

mod remove;

use bstr::{BStr, BString, ByteSlice as _};
use format::index::Index;

use crate::look::untracked::{Found, Others};
pub use remove::{Act, Error, Event, Options, Outcome, Repositories, remove};

/// The policy for untracked directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directories {
    /// Directories stay, with everything in them.
    Keep,
    /// Directories are removed, unless they contain a path that stays.
    Remove,
}

/// Selects the paths to remove, sorted by bytes; a directory has a slash at its end. With
/// `only_ignored` the candidates are `found.ignored`. Otherwise they are the untracked paths that
/// contain no ignored path.
pub fn doomed(found: Found, index: &Index, directories: Directories, only_ignored: bool) -> Vec<BString> {
    let (candidates, stay) =
        if only_ignored { (found.ignored, Vec::new()) } else { (found.untracked, found.ignored) };
    let mut stay = stay.iter().peekable();
    let mut doomed: Vec<BString> = Vec::with_capacity(candidates.len());
    for path in candidates {
        while stay.next_if(|next| ***next <= *path).is_some() {}
        let holds_one = stay.peek().is_some_and(|next| contains(path.as_bstr(), next.as_bstr()));
        let goes_with_another = doomed.last().is_some_and(|last| contains(last.as_bstr(), path.as_bstr()));
        if !holds_one && !goes_with_another {
            doomed.push(path);
        }
    }
    let mut others = Others::of(index);
    doomed.retain(|path| {
        others.is_other(path.as_bstr()) && (directories == Directories::Remove || !path.ends_with(b"/"))
    });
    doomed
}

fn contains(dir: &BStr, path: &BStr) -> bool {
    dir.ends_with(b"/") && path.len() > dir.len() && path.starts_with(dir)
}

#[cfg(test)]
mod tests {
    use format::HashKind;

    use super::*;

    #[test]
    fn keeps_a_directory_that_holds_an_ignored_path_and_removes_the_rest_of_it() {
        let list = |names: &[&str]| names.iter().map(|&name| name.into()).collect::<Vec<BString>>();
        let found = Found {
            untracked: list(&["a", "d/", "d/e/", "d/e/f", "d/g", "h/", "h/i"]),
            ignored: list(&["d/e.o", "x"]),
            ..Found::default()
        };
        let index = Index::empty(HashKind::Sha1);
        let left = doomed(found, &index, Directories::Remove, false);
        assert_eq!(left, list(&["a", "d/e/", "d/g", "h/"]));
    }
}
