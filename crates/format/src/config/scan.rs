//! Splits a configuration file into sections, entries and comments.

use bstr::{BStr, BString, ByteSlice};

use super::{Error, Key, is_name_byte};

pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PieceKind {
    /// A section header. `ours` is true if it is the key's section.
    Section {
        ours: bool,
    },
    /// Any other entry. `ours` is true if it is in the key's section.
    Entry {
        ours: bool,
    },
    /// An entry of the key that is selected.
    Match,
    Comment,
}

/// A part of the file that is not white space.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) kind: PieceKind,
    pub(super) begin: usize,
    pub(super) end: usize,
}

/// Returns the parts of the file in order. `select` receives the value of an entry of the key and
/// returns true if the entry is selected.
pub(super) fn scan(
    content: &[u8],
    key: &Key<'_>,
    select: &dyn Fn(Option<&BStr>) -> bool,
) -> Result<Vec<Piece>, Error> {
    let mut pieces = Vec::new();
    let mut at = if content.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    let (mut ours, mut exact) = (false, false);
    while let Some(&byte) = content.get(at) {
        let begin = at;
        let kind = match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {
                at += 1;
                continue;
            }
            b'#' | b';' => {
                at = line_end(content, at);
                PieceKind::Comment
            }
            b'[' => {
                let end = header_end(content, at).ok_or_else(|| syntax(content, begin))?;
                let header = header_of(&content[at + 1..end - 1], key);
                (ours, exact) = header.ok_or_else(|| syntax(content, begin))?;
                at = end;
                PieceKind::Section { ours }
            }
            _ if byte.is_ascii_alphabetic() => {
                let name = content[at..].iter().take_while(|&&byte| is_name_byte(byte)).count();
                let name = &content[at..at + name];
                let after_name = at + name.len();
                at = entry_end(content, after_name).ok_or_else(|| syntax(content, begin))?;
                let is_match = exact
                    && name.eq_ignore_ascii_case(key.name)
                    && select(value(&content[after_name..at]).as_ref().map(|value| value.as_bstr()));
                if is_match { PieceKind::Match } else { PieceKind::Entry { ours } }
            }
            _ => return Err(syntax(content, at)),
        };
        // As in Git, a CR LF after a part adds its CR to the part.
        at += usize::from(content[at..].starts_with(b"\r\n"));
        pieces.push(Piece { kind, begin, end: at });
    }
    Ok(pieces)
}

fn syntax(content: &[u8], at: usize) -> Error {
    Error::Syntax { line: content[..at].iter().filter(|&&byte| byte == b'\n').count() + 1 }
}

/// Returns the offset after the newline, or the end.
fn line_end(content: &[u8], at: usize) -> usize {
    content[at..].find_byte(b'\n').map_or(content.len(), |newline| at + newline + 1)
}

/// Returns the offset after the `]` of the header that begins at `at`.
fn header_end(content: &[u8], at: usize) -> Option<usize> {
    let mut quoted = false;
    let mut bytes = content.iter().enumerate().skip(at + 1);
    while let Some((at, &byte)) = bytes.next() {
        match byte {
            b'\n' => return None,
            b'"' => quoted = !quoted,
            b'\\' if quoted => drop(bytes.next()?),
            b']' if !quoted => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Parses the text between the brackets. Returns two flags: the header is that of the key's
/// section, and entries below it can belong to the key. Returns `None` if it is malformed.
fn header_of(header: &[u8], key: &Key<'_>) -> Option<(bool, bool)> {
    let name_end =
        header.iter().position(|&byte| !is_name_byte(byte) && byte != b'.').unwrap_or(header.len());
    let (name, rest) = header.split_at(name_end);
    if name.is_empty() {
        return None;
    }
    let has_blank = rest.len() > rest.trim_ascii_start().len();
    let rest = rest.trim_ascii_start();
    if rest.is_empty() && has_blank {
        // After a blank, Git expects a subsection.
        return None;
    }
    if rest.is_empty() {
        // `[section.subsection]` is an old form. Git ignores its case when it looks for a section,
        // and reads it as lower case when it looks for a key.
        let (section, subsection) = match name.split_once_str(".") {
            Some((section, subsection)) => (section, Some(subsection)),
            None => (name, None),
        };
        let (same, exact) = match (subsection, key.subsection) {
            (Some(old), Some(wanted)) => {
                (wanted.eq_ignore_ascii_case(old), *wanted == old.to_ascii_lowercase())
            }
            (None, None) => (true, true),
            _ => (false, false),
        };
        let section = section.eq_ignore_ascii_case(key.section);
        return Some((section && same, section && exact));
    }
    let quoted = rest.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let mut subsection = BString::default();
    let mut bytes = quoted.iter();
    while let Some(&byte) = bytes.next() {
        subsection.push(if byte == b'\\' { *bytes.next()? } else { byte });
    }
    let same = key.subsection.is_some_and(|wanted| *wanted == subsection);
    let ours = name.eq_ignore_ascii_case(key.section) && same;
    Some((ours, ours))
}

/// Returns the offset after the entry whose name ends at `at`, including continuation lines and a
/// comment.
fn entry_end(content: &[u8], at: usize) -> Option<usize> {
    let blank = content[at..].iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count();
    let mut at = at + blank;
    match content.get(at) {
        None => return Some(at),
        Some(b'\n') => return Some(at + 1),
        Some(b'\r') if content.get(at + 1) == Some(&b'\n') => return Some(at + 2),
        Some(b'=') => at += 1,
        Some(_) => return None,
    }
    let mut quoted = false;
    while let Some(&byte) = content.get(at) {
        match byte {
            b'\n' if quoted => return None,
            b'\n' => return Some(at + 1),
            b'#' | b';' if !quoted => return Some(line_end(content, at)),
            b'"' => quoted = !quoted,
            b'\\' => {
                at += 1;
                match content.get(at) {
                    Some(b'\n' | b't' | b'b' | b'n' | b'\\' | b'"') => {}
                    Some(b'\r') if content.get(at + 1) == Some(&b'\n') => at += 1,
                    _ => return None,
                }
            }
            _ => {}
        }
        at += 1;
    }
    (!quoted).then_some(at)
}

/// Returns the value of a valid entry. `entry` is the text after the name. `None` is a name without
/// `=`.
fn value(entry: &[u8]) -> Option<BString> {
    let text = entry.trim_start_with(|byte| byte == ' ' || byte == '\t').strip_prefix(b"=")?;
    let mut value = BString::default();
    // Length of the value without trailing blanks. Blanks count only if something follows them.
    let mut trimmed = 0;
    let mut quoted = false;
    let mut bytes = text.iter().enumerate();
    while let Some((at, &byte)) = bytes.next() {
        match byte {
            b'\r' if text.get(at + 1) == Some(&b'\n') => continue,
            b'\n' => break,
            b'#' | b';' if !quoted => break,
            b' ' | b'\t' | b'\r' if !quoted => {
                if !value.is_empty() {
                    value.push(byte);
                }
                continue;
            }
            b'"' => quoted = !quoted,
            b'\\' => match bytes.next() {
                Some((at, b'\r')) if text.get(at + 1) == Some(&b'\n') => drop(bytes.next()),
                Some((_, b't')) => value.push(b'\t'),
                Some((_, b'b')) => value.push(8),
                Some((_, b'n')) => value.push(b'\n'),
                Some((_, &other)) if other != b'\n' => value.push(other),
                _ => {}
            },
            _ => value.push(byte),
        }
        trimmed = value.len();
    }
    value.truncate(trimmed);
    Some(value)
}
