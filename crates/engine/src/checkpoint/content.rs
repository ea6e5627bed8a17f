//! The content of the files that differ from the index, as objects.

use std::collections::{BTreeMap, HashMap};

use bstr::BString;
use format::{
    Mode,
    index::{Edit, Index, NewEntry},
};
use repo::Repository;
use store::objects::ObjectTransaction;
use sys::{Dir, Stat};

use super::{
    Content, Error,
    find::Changes,
    snapshot::{LeftOut, Reason, Scope, new_entry},
};
use crate::{
    add::{self, AfterError, LineEnds, Recorded, Recording},
    look::stat::StatRules,
};

/// The entries of the files that differ, and their stat data.
pub(super) struct Stored {
    pub(super) edits: Vec<Edit>,
    pub(super) files: HashMap<BString, Stat>,
}

impl Changes {
    /// Stores the content. Notes the files that cannot be stored.
    pub(super) fn store(
        &mut self,
        repo: &Repository,
        root: &Dir,
        index: &Index,
        scope: &Scope<'_>,
        transaction: &ObjectTransaction<'_>,
    ) -> Result<Stored, Error> {
        let rules = StatRules::of(repo)?;
        let recording = Recording {
            repo,
            worktree: root,
            objects: Some(transaction),
            big_file_threshold: scope.big_file_threshold,
            line_ends: LineEnds::AsBefore,
            after_error: AfterError::Continue,
            interrupt: scope.interrupt,
        };
        let untracked = std::mem::take(&mut self.untracked).into_iter().map(|path| (path, None, false));
        let tracked = std::mem::take(&mut self.tracked).into_iter().map(|(path, mode)| (path, mode, true));
        let all: Vec<(BString, Option<Mode>, bool)> = tracked.chain(untracked).collect();
        let paths: Vec<BString> = all.iter().map(|(path, ..)| path.clone()).collect();
        let recorded = record(&recording, &paths, index)?;
        let mut edits: BTreeMap<BString, Vec<NewEntry>> = BTreeMap::new();
        let mut files = HashMap::new();
        for ((path, mode, is_tracked), recorded) in all.into_iter().zip(recorded) {
            let Some(recorded) = recorded else { return Err(Error::Interrupted) };
            let reason = match recorded.result {
                Ok((stat, oid)) => {
                    let mode = rules.mode(mode, &stat);
                    edits.insert(path.clone(), vec![new_entry(Content { mode, oid }, Some(&stat))]);
                    files.insert(path, stat);
                    continue;
                }
                Err(error) if is_gone(&error) => None,
                Err(add::Error::Type { .. } | add::Error::NoCommit { .. }) => Some(Reason::Special),
                Err(add::Error::OtherHash { .. }) => Some(Reason::OtherHash),
                Err(error) => match unreadable_reason(&error) {
                    Some(reason) => {
                        self.left_out.push(LeftOut { path: path.clone(), reason });
                        // The tree has the entry of the index, which the list declares unknown.
                        if !(is_tracked && mode.is_some()) {
                            edits.insert(path, Vec::new());
                        }
                        continue;
                    }
                    None => return Err(error.into()),
                },
            };
            self.left_out.extend(reason.map(|reason| LeftOut { path: path.clone(), reason }));
            edits.insert(path, Vec::new());
        }
        edits.extend(self.missing.drain(..).map(|path| (path, Vec::new())));
        let gitlink = |oid| vec![new_entry(Content { mode: Mode::GITLINK, oid }, None)];
        edits.extend(self.submodules.drain(..).map(|(path, commit)| (path, gitlink(commit))));
        let edits = edits.into_iter().map(|(path, entries)| Edit { path, entries }).collect();
        Ok(Stored { edits, files })
    }
}

/// Records the files. One that became shorter while it was read is read once more.
fn record(
    recording: &Recording<'_>,
    paths: &[BString],
    index: &Index,
) -> Result<Vec<Option<Recorded>>, Error> {
    let mut recorded = recording.record(paths, index)?;
    let is_short = |recorded: &Option<Recorded>| {
        recorded.as_ref().is_some_and(|recorded| matches!(recorded.result, Err(add::Error::Short { .. })))
    };
    let short: Vec<usize> = (0..paths.len()).filter(|at| is_short(&recorded[*at])).collect();
    let again: Vec<BString> = short.iter().map(|at| paths[*at].clone()).collect();
    for (at, again) in short.into_iter().zip(recording.record(&again, index)?) {
        recorded[at] = again;
    }
    Ok(recorded)
}

/// Returns the reason if the file could not be read.
fn unreadable_reason(error: &add::Error) -> Option<Reason> {
    if let add::Error::Short { .. } = error {
        return Some(Reason::Unreadable("it becomes shorter while it is read".to_owned()));
    }
    let (add::Error::Stat { source, .. }
    | add::Error::Open { source, .. }
    | add::Error::Read { source, .. }
    | add::Error::ReadLink { source, .. }) = error
    else {
        return None;
    };
    Some(Reason::Unreadable(sys::reason(source).to_string()))
}

/// Returns true if the file was removed after it was found.
fn is_gone(error: &add::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    let (add::Error::Stat { source, .. }
    | add::Error::Open { source, .. }
    | add::Error::ReadLink { source, .. }) = error
    else {
        return false;
    };
    matches!(source.kind(), NotFound | NotADirectory)
}
