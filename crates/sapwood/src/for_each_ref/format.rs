//! A format: text, and the fields in it. Source: git-for-each-ref(1), `--format`.

use bstr::{BStr, BString, ByteSlice as _};

use super::field::{Control, Field, FieldKind};

/// A parsed format.
#[derive(Clone, Debug)]
pub struct Format {
    pub(super) pieces: Vec<Piece>,
}

/// Git's format without `--format`.
impl Default for Format {
    fn default() -> Format {
        Format::parse(DEFAULT.into()).expect("it is well-formed")
    }
}

impl Format {
    /// Parses a format. Returns `None` if it is left to Git: it has an unknown field, or invalid
    /// conditions or alignments.
    pub fn parse(text: &BStr) -> Option<Format> {
        parse(text).map(|pieces| Format { pieces })
    }

    /// Returns true if it uses colours.
    pub fn has_colors(&self) -> bool {
        self.fields().any(|field| matches!(field.kind, FieldKind::Control(Control::Color { .. })))
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = &Field> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Field(field) => Some(field),
            Piece::Literal(_) => None,
        })
    }
}

/// A part of a format.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Literal(BString),
    Field(Field),
}

const DEFAULT: &str = "%(objectname) %(objecttype)\t%(refname)";

fn parse(format: &BStr) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut rest = format.as_bytes();
    while let Some(at) = next_field(rest) {
        let end = at + rest[at..].find_byte(b')')?;
        if at > 0 {
            pieces.push(Piece::Literal(literal(&rest[..at])));
        }
        pieces.push(Piece::Field(Field::parse(rest[at + 2..end].as_bstr())?));
        rest = &rest[end + 1..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Literal(literal(rest)));
    }
    is_well_formed(&pieces).then_some(pieces)
}

/// Finds the next `%(`. The second `%` of `%%` does not start a field.
fn next_field(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = text[at..].find_byte(b'%') {
        at += found;
        match text.get(at + 1) {
            Some(b'(') => return Some(at),
            Some(b'%') => at += 2,
            _ => at += 1,
        }
    }
    None
}

/// Expands `%%` and `%xx`. Other characters are literal.
fn literal(text: &[u8]) -> BString {
    let mut plain = BString::default();
    let mut at = 0;
    while at < text.len() {
        let hex = text.get(at + 1..at + 3).and_then(byte).filter(|_| text[at] == b'%');
        match (text[at], text.get(at + 1), hex) {
            (b'%', Some(b'%'), _) => (plain.push(b'%'), at += 2),
            (_, _, Some(byte)) => (plain.push(byte), at += 3),
            (other, _, None) => (plain.push(other), at += 1),
        };
    }
    plain
}

/// Returns the byte that two hexadecimal digits stand for.
fn byte(digits: &[u8]) -> Option<u8> {
    let digits = digits.iter().map(|digit| char::from(*digit).to_digit(16));
    let value = digits.collect::<Option<Vec<u32>>>()?.into_iter().fold(0, |sum, digit| sum * 16 + digit);
    u8::try_from(value).ok()
}

/// An open condition or alignment.
enum Open {
    Align,
    If { then: bool, otherwise: bool },
}

fn is_well_formed(pieces: &[Piece]) -> bool {
    let mut open: Vec<Open> = Vec::new();
    for piece in pieces {
        let Piece::Field(Field { kind: FieldKind::Control(control), .. }) = piece else { continue };
        match (control, open.last_mut()) {
            (Control::Color { .. }, _) => {}
            (Control::Align { .. }, _) => open.push(Open::Align),
            (Control::If(_), _) => open.push(Open::If { then: false, otherwise: false }),
            (Control::Then, Some(Open::If { then: then @ false, otherwise: false })) => *then = true,
            (Control::Else, Some(Open::If { then: true, otherwise: otherwise @ false })) => *otherwise = true,
            (Control::End, Some(Open::Align | Open::If { then: true, .. })) => drop(open.pop()),
            _ => return false,
        }
    }
    open.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals() {
        for (text, plain) in
            [("a%%b", "a%b"), ("%00x", "\0x"), ("%4", "%4"), ("%zz", "%zz"), ("100%", "100%"), ("%%(", "%(")]
        {
            let pieces = parse(text.into()).expect("no fields");
            assert!(matches!(&pieces[..], [Piece::Literal(found)] if found == plain), "{text}: {pieces:?}");
        }
    }

    #[test]
    fn conditions_and_alignments_must_match() {
        for good in [
            "%(if)%(HEAD)%(then)a%(end)",
            "%(if)%(HEAD)%(then)a%(else)%(if:equals=x)y%(then)%(end)%(end)",
            "%(align:3)%(if)%(then)%(end)%(end)",
        ] {
            assert!(parse(good.into()).is_some(), "{good}");
        }
        for bad in [
            "%(if)",
            "%(then)%(end)",
            "%(if)%(end)",
            "%(if)%(else)%(end)",
            "%(if)%(then)%(then)%(end)",
            "%(if)%(then)%(else)%(else)%(end)",
            "%(end)",
            "%(align:3)",
            "%(refname",
            "%(if)%(then)%(else)%(then)%(end)",
        ] {
            assert!(parse(bad.into()).is_none(), "{bad}");
        }
    }
}
