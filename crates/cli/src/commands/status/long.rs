//! The long format: the branch, operations in progress, and a section for each kind of path, with
//! advice.

use bstr::{BStr, BString, ByteSlice as _};
use engine::diff::Status;
use repo::{Head, keys};
use sapwood::{
    status::{Comparison, Conflict, Ignored, Untracked},
    tracking::Tracking,
};

use super::{
    Change,
    report::{Palette, Slot, SpaceQuoting, StatusReport},
};
use crate::{
    session::{
        output,
        tracking::{self, AheadBehind},
    },
    term::{
        console::{self, text},
        failure::Failure,
        text::color::RESET,
    },
};

/// From this time on, in seconds, a slow search is reported.
const SLOW: f64 = 2.0;

/// The width of the label before a path, and before an unmerged path.
const WIDTH: usize = 12;
const UNMERGED_WIDTH: usize = 17;

/// Lines of text, each with its own colour, and with a comment prefix if requested.
pub(super) struct Lines<'a> {
    out: &'a mut Vec<u8>,
    palette: &'a Palette,
    comment: Option<&'a BStr>,
}

impl Lines<'_> {
    /// Adds one or more lines.
    pub(super) fn line(&mut self, slot: Option<Slot>, text: impl AsRef<[u8]>) {
        for line in text.as_ref().split(|&byte| byte == b'\n') {
            let lead = self.comment.map(|comment| match line.first() {
                None | Some(b'\t') => comment.to_owned(),
                Some(_) => text!(comment, " "),
            });
            self.palette.paint(self.out, slot, text!(lead.unwrap_or_default(), line));
            self.out.push(b'\n');
        }
    }

    /// Begins a line.
    fn begin(&mut self, slot: Option<Slot>, text: &str) {
        let lead = self.comment.map_or(BString::default(), |comment| match text {
            "" => text!(comment, " "),
            _ => comment.to_owned(),
        });
        self.palette.paint(self.out, slot, text!(lead, text));
    }

    /// Continues a line.
    fn more(&mut self, slot: Option<Slot>, text: impl AsRef<[u8]>) {
        self.palette.paint(self.out, slot, text);
    }

    /// Adds complete lines from another source, without colours.
    pub(super) fn comment_on(&mut self, text: &BStr) {
        for line in text.lines_with_terminator() {
            let gap = if matches!(line.first(), Some(b'\n' | b'\t')) { "" } else { " " };
            let lead = self.comment.map_or(BString::default(), |comment| text!(comment, gap));
            self.raw(text!(lead, line));
        }
    }

    /// Appends text outside of the sections.
    pub(super) fn raw(&mut self, text: impl AsRef<[u8]>) {
        self.out.extend_from_slice(text.as_ref());
    }
}

const HEADER: Option<Slot> = Some(Slot::Header);

impl StatusReport<'_> {
    pub(super) fn long(&self, out: &mut Vec<u8>) -> Result<(), Failure> {
        let comment = self.request.comment.as_ref().map(|comment| comment.as_bstr());
        let lines = &mut Lines { out, palette: &self.palette, comment };
        self.branch(lines)?;
        self.state(lines)?;
        if self.found.is_initial {
            let what = if self.request.preview.is_some() { "Initial commit" } else { "No commits yet" };
            ["", what, ""].iter().for_each(|line| lines.line(HEADER, line));
        }
        self.updated(lines);
        self.unmerged_paths(lines);
        self.unstaged(lines);
        self.summaries(lines)?;
        match self.request.untracked {
            Untracked::No if self.found.is_committable => {
                let advice = if self.hints { " (use -u option to show untracked files)" } else { "" };
                lines.line(None, format!("Untracked files not listed{advice}"));
            }
            Untracked::No => {}
            Untracked::Normal | Untracked::All => {
                self.others(lines, &self.found.untracked, "Untracked files", "add");
                if self.request.ignored != Ignored::No {
                    self.others(lines, &self.found.ignored, "Ignored files", "add -f");
                }
                self.slowness(lines)?;
            }
        }
        if let Some(preview) = &self.request.preview {
            lines.raw(&preview.patch);
        }
        match &self.request.preview {
            _ if self.found.is_committable => {}
            Some(preview) if preview.amends => lines.line(None, "No changes"),
            Some(preview) if preview.is_template => {}
            _ => lines.raw(text!(self.verdict(), "\n")),
        }
        if self.request.stash {
            let entries = self.repo.reflog_length("refs/stash".into())?;
            let noun = if entries == 1 { "entry" } else { "entries" };
            if entries > 0 {
                lines.line(None, format!("Your stash currently has {entries} {noun}"));
            }
        }
        Ok(())
    }

    /// Adds advice, unless it is disabled.
    pub(super) fn hint(&self, lines: &mut Lines<'_>, advice: &str) {
        if self.hints {
            lines.line(HEADER, format!("  ({advice})"));
        }
    }

    fn branch(&self, lines: &mut Lines<'_>) -> Result<(), Failure> {
        let found = &self.found;
        if found.head == Head::Unresolvable {
            return Ok(());
        }
        let (slot, lead, name) = match found.head.branch() {
            Some(branch) => (Slot::Header, "On branch ", repo::branch_name(branch)),
            None => {
                let lead = match (&found.operations.rebase, &found.detached) {
                    (Some(rebase), _) if rebase.interactive => "interactive rebase in progress; onto ",
                    (Some(_), _) => "rebase in progress; onto ",
                    (None, Some(detached)) if detached.is_there => "HEAD detached at ",
                    (None, Some(_)) => "HEAD detached from ",
                    (None, None) => "Not currently on any branch.",
                };
                (Slot::NoBranch, lead, self.found.detached_name())
            }
        };
        lines.begin(HEADER, "");
        lines.more(Some(slot), lead);
        lines.more(Some(Slot::OnBranch), name);
        lines.raw("\n");
        match &found.comparison {
            Comparison::Followed(..) if found.is_initial => Ok(()),
            Comparison::Followed(tracking, took) => self.tracking(lines, tracking, took.as_secs_f64()),
            Comparison::Nothing | Comparison::Upstream(_) => Ok(()),
        }
    }

    fn tracking(&self, lines: &mut Lines<'_>, tracking: &Tracking, took: f64) -> Result<(), Failure> {
        tracking.warnings.iter().for_each(console::warning);
        let mut said =
            tracking::lines(tracking, self.settings.advises(self.repo, keys::advice::STATUS_HINTS)?);
        if self.request.preview.is_some() {
            said.retain(|line| !line.starts_with(b"  (use \"git pull\" if you want"));
        }
        if said.is_empty() {
            return Ok(());
        }
        if self.request.ahead_behind == AheadBehind::Full
            && took > SLOW
            && self.settings.advises(self.repo, keys::advice::STATUS_AHEAD_BEHIND_WARNING)?
        {
            said.push(BString::default());
            let line = format!("It took {took:.2} seconds to compute the branch ahead/behind values.");
            said.push(line.into());
            said.push("You can use '--no-ahead-behind' to avoid this.".into());
        }
        for line in &said {
            let lead = lines.comment.map_or(BString::default(), |comment| text!(comment, " "));
            lines.more(HEADER, text!(lead, line));
            lines.raw("\n");
        }
        if let Some(comment) = lines.comment {
            lines.more(HEADER, comment);
        }
        lines.raw("\n");
        Ok(())
    }

    /// Adds advice on how to unstage changes.
    fn unstaging(&self, lines: &mut Lines<'_>) {
        match (self.found.is_plain_commit, self.found.is_initial) {
            (false, _) => {}
            (true, false) if self.request.amends() => {
                self.hint(lines, "use \"git restore --source=HEAD^1 --staged <file>...\" to unstage");
            }
            (true, false) => self.hint(lines, "use \"git restore --staged <file>...\" to unstage"),
            (true, true) => self.hint(lines, "use \"git rm --cached <file>...\" to unstage"),
        }
    }

    fn updated(&self, lines: &mut Lines<'_>) {
        let is_staged = |status: &Status| *status != Status::Unmerged;
        let changes = self.found.changes.iter();
        let staged = changes.filter_map(|(path, it)| Some((path, it, it.index.filter(is_staged)?)));
        let mut staged = staged.peekable();
        if staged.peek().is_none() {
            return;
        }
        lines.line(HEADER, "Changes to be committed:");
        self.unstaging(lines);
        staged.for_each(|(path, it, status)| self.change(lines, Slot::Updated, path.as_bstr(), it, status));
        lines.line(HEADER, "");
    }

    fn unstaged(&self, lines: &mut Lines<'_>) {
        let is_change = |status: &Status| *status != Status::Unmerged;
        let changes = self.found.changes.iter();
        let changes = changes.filter_map(|(path, it)| Some((path, it, it.worktree.filter(is_change)?)));
        let changes: Vec<_> = changes.collect();
        if changes.is_empty() {
            return;
        }
        lines.line(HEADER, "Changes not staged for commit:");
        let add = if changes.iter().any(|(.., status)| *status == Status::Deleted) {
            "git add/rm"
        } else {
            "git add"
        };
        self.hint(lines, &format!("use \"{add} <file>...\" to update what will be committed"));
        self.hint(lines, "use \"git restore <file>...\" to discard changes in working directory");
        if changes.iter().any(|(_, it, _)| it.submodule_changes.modified || it.submodule_changes.untracked) {
            self.hint(lines, "commit or discard the untracked or modified content in submodules");
        }
        for (path, change, status) in changes {
            self.change(lines, Slot::Changed, path.as_bstr(), change, status);
        }
        lines.line(HEADER, "");
    }

    fn change(&self, lines: &mut Lines<'_>, slot: Slot, path: &BStr, change: &Change, status: Status) {
        let what = match status {
            Status::Added => "new file:",
            Status::Copied => "copied:",
            Status::Deleted => "deleted:",
            Status::Modified => "modified:",
            Status::Renamed => "renamed:",
            Status::TypeChanged => "typechange:",
            Status::Unmerged => "unmerged:",
            Status::Unknown => "unknown:",
        };
        // A rename that belongs to the other section is not shown here.
        let source = match change.rename.as_ref().filter(|rename| rename.status == status) {
            Some(rename) => text!(self.path(rename.source.as_bstr(), SpaceQuoting::Plain), " -> "),
            None => BString::default(),
        };
        lines.begin(HEADER, "\t");
        let path = self.path(path, SpaceQuoting::Plain);
        lines.more(Some(slot), text!(format!("{what:WIDTH$}"), source, path));
        let kinds = [
            (change.submodule_changes.commit, "new commits"),
            (change.submodule_changes.modified, "modified content"),
            (change.submodule_changes.untracked, "untracked content"),
        ];
        let kinds: Vec<&str> = kinds.into_iter().filter(|(is, _)| *is).map(|(_, words)| words).collect();
        if slot == Slot::Changed && !kinds.is_empty() {
            lines.more(HEADER, format!(" ({})", kinds.join(", ")));
        }
        lines.raw("\n");
    }

    fn unmerged_paths(&self, lines: &mut Lines<'_>) {
        let changes = self.found.changes.iter();
        let unmerged: Vec<_> = changes.filter_map(|(path, it)| Some((path, it.conflict()?))).collect();
        if unmerged.is_empty() {
            return;
        }
        lines.line(HEADER, "Unmerged paths:");
        self.unstaging(lines);
        let is = |of: &dyn Fn(Conflict) -> bool| unmerged.iter().any(|(_, conflict)| of(*conflict));
        let both_deleted = is(&|it| it == Conflict::BothDeleted);
        let one_deleted = is(&|it| matches!(it, Conflict::DeletedByUs | Conflict::DeletedByThem));
        let others =
            is(&|it| !matches!(it, Conflict::BothDeleted | Conflict::DeletedByUs | Conflict::DeletedByThem));
        self.hint(
            lines,
            match (both_deleted, one_deleted, others) {
                (false, false, _) => "use \"git add <file>...\" to mark resolution",
                (true, false, false) => "use \"git rm <file>...\" to mark resolution",
                _ => "use \"git add/rm <file>...\" as appropriate to mark resolution",
            },
        );
        for (path, conflict) in unmerged {
            let how = match conflict {
                Conflict::BothDeleted => "both deleted:",
                Conflict::AddedByUs => "added by us:",
                Conflict::DeletedByThem => "deleted by them:",
                Conflict::AddedByThem => "added by them:",
                Conflict::DeletedByUs => "deleted by us:",
                Conflict::BothAdded => "both added:",
                Conflict::BothModified => "both modified:",
            };
            lines.begin(HEADER, "\t");
            let path = self.path(path.as_bstr(), SpaceQuoting::Plain);
            lines.more(Some(Slot::Unmerged), text!(format!("{how:UNMERGED_WIDTH$}"), path));
            lines.raw("\n");
        }
        lines.line(HEADER, "");
    }

    /// Lists untracked or ignored paths.
    fn others(&self, lines: &mut Lines<'_>, paths: &[BString], what: &str, how: &str) {
        if paths.is_empty() {
            return;
        }
        lines.line(HEADER, format!("{what}:"));
        self.hint(lines, &format!("use \"git {how} <file>...\" to include in what will be committed"));
        let paths = paths.iter().map(|path| self.path(path.as_bstr(), SpaceQuoting::Plain));
        if output::shows_columns(self.request.columns, self.run) {
            let (header, untracked) =
                (self.palette.sequence(Slot::Header), self.palette.sequence(Slot::Untracked));
            let comment = if lines.comment.is_some() { "#" } else { "" };
            let indent = text!(header, comment, "\t", untracked);
            let end = if self.palette.is_on() { text!(RESET, "\n") } else { "\n".into() };
            let (items, width) = (paths.collect::<Vec<_>>(), output::line_width(self.run));
            let table = self.request.columns.lay_out(&items, width, indent.as_bstr(), end.as_bstr());
            lines.raw(table);
        } else {
            for path in paths {
                lines.begin(HEADER, "\t");
                lines.more(Some(Slot::Untracked), path);
                lines.raw("\n");
            }
        }
        lines.line(None, "");
    }

    /// Adds advice if the search for untracked files was slow.
    fn slowness(&self, lines: &mut Lines<'_>) -> Result<(), Failure> {
        let took = match self.run.variable("GIT_TEST_UF_DELAY_WARNING") {
            Some(_) => 3.25,
            None => self.found.took.as_secs_f64(),
        };
        if took <= SLOW || !self.settings.advises(self.repo, keys::advice::STATUS_UOPTION)? {
            return Ok(());
        }
        let monitor = self.repo.config_str(&keys::core::FSMONITOR).is_some_and(|value| !value.is_empty());
        let monitor = monitor && !matches!(self.repo.config_as(&keys::core::FSMONITOR), Ok(Some(false)));
        lines.line(None, "");
        let took = format!("It took {took:.2} seconds to enumerate untracked files");
        lines.line(
            None,
            if monitor {
                format!("{took},\nbut the results were cached, and subsequent runs may be faster.")
            } else {
                format!("{took}.")
            },
        );
        lines.line(None, "See 'git help status' for information on how to improve this.");
        lines.line(None, "");
        Ok(())
    }

    /// Returns the last line: the reason why there is nothing to commit.
    fn verdict(&self) -> &'static str {
        let found = &self.found;
        if found.is_dirty {
            return if self.hints {
                "no changes added to commit (use \"git add\" and/or \"git commit -a\")"
            } else {
                "no changes added to commit"
            };
        }
        if !found.untracked.is_empty() {
            return if self.hints {
                "nothing added to commit but untracked files present (use \"git add\" to track)"
            } else {
                "nothing added to commit but untracked files present"
            };
        }
        match (found.is_initial, self.request.untracked == Untracked::No) {
            (false, false) => "nothing to commit, working tree clean",
            _ if !self.hints => "nothing to commit",
            (true, _) => "nothing to commit (create/copy files and use \"git add\" to track)",
            (false, true) => "nothing to commit (use -u to show untracked files)",
        }
    }
}
