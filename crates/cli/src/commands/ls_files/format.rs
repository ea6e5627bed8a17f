//! `ls-files --format`: one line per entry.

use std::io::Write as _;

use ::format::{index::Entry, loose::Kind};
use bstr::{BStr, ByteSlice as _};

use super::show::{Place, Show};
use crate::term::{console::text, failure::Failure};

/// The width of `%(objectsize:padded)`.
const SIZE_WIDTH: usize = 7;

/// Appends the line for `entry`, without its terminator.
pub(super) fn line(
    show: &mut Show<'_>,
    form: &BStr,
    place: &Place<'_>,
    entry: &Entry,
) -> Result<Vec<u8>, Failure> {
    let kind = match entry.mode {
        mode if mode.is_gitlink() => Kind::Commit,
        mode if mode.is_tree() => Kind::Tree,
        _ => Kind::Blob,
    };
    let mut out = Vec::new();
    let mut rest: &[u8] = form;
    while let Some(at) = rest.find_byte(b'%') {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some((byte, length)) = literal(rest) {
            out.push(byte);
            rest = &rest[length..];
            continue;
        }
        let end = rest.find_byte(b')').filter(|_| rest.starts_with(b"("));
        let Some(end) = end else {
            let why = if rest.starts_with(b"(") { "does not end in ')'" } else { "does not start with '('" };
            return Err(Failure::Fatal(text!("bad ls-files format: element '", rest, "' ", why)));
        };
        match &rest[1..end] {
            b"objectmode" => drop(write!(out, "{:06o}", entry.mode.bits())),
            b"objectname" => out.extend_from_slice(show.object_name_at_top(entry.oid)?.as_bytes()),
            b"objecttype" => out.extend_from_slice(match kind {
                Kind::Commit => b"commit",
                Kind::Tree => b"tree",
                _ => b"blob",
            }),
            name @ (b"objectsize" | b"objectsize:padded") => {
                let size = match kind {
                    Kind::Blob => size(place, entry)?,
                    _ => "-".to_owned(),
                };
                let width = if name.ends_with(b"padded") { SIZE_WIDTH } else { 0 };
                let _ = write!(out, "{size:>width$}");
            }
            b"stage" => drop(write!(out, "{}", entry.stage as u8)),
            b"eolinfo:index" => out.extend_from_slice(show.of_index(place, entry).as_bytes()),
            b"eolinfo:worktree" => out.extend_from_slice(show.of_worktree(place.path).as_bytes()),
            b"eolattr" => out.extend_from_slice(show.of_attributes(place.top, place.path)?.as_bytes()),
            b"path" => show.name_into(&mut out, place.path),
            _ => return Err(Failure::Fatal(text!("bad ls-files format: %", rest[..=end]))),
        }
        rest = &rest[end + 1..];
    }
    out.extend_from_slice(rest);
    Ok(out)
}

/// Parses the rest of `%%`, `%n` or `%x0a`. Returns the byte, and the length of the rest.
fn literal(rest: &[u8]) -> Option<(u8, usize)> {
    match rest {
        [b'%', ..] => Some((b'%', 1)),
        [b'n', ..] => Some((b'\n', 1)),
        [b'x', digits @ ..] => {
            let digits = digits.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
            Some((u8::from_str_radix(digits.to_str().ok()?, 16).ok()?, 3))
        }
        _ => None,
    }
}

fn size(place: &Place<'_>, entry: &Entry) -> Result<String, Failure> {
    match place.repo.objects().header(&entry.oid) {
        Ok((_, size)) => Ok(size.to_string()),
        Err(_) => Err(Failure::fatal(format!("could not get object info about '{}'", entry.oid))),
    }
}
