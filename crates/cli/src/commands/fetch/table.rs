//! The table of results: a line for each ref, in Git's columns.
//!
//! ```text
//! From <url>
//!  <flag> <summary>   <remote ref>  -> <local ref>  (<reason>)
//! ```

use bstr::{BStr, BString, ByteSlice as _};
use engine::fetch::{map::Mapping, update::Update};
use repo::{Repository, keys};
use sapwood::ObjectId;

use crate::term::{
    console::{self, text},
    failure::Failure,
};

/// The form of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `fetch.output = full`
    Full,
    /// `fetch.output = compact`
    Compact,
    /// `--porcelain`: `<flag> <old> <new> <local ref>` on standard output.
    Porcelain,
}

impl Form {
    /// Reads `fetch.output`, which `--porcelain` overrides.
    pub(super) fn load(repo: &Repository, is_porcelain: bool) -> Result<Form, Failure> {
        let configured = match repo.config_str_required(&keys::fetch::OUTPUT)? {
            None => Form::Full,
            Some(value) if value.eq_ignore_ascii_case(b"full") => Form::Full,
            Some(value) if value.eq_ignore_ascii_case(b"compact") => Form::Compact,
            Some(value) => {
                return Err(Failure::Fatal(text!("invalid value for 'fetch.output': '", value, "'")));
            }
        };
        Ok(if is_porcelain { Form::Porcelain } else { configured })
    }
}

/// The table of one remote.
pub(super) struct Table {
    form: Form,
    url: BString,
    /// The width of the column of remote refs.
    refs: usize,
    verbosity: i32,
    is_begun: bool,
}

/// The width of a line without the names of the refs: flag, summary, arrow.
const AROUND: usize = 21 + 4;

impl Table {
    pub(super) fn new(form: Form, url: BString, verbosity: i32) -> Table {
        Table { form, url, refs: 10, verbosity, is_begun: false }
    }

    /// Fits the column of remote refs to the refs that fit on a line of `columns`.
    pub(super) fn fit(&mut self, refs: &[Mapping], columns: usize) {
        let is_compact = self.form == Form::Compact;
        for mapping in refs {
            let Some(local) = mapping.local.as_ref().filter(|_| mapping.name != "HEAD") else { continue };
            if self.verbosity <= 0 && local.old == Some(mapping.oid) {
                continue;
            }
            let theirs = width(pretty(mapping.name.as_bstr()));
            let ours = if is_compact { theirs } else { width(pretty(local.name.as_bstr())) };
            let most = if is_compact { columns * 2 / 3 } else { columns };
            if AROUND + theirs + ours < most {
                self.refs = self.refs.max(theirs);
            }
        }
    }

    /// Prints a line. `summary` is the width of the column of summaries.
    pub(super) fn print(&mut self, update: &Update, summary: usize) {
        if self.form == Form::Porcelain {
            let line = text!(
                update.flag.symbol().to_string(),
                " ",
                update.old.to_string(),
                " ",
                update.new.to_string(),
                " ",
                update.ours
            );
            console::out(line);
            return;
        }
        if !self.is_begun {
            console::eprint_line(text!("From ", self.url));
            self.is_begun = true;
        }
        let mut line = text!(" ", update.flag.symbol().to_string(), " ", update.summary, " ");
        pad(&mut line, summary.saturating_sub(width(update.summary.as_bstr())));
        let (theirs, ours) = (pretty(update.theirs.as_bstr()), pretty(update.ours.as_bstr()));
        let (theirs, ours) = match self.form {
            Form::Compact => compact(theirs, ours),
            Form::Full | Form::Porcelain => (theirs.to_owned(), ours.to_owned()),
        };
        let padding = self.refs.saturating_sub(width(theirs.as_bstr()));
        line.extend_from_slice(&theirs);
        pad(&mut line, padding);
        line.extend_from_slice(&text!(" -> ", ours));
        if let Some(reason) = update.reason {
            line.extend_from_slice(&text!("  (", reason, ")"));
        }
        console::eprint_line(line);
    }
}

/// Returns the width of the column of summaries: twice the longest abbreviation, and three.
pub(super) fn summary_width<'a>(
    repo: &Repository,
    oids: impl Iterator<Item = &'a ObjectId>,
) -> Result<usize, Failure> {
    let mut longest = repo.abbreviation_length()?;
    for oid in oids.filter(|oid| !oid.is_null()) {
        longest = longest.max(repo.abbreviate(*oid)?.len());
    }
    Ok(2 * longest + 3)
}

fn pad(line: &mut BString, count: usize) {
    line.extend(std::iter::repeat_n(b' ', count));
}

fn width(text: &BStr) -> usize {
    text.chars().count()
}

/// Returns a ref without `refs/heads/`, `refs/tags/` or `refs/remotes/`.
fn pretty(name: &BStr) -> &BStr {
    let spaces = ["refs/heads/", "refs/tags/", "refs/remotes/"];
    let short = spaces.iter().find_map(|space| name.strip_prefix(space.as_bytes()));
    short.map_or(name, |short| short.as_bstr())
}

/// Replaces the common end of both names by `*` in one of them.
fn compact(theirs: &BStr, ours: &BStr) -> (BString, BString) {
    if theirs == ours {
        return (theirs.to_owned(), "*".into());
    }
    let replaced = |long: &BStr, part: &BStr| -> Option<BString> {
        let at = if long.ends_with(part) { long.len() - part.len() } else { long.find(part)? };
        let (before, after) = (&long[..at], &long[at + part.len()..]);
        // The common part must consist of whole components of the name.
        let is_whole =
            (before.is_empty() || before.ends_with(b"/")) && (after.is_empty() || after.starts_with(b"/"));
        is_whole.then(|| text!(before, "*", after))
    };
    if let Some(theirs) = replaced(theirs, ours) {
        return (theirs, ours.to_owned());
    }
    match replaced(ours, theirs) {
        Some(ours) => (theirs.to_owned(), ours),
        None => (theirs.to_owned(), ours.to_owned()),
    }
}
