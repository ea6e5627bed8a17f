//! `ls-files --format`: one line per entry.

use std::io::Write as _;

use bstr::{BStr, ByteSlice as _};
use repo::Repository;
use sapwood::{
    ObjectId,
    ls_files::{Listed, ListedEntry},
};

use super::show::Show;
use crate::term::{console::text, failure::Failure};

/// The width of `%(objectsize:padded)`.
const SIZE_WIDTH: usize = 7;

/// Returns the line for an entry, without its terminator.
pub(super) fn line(
    show: &mut Show<'_>,
    form: &BStr,
    listed: &Listed<'_>,
    entry: &ListedEntry<'_>,
) -> Result<Vec<u8>, Failure> {
    let ListedEntry { entry, repo, index, .. } = *entry;
    let kind = match entry.mode {
        mode if mode.is_gitlink() => "commit",
        mode if mode.is_tree() => "tree",
        _ => "blob",
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
            b"objecttype" => out.extend_from_slice(kind.as_bytes()),
            name @ (b"objectsize" | b"objectsize:padded") => {
                let size = if kind == "blob" { size(repo, entry.oid)? } else { "-".to_owned() };
                let width = if name.ends_with(b"padded") { SIZE_WIDTH } else { 0 };
                let _ = write!(out, "{size:>width$}");
            }
            b"stage" => drop(write!(out, "{}", entry.stage as u8)),
            b"eolinfo:index" => out.extend_from_slice(show.line_ends.in_index(index, entry).as_bytes()),
            b"eolinfo:worktree" => {
                out.extend_from_slice(show.line_ends.in_worktree(listed.path).as_bytes());
            }
            b"eolattr" => {
                let attributes = show.line_ends.attributes(listed.top, listed.path)?;
                out.extend_from_slice(attributes.as_bytes());
            }
            b"path" => show.name_into(&mut out, listed.path),
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

fn size(repo: &Repository, oid: ObjectId) -> Result<String, Failure> {
    match repo.objects().header(&oid) {
        Ok((_, size)) => Ok(size.to_string()),
        Err(_) => Err(Failure::fatal(format!("could not get object info about '{oid}'"))),
    }
}
