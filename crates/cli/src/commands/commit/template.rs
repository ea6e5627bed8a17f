//! `COMMIT_EDITMSG`: the draft of the message, and the comments below it for the editor.

use bstr::{BStr, BString, ByteSlice as _};
use repo::Person;
use sapwood::commit::{
    Whence,
    cleanup::{self, Cleanup},
    prepare::Prepared,
};

use super::{Run, message::Draft, patch::Patch, signoff};
use crate::{
    commands::status::preview::{self, Preview},
    term::{console::text, failure::Failure, text::date::DateFormat},
};

/// Lines of text, each with the comment prefix.
struct Comments<'a> {
    out: BString,
    sign: &'a BStr,
}

impl Comments<'_> {
    /// Adds lines; an empty last line does not count.
    fn add(&mut self, text: impl AsRef<[u8]>) {
        for line in text.as_ref().lines() {
            let gap = if line.is_empty() || line.starts_with(b"\t") { "" } else { " " };
            self.out.extend_from_slice(&text!(self.sign, gap, line, "\n"));
        }
    }
}

impl Run<'_> {
    /// Cleans the draft, and adds the sign-off.
    pub(super) fn finish_draft(&self, draft: &mut Draft, committer: &BStr) {
        if !draft.is_template && self.plan.cleanup != Cleanup::Verbatim {
            draft.text = cleanup::strip(&draft.text, None);
        }
        if self.plan.request.signoff {
            let comment = self.comment.as_bstr();
            let ignored = cleanup::ignored_bytes(&draft.text, comment);
            signoff::append(self.session.repository, &mut draft.text, committer, ignored, comment);
        }
    }

    /// Returns the comments for the editor, and true if there is something to commit.
    pub(super) fn comments(
        &self,
        draft: &Draft,
        prepared: &Prepared<'_>,
        author: &Person,
        committer: &Person,
    ) -> Result<(BString, bool), Failure> {
        let plan = self.plan;
        let sign = self.comment.as_bstr();
        let mut comments = Comments { out: BString::default(), sign };
        let mut has_scissors = draft.has_scissors;
        if plan.whence != Whence::Commit {
            if plan.cleanup == Cleanup::Scissors && !has_scissors {
                comments.out.extend_from_slice(&cleanup::scissors(sign));
                has_scissors = true;
            }
            let (what, head) = match plan.whence {
                Whence::Merge => ("merge", "MERGE_HEAD"),
                _ => ("cherry-pick", "CHERRY_PICK_HEAD"),
            };
            comments.add(format!(
                "\nIt looks like you may be committing a {what}.\nIf this is not correct, please run\n\
                 \tgit update-ref -d {head}\nand try again.\n"
            ));
            comments.out.push(b'\n');
        }
        comments.out.push(b'\n');
        match plan.cleanup {
            Cleanup::Scissors if plan.whence == Whence::Commit && !has_scissors => {
                comments.out.extend_from_slice(&cleanup::scissors(sign));
                has_scissors = true;
            }
            Cleanup::Scissors => {}
            cleanup => comments.add(self.advice(cleanup)),
        }
        self.add_identities(&mut comments, author, committer);
        let what = Preview {
            is_template: true,
            amends: plan.request.amend,
            index_file: prepared.file.clone(),
            ..Preview::default()
        };
        let patch = Patch { run: self, file: &prepared.file, cuts: !has_scissors, is_template: true };
        let wanted = &plan.request.wanted;
        let preview = preview::preview(self.session, prepared.read(), wanted, what, &|it| patch.show(it))?;
        comments.out.extend_from_slice(&preview.text);
        Ok((comments.out, preview.is_committable))
    }

    fn advice(&self, cleanup: Cleanup) -> BString {
        let sign = &self.comment;
        let may_be_empty = self.plan.request.allow_empty_message;
        let lead = "Please enter the commit message for your changes. Lines starting\n";
        match (cleanup, may_be_empty) {
            (Cleanup::Strip, true) => text!(lead, "with '", sign, "' will be ignored.\n"),
            (Cleanup::Strip, false) => {
                text!(lead, "with '", sign, "' will be ignored, and an empty message aborts the commit.\n")
            }
            (_, may_be_empty) => text!(
                lead,
                "with '",
                sign,
                "' will be kept; you may remove them yourself if you want to.\n",
                if may_be_empty { "" } else { "An empty message aborts the commit.\n" }
            ),
        }
    }

    fn add_identities(&self, comments: &mut Comments<'_>, author: &Person, committer: &Person) {
        let mut lines = BString::default();
        if author.name_and_mail() != committer.name_and_mail() {
            lines.extend_from_slice(&text!("Author:    ", author.name_and_mail(), "\n"));
        }
        if self.plan.is_date_of_interest() {
            lines.extend_from_slice(&text!("Date:      ", shown_date(author), "\n"));
        }
        if !self.session.repository.names_committer() {
            lines.extend_from_slice(&text!("Committer: ", committer.name_and_mail(), "\n"));
        }
        if !lines.is_empty() {
            comments.add("\n");
            comments.add(&lines);
        }
        comments.add("\n");
    }
}

/// Returns the author's date in the form for people.
pub(super) fn shown_date(author: &Person) -> BString {
    let mut words = author.date.split(' ');
    let seconds = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let zone = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    DateFormat::DEFAULT.show(seconds, zone, 0).unwrap_or_else(|| author.date.clone()).into()
}
