//! The actions that only read patterns: `list` and `check-rules`.

use std::io::Read as _;

use bstr::{BStr, BString, ByteSlice as _};
use engine::sparse::Patterns;
use sapwood::UserPath;

use super::{
    Request, State,
    modify::{Quoted, unquoted},
};
use crate::term::{
    console::{self, text},
    failure::Failure,
};
use crate::{session::input::Input, term::text::quote};

pub(super) fn list(state: &State<'_>) -> Result<u8, Failure> {
    if !state.on {
        return Err(Failure::fatal("this worktree is not sparse"));
    }
    let Some(loaded) = Patterns::read(&state.file(), state.cone, state.icase)? else {
        console::warning("this worktree is not sparse (sparse-checkout file may not exist)");
        return Ok(0);
    };
    loaded.warnings.iter().for_each(console::warning);
    match loaded.patterns.cone() {
        Some(cone) => {
            for directory in cone.directories() {
                console::out(quote(directory, state.settings.quote_path));
            }
        }
        None => loaded.patterns.lines().iter().for_each(console::out),
    }
    Ok(0)
}

pub(super) fn check(mut state: State<'_>, request: &Request) -> Result<u8, Failure> {
    state.decide_mode(request.cone.or(request.rules_file.as_ref().map(|_| true)));
    let patterns = match &request.rules_file {
        Some(file) => {
            let lines = rules(&state, file.as_bstr())?;
            if state.cone {
                Patterns::of_cone(state.cone_of(&lines, Quoted::Maybe)?)
            } else {
                Patterns::of_lines(lines.iter().map(|line| &line[..]), false, state.icase).patterns
            }
        }
        None => {
            let loaded = Patterns::read(&state.file(), state.cone, state.icase)?;
            let loaded =
                loaded.ok_or_else(|| Failure::fatal("unable to load existing sparse-checkout patterns"))?;
            loaded.warnings.iter().for_each(console::warning);
            loaded.patterns
        }
    };
    let content = Input::new(state.run)?.all()?;
    let content =
        content.map_err(|error| Failure::fatal(format!("cannot read the standard input: {error}")))?;
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
            console::out(quote(path.as_bstr(), state.settings.quote_path))
        }
    }
    Ok(0)
}

/// Reads the lines of a file of rules.
fn rules(state: &State<'_>, file: &BStr) -> Result<Vec<BString>, Failure> {
    let named = if file.starts_with(b"/") { file.into() } else { text!(state.repo.prefix(), file) };
    let mut content = Vec::new();
    let path = UserPath::new(file).resolve(&state.run.cwd).map_err(Into::into);
    let opened = path.and_then(|path| sys::by_path::open(&path));
    opened.and_then(|mut open| open.read_to_end(&mut content)).map_err(|error| {
        let reason = crate::term::text::os_error(&error);
        Failure::Fatal(text!("could not open '", named, "' for reading: ", reason))
    })?;
    Ok(content.lines().map(BString::from).collect())
}
