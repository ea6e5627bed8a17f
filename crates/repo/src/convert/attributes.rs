//! Attribute files, and the attributes of paths that concern conversion.
//!
//! A compiled file ([`File`]) keeps only six attributes and the macros that expand to them. Lines
//! that set none of these are dropped, so attribute files about other things cost nothing per path.
//!
//! Source: gitattributes(5). Precedence, strongest first: `info/attributes`, `.gitattributes` of
//! the path's directory and upwards, `core.attributesFile`, the system's file, the built-in macro.

use std::collections::HashMap;

use bstr::{BStr, BString, ByteSlice};
use format::pattern::Pattern;

/// Positions in [`Values`] of the attributes that concern conversion.
pub(super) const TEXT: usize = 0;
pub(super) const CRLF: usize = 1;
pub(super) const EOL: usize = 2;
pub(super) const IDENT: usize = 3;
pub(super) const FILTER: usize = 4;
pub(super) const ENCODING: usize = 5;
const NAMES: [&str; 6] = ["text", "crlf", "eol", "ident", "filter", "working-tree-encoding"];

/// Git ignores longer lines and larger files.
const MAX_LINE: usize = 2048;
pub(crate) const MAX_FILE: u64 = 100 * 1024 * 1024;

/// The state of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Set,
    Unset,
    /// `!attr`, which hides weaker lines.
    Unspecified,
    Value(BString),
}

/// A line: a pattern or macro, and attributes by name.
#[derive(Clone, Debug)]
pub(crate) struct RawLine {
    /// The name of a macro, or a pattern.
    pub(crate) head: Head,
    pub(crate) states: Vec<(BString, State)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    Macro(BString),
    Pattern(BString),
}

/// The lines of an attribute file.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawFile(pub(crate) Vec<RawLine>);

/// The reason why a line is malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    TooLong,
    /// The word is not a valid name of an attribute.
    Name(BString),
    /// A macro in a file that must not define one; holds the line from the macro on.
    Macro(BString),
    /// The pattern begins with `!`.
    Negative,
}

/// An attribute file reduced to the attributes that concern conversion.
#[derive(Debug, Default)]
pub(super) struct File(Vec<(Pattern, Vec<(usize, State)>)>);

impl File {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The positions of names, and the expansions of macros.
#[derive(Debug, Default)]
pub(super) struct Names {
    positions: HashMap<BString, usize>,
    /// The expansions of the macros, whose positions follow those of [`NAMES`].
    macros: Vec<Vec<(usize, State)>>,
}

/// The attributes of a path.
#[derive(Debug, Default)]
pub(super) struct Values(Vec<Option<State>>);

impl Values {
    /// Returns the state; `None` if no line sets the attribute, or the strongest one is `!attr`.
    pub(super) fn get(&self, attribute: usize) -> Option<&State> {
        self.0[attribute].as_ref().filter(|state| **state != State::Unspecified)
    }
}

impl RawFile {
    /// Parses a file, and ignores malformed lines. `macros` allows definitions of macros.
    pub(super) fn parse(bytes: &[u8], macros: bool) -> RawFile {
        RawFile::parse_strictly(bytes, macros, |_, _| {})
    }

    /// Like [`RawFile::parse`]; calls `complain` with the number of each malformed line.
    pub(crate) fn parse_strictly(
        bytes: &[u8],
        macros: bool,
        mut complain: impl FnMut(usize, Flaw),
    ) -> RawFile {
        if bytes.len() as u64 >= MAX_FILE {
            return RawFile::default();
        }
        // Git's strings end at the first NUL.
        let bytes = &bytes[..bytes.find_byte(0).unwrap_or(bytes.len())];
        let lines = bytes.split(|&c| c == b'\n').enumerate().map(|(at, line)| match at {
            0 => line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line),
            _ => line,
        });
        let parsed = (1..).zip(lines).filter_map(|(number, line)| {
            parse_line(line, macros).unwrap_or_else(|flaw| {
                complain(number, flaw);
                None
            })
        });
        RawFile(parsed.collect())
    }

    /// Returns Git's built-in line.
    pub(crate) fn built_in() -> RawFile {
        RawFile::parse(b"[attr]binary -diff -merge -text", true)
    }
}

const BLANK: &[u8] = b" \t\r\n";

/// Parses a line; returns `None` for a blank line or comment.
fn parse_line(line: &[u8], macros: bool) -> Result<Option<RawLine>, Flaw> {
    const MACRO: &[u8] = b"[attr]";
    let length = line.len();
    let line = line.trim_start_with(|c| BLANK.contains(&(c as u8)));
    if line.is_empty() || line[0] == b'#' {
        return Ok(None);
    }
    if length >= MAX_LINE {
        return Err(Flaw::TooLong);
    }
    let end_of_word = |text: &[u8]| text.find_byteset(BLANK).unwrap_or(text.len());
    let (name, rest) = match format::unquote(line) {
        Some((name, rest)) => (name, rest),
        None => {
            let end = end_of_word(line);
            (line[..end].into(), &line[end..])
        }
    };
    if name.len() > MACRO.len() && name.starts_with(MACRO) && line[0] != b'"' {
        if !macros {
            return Err(Flaw::Macro(line.into()));
        }
        // Blanks may precede the name of a macro.
        let after = line[MACRO.len()..].trim_start_with(|c| BLANK.contains(&(c as u8)));
        let end = end_of_word(after);
        let name = &after[..end];
        if !is_attribute_name(name) {
            return Err(Flaw::Name(name.into()));
        }
        return Ok(Some(RawLine { head: Head::Macro(name.into()), states: parse_states(&after[end..])? }));
    }
    let states = parse_states(rest)?;
    if name.starts_with(b"!") {
        Err(Flaw::Negative)
    } else {
        Ok(Some(RawLine { head: Head::Pattern(name), states }))
    }
}

/// Parses the attributes of a line. One invalid name makes the whole line malformed, as in Git.
fn parse_states(text: &[u8]) -> Result<Vec<(BString, State)>, Flaw> {
    let words = text.split(|c| BLANK.contains(c)).filter(|word| !word.is_empty());
    words
        .map(|word| {
            let (name, value) = match word.find_byte(b'=') {
                Some(equals) => (&word[..equals], Some(&word[equals + 1..])),
                None => (word, None),
            };
            let (name, state) = match name {
                [b'-', name @ ..] => (name, State::Unset),
                [b'!', name @ ..] => (name, State::Unspecified),
                name => (name, value.map_or(State::Set, |value| State::Value(value.into()))),
            };
            if is_attribute_name(name) { Ok((name.into(), state)) } else { Err(Flaw::Name(name.into())) }
        })
        .collect()
}

fn is_attribute_name(name: &[u8]) -> bool {
    is_name(name) && !name.starts_with(b"builtin_")
}

/// Returns true if an attribute can have this name.
pub fn is_name(name: &[u8]) -> bool {
    let plain = |c: &u8| c.is_ascii_alphanumeric() || b"-._".contains(c);
    !name.is_empty() && name[0] != b'-' && name.iter().all(plain)
}

impl Names {
    /// Finds the macros that set attributes of conversion. `files` are in order of precedence,
    /// weakest first.
    pub(super) fn of<'a>(files: impl IntoIterator<Item = &'a RawFile>) -> Names {
        let mut definitions: HashMap<&BStr, &[(BString, State)]> = HashMap::new();
        for line in files.into_iter().flat_map(|file| &file.0) {
            if let Head::Macro(name) = &line.head {
                definitions.insert(name.as_bstr(), &line.states);
            }
        }
        let mut positions: HashMap<BString, usize> =
            NAMES.iter().enumerate().map(|(at, name)| (BString::from(*name), at)).collect();
        // A macro counts if it sets one of these attributes or another macro that counts.
        loop {
            let found = definitions.iter().find(|(name, states)| {
                !positions.contains_key(**name) && states.iter().any(|(name, _)| positions.contains_key(name))
            });
            match found {
                Some((name, _)) => positions.insert((*name).to_owned(), positions.len()),
                None => break,
            };
        }
        let mut names = Names { macros: vec![Vec::new(); positions.len()], positions };
        for (name, states) in definitions {
            if let Some(&at) = names.positions.get(name) {
                names.macros[at] = names.reduce(states);
            }
        }
        names
    }

    fn reduce(&self, states: &[(BString, State)]) -> Vec<(usize, State)> {
        let known =
            states.iter().filter_map(|(name, state)| Some((*self.positions.get(name)?, state.clone())));
        known.collect()
    }

    /// Drops the attributes that do not concern conversion.
    pub(super) fn compile(&self, file: &RawFile) -> File {
        let lines = file.0.iter().filter_map(|line| match &line.head {
            Head::Macro(_) => None,
            Head::Pattern(pattern) => {
                let states = self.reduce(&line.states);
                (!states.is_empty()).then(|| (Pattern::new(pattern.as_bstr()), states))
            }
        });
        File(lines.collect())
    }

    /// Looks up the attributes of `path`. `files` are ordered strongest first, each with the length
    /// of its directory's path.
    pub(super) fn lookup<'a>(
        &self,
        path: &BStr,
        fold_case: bool,
        files: impl Iterator<Item = (&'a File, usize)>,
        values: &mut Values,
    ) {
        values.0.clear();
        values.0.resize(self.macros.len(), None);
        let name = &path[path.rfind_byte(b'/').map_or(0, |slash| slash + 1)..];
        for (file, dir) in files {
            let below = if dir == 0 { path } else { path[dir + 1..].as_bstr() };
            for (pattern, states) in file.0.iter().rev() {
                if !pattern.is_for_directories() && pattern.matches(below, name, fold_case) {
                    self.fill(states, values);
                }
            }
        }
    }

    /// Sets the attributes that are not set yet. If a line names an attribute twice, the later word
    /// wins. Macros may expand to macros, to any depth.
    fn fill(&self, states: &[(usize, State)], values: &mut Values) {
        let mut todo: Vec<&(usize, State)> = states.iter().collect();
        while let Some((at, state)) = todo.pop() {
            if values.0[*at].is_none() {
                values.0[*at] = Some(state.clone());
                if *state == State::Set {
                    todo.extend(&self.macros[*at]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(text: &str, path: &str, attribute: usize) -> Option<State> {
        let files = [RawFile::built_in(), RawFile::parse(text.as_bytes(), true)];
        let names = Names::of(&files);
        let file = names.compile(&files[1]);
        let mut values = Values::default();
        names.lookup(path.into(), false, [(&file, 0)].into_iter(), &mut values);
        values.get(attribute).cloned()
    }

    #[test]
    fn prefers_the_last_line_and_expands_macros() {
        assert_eq!(lookup("* text\n*.c -text\n", "a.c", TEXT), Some(State::Unset));
        assert_eq!(lookup("* text\n*.c !text\n", "a.c", TEXT), None);
        assert_eq!(lookup("* binary\n", "a.c", TEXT), Some(State::Unset));
        assert_eq!(
            lookup("[attr]m1 m2\n[attr]m2 eol=crlf\n* m1\n", "a", EOL),
            Some(State::Value("crlf".into()))
        );
        assert_eq!(lookup("* text -text\n", "a", TEXT), Some(State::Unset));
        assert_eq!(lookup("\"a\\tb\" text\n", "a\tb", TEXT), Some(State::Set));
        assert_eq!(lookup("* text b@d\n", "a", TEXT), None, "one bad name spoils the line");
    }

    #[test]
    fn drops_lines_about_other_attributes() {
        let files = [RawFile::built_in(), RawFile::parse(b"*.c diff=cpp\n*.dts diff=dts\n# text\n", true)];
        assert!(Names::of(&files).compile(&files[1]).is_empty());
    }
}
