//! Edits configuration files and preserves the rest of their content.
//!
//! Source: `git-config(1)`, "Syntax". Bytes outside an edit stay unchanged, including comments and
//! odd formatting. The edit writes the same text at the same place as `git config`: it replaces a
//! value where it stands, adds a new value after the last one of its section, and adds a new
//! section at the end.
//!
//! Reading values for use, with includes and scopes, happens elsewhere.

use bstr::{BStr, BString, ByteSlice};

/// One change. Keys have the form `section.name` or `section.subsection.name`. Section and name are
/// compared without case, and written as given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Set the key's only value.
    Set {
        /// The key.
        key: BString,
        /// The value, unquoted.
        value: BString,
    },
    /// Add one more value to the key.
    Add {
        /// The key.
        key: BString,
        /// The value, unquoted.
        value: BString,
    },
    /// Remove all values of the key. Also remove a section that becomes empty, unless a comment may
    /// refer to it.
    Unset {
        /// The key.
        key: BString,
    },
}

/// Why nothing was changed. The messages are Git's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("key does not contain a section: {0}")]
    NoSection(BString),
    #[error("key does not contain variable name: {0}")]
    NoName(BString),
    #[error("invalid key: {0}")]
    InvalidKey(BString),
    /// The caller adds the file: `bad config line <n> in file <file>`.
    #[error("bad config line {line}")]
    Syntax { line: usize },
    #[error("cannot overwrite multiple values with a single value: {key}")]
    Multiple { key: BString },
}

/// Applies `edits` in order and returns the new content.
pub fn edit(content: &[u8], edits: &[Edit]) -> Result<Vec<u8>, Error> {
    edits.iter().try_fold(content.to_vec(), |content, edit| edit_once(&content, edit))
}

/// The parts of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// The text before the first dot.
    pub section: &'a BStr,
    /// The text between the first and the last dot: any bytes but newline and NUL.
    pub subsection: Option<&'a BStr>,
    /// The text after the last dot.
    pub name: &'a BStr,
}

impl<'a> Key<'a> {
    /// Parses `section.name` or `section.subsection.name`.
    pub fn parse(key: &'a [u8]) -> Result<Key<'a>, Error> {
        let whole = || BString::from(key);
        let first = key.find_byte(b'.').filter(|at| *at > 0).ok_or_else(|| Error::NoSection(whole()))?;
        let last = key.rfind_byte(b'.').ok_or_else(|| Error::NoSection(whole()))?;
        let (section, name) = (&key[..first], &key[last + 1..]);
        if name.is_empty() {
            return Err(Error::NoName(whole()));
        }
        let subsection = (first < last).then(|| key[first + 1..last].as_bstr());
        let plain = |part: &[u8]| part.iter().all(|&byte| is_name_byte(byte));
        let newline = subsection.is_some_and(|subsection| subsection.find_byteset(b"\n\0").is_some());
        if !plain(section) || !plain(name) || !name[0].is_ascii_alphabetic() || newline {
            return Err(Error::InvalidKey(whole()));
        }
        Ok(Key { section: section.as_bstr(), subsection, name: name.as_bstr() })
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn edit_once(content: &[u8], edit: &Edit) -> Result<Vec<u8>, Error> {
    let (Edit::Set { key, .. } | Edit::Add { key, .. } | Edit::Unset { key }) = edit;
    let parsed = Key::parse(key)?;
    let pieces = scan(content, &parsed)?;
    let found: Vec<usize> = (0..pieces.len()).filter(|&at| pieces[at].kind == PieceKind::Match).collect();
    match edit {
        Edit::Unset { .. } => Ok(without(content, &pieces, &found)),
        Edit::Set { value, .. } if !found.is_empty() => match found[..] {
            [only] => Ok(replaced(content, &pieces[only], &parsed, value)),
            _ => Err(Error::Multiple { key: key.clone() }),
        },
        Edit::Set { value, .. } | Edit::Add { value, .. } => Ok(inserted(content, &pieces, &parsed, value)),
    }
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PieceKind {
    /// A section header. `ours` is true if it is the key's section.
    Section {
        ours: bool,
    },
    /// An entry of another key. `ours` is true if it is in the key's section.
    Entry {
        ours: bool,
    },
    /// An entry of the key.
    Match,
    Comment,
}

/// A part of the file that is not white space.
#[derive(Clone, Copy, Debug)]
struct Piece {
    kind: PieceKind,
    begin: usize,
    end: usize,
}

fn scan(content: &[u8], key: &Key<'_>) -> Result<Vec<Piece>, Error> {
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
                at = entry_end(content, at + name.len()).ok_or_else(|| syntax(content, begin))?;
                match exact && name.eq_ignore_ascii_case(key.name) {
                    true => PieceKind::Match,
                    false => PieceKind::Entry { ours },
                }
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

/// Parses the text between the brackets. Returns two flags: if it names the key's section, and if
/// entries below it can belong to the key. Returns `None` if it is malformed.
fn header_of(header: &[u8], key: &Key<'_>) -> Option<(bool, bool)> {
    let name_end =
        header.iter().position(|&byte| !is_name_byte(byte) && byte != b'.').unwrap_or(header.len());
    let (name, rest) = header.split_at(name_end);
    let rest = rest.trim_ascii_start();
    if rest.is_empty() {
        // `[section.subsection]` is an old form. Git compares it without case when it looks for a
        // section, and as lower case when it looks for a key.
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

/// Returns the content before `end`, with a newline added if it lacks one.
fn lines_before(content: &[u8], end: usize) -> Vec<u8> {
    let mut out = content[..end].to_vec();
    if !out.is_empty() && !out.ends_with(b"\n") {
        out.push(b'\n');
    }
    out
}

fn replaced(content: &[u8], piece: &Piece, key: &Key<'_>, value: &BString) -> Vec<u8> {
    let mut out = lines_before(content, indented_from(content, piece.begin));
    write_entry(&mut out, key, value);
    out.extend_from_slice(&content[piece.end..]);
    out
}

/// Returns the start of the white space before `begin` on its line.
fn indented_from(content: &[u8], begin: usize) -> usize {
    let blank = content[..begin].iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
    begin - blank.count()
}

fn inserted(content: &[u8], pieces: &[Piece], key: &Key<'_>, value: &BString) -> Vec<u8> {
    let in_section = |piece: &&Piece| {
        let ours = [PieceKind::Section { ours: true }, PieceKind::Entry { ours: true }, PieceKind::Match];
        ours.contains(&piece.kind)
    };
    let Some(last) = pieces.iter().rfind(in_section) else {
        let mut out = lines_before(content, content.len());
        write_header(&mut out, key);
        write_entry(&mut out, key, value);
        return out;
    };
    let after_newline = content.get(last.end) == Some(&b'\n') && content.get(last.end - 1) != Some(&b'\n');
    let end = last.end + usize::from(after_newline);
    let mut out = lines_before(content, end);
    write_entry(&mut out, key, value);
    out.extend_from_slice(&content[end..]);
    out
}

fn without(content: &[u8], pieces: &[Piece], found: &[usize]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len());
    let mut from = 0;
    let mut left = found;
    while let Some((&at, others)) = left.split_first() {
        let (begin, end);
        (begin, end, left) = match whole_section(content, pieces, left) {
            Some((begin, end, others)) => (begin, end, others),
            None => (pieces[at].begin, pieces[at].end, others),
        };
        let begin = indented_from(content, begin);
        if begin > from {
            out.extend_from_slice(&content[from..begin]);
            if !out.ends_with(b"\n") {
                out.push(b'\n');
            }
        }
        from = end;
    }
    out.extend_from_slice(&content[from..]);
    out
}

/// Returns the range to remove together with the first of `found`. It is the whole section, with
/// its headers and the white space around them, if the section's last entries are removed and no
/// comment could refer to it. Returns begin, end, and the rest of `found`.
fn whole_section<'a>(
    content: &[u8],
    pieces: &[Piece],
    found: &'a [usize],
) -> Option<(usize, usize, &'a [usize])> {
    let (&at, mut left) = found.split_first()?;
    let mut header = None;
    for before in (0..at).rev() {
        match pieces[before].kind {
            PieceKind::Comment => return None,
            PieceKind::Section { ours: true } => header = Some(before),
            PieceKind::Section { ours: false } => break,
            _ if header.is_some() => break,
            _ => return None,
        }
    }
    let mut end = content.len();
    for (after, piece) in pieces.iter().enumerate().skip(at + 1) {
        match piece.kind {
            PieceKind::Comment => return None,
            PieceKind::Section { ours: true } => {}
            PieceKind::Section { ours: false } => {
                end = piece.begin;
                break;
            }
            _ => left = left.split_first().filter(|(next, _)| **next == after)?.1,
        }
    }
    let mark = if content.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    let begin = pieces[..header?].last().map_or(mark, |before| before.end);
    Some((begin, end, left))
}

fn write_header(out: &mut Vec<u8>, key: &Key<'_>) {
    out.push(b'[');
    out.extend_from_slice(key.section);
    if let Some(subsection) = key.subsection {
        out.extend_from_slice(b" \"");
        for &byte in subsection.iter() {
            if byte == b'"' || byte == b'\\' {
                out.push(b'\\');
            }
            out.push(byte);
        }
        out.push(b'"');
    }
    out.extend_from_slice(b"]\n");
}

fn write_entry(out: &mut Vec<u8>, key: &Key<'_>, value: &BString) {
    let quoted = value.starts_with(b" ") || value.ends_with(b" ") || value.find_byteset(b";#\r").is_some();
    out.push(b'\t');
    out.extend_from_slice(key.name);
    out.extend_from_slice(if quoted { b" = \"" } else { b" = " });
    for &byte in value.iter() {
        match byte {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            _ => out.push(byte),
        }
    }
    out.extend_from_slice(if quoted { b"\"\n" } else { b"\n" });
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
