//! Prints settings.

use std::io::IsTerminal as _;

use bstr::{BString, ByteSlice as _};
use sapwood::{
    ConfigError, Error,
    config::{ColorUse, Listed, Origin, Query, Record, Scope, Search, Url},
};

use super::{job::Shown, location::Context, options::Display};
use crate::term::{console, failure::Failure, text::quote_into};

/// Git's exit code for reading an invalid key.
const INVALID_KEY: u8 = 1;

/// Prints all entries. Returns the exit code.
pub(super) fn list(context: Context<'_>, shown: Shown) -> Result<u8, Failure> {
    unless_paged(shown)?;
    let failure = context.failures();
    let found = context.read(shown.includes)?;
    print(found.list(shown.kind).map_err(failure)?, shown.display, b'=')?;
    Ok(0)
}

/// Prints the entries of one name. Returns the exit code.
pub(super) fn get(context: Context<'_>, shown: Shown, query: Query, all: bool) -> Result<u8, Failure> {
    unless_paged(shown)?;
    let search = Search::new(Query { kind: shown.kind, ..query }).map_err(|error| match error {
        Error::Entries(error) => match *error {
            ConfigError::Key { message, .. } => Failure::Error(message, INVALID_KEY),
            error => error.into(),
        },
        error => error.into(),
    })?;
    let failure = context.failures();
    let found = context.read(shown.includes)?;
    let records = found.search(&search).map_err(failure)?;
    let printed = if all { &records[..] } else { &records[records.len().saturating_sub(1)..] };
    console::out_raw(&lines(printed, shown.display, b' '));
    Ok(u8::from(records.is_empty()))
}

/// Prints the settings for a URL. Returns the exit code.
pub(super) fn url(
    context: Context<'_>,
    shown: Shown,
    section: &BString,
    key: Option<&BString>,
    url: &Url,
) -> Result<u8, Failure> {
    unless_paged(shown)?;
    let failure = context.failures();
    let found = context.read(shown.includes)?;
    let listed = found.for_url(section.as_bstr(), key.map(|key| key.as_bstr()), url, shown.kind);
    let listed = listed.map_err(failure)?;
    let code = u8::from(listed.is_empty);
    print(listed, shown.display, b' ')?;
    Ok(code)
}

/// Prints the escape sequence of a colour. Returns the exit code.
pub(super) fn color(
    context: Context<'_>,
    shown: Shown,
    slot: &BString,
    default: Option<&BString>,
) -> Result<u8, Failure> {
    let failure = context.failures();
    let found = context.read(shown.includes)?;
    let sequence = found.color(slot.as_bstr(), default.map(|default| default.as_bstr()));
    console::out_raw(&sequence.map_err(failure)?);
    Ok(0)
}

/// Determines whether output is coloured. If the caller passes `is_terminal`, the result is
/// printed; otherwise it is the exit code.
pub(super) fn color_bool(
    context: Context<'_>,
    shown: Shown,
    slot: &BString,
    is_terminal: Option<bool>,
) -> Result<u8, Failure> {
    let run = context.run;
    let found = context.read(shown.includes)?;
    let is_on = match found.color_use(slot.as_bstr())? {
        ColorUse::Never => false,
        ColorUse::Always => true,
        ColorUse::Auto => {
            let is_terminal = is_terminal.unwrap_or_else(|| std::io::stdout().is_terminal());
            is_terminal && !matches!(run.variable("TERM"), None | Some(b"dumb"))
        }
    };
    match is_terminal {
        Some(_) => {
            console::out(if is_on { "true" } else { "false" });
            Ok(0)
        }
        None => Ok(u8::from(!is_on)),
    }
}

/// Returns an error if Git would start a pager.
fn unless_paged(shown: Shown) -> Result<(), Failure> {
    if shown.is_paged && std::io::stdout().is_terminal() {
        Err(Failure::Unserved("listings on a terminal"))
    } else {
        Ok(())
    }
}

/// Prints settings, and the messages about others. `separator` is between name and value.
fn print(listed: Listed<'_>, display: Display, separator: u8) -> Result<(), Failure> {
    listed.messages.iter().for_each(console::error);
    console::out_raw(&lines(&listed.records, display, separator));
    listed.failed.map_or(Ok(()), |error| Err(error.into()))
}

/// Returns the lines of settings.
fn lines(records: &[Record<'_>], display: Display, separator: u8) -> Vec<u8> {
    let mut out = Vec::new();
    let (column_end, end) = if display.nul { (0, 0) } else { (b'\t', b'\n') };
    for record in records {
        if display.scope {
            out.extend_from_slice(scope_name(record.scope));
            out.push(column_end);
        }
        if display.origin {
            out.extend_from_slice(origin_name(record.origin));
            out.push(b':');
            if display.nul {
                out.extend_from_slice(record.source);
            } else {
                quote_into(&mut out, record.source, true);
            }
            out.push(column_end);
        }
        if display.names {
            out.extend_from_slice(&record.key);
        }
        if let Some(value) = record.value.as_ref().filter(|_| !display.name_only) {
            if display.names {
                out.push(if display.nul { b'\n' } else { separator });
            }
            out.extend_from_slice(&value.text());
        }
        out.push(end);
    }
    out
}

fn scope_name(scope: Scope) -> &'static [u8] {
    match scope {
        Scope::System => b"system",
        Scope::Global => b"global",
        Scope::Local => b"local",
        Scope::Worktree => b"worktree",
        Scope::Command => b"command",
    }
}

fn origin_name(origin: Origin) -> &'static [u8] {
    match origin {
        Origin::File => b"file",
        Origin::Stdin => b"standard input",
        Origin::Blob => b"blob",
        Origin::CommandLine => b"command line",
    }
}
