//! Entry points to internal parsers, for the targets in `fuzz/`. They exist only with the feature
//! `fuzz`.

use bstr::BString;

use crate::convert::attributes;

/// Parses a configuration file into keys and values.
///
/// The error is the number of the first line that is not valid.
pub fn config(bytes: &[u8]) -> Result<Vec<(BString, Option<BString>)>, usize> {
    let pairs = format::config::parse(bytes).map_err(|bad| bad.0)?;
    Ok(pairs.into_iter().map(|pair| (pair.key, pair.value)).collect())
}

/// Parses an attribute file. Returns its patterns, and the numbers of the lines that are not valid.
///
/// `macros` is true if the file may define macros.
pub fn attributes(bytes: &[u8], macros: bool) -> (Vec<BString>, Vec<usize>) {
    let mut invalid = Vec::new();
    let file = attributes::RawFile::parse_strictly(bytes, macros, |line, _flaw| invalid.push(line));
    let patterns = file.0.into_iter().filter_map(|line| match line.head {
        attributes::Head::Pattern(pattern) => Some(pattern),
        attributes::Head::Macro(_) => None,
    });
    (patterns.collect(), invalid)
}
