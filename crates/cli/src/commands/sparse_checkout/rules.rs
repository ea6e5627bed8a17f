//! The actions that only read patterns: `list` and `check-rules`.

use std::io::Read as _;

use bstr::{BStr, BString, ByteSlice as _};
use repo::Repository;
use sapwood::{
    UserPath,
    sparse_checkout::{Selection, Words, unquoted},
};

use super::{Request, modify::all_of_stdin};
use crate::{
    session::invocation::Invocation,
    term::{
        console::{self, text},
        failure::Failure,
        files,
        text::quote,
    },
};

pub(super) fn list(selection: &Selection<'_>, quotes: bool) -> Result<u8, Failure> {
    selection.must_be_on("this worktree is not sparse")?;
    let Some(patterns) = selection.load()? else {
        console::warning("this worktree is not sparse (sparse-checkout file may not exist)");
        return Ok(0);
    };
    match patterns.cone() {
        Some(cone) => {
            for directory in cone.directories() {
                console::out(quote(directory, quotes));
            }
        }
        None => patterns.lines().iter().for_each(console::out),
    }
    Ok(0)
}

pub(super) fn check(
    run: &Invocation,
    repo: &Repository,
    mut selection: Selection<'_>,
    request: &Request,
    quotes: bool,
) -> Result<u8, Failure> {
    selection.decide_mode(request.cone.or(request.rules_file.as_ref().map(|_| true)));
    let patterns = match &request.rules_file {
        Some(file) => selection.selecting(&Words::Lines(rules(run, repo, file.as_bstr())?))?,
        None => selection.existing()?,
    };
    let content = all_of_stdin(run)?;
    let paths: Vec<BString> = if request.nul {
        content.strip_suffix(b"\0").unwrap_or(&content).split(|&byte| byte == 0).map(BString::from).collect()
    } else {
        content.lines().map(BString::from).collect()
    };
    if request.nul && content.is_empty() {
        return Ok(0);
    }
    for line in &paths {
        let path = if request.nul { line.clone() } else { unquoted(line)? };
        if !patterns.includes(path.as_bstr()) {
            continue;
        }
        if request.nul {
            console::out_raw(&text!(path, "\0"))
        } else {
            console::out(quote(path.as_bstr(), quotes))
        }
    }
    Ok(0)
}

/// Reads the lines of a file of rules.
fn rules(run: &Invocation, repo: &Repository, file: &BStr) -> Result<Vec<BString>, Failure> {
    let named = if file.starts_with(b"/") { file.into() } else { text!(repo.prefix(), file) };
    let mut content = Vec::new();
    let path = UserPath::new(file).resolve(&run.cwd).map_err(Into::into);
    let opened = path.and_then(|path| files::open(&path));
    opened.and_then(|mut open| open.read_to_end(&mut content)).map_err(|error| {
        let reason = crate::term::text::os_error(&error);
        Failure::Fatal(text!("could not open '", named, "' for reading: ", reason))
    })?;
    Ok(content.lines().map(BString::from).collect())
}
