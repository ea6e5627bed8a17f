//! Changes the entries of one key.

use bstr::{BStr, ByteSlice};

use super::{
    Change, Error, Key,
    scan::{BYTE_ORDER_MARK, Piece, PieceKind, scan},
};

/// Applies `change` to the entries of its key whose values `select` accepts, and returns the new
/// content.
pub fn change(
    content: &[u8],
    change: &Change<'_>,
    select: &dyn Fn(Option<&BStr>) -> bool,
) -> Result<Vec<u8>, Error> {
    let key = Key::parse(change.key)?;
    let pieces = scan(content, &key, select)?;
    let found: Vec<usize> = (0..pieces.len()).filter(|&at| pieces[at].kind == PieceKind::Match).collect();
    match (&found[..], change.value) {
        ([_, _, ..], _) if !change.all => Err(Error::Multiple { key: change.key.to_owned() }),
        ([], None) => Err(Error::Nothing),
        ([], Some(value)) => Ok(inserted(content, &pieces, &key, value, change.comment)),
        (found, None) => Ok(without(content, &pieces, found, true).finish()),
        (found, Some(value)) => {
            let mut copy = without(content, &pieces, found, false);
            write_entry(&mut copy.out, &key, value, change.comment);
            Ok(copy.finish())
        }
    }
}

/// A partial copy of a file.
struct Copy<'a> {
    content: &'a [u8],
    out: Vec<u8>,
    from: usize,
}

impl Copy<'_> {
    /// Copies the content up to `end`, and continues at `next`. A copied part ends in a newline.
    fn up_to(&mut self, end: usize, next: usize) {
        if end > self.from {
            self.out.extend_from_slice(&self.content[self.from..end]);
            if !self.out.ends_with(b"\n") {
                self.out.push(b'\n');
            }
        }
        self.from = next;
    }

    /// Copies the rest.
    fn finish(mut self) -> Vec<u8> {
        self.out.extend_from_slice(&self.content[self.from..]);
        self.out
    }
}

/// Returns the start of the white space before `begin` on its line.
fn indented_from(content: &[u8], begin: usize) -> usize {
    let blank = content[..begin].iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
    begin - blank.count()
}

fn inserted(
    content: &[u8],
    pieces: &[Piece],
    key: &Key<'_>,
    value: &BStr,
    comment: Option<&BStr>,
) -> Vec<u8> {
    let in_section = |piece: &&Piece| {
        matches!(piece.kind, PieceKind::Section { ours: true } | PieceKind::Entry { ours: true })
    };
    let mut copy = Copy { content, out: Vec::with_capacity(content.len() + 64), from: 0 };
    match pieces.iter().rfind(in_section) {
        Some(last) => {
            let after_newline =
                content.get(last.end) == Some(&b'\n') && content.get(last.end - 1) != Some(&b'\n');
            let end = last.end + usize::from(after_newline);
            copy.up_to(end, end);
        }
        None => {
            copy.up_to(content.len(), content.len());
            write_header(&mut copy.out, key.section, key.subsection);
        }
    }
    write_entry(&mut copy.out, key, value, comment);
    copy.finish()
}

/// Copies the file up to the last of `found`, and leaves all of them out. With `sections`, a
/// section that becomes empty is left out too.
fn without<'a>(content: &'a [u8], pieces: &[Piece], found: &[usize], sections: bool) -> Copy<'a> {
    let mut copy = Copy { content, out: Vec::with_capacity(content.len() + 64), from: 0 };
    let mut left = found;
    while let Some((&at, others)) = left.split_first() {
        let (begin, end);
        (begin, end, left) = match whole_section(content, pieces, left).filter(|_| sections) {
            Some((begin, end, others)) => (begin, end, others),
            None => (pieces[at].begin, pieces[at].end, others),
        };
        copy.up_to(indented_from(content, begin), end);
    }
    copy
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

/// Writes a section header on a line of its own.
pub(super) fn write_header(out: &mut Vec<u8>, section: &BStr, subsection: Option<&BStr>) {
    out.push(b'[');
    out.extend_from_slice(section);
    if let Some(subsection) = subsection {
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

fn write_entry(out: &mut Vec<u8>, key: &Key<'_>, value: &BStr, comment: Option<&BStr>) {
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
    if quoted {
        out.push(b'"');
    }
    out.extend_from_slice(comment.unwrap_or_default());
    out.push(b'\n');
}
