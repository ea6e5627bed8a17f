//! Why an operation is refused, in Git's words.

use bstr::{BStr, BString, ByteSlice};

/// One of Git's unpack-trees errors, in the order Git reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefusalKind {
    /// A tree holds a path that must not be in an index.
    InvalidPath,
    /// The index holds local changes.
    WouldOverwrite,
    /// The worktree file differs from the index.
    NotUptodateFile,
    /// A directory to be replaced holds untracked files.
    NotUptodateDir,
    /// The current directory would have to go.
    CwdInTheWay,
    /// An untracked file is where a file is to be written.
    UntrackedOverwritten,
    /// An untracked file is where a file is to be removed.
    UntrackedRemoved,
    /// `read-tree --prefix` onto an existing entry.
    BindOverlap,
    /// The same, with a directory onto a file.
    BindOverlapDirectory,
    /// A submodule cannot be changed.
    WouldLoseSubmodule,
}

/// A path and why it stops the operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub kind: RefusalKind,
    /// Which path.
    pub path: BString,
}

/// Why a path of a sparse worktree is left as it is, in the order Git reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeftKind {
    /// It should go, and differs from the index.
    NotUptodate,
    /// It is unmerged.
    Unmerged,
    /// It should be written, and something is there.
    Present,
    /// It should be written, and what is there would be refused for this. The porcelain does not tell.
    Refused(RefusalKind),
}

/// A path that is left despite the patterns of a sparse worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Why.
    pub kind: LeftKind,
    /// Which path.
    pub path: BString,
}

/// How an operation tells of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// All paths, sorted by kind, and advice.
    Porcelain,
    /// One line, for the first path.
    Plumbing,
}

fn style(operation: &str) -> Style {
    match operation {
        "checkout" | "merge" | "sparse-checkout" => Style::Porcelain,
        _ => Style::Plumbing,
    }
}

/// Whether planning goes on after the first refusal, to report all of them.
pub(super) fn reports_all(operation: &str) -> bool {
    style(operation) == Style::Porcelain
}

/// What Git prints to standard error, to the last newline. `operation` is "checkout" (`switch` too) or
/// "merge" for the lists of the porcelain; any other name ("reset", "clone", and `checkout -f`, which
/// speaks as "reset") gives the one line of the plumbing. `advice` is `advice.commitBeforeMerge`.
pub fn text(refusals: &[Refusal], operation: &str, advice: bool) -> BString {
    match style(operation) {
        // Why a submodule cannot be moved, and what follows from that for its path.
        Style::Plumbing if refusals.first().is_some_and(|it| it.kind == RefusalKind::WouldLoseSubmodule) => {
            refusals.iter().flat_map(|refusal| Vec::from(plumbing(refusal))).collect::<Vec<u8>>().into()
        }
        Style::Plumbing => refusals.first().map(plumbing).unwrap_or_default(),
        Style::Porcelain => porcelain(refusals, operation, advice),
    }
}

/// What Git prints to standard error of what was left, to the last newline.
pub(super) fn left_text(left: &[Left], operation: &str) -> BString {
    let mut text = BString::default();
    match style(operation) {
        Style::Plumbing => {
            for Left { kind, path } in left {
                let after = match *kind {
                    LeftKind::Refused(kind) => {
                        text.extend_from_slice(&plumbing(&Refusal { kind, path: path.clone() }));
                        continue;
                    }
                    LeftKind::NotUptodate => "' not uptodate; will not remove from working tree.\n",
                    LeftKind::Unmerged => "' unmerged; will not remove from working tree.\n",
                    LeftKind::Present => "' already present; will not overwrite with sparse update.\n",
                };
                text.extend_from_slice(b"error: Path '");
                push_printable(&mut text, path.as_bstr());
                text.extend_from_slice(after.as_bytes());
            }
        }
        Style::Porcelain => {
            for (kind, what) in [
                (LeftKind::NotUptodate, "are not up to date and were left"),
                (LeftKind::Unmerged, "are unmerged and were left"),
                (LeftKind::Present, "were already present and thus not updated"),
            ] {
                let mut paths = left.iter().filter(|left| left.kind == kind).peekable();
                if paths.peek().is_none() {
                    continue;
                }
                text.extend_from_slice(
                    format!("warning: The following paths {what} despite sparse patterns:\n").as_bytes(),
                );
                for Left { path, .. } in paths {
                    text.push(b'\t');
                    push_printable(&mut text, path.as_bstr());
                    text.push(b'\n');
                }
                text.push(b'\n');
            }
            if !text.is_empty() {
                let advice =
                    "After fixing the above paths, you may want to run `git sparse-checkout reapply`.\n";
                text.extend_from_slice(advice.as_bytes());
            }
        }
    }
    text
}

pub(super) fn plumbing(Refusal { kind, path }: &Refusal) -> BString {
    let overlap;
    let (before, after) = match kind {
        RefusalKind::InvalidPath => ("invalid path '", "'"),
        RefusalKind::WouldOverwrite => ("Entry '", "' would be overwritten by merge. Cannot merge."),
        RefusalKind::NotUptodateFile => ("Entry '", "' not uptodate. Cannot merge."),
        RefusalKind::NotUptodateDir => ("Updating '", "' would lose untracked files in it"),
        RefusalKind::CwdInTheWay => ("Refusing to remove '", "' since it is the current working directory."),
        RefusalKind::UntrackedOverwritten => {
            ("Untracked working tree file '", "' would be overwritten by merge.")
        }
        RefusalKind::UntrackedRemoved => ("Untracked working tree file '", "' would be removed by merge."),
        RefusalKind::BindOverlap => {
            overlap = format!("Entry '{path}' overlaps with '");
            (overlap.as_str(), "'.  Cannot bind.")
        }
        // Git has no name for the directory.
        RefusalKind::BindOverlapDirectory => ("Entry '' overlaps with '", "'.  Cannot bind."),
        RefusalKind::WouldLoseSubmodule => ("Submodule '", "' cannot checkout new HEAD."),
    };
    let mut text = BString::from("error: ");
    for part in [before.as_bytes(), path, after.as_bytes()] {
        push_printable(&mut text, part.as_bstr());
    }
    text.push(b'\n');
    text
}

fn porcelain(refusals: &[Refusal], operation: &str, advice: bool) -> BString {
    let doing = if operation == "checkout" { "switch branches" } else { operation };
    let local = (
        format!("Your local changes to the following files would be overwritten by {operation}:"),
        Some(format!("Please commit your changes or stash them before you {doing}.")),
    );
    let untracked = |fate: &str| {
        (
            format!("The following untracked working tree files would be {fate} by {operation}:"),
            Some(format!("Please move or remove them before you {doing}.")),
        )
    };
    let plain = |text: &str| (text.to_owned(), None);
    let mut kinds: Vec<RefusalKind> = refusals.iter().map(|refusal| refusal.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    // These Git says at once, one by one.
    let is_said_alone = |kind: RefusalKind| {
        use RefusalKind::{BindOverlap, BindOverlapDirectory, InvalidPath};
        matches!(kind, InvalidPath | BindOverlap | BindOverlapDirectory)
    };
    let alone = refusals.iter().filter(|refusal| is_said_alone(refusal.kind));
    let alone: BString = alone.flat_map(|refusal| Vec::from(plumbing(refusal))).collect::<Vec<u8>>().into();
    let mut text = BString::default();
    for kind in kinds {
        let (headline, remedy) = match kind {
            RefusalKind::WouldOverwrite | RefusalKind::NotUptodateFile => local.clone(),
            RefusalKind::NotUptodateDir => {
                plain("Updating the following directories would lose untracked files in them:")
            }
            RefusalKind::CwdInTheWay => plain("Refusing to remove the current working directory:"),
            RefusalKind::UntrackedOverwritten => untracked("overwritten"),
            RefusalKind::UntrackedRemoved => untracked("removed"),
            RefusalKind::InvalidPath | RefusalKind::BindOverlap | RefusalKind::BindOverlapDirectory => {
                continue;
            }
            RefusalKind::WouldLoseSubmodule => plain("Cannot update submodule:"),
        };
        text.extend_from_slice(format!("error: {headline}\n").as_bytes());
        for refusal in refusals.iter().filter(|refusal| refusal.kind == kind) {
            text.push(b'\t');
            push_printable(&mut text, refusal.path.as_bstr());
            text.push(b'\n');
        }
        // Without advice Git's message ends in the list's newline and is given its own one more.
        if let Some(remedy) = remedy.filter(|_| advice) {
            text.extend_from_slice(remedy.as_bytes());
        }
        text.push(b'\n');
    }
    if !text.is_empty() {
        text.extend_from_slice(b"Aborting\n");
    }
    [alone, text].concat().into()
}

/// Control characters print as question marks, as in all of Git's messages.
fn push_printable(text: &mut BString, part: &BStr) {
    text.extend(part.iter().map(|&byte| match byte {
        b'\t' | b'\n' => byte,
        byte if byte.is_ascii_control() => b'?',
        byte => byte,
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(kind: RefusalKind, path: &str) -> Refusal {
        Refusal { kind, path: path.into() }
    }

    #[test]
    fn lists_by_kind_with_advice() {
        let refusals = [
            refusal(RefusalKind::UntrackedOverwritten, "new"),
            refusal(RefusalKind::NotUptodateFile, "b"),
            refusal(RefusalKind::NotUptodateDir, "d\u{1}"),
            refusal(RefusalKind::NotUptodateFile, "a"),
        ];
        assert_eq!(
            text(&refusals, "checkout", true),
            "error: Your local changes to the following files would be overwritten by checkout:\n\
             \tb\n\ta\n\
             Please commit your changes or stash them before you switch branches.\n\
             error: Updating the following directories would lose untracked files in them:\n\
             \td?\n\n\
             error: The following untracked working tree files would be overwritten by checkout:\n\
             \tnew\n\
             Please move or remove them before you switch branches.\n\
             Aborting\n"
        );
        assert_eq!(
            text(&refusals[1..2], "merge", false),
            "error: Your local changes to the following files would be overwritten by merge:\n\tb\n\nAborting\n"
        );
        assert_eq!(text(&refusals[1..], "reset", true), "error: Entry 'b' not uptodate. Cannot merge.\n");
    }
}
