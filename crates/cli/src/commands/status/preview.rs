//! The status for a commit: for the comments in its message, or for a dry run.

use bstr::BString;
use engine::diff::Status;
use sapwood::{Dir, commit::cleanup::comment_sign, sparse_index::Read};

use super::{
    Change, Source,
    options::{Given, Request},
    report::StatusReport,
};
pub(crate) use super::{
    obstacle::SETTINGS,
    options::{Format, Preview, Wanted},
};
use crate::{
    commands::{
        reason::Reason,
        record::{Candidate, Check},
    },
    session::Session,
    term::{failure::Failure, text::columns::Columns},
};

/// The facts that the caller needs to show patches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Differences {
    pub(crate) is_committable: bool,
    pub(crate) has_unstaged: bool,
}

/// Returns the patch text.
pub(crate) type ShowDifferences<'a> = &'a dyn Fn(Differences) -> Result<BString, Failure>;

/// Returns an error for invalid options.
pub(crate) fn check(repo: &repo::Repository, wanted: &Wanted) -> Result<(), Failure> {
    Request::of(repo, Given::wanted(wanted), Vec::new()).map(drop)
}

/// Checks the settings of the status in a commit.
pub(crate) const SETTINGS_TOGETHER: Check = Check::new(
    "a colour of the status by two names, or a wrong one; `column.status` before `column.ui`, or wrong \
     values of them; a comment sign that is empty, `auto` or has several lines; a rename limit that is no \
     number; a HEAD that cannot be read",
    settings_together,
);

/// Detects settings that leave the status of a commit to the real Git.
fn settings_together(candidate: &Candidate<'_>) -> Vec<Reason> {
    super::obstacle::first(candidate.repo(), None).into_iter().collect()
}

/// The result.
pub(crate) struct Previewed {
    pub(crate) text: Vec<u8>,
    /// There is something to commit.
    pub(crate) is_committable: bool,
}

impl Request {
    pub(super) fn amends(&self) -> bool {
        self.preview.as_ref().is_some_and(|preview| preview.amends)
    }

    pub(super) fn is_template(&self) -> bool {
        self.preview.as_ref().is_some_and(|preview| preview.is_template)
    }
}

/// Compares the worktree with an index that is not written. `show` returns the patch text for the
/// long format.
pub(crate) fn preview(
    session: Session<'_>,
    read: Read,
    wanted: &Wanted,
    preview: Preview,
    show: ShowDifferences<'_>,
) -> Result<Previewed, Failure> {
    let Session { invocation: run, repository: repo, settings } = session;
    let mut request = Request::of(repo, Given::wanted(wanted), Vec::new())?;
    request.columns = Columns::default();
    if preview.is_template {
        request.comment = Some(comment_sign(repo));
    }
    let preview = request.preview.insert(preview).clone();
    let root = repo.work_tree().ok_or_else(Failure::no_worktree)?;
    let root = Dir::open(root).map_err(Failure::cannot_open(root))?;
    let found = super::examine(session, &root, &request, Source::Held(Box::new(read)))?;
    run.interrupt.check()?;
    let is_committable = found.is_committable;
    let is_unstaged = |change: &Change| change.worktree.is_some_and(|status| status != Status::Unmerged);
    if request.format == Format::Long {
        let has_unstaged = found.changes.values().any(is_unstaged);
        let patch = show(Differences { is_committable, has_unstaged })?;
        request.preview = Some(Preview { patch, ..preview });
    }
    let report = StatusReport::new(run, repo, settings, &request, found)?;
    let mut text = Vec::new();
    match request.format {
        Format::Long => report.long(&mut text)?,
        Format::Short | Format::Porcelain => report.short(&mut text)?,
        Format::PorcelainV2 => report.porcelain(&mut text)?,
    }
    sapwood::index::must_have_been_readable()?;
    Ok(Previewed { text, is_committable })
}
