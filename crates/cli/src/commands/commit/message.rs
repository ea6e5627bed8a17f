//! The draft of the message: from options, from another commit, or from the operation that the
//! commit concludes.

use bstr::{BStr, BString, ByteSlice as _};
use repo::CommitText;
use sapwood::commit::{
    self,
    cleanup::{self, Cleanup},
};

use super::{
    Run,
    plan::{self, FixupKind, Plan},
};
use crate::{
    session::{
        Session,
        input::{self as standard, Input},
    },
    term::{
        console::{self, text},
        failure::Failure,
        files,
        text::{os_error, os_str},
    },
};

/// The draft of the message.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) text: BString,
    /// The arguments of `prepare-commit-msg` that name the draft's source.
    pub(super) source: Vec<String>,
    /// The text is a template: its white space is kept.
    pub(super) is_template: bool,
    /// The draft already contains the scissors line.
    pub(super) has_scissors: bool,
}

/// Reads standard input for `-F -`. Nothing is locked yet.
pub(super) fn standard_input(session: Session<'_>, plan: &Plan) -> Result<Option<Vec<u8>>, Failure> {
    use std::io::IsTerminal as _;
    let is_used =
        plan.request.file.as_ref().is_some_and(|file| file == "-") && plan.request.message.is_none();
    if !is_used || plan.request.dry_run {
        return Ok(None);
    }
    if std::io::stdin().is_terminal() {
        crate::term::console::eprint_line("(reading log message from standard input)");
    }
    let read = Input::new(session.invocation)?.all()?;
    let failed =
        |error| Failure::fatal(format!("could not read log from standard input: {}", os_error(&error)));
    read.map(Some).map_err(failed)
}

/// Returns the draft. `input` is the text of `-F -`.
pub(super) fn draft(
    session: Session<'_>,
    plan: &Plan,
    input: Option<Vec<u8>>,
    comment: &BStr,
) -> Result<Draft, Failure> {
    let repo = session.repository;
    let request = &plan.request;
    let mut draft = Draft::default();
    if let Some(spec) = &request.squash {
        let is_same = request.reedit.as_ref().or(request.reuse.as_ref()) == Some(spec);
        draft.text = if is_same {
            "squash! ".into()
        } else {
            text!("squash! ", subject(session, &plan::commit(repo, spec.as_bstr())?), "\n\n")
        };
    }
    let text = &mut draft.text;
    let source: &[&str] = if let (Some(message), None) = (&request.message, &plan.fixup) {
        text.extend_from_slice(message);
        &["message"]
    } else if let Some(input) = input {
        text.extend_from_slice(&input);
        &["message"]
    } else if let Some(file) = &request.file {
        let read = session.invocation.path(file).map(|path| {
            standard::note_read(&path);
            files::read(&path)
        });
        text.extend_from_slice(&there(
            read?,
            "could not read log file '",
            plan::below_top(repo, file.as_bstr()),
        )?);
        &["message"]
    } else if let Some((spec, commit)) = &plan.reused {
        let message = commit.recode(commit.message.as_bstr(), repo.commit_encoding().as_bstr());
        text.extend_from_slice(without_blank_lines(&message));
        draft.source = vec!["commit".to_owned(), spec.to_string()];
        &[]
    } else if plan.fixup.is_some() {
        fixup(session, plan, text)?;
        &["message"]
    } else if let Some(message) = commit::operation_message(session.context(session.invocation))? {
        let merged = &message.text[message.squashed..];
        draft.has_scissors =
            plan.cleanup == Cleanup::Scissors && cleanup::before_scissors(merged, comment) < merged.len();
        text.extend_from_slice(&message.text);
        draft.source = vec![message.source.to_owned()];
        &[]
    } else if let Some(file) = &plan.template {
        text.extend_from_slice(&template(session, file)?);
        draft.is_template = true;
        &["template"]
    } else {
        plan.whence.message_source()
    };
    if draft.source.is_empty() {
        draft.source = source.iter().map(|word| (*word).to_owned()).collect();
    }
    if request.squash.is_some() {
        draft.source = vec!["message".to_owned(), String::new()];
    }
    Ok(draft)
}

/// Reads the template; the file name is relative to the worktree's root.
pub(super) fn template(session: Session<'_>, file: &BString) -> Result<Vec<u8>, Failure> {
    let path = session.repository.base_dir().join(os_str(file));
    there(files::read(&path), "could not read '", file.clone())
}

fn there(read: std::io::Result<Option<Vec<u8>>>, lead: &str, name: BString) -> Result<Vec<u8>, Failure> {
    let reason = match read {
        Ok(Some(content)) => return Ok(content),
        Ok(None) => "No such file or directory".to_owned(),
        Err(error) => os_error(&error),
    };
    Err(Failure::Fatal(text!(lead, name, "': ", reason)))
}

/// Adds the message of `--fixup` in all its forms.
fn fixup(session: Session<'_>, plan: &Plan, text: &mut BString) -> Result<(), Failure> {
    let fixup = plan.fixup.as_ref().expect("the caller has seen it");
    let repo = session.repository;
    let commit = plan::commit(repo, fixup.commit.as_bstr())?;
    let lead = if fixup.kind == FixupKind::Fixup { "fixup" } else { "amend" };
    text.extend_from_slice(&text!(lead, "! ", subject(session, &commit), "\n\n"));
    match (&plan.request.message, fixup.kind) {
        (Some(message), FixupKind::Fixup) => text.extend_from_slice(message),
        (Some(_), kind) => {
            let word = if kind == FixupKind::Amend { "amend" } else { "reword" };
            return Err(Failure::fatal(format!("options '-m' and '--fixup:{word}' cannot be used together")));
        }
        (None, FixupKind::Fixup) => {}
        (None, _) => {
            let message = commit.recode(commit.message.as_bstr(), repo.commit_encoding().as_bstr());
            let message = without_blank_lines(&message);
            // The message of an `amend!` commit does not repeat the subject of an `amend!` commit.
            let body = if message.starts_with(b"amend!") {
                without_blank_lines(&message[subject_length(message)..])
            } else {
                message
            };
            text.extend_from_slice(body);
        }
    }
    Ok(())
}

/// Returns the subject of a commit in the encoding of new commits.
fn subject(session: Session<'_>, commit: &CommitText) -> BString {
    let encoding = session.repository.commit_encoding();
    let message = commit.recode(commit.message.as_bstr(), encoding.as_bstr());
    subject_of(&message)
}

/// Returns the subject of a message: its first paragraph as one line.
pub(super) fn subject_of(message: &[u8]) -> BString {
    let message = without_blank_lines(message);
    let lines = message[..subject_length(message)].lines().map(|line| line.trim_end_with(cleanup::is_space));
    bstr::join(" ", lines).into()
}

/// Returns the length of the first paragraph, in bytes.
pub(super) fn subject_length(message: &[u8]) -> usize {
    let mut length = 0;
    for line in message.lines_with_terminator() {
        if is_blank(line) {
            break;
        }
        length += line.len();
    }
    length
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| cleanup::is_space(char::from(*byte)))
}

fn without_blank_lines(message: &[u8]) -> &[u8] {
    let mut rest = message;
    while let Some(line) = rest.lines_with_terminator().next().filter(|line| is_blank(line)) {
        rest = &rest[line.len()..];
    }
    rest
}

impl Run<'_> {
    /// Reads the final message. The failure explains why it is missing.
    pub(super) fn read_message(&self) -> Result<BString, Failure> {
        let plan = self.plan;
        let comment = self.comment.as_bstr();
        let read = files::read(&self.session.repository.git_dir().join("COMMIT_EDITMSG"));
        let reason = match read {
            Ok(Some(text)) => {
                let text = cleanup::clean(&text, plan.cleanup, plan.verbose > 0, comment);
                self.check_message(&text, plan.cleanup)?;
                return Ok(text);
            }
            Ok(None) => "No such file or directory".to_owned(),
            Err(error) => os_error(&error),
        };
        Err(Failure::fatal(format!("could not read commit message: {reason}")))
    }

    fn check_message(&self, text: &[u8], mode: Cleanup) -> Result<(), Failure> {
        let plan = self.plan;
        if plan.request.allow_empty_message {
            return Ok(());
        }
        let refused = |why: &str| {
            console::eprint_line(why);
            Err(Failure::Reported(1))
        };
        if cleanup::is_empty(text, mode) {
            return refused("Aborting commit due to empty commit message.");
        }
        let template = plan.template.as_ref().and_then(|file| template(self.session, file).ok());
        let is_untouched = template
            .is_some_and(|template| cleanup::is_untouched(text, &template, mode, self.comment.as_bstr()));
        if is_untouched {
            return refused("Aborting commit; you did not edit the message.");
        }
        if plan.fixup.is_some() && text.starts_with(b"amend! ") {
            let body = &text[subject_length(text)..];
            if cleanup::is_empty(body, mode) {
                return refused("Aborting commit due to empty commit message body.");
            }
        }
        Ok(())
    }
}
