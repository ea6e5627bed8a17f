//! The reasons why an operation is refused, with Git's messages.

use bstr::{BStr, BString, ByteSlice};

/// Git's unpack-trees errors, in the order in which Git reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefusalKind {
    /// A tree has a path that is invalid in an index.
    InvalidPath,
    /// The index holds local changes.
    WouldOverwrite,
    /// The worktree file differs from the index.
    NotUptodateFile,
    /// A directory to be replaced holds untracked files.
    NotUptodateDir,
    /// The current directory would be removed.
    CwdInTheWay,
    /// An untracked file would be overwritten.
    UntrackedOverwritten,
    /// An untracked file would be removed.
    UntrackedRemoved,
    /// `read-tree --prefix` would replace an existing entry.
    BindOverlap,
    /// `read-tree --prefix` would replace a file by a directory.
    BindOverlapDirectory,
    /// A submodule cannot be moved.
    WouldLoseSubmodule,
}

/// A refused path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason.
    pub kind: RefusalKind,
    /// The path.
    pub path: BString,
}

/// The reasons why a path stays contrary to the sparse patterns, in the order in which Git reports
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SparseLeftoverKind {
    /// The path should be removed, but differs from the index.
    NotUptodate,
    /// The path is unmerged.
    Unmerged,
    /// The path should be written, but a file already exists there.
    Present,
    /// The path should be written, but an existing file causes this refusal. `checkout` and
    /// `switch` do not report it.
    Refused(RefusalKind),
}

/// A path that stays in the worktree contrary to the sparse patterns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SparseLeftover {
    /// The reason.
    pub kind: SparseLeftoverKind,
    /// The path.
    pub path: BString,
}

/// The operation, which selects the format of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `checkout` and `switch`: all paths are reported, sorted by kind, with advice.
    Checkout,
    /// `merge`: reported like `Checkout`.
    Merge,
    /// `sparse-checkout`: reported like `Checkout`.
    SparseCheckout,
    /// `read-tree`, `reset`, `checkout -f` and others: one line reports the first path.
    Plumbing,
}

impl Operation {
    /// Returns true if planning continues after the first refusal, to report all of them.
    pub(super) fn reports_all(self) -> bool {
        self != Operation::Plumbing
    }
}

/// Returns Git's text for standard error, including the last newline. `advice` is
/// `advice.commitBeforeMerge`.
pub fn text(refusals: &[Refusal], operation: Operation, advice: bool) -> BString {
    let (name, activity) = match operation {
        Operation::Checkout => ("checkout", "switch branches"),
        Operation::Merge => ("merge", "merge"),
        Operation::SparseCheckout => ("sparse-checkout", "sparse-checkout"),
        // Git prints two lines: why the submodule cannot be moved, and that its path is refused.
        Operation::Plumbing
            if refusals.first().is_some_and(|it| it.kind == RefusalKind::WouldLoseSubmodule) =>
        {
            return refusals
                .iter()
                .flat_map(|refusal| Vec::from(plumbing(refusal)))
                .collect::<Vec<u8>>()
                .into();
        }
        Operation::Plumbing => return refusals.first().map(plumbing).unwrap_or_default(),
    };
    porcelain(refusals, name, activity, advice)
}

/// Returns Git's text for standard error about sparse leftovers, including the last newline.
pub(super) fn leftover_text(leftovers: &[SparseLeftover], operation: Operation) -> BString {
    let mut text = BString::default();
    match operation {
        Operation::Plumbing => {
            for SparseLeftover { kind, path } in leftovers {
                let after = match *kind {
                    SparseLeftoverKind::Refused(kind) => {
                        text.extend_from_slice(&plumbing(&Refusal { kind, path: path.clone() }));
                        continue;
                    }
                    SparseLeftoverKind::NotUptodate => "' not uptodate; will not remove from working tree.\n",
                    SparseLeftoverKind::Unmerged => "' unmerged; will not remove from working tree.\n",
                    SparseLeftoverKind::Present => {
                        "' already present; will not overwrite with sparse update.\n"
                    }
                };
                text.extend_from_slice(b"error: Path '");
                push_printable(&mut text, path.as_bstr());
                text.extend_from_slice(after.as_bytes());
            }
        }
        Operation::Checkout | Operation::Merge | Operation::SparseCheckout => {
            for (kind, what) in [
                (SparseLeftoverKind::NotUptodate, "are not up to date and were left"),
                (SparseLeftoverKind::Unmerged, "are unmerged and were left"),
                (SparseLeftoverKind::Present, "were already present and thus not updated"),
            ] {
                let mut paths = leftovers.iter().filter(|leftovers| leftovers.kind == kind).peekable();
                if paths.peek().is_none() {
                    continue;
                }
                text.extend_from_slice(
                    format!("warning: The following paths {what} despite sparse patterns:\n").as_bytes(),
                );
                for SparseLeftover { path, .. } in paths {
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
        // Git does not name the directory.
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

fn porcelain(refusals: &[Refusal], operation: &str, activity: &str, advice: bool) -> BString {
    let local = (
        format!("Your local changes to the following files would be overwritten by {operation}:"),
        Some(format!("Please commit your changes or stash them before you {activity}.")),
    );
    let untracked = |fate: &str| {
        (
            format!("The following untracked working tree files would be {fate} by {operation}:"),
            Some(format!("Please move or remove them before you {activity}.")),
        )
    };
    let plain = |text: &str| (text.to_owned(), None);
    let mut kinds: Vec<RefusalKind> = refusals.iter().map(|refusal| refusal.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    // Git prints these at once, one by one.
    let is_printed_alone = |kind: RefusalKind| {
        use RefusalKind::{BindOverlap, BindOverlapDirectory, InvalidPath};
        matches!(kind, InvalidPath | BindOverlap | BindOverlapDirectory)
    };
    let alone = refusals.iter().filter(|refusal| is_printed_alone(refusal.kind));
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
        // Without advice Git's message ends with the list's newline, and Git adds another one.
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

/// Appends a text, with control characters as question marks, as in all of Git's messages.
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
    fn lists_refusals_by_kind_with_advice() {
        let refusals = [
            refusal(RefusalKind::UntrackedOverwritten, "new"),
            refusal(RefusalKind::NotUptodateFile, "b"),
            refusal(RefusalKind::NotUptodateDir, "d\u{1}"),
            refusal(RefusalKind::NotUptodateFile, "a"),
        ];
        assert_eq!(
            text(&refusals, Operation::Checkout, true),
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
            text(&refusals[1..2], Operation::Merge, false),
            "error: Your local changes to the following files would be overwritten by merge:\n\tb\n\nAborting\n"
        );
        assert_eq!(
            text(&refusals[1..], Operation::Plumbing, true),
            "error: Entry 'b' not uptodate. Cannot merge.\n"
        );
    }
}
