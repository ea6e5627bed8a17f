//! Values as string literals of other languages.

use bstr::ByteSlice as _;

/// The language of the literals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quoting {
    /// None.
    #[default]
    None,
    /// The shell.
    Shell,
    /// Perl.
    Perl,
    /// Python.
    Python,
    /// Tcl.
    Tcl,
}

impl Quoting {
    /// Appends `text` as a literal.
    pub(super) fn append(self, out: &mut Vec<u8>, text: &[u8]) {
        // Git treats the text as a C string, except where the literal can contain any byte.
        let text = if matches!(self, Quoting::None | Quoting::Perl) { text } else { until_nul(text) };
        match self {
            Quoting::None => out.extend_from_slice(text),
            Quoting::Shell => literal(out, text, b'\'', |out, byte| match byte {
                b'\'' | b'!' => out.extend_from_slice(&[b'\'', b'\\', byte, b'\'']),
                _ => out.push(byte),
            }),
            Quoting::Perl => literal(out, text, b'\'', |out, byte| match byte {
                b'\'' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                _ => out.push(byte),
            }),
            Quoting::Python => literal(out, text, b'\'', |out, byte| match byte {
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\'' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                _ => out.push(byte),
            }),
            Quoting::Tcl => literal(out, text, b'"', |out, byte| match byte {
                b'\x0c' => out.extend_from_slice(b"\\f"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\t' => out.extend_from_slice(b"\\t"),
                b'\x0b' => out.extend_from_slice(b"\\v"),
                b'[' | b']' | b'{' | b'}' | b'$' | b'\\' | b'"' => out.extend_from_slice(&[b'\\', byte]),
                _ => out.push(byte),
            }),
        }
    }
}

/// Returns the text before the first NUL.
pub(super) fn until_nul(text: &[u8]) -> &[u8] {
    text.find_byte(0).map_or(text, |end| &text[..end])
}

fn literal(out: &mut Vec<u8>, text: &[u8], mark: u8, append: fn(&mut Vec<u8>, u8)) {
    out.push(mark);
    text.iter().for_each(|byte| append(out, *byte));
    out.push(mark);
}
