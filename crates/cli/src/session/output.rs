//! The form of standard output, from the configuration, the environment and the terminal.

use std::io::IsTerminal as _;

use bstr::{BString, ByteSlice as _};
use repo::{Repository, keys, keys::Key};

use crate::{
    session::invocation::Invocation,
    term::{
        console,
        failure::Failure,
        text::columns::{Columns, When},
    },
};

/// Returns true if standard output is coloured: by the setting `key`, or else by `color.ui`.
pub(crate) fn wants_color(
    run: &Invocation,
    repo: &Repository,
    key: Key<Option<BString>>,
) -> Result<bool, Failure> {
    let key = if repo.config_str(&key).is_some() { key } else { keys::color::UI };
    let is =
        |word: &str| repo.config_str(&key).is_some_and(|value| value.eq_ignore_ascii_case(word.as_bytes()));
    if is("always") {
        return Ok(true);
    }
    let never = is("never") || !is("auto") && repo.config_as(&key)? == Some(false);
    Ok(!never && takes_colors(run, repo)?)
}

/// Returns true if standard output is a terminal with colours, or a pager.
fn takes_colors(run: &Invocation, repo: &Repository) -> Result<bool, Failure> {
    let is_paged = run.variable("GIT_PAGER_IN_USE").and_then(|value| repo::parse_bool(Some(value.as_bstr())));
    let shows =
        std::io::stdout().is_terminal() || is_paged == Some(true) && repo.config(&keys::color::PAGER)?;
    Ok(shows && is_capable(run))
}

/// Returns true if standard output is a terminal with colours.
pub(crate) fn is_colour_terminal(run: &Invocation) -> bool {
    std::io::stdout().is_terminal() && is_capable(run)
}

fn is_capable(run: &Invocation) -> bool {
    !matches!(run.variable("TERM"), None | Some(b"dumb"))
}

/// Returns true if lists are shown in columns.
pub(crate) fn shows_columns(columns: Columns, run: &Invocation) -> bool {
    let is_paged = || {
        let variable = run.variable("GIT_PAGER_IN_USE");
        variable.and_then(|value| repo::parse_bool(Some(value.as_bstr()))) == Some(true)
    };
    match columns.when {
        When::Never => false,
        When::Always => true,
        When::Auto => std::io::stdout().is_terminal() || is_paged(),
    }
}

/// Returns the width of a line: `COLUMNS`, the terminal's width, or 80, minus one.
pub(crate) fn line_width(run: &Invocation) -> usize {
    let number = |value: &[u8]| {
        let text = value.trim_start_with(|letter| letter.is_ascii_whitespace());
        let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
        std::str::from_utf8(&text[..end]).ok()?.parse::<usize>().ok().filter(|&number| number > 0)
    };
    run.variable("COLUMNS").and_then(number).or_else(console::terminal_width).unwrap_or(80) - 1
}
