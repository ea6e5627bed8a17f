//! Sorting refs. Source: git-for-each-ref(1), `--sort`.

use std::cmp::Ordering;

use bstr::{BStr, BString, ByteSlice as _};

use super::field::{Field, FieldKind, NameForm, ObjectField, PersonPart, RefField, TextField};

/// One sort key.
#[derive(Clone, Debug)]
pub struct SortKey {
    pub(super) field: Field,
    reverse: bool,
    /// Numbers in the text are compared as numbers.
    version: bool,
}

/// The value of a sort key.
#[derive(Clone, Debug)]
pub(super) enum SortValue {
    Text(BString),
    Number(u64),
}

impl SortKey {
    /// Parses a key. Returns `None` if it is left to Git.
    pub fn parse(text: &BStr) -> Option<SortKey> {
        let (reverse, text) = match text.strip_prefix(b"-") {
            Some(rest) => (true, rest.as_bstr()),
            None => (false, text),
        };
        let stem = text.strip_prefix(b"version:").or_else(|| text.strip_prefix(b"v:"));
        let field = Field::parse(stem.map_or(text, |stem| stem.as_bstr()))?;
        // Git compares formatted dates by time in its first comparison, and by text in all others.
        let is_value = !matches!(
            field.kind,
            FieldKind::Control(_) | FieldKind::Text(TextField::Person(_, PersonPart::Date(_)))
        );
        is_value.then_some(SortKey { field, reverse, version: stem.is_some() })
    }

    /// Returns true if the key is the order in which refs are listed.
    pub(super) fn is_natural(&self) -> bool {
        let is_name = matches!(self.field.kind, FieldKind::Ref(RefField::Name(NameForm::Full)));
        is_name && !self.field.peeled && !self.reverse && !self.version
    }

    /// Returns true if the value of the key is a number.
    pub(super) fn is_number(&self) -> bool {
        let is_number = match &self.field.kind {
            FieldKind::Object(field) => matches!(field, ObjectField::Size),
            FieldKind::Text(field) => matches!(
                field,
                TextField::NumParent | TextField::ContentsSize | TextField::Person(_, PersonPart::PlainDate)
            ),
            FieldKind::Ref(_) | FieldKind::Control(_) => false,
        };
        is_number && !self.version
    }

    /// Compares two values of this key.
    fn compare(&self, left: &SortValue, right: &SortValue, icase: bool) -> Ordering {
        let order = match (left, right) {
            (SortValue::Number(left), SortValue::Number(right)) => left.cmp(right),
            (SortValue::Text(left), SortValue::Text(right)) if self.version => compare_versions(left, right),
            (SortValue::Text(left), SortValue::Text(right)) => compare_texts(left, right, icase),
            _ => Ordering::Equal,
        };
        if self.reverse { order.reverse() } else { order }
    }
}

/// Compares two refs by their values for each key, and finally by their names.
pub(super) fn compare(
    keys: &[SortKey],
    icase: bool,
    left: (&BString, &[SortValue]),
    right: (&BString, &[SortValue]),
) -> Ordering {
    let pairs = keys.iter().zip(left.1.iter().zip(right.1));
    let by_keys = pairs.map(|(key, (left, right))| key.compare(left, right, icase));
    let decided = by_keys.into_iter().find(|order| order.is_ne());
    decided.unwrap_or_else(|| compare_texts(left.0, right.0, icase))
}

fn compare_texts(left: &[u8], right: &[u8], icase: bool) -> Ordering {
    if icase { left.to_ascii_lowercase().cmp(&right.to_ascii_lowercase()) } else { left.cmp(right) }
}

/// Compares like C's `strverscmp`: a number with more digits is larger, unless it begins with a
/// zero, which makes it a fraction.
fn compare_versions(left: &[u8], right: &[u8]) -> Ordering {
    let at = |text: &[u8], place: usize| text.get(place).copied().unwrap_or(0);
    let Some(split) = (0..=left.len().max(right.len())).find(|&place| at(left, place) != at(right, place))
    else {
        return Ordering::Equal;
    };
    // The common digits directly before the first difference.
    let shared = left[..split].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let start = split - shared;
    let is_integer = |text: &[u8]| (b'1'..=b'9').contains(&at(text, start));
    let digits = |text: &[u8]| {
        text.get(split..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let plain = at(left, split).cmp(&at(right, split));
    if is_integer(left) && is_integer(right) {
        return digits(left).cmp(&digits(right)).then(plain);
    }
    let is_fraction = shared > 0 && left[start..split].iter().all(|byte| *byte == b'0');
    if is_fraction && (digits(left) > 0 || digits(right) > 0) {
        // In a fraction, a digit sorts before any other character, and the end before a character
        // that is not a digit.
        let rank = |byte: u8| byte.wrapping_sub(b'0');
        return rank(at(left, split)).cmp(&rank(at(right, split)));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let ascending = ["000", "00", "01", "010", "09", "0", "1", "9", "10"];
        for (at, left) in ascending.iter().enumerate() {
            for (other, right) in ascending.iter().enumerate() {
                let order = compare_versions(left.as_bytes(), right.as_bytes());
                assert_eq!(order, at.cmp(&other), "{left} {right}");
            }
        }
        for (left, right) in
            [("v1.9", "v1.10"), ("v1.10", "v1.10-rc1"), ("a", "b"), ("v2", "v10a"), ("a1b", "a1c")]
        {
            assert_eq!(compare_versions(left.as_bytes(), right.as_bytes()), Ordering::Less, "{left} {right}");
        }
    }
}
