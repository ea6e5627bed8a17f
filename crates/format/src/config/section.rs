//! Renames and removes sections.
//!
//! Git works on lines here, not on the grammar: a header must be the first text on its line, and it
//! is compared byte by byte.

use bstr::{BStr, ByteSlice};

use super::rewrite::write_header;

/// The reason why no section was renamed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum SectionError {
    #[error("invalid section name: {0}")]
    Name(bstr::BString),
    /// The content has a NUL or a line that is too long. Git has special rules for such files.
    #[error("a line that is no text")]
    NotText,
}

/// Git refuses to rewrite a file with a line of this length.
const MAX_LINE: usize = 512 << 10;

/// Renames the section `old` to `new` wherever it appears, or removes it if `new` is `None`.
/// Returns the new content and the number of sections that were found.
pub fn rename_section(
    content: &[u8],
    old: &BStr,
    new: Option<&BStr>,
) -> Result<(Vec<u8>, usize), SectionError> {
    if let Some(new) = new.filter(|new| !is_section_name(new)) {
        return Err(SectionError::Name(new.to_owned()));
    }
    let mut out = Vec::with_capacity(content.len() + 64);
    let (mut found, mut is_removed) = (0, false);
    for line in content.lines_with_terminator() {
        if line.contains(&0) || line.len() >= MAX_LINE {
            return Err(SectionError::NotText);
        }
        let text = line.trim_start_with(is_blank);
        if !text.starts_with(b"[") {
            if !is_removed {
                out.extend_from_slice(line);
            }
            continue;
        }
        is_removed = false;
        let Some(rest) = after_header(text, old) else {
            out.extend_from_slice(line);
            continue;
        };
        found += 1;
        match new {
            None => is_removed = true,
            Some(new) => {
                let (section, subsection) = match new.split_once_str(".") {
                    Some((section, subsection)) => (section.as_bstr(), Some(subsection.as_bstr())),
                    None => (new, None),
                };
                write_header(&mut out, section, subsection);
                if !rest.is_empty() {
                    out.push(b'\t');
                    out.extend_from_slice(rest);
                }
            }
        }
    }
    Ok((out, found))
}

/// Returns true for a name that is not empty and has only name characters before the first dot.
fn is_section_name(name: &[u8]) -> bool {
    let section = name.split(|&byte| byte == b'.').next().unwrap_or_default();
    !name.is_empty() && section.iter().all(|&byte| super::is_name_byte(byte))
}

fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\n' | '\r')
}

/// Returns the text after the header and the blanks that follow it, if the line begins with the
/// header of the section `name`. Several blanks may precede the subsection; an unquoted subsection
/// (`[section.sub]`) is compared as written.
fn after_header<'a>(line: &'a [u8], name: &BStr) -> Option<&'a [u8]> {
    let mut rest = line.strip_prefix(b"[")?;
    let mut name = name.as_bytes();
    let mut is_quoted = false;
    loop {
        let (&byte, after) = rest.split_first()?;
        if byte == b']' {
            break;
        }
        if !is_quoted && is_blank(byte.into()) {
            name = name.strip_prefix(b".")?;
            rest = after.trim_start_with(is_blank).strip_prefix(b"\"")?;
            is_quoted = true;
            continue;
        }
        let (byte, after) = match byte {
            b'\\' if is_quoted => after.split_first().map(|(&byte, after)| (byte, after))?,
            b'"' if is_quoted => {
                rest = after.trim_start_with(is_blank);
                if rest.first() != Some(&b']') {
                    return None;
                }
                break;
            }
            _ => (byte, after),
        };
        name = name.strip_prefix(&[byte])?;
        rest = after;
    }
    name.is_empty().then(|| rest[1..].trim_start_with(is_blank))
}
