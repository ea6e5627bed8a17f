//! Printing pairs: Git's raw format, and names with or without the status letter.

use std::{collections::HashMap, io::Write as _};

use bstr::{BStr, BString, ByteSlice as _};
use repo::Repository;
use sapwood::{
    ObjectId,
    diff::{MAX_SCORE, Pair, Side, Status},
};

use super::options::Kind;
use crate::term::{failure::Failure, text::quote_into};

/// The format of the lines.
pub(super) struct Format {
    pub(super) kind: Kind,
    /// Fields end with NUL, and names are not quoted.
    pub(super) nul: bool,
    /// `core.quotePath`
    pub(super) quote_path: bool,
    /// The minimum number of digits; `None` for all.
    pub(super) digits: Option<usize>,
    /// Dots follow an abbreviated name (`GIT_PRINT_SHA1_ELLIPSIS`). `None` prints no dots.
    pub(super) ellipsis: Option<Dots>,
    /// The text before each line.
    pub(super) lead: BString,
    /// The prefix that is removed from paths.
    pub(super) base: BString,
}

/// The number of dots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dots {
    /// A name that needs more digits than requested gets fewer dots, which keeps columns aligned.
    Aligned,
    /// Three dots.
    Three,
}

const IN_MEMORY: &str = "memory takes what is written";

/// Formats all pairs.
pub(super) fn lines(repo: &Repository, pairs: &[Pair], format: &Format) -> Result<BString, Failure> {
    let mut out = BString::default();
    let mut names = Names { repo, format, known: HashMap::new() };
    let (between, end) = if format.nul { (b'\0', b'\0') } else { (b'\t', b'\n') };
    for pair in pairs.iter().filter(|pair| pair.status != Status::Unknown) {
        let is_moved = matches!(pair.status, Status::Renamed | Status::Copied);
        let source = pair.source.as_ref().unwrap_or(&pair.path).as_bstr();
        out.extend_from_slice(&format.lead);
        if format.kind == Kind::NameOnly {
            push(&mut out, pair.path.as_bstr(), format, end);
            continue;
        }
        if format.kind == Kind::Raw {
            for (before, side) in [(b':', pair.old), (b' ', pair.new)] {
                out.push(before);
                push_mode(&mut out, side.map_or(0, |side| side.mode.bits()));
            }
            out.push(b' ');
            for side in [pair.old, pair.new] {
                names.push(&mut out, side)?;
                out.push(b' ');
            }
        }
        out.push(pair.status.letter());
        if pair.score > 0 {
            let percent = u64::from(pair.score) * 100 / u64::from(MAX_SCORE);
            write!(*out, "{percent:03}").expect(IN_MEMORY);
        }
        out.push(between);
        if is_moved {
            push(&mut out, source, format, between);
            push(&mut out, pair.path.as_bstr(), format, end);
        } else {
            push(&mut out, source, format, end);
        }
    }
    Ok(out)
}

/// Appends a mode in octal, with at least six digits.
fn push_mode(out: &mut BString, mode: u32) {
    if mode >> 18 != 0 {
        write!(**out, "{mode:o}").expect(IN_MEMORY);
        return;
    }
    out.extend((0..6).rev().map(|digit| b'0' + (mode >> (3 * digit) & 7) as u8));
}

fn push(out: &mut BString, path: &BStr, format: &Format, end: u8) {
    let mut path = path;
    if !format.base.is_empty() {
        path = path[format.base.len().min(path.len())..].as_bstr();
        path = path.strip_prefix(b"/").unwrap_or(path).as_bstr();
    }
    if format.nul {
        out.extend_from_slice(path)
    } else {
        quote_into(out, path, format.quote_path)
    }
    out.push(end);
}

/// Caches abbreviated object names.
struct Names<'a> {
    repo: &'a Repository,
    format: &'a Format,
    known: HashMap<ObjectId, String>,
}

impl Names<'_> {
    fn push(&mut self, out: &mut BString, side: Option<Side>) -> Result<(), Failure> {
        let oid = side.and_then(|side| side.oid).unwrap_or(ObjectId::null(self.repo.hash()));
        let Some(least) = self.format.digits else {
            out.extend_from_slice(oid.hex_into(&mut [0; 64]));
            return Ok(());
        };
        if let Some(known) = self.known.get(&oid) {
            out.extend_from_slice(known.as_bytes());
            return Ok(());
        }
        let short = self.repo.abbreviate_to(oid, least)?;
        let full = self.repo.hash().hex_len();
        let shown = match self.format.ellipsis {
            None => short,
            Some(_) if least == full || short.len() + 3 >= full => oid.to_string(),
            Some(Dots::Aligned) if least < short.len() && short.len() <= least + 2 => {
                format!("{short}{}", &".."[..least + 3 - short.len()])
            }
            Some(_) => format!("{short}..."),
        };
        out.extend_from_slice(shown.as_bytes());
        self.known.insert(oid, shown);
        Ok(())
    }
}
