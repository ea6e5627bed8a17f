//! Cleaning of messages: white space, comments, and the text after the scissors. By the rules of
//! git-stripspace(1) and of `--cleanup` in git-commit(1).

use bstr::{BStr, BString, ByteSlice as _};
use repo::{Repository, keys};

use crate::{Error, text};

/// `--cleanup`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleanup {
    /// Removes white space and comments.
    Strip,
    /// Removes white space.
    Whitespace,
    /// Changes nothing.
    Verbatim,
    /// Removes white space, and the text after the scissors.
    Scissors,
}

/// The scissors line, without the comment prefix. The text from this line on is removed.
const CUT: &str = "------------------------ >8 ------------------------\n";

const EXPLANATION: [&str; 2] =
    ["Do not modify or remove the line above.", "Everything below it will be ignored."];

/// Returns the mode of this name. Its default depends on the use of an editor.
pub fn cleanup_mode(name: Option<&BStr>, editor: bool) -> Result<Cleanup, Error> {
    Ok(match name.map(|name| name.as_bytes()) {
        None | Some(b"default") if editor => Cleanup::Strip,
        None | Some(b"default" | b"whitespace") => Cleanup::Whitespace,
        Some(b"verbatim") => Cleanup::Verbatim,
        Some(b"strip") => Cleanup::Strip,
        Some(b"scissors") if editor => Cleanup::Scissors,
        Some(b"scissors") => Cleanup::Whitespace,
        Some(other) => return Err(Error::Failed(text!("Invalid cleanup mode ", other))),
    })
}

/// Returns the prefix of comment lines.
pub fn comment_sign(repo: &Repository) -> BString {
    let configured =
        repo.config_str(&keys::core::COMMENT_STRING).or_else(|| repo.config_str(&keys::core::COMMENT_CHAR));
    configured.filter(|value| !value.eq_ignore_ascii_case(b"auto")).unwrap_or_else(|| "#".into())
}

/// Removes white space at the ends of lines, empty lines at both ends, all but one of several empty
/// lines, and lines that begin with `comment`.
pub fn strip(message: &[u8], comment: Option<&BStr>) -> BString {
    let mut stripped = BString::default();
    let mut has_gap = false;
    for line in message.lines_with_terminator() {
        if comment.is_some_and(|comment| line.starts_with(comment)) {
            continue;
        }
        let line = line.trim_end_with(is_space);
        if line.is_empty() {
            has_gap = true;
            continue;
        }
        if has_gap && !stripped.is_empty() {
            stripped.push(b'\n');
        }
        has_gap = false;
        stripped.extend_from_slice(line);
        stripped.push(b'\n');
    }
    stripped
}

/// As in Git, only ASCII white space counts.
pub fn is_space(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\n' | '\r')
}

/// Returns the scissors line and its explanation.
pub fn scissors(comment: &BStr) -> BString {
    text!(comment, " ", CUT, comment, " ", EXPLANATION[0], "\n", comment, " ", EXPLANATION[1], "\n")
}

/// Returns the length of the message before the scissors.
pub fn before_scissors(message: &[u8], comment: &BStr) -> usize {
    let cut = text!(comment, " ", CUT);
    if message.starts_with(&cut) {
        return 0;
    }
    let cut = text!("\n", cut);
    let end = message.find_byte(0).unwrap_or(message.len());
    message[..end].find(&cut).map_or(message.len(), |at| at + 1)
}

/// Cleans a message for the commit.
pub fn clean(message: &[u8], mode: Cleanup, shows_patch: bool, comment: &BStr) -> BString {
    let end = if shows_patch || mode == Cleanup::Scissors {
        before_scissors(message, comment)
    } else {
        message.len()
    };
    match mode {
        Cleanup::Verbatim => message[..end].into(),
        Cleanup::Strip => strip(&message[..end], Some(comment)),
        Cleanup::Whitespace | Cleanup::Scissors => strip(&message[..end], None),
    }
}

/// Returns true if the message contains only white space and sign-offs from `start` on.
fn is_rest_empty(message: &[u8], start: usize) -> bool {
    let is_blank = |line: &[u8]| {
        line.starts_with(b"Signed-off-by: ") || line.iter().all(|byte| is_space(char::from(*byte)))
    };
    message[start..].split(|byte| *byte == b'\n').all(is_blank)
}

/// Returns true if the message is empty.
pub fn is_empty(message: &[u8], mode: Cleanup) -> bool {
    (mode != Cleanup::Verbatim || message.is_empty()) && is_rest_empty(message, 0)
}

/// Returns true if the message is the unchanged template.
pub fn is_untouched(message: &[u8], template: &[u8], mode: Cleanup, comment: &BStr) -> bool {
    if mode == Cleanup::Verbatim && !message.is_empty() || template.is_empty() {
        return false;
    }
    let template = strip(template, (mode == Cleanup::Strip).then_some(comment));
    let start = if message.starts_with(&template) { template.len() } else { 0 };
    is_rest_empty(message, start)
}

/// Returns the number of bytes at the end of the message that a sign-off must precede: comments, an
/// old list of conflicts, and the text after the scissors.
pub fn ignored_bytes(message: &[u8], comment: &BStr) -> usize {
    let cutoff = before_scissors(message, comment);
    let mut start: Option<usize> = None;
    let mut is_in_conflicts = false;
    let mut at = 0;
    while at < cutoff {
        let line = &message[at..cutoff];
        // As in Git, a comment at the very beginning does not count.
        let since = start.filter(|start| *start > 0).or(Some(at));
        if line.starts_with(comment) || line[0] == b'\n' {
            start = since;
        } else if message[at..].starts_with(b"Conflicts:\n") {
            is_in_conflicts = true;
            start = since;
        } else if !(is_in_conflicts && line[0] == b'\t') && start.is_some() {
            start = None;
            is_in_conflicts = false;
        }
        at += message[at..].find_byte(b'\n').map_or(message.len() - at, |end| end + 1);
    }
    match start.filter(|start| *start > 0) {
        Some(start) => message.len() - start,
        None => message.len() - cutoff,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips() {
        assert_eq!(strip(b"\n\n a \t\n\n\n# c\nb\n\n", None), " a\n\n# c\nb\n");
        assert_eq!(strip(b"a\n#x\n\nb", Some("#".into())), "a\n\nb\n");
        assert_eq!(strip(b" \n\t\n", None), "");
    }

    #[test]
    fn cuts() {
        let text = text!("a\n", scissors("#".into()), "patch\n");
        assert_eq!(clean(&text, Cleanup::Scissors, false, "#".into()), "a\n");
        assert_eq!(before_scissors(&scissors(";".into()), ";".into()), 0);
        assert_eq!(before_scissors(&text, ";".into()), text.len());
    }

    #[test]
    fn empty_messages() {
        assert!(is_empty(b"\nSigned-off-by: a <b>\n", Cleanup::Strip));
        assert!(!is_empty(b"\n", Cleanup::Verbatim));
        assert!(is_untouched(b"a\n", b"a\n#b\n", Cleanup::Strip, "#".into()));
        assert!(!is_untouched(b"a\nb\n", b"a\n", Cleanup::Strip, "#".into()));
    }

    #[test]
    fn bytes_after_the_message() {
        assert_eq!(ignored_bytes(b"a\n\nConflicts:\n\tx\n", "#".into()), 15);
        assert_eq!(ignored_bytes(b"a\n# b\nc\n", "#".into()), 0);
        assert_eq!(ignored_bytes(b"a\n\n# b\n", "#".into()), 5);
        assert_eq!(ignored_bytes(b"# a\n# b\n", "#".into()), 4);
    }
}
