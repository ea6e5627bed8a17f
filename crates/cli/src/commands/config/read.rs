//! Prints settings.

use std::io::IsTerminal as _;

use bstr::{BStr, BString, ByteSlice as _};
use repo::{Configured, Origin, Scope, keys};
use sys::Regex;

use super::{
    job::{Get, Job, Values},
    location::{Context, Found},
    url::{self, Url},
    value::{self, Given, Kind, Refusal},
};
use crate::term::{
    console::{self, text},
    failure::Failure,
    text::{color, quote},
};

/// Git's exit code for a pattern that is not a regular expression.
const INVALID_PATTERN: u8 = 6;
/// Git's exit code for reading an invalid key.
const INVALID_KEY: u8 = 1;

/// Prints all entries. Returns the exit code.
pub(super) fn list(context: &Context<'_>, job: &Job) -> Result<u8, Failure> {
    unless_paged(job)?;
    let found = context.read()?;
    if let Found::Missing(file) = &found {
        let reason = "No such file or directory";
        return Err(Failure::Fatal(text!("unable to read config file '", file.name, "': ", reason)));
    }
    let mut out = Vec::new();
    for entry in found.entries() {
        // A value that does not have the type is left out.
        match line(context, job, &given(&entry), '=') {
            Ok(line) => out.extend_from_slice(&line),
            Err(Refusal::Value(Some(message))) if entry.value.is_none() => console::error(message),
            Err(Refusal::Fatal(failure)) if job.kind == Some(Kind::Path) => return Err(failure),
            Err(Refusal::Unserved) => return Err(unserved(context)),
            Err(_) => {}
        }
    }
    console::out_raw(&out);
    Ok(0)
}

/// Prints the entries of one name. Returns the exit code.
pub(super) fn get(context: &Context<'_>, job: &Job, get: &Get) -> Result<u8, Failure> {
    unless_paged(job)?;
    let is_wanted = match names(get) {
        Ok(is_wanted) => is_wanted,
        Err((message, code)) => {
            console::error(message);
            return Ok(code);
        }
    };
    let is_selected = match selection(&get.values) {
        Ok(is_selected) => is_selected,
        Err(message) => {
            console::error(message);
            return Ok(INVALID_PATTERN);
        }
    };
    let found = context.read()?;
    let mut lines: Vec<BString> = Vec::new();
    for entry in found.entries() {
        if !is_wanted(entry.key) || !is_selected(Some(entry.value.unwrap_or_default())) {
            continue;
        }
        match line(context, job, &given(&entry), ' ') {
            Ok(line) => lines.push(line),
            Err(Refusal::Absent) => {}
            Err(Refusal::Fatal(failure)) => return Err(failure),
            Err(Refusal::Unserved) => return Err(unserved(context)),
            Err(Refusal::Value(message)) => {
                let failure = value::bad_line(&entry);
                if !matches!(failure, Failure::Unserved(_)) {
                    message.iter().for_each(console::error);
                }
                return Err(failure);
            }
        }
    }
    if let (true, Some(default)) = (lines.is_empty(), &get.default) {
        let given = Given { key: get.name.as_bstr(), value: Some(default.as_bstr()), entry: None };
        match line(context, job, &given, ' ') {
            Ok(line) => lines.push(line),
            Err(Refusal::Absent) => {}
            Err(Refusal::Fatal(failure)) => return Err(failure),
            Err(Refusal::Unserved) => return Err(unserved(context)),
            Err(Refusal::Value(message)) => {
                message.iter().for_each(console::error);
                return Err(Failure::Fatal(text!("failed to format default config value: ", default)));
            }
        }
    }
    let shown = if get.all { &lines[..] } else { &lines[lines.len().saturating_sub(1)..] };
    shown.iter().for_each(|line| console::out_raw(line));
    Ok(u8::from(lines.is_empty()))
}

/// Prints the settings for a URL. Returns the exit code.
pub(super) fn url(
    context: &Context<'_>,
    job: &Job,
    section: &BStr,
    key: Option<&BString>,
    url: &Url,
) -> Result<u8, Failure> {
    unless_paged(job)?;
    let found = context.read()?;
    let entries = found.entries();
    let best = url::best(&entries, section, key.map(|key| key.as_bstr()), url);
    let best = best.map_err(|url::UnsupportedUrl| unserved(context))?;
    for (name, entry) in &best {
        let given = Given { key: name.as_bstr(), ..given(entry) };
        match line(context, job, &given, ' ') {
            Ok(line) => console::out_raw(&line),
            Err(Refusal::Absent) => {}
            Err(Refusal::Value(message)) => message.iter().for_each(console::error),
            Err(Refusal::Fatal(failure)) => return Err(failure),
            Err(Refusal::Unserved) => return Err(unserved(context)),
        }
    }
    Ok(u8::from(best.is_empty()))
}

/// Prints the escape sequence of a colour. Returns the exit code.
pub(super) fn color(context: &Context<'_>, slot: &BStr, default: Option<&BString>) -> Result<u8, Failure> {
    let found = context.read()?;
    let mut shown = None;
    for entry in found.entries().iter().filter(|entry| entry.key == slot) {
        let Some(text) = entry.value else { return Err(unserved(context)) };
        match color::parse(text) {
            Some(sequence) => shown = Some(sequence),
            None => {
                let failure = value::bad_line(entry);
                if !matches!(failure, Failure::Unserved(_)) {
                    console::error(text!("invalid color value: ", text));
                }
                return Err(failure);
            }
        }
    }
    let shown = match (shown, default) {
        (Some(shown), _) => shown,
        (None, None) => BString::default(),
        (None, Some(default)) => color::parse(default.as_ref()).ok_or_else(|| unserved(context))?,
    };
    console::out_raw(&shown);
    Ok(0)
}

/// Determines whether output is coloured. If the caller passes `is_terminal`, the result is
/// printed; otherwise it is the exit code.
pub(super) fn color_bool(
    context: &Context<'_>,
    slot: &BStr,
    is_terminal: Option<bool>,
) -> Result<u8, Failure> {
    let found = context.read()?;
    let (mut own, mut diff, mut all) = (None, None, None);
    for entry in found.entries() {
        let field = match entry.key {
            key if key == slot => &mut own,
            key if keys::diff::COLOR.is(key) => &mut diff,
            key if keys::color::UI.is(key) => &mut all,
            _ => continue,
        };
        *field = Some(ColorBool::of(&entry)?);
    }
    let diff = diff.filter(|_| slot == keys::color::DIFF.name());
    let is_on = match own.or(diff).or(all).unwrap_or(ColorBool::Auto) {
        ColorBool::Never => false,
        ColorBool::Always => true,
        ColorBool::Auto => {
            let is_terminal = is_terminal.unwrap_or_else(|| std::io::stdout().is_terminal());
            is_terminal && !matches!(context.run.variable("TERM"), None | Some(b"dumb"))
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

/// The value of a colour setting.
#[derive(Clone, Copy)]
enum ColorBool {
    Never,
    Always,
    Auto,
}

impl ColorBool {
    fn of(entry: &Configured<'_>) -> Result<ColorBool, Failure> {
        let is = |word: &str| entry.value.is_some_and(|value| value.eq_ignore_ascii_case(word.as_bytes()));
        if is("never") {
            return Ok(ColorBool::Never);
        } else if is("always") {
            return Ok(ColorBool::Always);
        } else if is("auto") {
            return Ok(ColorBool::Auto);
        }
        let text = entry.value.unwrap_or_default();
        match repo::parse_bool(entry.value) {
            Some(true) => Ok(ColorBool::Auto),
            Some(false) => Ok(ColorBool::Never),
            None => Err(Failure::Fatal(value::bad_boolean(entry.key, text))),
        }
    }
}

/// Returns an error if Git would start a pager.
fn unless_paged(job: &Job) -> Result<(), Failure> {
    if job.is_paged && std::io::stdout().is_terminal() {
        Err(Failure::Unserved("listings on a terminal"))
    } else {
        Ok(())
    }
}

/// Returns the failure for a value that only the real Git can print. Standard input that was read
/// cannot be read again.
fn unserved(context: &Context<'_>) -> Failure {
    const WHAT: &str = "values of this type";
    if context.reads_stdin() {
        Failure::fatal(format!("{WHAT} are not supported in standard input"))
    } else {
        Failure::Unserved(WHAT)
    }
}

fn given<'a>(entry: &'a Configured<'a>) -> Given<'a> {
    Given { key: entry.key, value: entry.value, entry: Some(entry) }
}

type Test<'a> = Box<dyn Fn(&BStr) -> bool + 'a>;

/// Returns the filter for names, or Git's message and exit code.
fn names(get: &Get) -> Result<Test<'_>, (BString, u8)> {
    if get.is_regexp {
        let mut pattern = get.name.clone();
        // Section and variable are in lower case in the names that the pattern is matched against.
        let end = pattern.find_byte(b'.').unwrap_or(pattern.len());
        let start = pattern.rfind_byte(b'.').unwrap_or(0);
        pattern[..end].make_ascii_lowercase();
        pattern[start..].make_ascii_lowercase();
        return match Regex::of_text(&pattern) {
            Ok(regex) => Ok(Box::new(move |name| regex.find(name, true).is_some())),
            Err(_) => Err((text!("invalid key pattern: ", get.name), INVALID_PATTERN)),
        };
    }
    let name = get.name.as_bstr();
    let key = normalized(name).map_err(|error| (key_message(&error, name), INVALID_KEY))?;
    Ok(Box::new(move |name| name == key))
}

/// Returns Git's message about an invalid key, which need not be UTF-8.
pub(super) fn key_message(error: &format::config::Error, key: &BStr) -> BString {
    let message = error.to_string();
    let problem = message.split(": ").next().unwrap_or_default();
    text!(problem, ": ", key)
}

/// Checks a key, and converts section and variable to lower case.
pub(super) fn normalized(key: &BStr) -> Result<BString, format::config::Error> {
    format::config::Key::parse(key)?;
    let mut key = key.to_owned();
    let first = key.find_byte(b'.').unwrap_or(key.len());
    let last = key.rfind_byte(b'.').unwrap_or(key.len());
    key[..first].make_ascii_lowercase();
    key[last..].make_ascii_lowercase();
    Ok(key)
}

type ValueTest<'a> = Box<dyn Fn(Option<&BStr>) -> bool + 'a>;

/// Returns the filter for values, or Git's message.
pub(super) fn selection(values: &Values) -> Result<ValueTest<'_>, BString> {
    Ok(match values {
        Values::All => Box::new(|_| true),
        Values::None => Box::new(|_| false),
        // A key without `=` has no value that could differ.
        Values::Exactly(wanted) => Box::new(move |value| value.is_none_or(|value| value == wanted)),
        Values::Matching(pattern) => {
            let (pattern, is_negated) = match pattern.strip_prefix(b"!") {
                Some(rest) => (rest.as_bstr(), true),
                None => (pattern.as_bstr(), false),
            };
            let regex = Regex::of_text(pattern).map_err(|_| text!("invalid pattern: ", pattern))?;
            Box::new(move |value| is_negated != value.is_some_and(|value| regex.find(value, true).is_some()))
        }
    })
}

/// Returns the text to print for an entry. `separator` is between name and value.
fn line(context: &Context<'_>, job: &Job, given: &Given<'_>, separator: char) -> Result<BString, Refusal> {
    let display = job.display;
    let mut out = BString::default();
    let column_end = if display.nul { 0 } else { b'\t' };
    if display.scope {
        out.extend_from_slice(scope_name(given.entry.map_or(Scope::Command, |entry| entry.scope)));
        out.push(column_end);
    }
    if display.origin {
        let (origin, name) = given
            .entry
            .map_or((Origin::CommandLine, BStr::new("")), |entry| (entry.origin, entry.source_name));
        out.extend_from_slice(origin_name(origin));
        out.push(b':');
        if display.nul {
            out.extend_from_slice(name)
        } else {
            out.extend_from_slice(&quote(name, true))
        }
        out.push(column_end);
    }
    if display.names {
        out.extend_from_slice(given.key);
    }
    if !display.name_only {
        let text = match job.kind {
            Some(kind) => Some(value::shown(kind, *given, &context.env)?),
            None => given.value.map(BStr::to_owned),
        };
        if let Some(text) = text {
            if display.names {
                out.push(if display.nul { b'\n' } else { separator as u8 });
            }
            out.extend_from_slice(&text);
        }
    }
    out.push(if display.nul { 0 } else { b'\n' });
    Ok(out)
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
