//! Line ends and `$Id$`: conversions of bytes in memory.
//!
//! Source: gitattributes(5) `text`, `eol`, `ident`; git-config(1) `core.autocrlf`, `core.eol`.

use format::{HashKind, ObjectId, hash::Hasher};

/// The conversion of line ends, after all settings and attributes are considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEnds {
    /// No conversion.
    Keep,
    /// Text: LF in the worktree.
    Lf,
    /// Text: CRLF in the worktree.
    CrLf,
    /// Text if the content looks like text: LF in the worktree.
    AutoLf,
    /// Text if the content looks like text: CRLF in the worktree.
    AutoCrLf,
}

impl LineEnds {
    fn is_auto(self) -> bool {
        matches!(self, LineEnds::AutoLf | LineEnds::AutoCrLf)
    }

    /// Returns true if files in the worktree get CRLF.
    pub(super) fn adds_cr(self) -> bool {
        matches!(self, LineEnds::CrLf | LineEnds::AutoCrLf)
    }
}

/// Counts of bytes that decide whether content is text.
#[derive(Default)]
struct Stats {
    nul: usize,
    lone_cr: usize,
    lone_lf: usize,
    crlf: usize,
    printable: usize,
    nonprintable: usize,
}

impl Stats {
    fn of(bytes: &[u8]) -> Stats {
        let mut stats = Stats::default();
        let mut at = 0;
        while at < bytes.len() {
            match bytes[at] {
                b'\r' if bytes.get(at + 1) == Some(&b'\n') => {
                    stats.crlf += 1;
                    at += 1;
                }
                b'\r' => stats.lone_cr += 1,
                b'\n' => stats.lone_lf += 1,
                0 => {
                    stats.nul += 1;
                    stats.nonprintable += 1;
                }
                0x08 | b'\t' | 0x1b | 0x0c => stats.printable += 1,
                0..32 | 127 => stats.nonprintable += 1,
                _ => stats.printable += 1,
            }
            at += 1;
        }
        // A final ^Z marks the end of a DOS text.
        if bytes.last() == Some(&0x1a) {
            stats.nonprintable -= 1;
        }
        stats
    }

    fn is_binary(&self) -> bool {
        self.lone_cr > 0 || self.nul > 0 || self.printable / 128 < self.nonprintable
    }

    /// Returns the line ends that are lost if a file is stored and checked out again. `converted`
    /// is true if storing changes CRLF to LF.
    fn lost(&self, ends: LineEnds, converted: bool) -> Option<Lost> {
        let (crlf, lone_lf) =
            if converted { (0, self.lone_lf + self.crlf) } else { (self.crlf, self.lone_lf) };
        let restored = ends.adds_cr() && lone_lf > 0 && !(ends.is_auto() && (self.lone_cr > 0 || crlf > 0));
        let (crlf, lone_lf) = if restored { (crlf + lone_lf, 0) } else { (crlf, lone_lf) };
        match (self.crlf > 0 && crlf == 0, self.lone_lf > 0 && lone_lf == 0) {
            (true, _) => Some(Lost::CrLf),
            (false, true) => Some(Lost::Lf),
            (false, false) => None,
        }
    }
}

/// Describes the line ends of content as `ls-files --eol` does.
pub fn describe(bytes: &[u8]) -> &'static str {
    let stats = Stats::of(bytes);
    match (stats.lone_lf > 0, stats.crlf > 0) {
        _ if bytes.is_empty() => "none",
        _ if stats.is_binary() => "-text",
        (true, false) => "lf",
        (false, true) => "crlf",
        (true, true) => "mixed",
        (false, false) => "none",
    }
}

/// Converts LF to CRLF; returns false if there is nothing to convert.
pub(super) fn line_ends_to_worktree(bytes: &[u8], ends: LineEnds, out: &mut Vec<u8>) -> bool {
    if !ends.adds_cr() || bytes.is_empty() {
        return false;
    }
    let stats = Stats::of(bytes);
    if stats.lone_lf == 0 {
        return false;
    }
    if ends.is_auto() && (stats.lone_cr > 0 || stats.crlf > 0 || stats.is_binary()) {
        return false;
    }
    out.clear();
    out.reserve(bytes.len() + stats.lone_lf);
    let mut previous = 0;
    for &c in bytes {
        if c == b'\n' && previous != b'\r' {
            out.push(b'\r');
        }
        out.push(c);
        previous = c;
    }
    true
}

/// The result of [`line_ends_to_git`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ToGit {
    /// False if the bytes stay as they are.
    pub(super) converted: bool,
    /// The line ends that a checkout of the result would not restore.
    pub(super) lost: Option<Lost>,
}

/// Line ends that a checkout would not restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    CrLf,
    Lf,
}

/// Converts CRLF to LF. `indexed` returns the blob in the index: a file that was committed with
/// CRLF keeps it if the conversion depends on a guess.
pub(super) fn line_ends_to_git(
    bytes: &[u8],
    ends: LineEnds,
    indexed: impl FnOnce() -> Option<Vec<u8>>,
    out: &mut Vec<u8>,
) -> ToGit {
    if ends == LineEnds::Keep || bytes.is_empty() {
        return ToGit::default();
    }
    let stats = Stats::of(bytes);
    if ends.is_auto() && stats.is_binary() {
        return ToGit::default();
    }
    let keeps_crlf = || {
        let indexed = indexed().map(|blob| Stats::of(&blob));
        ends.is_auto() && indexed.is_some_and(|stats| stats.crlf > 0 && !stats.is_binary())
    };
    let converted = stats.crlf > 0 && !keeps_crlf();
    let lost = stats.lost(ends, converted);
    if !converted {
        return ToGit { converted, lost };
    }
    out.clear();
    out.reserve(bytes.len());
    for (at, &c) in bytes.iter().enumerate() {
        if c != b'\r' || bytes.get(at + 1) != Some(&b'\n') {
            out.push(c);
        }
    }
    ToGit { converted, lost }
}

/// Finds the next `$Id$` or `$Id: ... $` and returns the offset of its first dollar and the end.
fn next_ident(bytes: &[u8], from: usize) -> Option<(usize, usize)> {
    let mut at = from;
    loop {
        at += bytes[at..].iter().position(|&c| c == b'$')?;
        let rest = &bytes[at + 1..];
        match rest {
            [b'I', b'd', b'$', ..] => return Some((at, at + 4)),
            [b'I', b'd', b':', inner @ ..] => match inner.iter().position(|&c| c == b'$' || c == b'\n') {
                Some(end) if inner[end] == b'$' => return Some((at, at + 4 + end + 1)),
                _ => {}
            },
            _ => {}
        }
        at += 1;
    }
}

/// Expands `$Id$`; returns false if there is none. An expansion by another version control system
/// is left unchanged.
pub(super) fn ident_to_worktree(bytes: &[u8], kind: HashKind, out: &mut Vec<u8>) -> bool {
    if next_ident(bytes, 0).is_none() {
        return false;
    }
    let mut hasher = Hasher::object(kind, "blob", bytes.len() as u64);
    hasher.update(bytes);
    let id = hasher.finish().unwrap_or(ObjectId::null(kind)).to_string();
    out.clear();
    let mut copied = 0;
    let mut at = 0;
    while let Some((start, end)) = next_ident(bytes, at) {
        // The text between the colon and the dollar. A blank before its last character means that
        // Git did not write it.
        let inner = bytes[start + 4..end].strip_suffix(b"$").unwrap_or_default();
        let foreign =
            inner.iter().skip(1).position(|&c| c == b' ').is_some_and(|space| space + 2 < inner.len());
        if foreign {
            // The closing dollar may begin another identifier.
            at = start + 1;
            continue;
        }
        out.extend_from_slice(&bytes[copied..start]);
        out.extend_from_slice(b"$Id: ");
        out.extend_from_slice(id.as_bytes());
        out.extend_from_slice(b" $");
        copied = end;
        at = end;
    }
    out.extend_from_slice(&bytes[copied..]);
    true
}

/// Expands `$Id$` as Git does when it streams a blob to a file. Git's streaming code treats
/// overlapping dollars differently from [`ident_to_worktree`].
pub(super) fn ident_streamed(bytes: &[u8], oid: ObjectId, out: &mut Vec<u8>) -> bool {
    const HEAD: &[u8] = b"$Id";
    if !bytes.windows(HEAD.len()).any(|window| window == HEAD) {
        return false;
    }
    let expansion = format!(": {oid} $");
    // The number of matched bytes of the head, and the bytes that are read but not written yet.
    let mut seen = 0;
    let mut skipping = false;
    let mut left: Vec<u8> = Vec::new();
    out.clear();
    for &c in bytes {
        if skipping {
            left.push(c);
            if c != b'\n' && c != b'$' {
                continue;
            }
            if c == b'$' && !is_foreign(&left) {
                left.truncate(HEAD.len());
                left.extend_from_slice(expansion.as_bytes());
            }
            skipping = false;
            out.append(&mut left);
            continue;
        }
        if HEAD.get(seen) == Some(&c) {
            seen += 1;
            continue;
        }
        left.extend_from_slice(&HEAD[..seen]);
        match (std::mem::take(&mut seen), c) {
            (3, b':') => {
                left.push(c);
                skipping = true;
            }
            (3, b'$') => {
                left.extend_from_slice(expansion.as_bytes());
                out.append(&mut left);
            }
            (3, _) => left.push(c),
            _ => {
                left.push(c);
                out.append(&mut left);
            }
        }
    }
    out.append(&mut left);
    out.extend_from_slice(&HEAD[..seen]);
    true
}

/// Returns true if the text has a blank that something other than the closing dollar follows.
fn is_foreign(text: &[u8]) -> bool {
    let Some(rest) = text.strip_prefix(b"$Id: ") else { return false };
    let rest = rest.split(|&c| c == 0).next().unwrap_or_default();
    rest.iter().enumerate().any(|(at, c)| b" \t\n\r".contains(c) && rest.get(at + 1) != Some(&b'$'))
}

/// Collapses `$Id: ... $`; returns false if there is none.
pub(super) fn ident_to_git(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    out.clear();
    let mut copied = 0;
    let mut at = 0;
    while let Some((start, end)) = next_ident(bytes, at) {
        if bytes[start + 3] == b'$' {
            // Already collapsed. Its closing dollar may begin another identifier.
            at = start + 1;
            continue;
        }
        out.extend_from_slice(&bytes[copied..start]);
        out.extend_from_slice(b"$Id$");
        copied = end;
        at = end;
    }
    out.extend_from_slice(&bytes[copied..]);
    copied > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_foreign_identifiers() {
        let mut out = Vec::new();
        assert!(ident_to_worktree(b"$Id: a b c$ $Id:x$ $Id$", HashKind::Sha1, &mut out));
        let text = String::from_utf8(out).expect("ASCII");
        assert!(text.starts_with("$Id: a b c$ $Id: "), "{text}");
        assert_eq!(text.matches("$Id: ").count(), 3, "{text}");
    }

    #[test]
    fn collapses_identifiers() {
        let git = |text: &str| {
            let mut out = Vec::new();
            ident_to_git(text.as_bytes(), &mut out).then(|| String::from_utf8(out).expect("ASCII"))
        };
        assert_eq!(git("a $Id: 123 $ b").as_deref(), Some("a $Id$ b"));
        assert_eq!(git("$Id$Id: x$").as_deref(), Some("$Id$Id$"));
        assert_eq!(git("$Id: \n $"), None);
        assert_eq!(git("$Id$"), None);
    }

    #[test]
    fn leaves_binary_and_mixed_content_unchanged() {
        let mut out = Vec::new();
        assert!(!line_ends_to_worktree(b"a\0\n", LineEnds::AutoCrLf, &mut out));
        assert!(!line_ends_to_worktree(b"a\r\nb\n", LineEnds::AutoCrLf, &mut out));
        assert!(line_ends_to_worktree(b"a\r\nb\n", LineEnds::CrLf, &mut out));
        assert_eq!(out, b"a\r\nb\r\n");
        let mut to_git = |blob: &[u8]| {
            let done = line_ends_to_git(b"a\r\n", LineEnds::AutoLf, || Some(blob.to_vec()), &mut out);
            (done.converted, done.lost)
        };
        assert_eq!(to_git(b"x\r\n"), (false, None));
        assert_eq!(to_git(b"x\n"), (true, Some(Lost::CrLf)));
        assert_eq!(out, b"a\n");
    }
}
