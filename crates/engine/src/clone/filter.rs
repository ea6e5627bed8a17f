//! `--filter`: the objects that a partial clone leaves out.
//!
//! Source: git-rev-list(1) `--filter`. The filter `auto` is not supported.

use bstr::{BStr, BString, ByteSlice};

/// Characters that a part of a combined filter must not contain as they are.
const RESERVED: &[u8] = b"~`!@#$^&*()[]{}\\;'\",<>?";

/// A filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    spec: BString,
    /// The filter in the form that the server and the configuration get.
    expanded: BString,
    is_combined: bool,
}

/// The reason why a text is no filter. Messages are Git's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("invalid filter-spec '{0}'")]
    Invalid(BString),
    #[error("expected 'tree:<depth>'")]
    Depth,
    #[error("sparse:path filters support has been dropped")]
    SparsePath,
    #[error("'{0}' for 'object:type=<type>' is not a valid object type")]
    Type(BString),
    #[error("expected something after combine:")]
    NoParts,
    #[error("must escape char in sub-filter-spec: '{0}'")]
    Unescaped(char),
    /// The server chooses the filter.
    #[error("the filter 'auto' is not supported by sapwood yet (see SHORTCOMINGS.md)")]
    Auto,
}

impl Filter {
    /// Parses a filter.
    pub fn parse(text: &BStr) -> Result<Filter, Error> {
        check(text)?;
        let expanded = match text.strip_prefix(b"blob:limit=").and_then(scaled) {
            Some(limit) => format!("blob:limit={limit}").into(),
            None => text.to_owned(),
        };
        Ok(Filter { spec: text.to_owned(), expanded, is_combined: text.starts_with(b"combine:") })
    }

    /// Returns the filter that leaves out what this one or another leaves out.
    pub fn and(self, text: &BStr) -> Result<Filter, Error> {
        check(text)?;
        let mut spec = if self.is_combined {
            self.spec
        } else {
            [b"combine:", escaped(&self.spec).as_slice()].concat().into()
        };
        spec.push(b'+');
        spec.extend_from_slice(&escaped(text));
        Ok(Filter { expanded: spec.clone(), spec, is_combined: true })
    }

    /// Returns the filter with numbers written out, as the server and the configuration get it.
    pub fn expanded(&self) -> &BStr {
        self.expanded.as_bstr()
    }
}

fn check(text: &BStr) -> Result<(), Error> {
    let invalid = || Error::Invalid(text.to_owned());
    if text == "auto" {
        return Err(Error::Auto);
    }
    if text == "blob:none" || text.starts_with(b"sparse:oid=") {
        return Ok(());
    }
    if let Some(limit) = text.strip_prefix(b"blob:limit=") {
        return scaled(limit).map(drop).ok_or_else(invalid);
    }
    if let Some(depth) = text.strip_prefix(b"tree:") {
        return scaled(depth).map(drop).ok_or(Error::Depth);
    }
    if text.starts_with(b"sparse:path=") {
        return Err(Error::SparsePath);
    }
    if let Some(kind) = text.strip_prefix(b"object:type=") {
        let known = [&b"blob"[..], b"tree", b"commit", b"tag"].contains(&kind);
        return if known { Ok(()) } else { Err(Error::Type(kind.into())) };
    }
    let parts = text.strip_prefix(b"combine:").ok_or_else(invalid)?;
    if parts.is_empty() {
        return Err(Error::NoParts);
    }
    parts.split_str("+").filter(|part| !part.is_empty()).try_for_each(|part| {
        match part.iter().find(|byte| **byte <= b' ' || RESERVED.contains(byte)) {
            Some(byte) => Err(Error::Unescaped(char::from(*byte))),
            None => check(unescaped(part).as_bstr()),
        }
    })
}

fn escaped(text: &[u8]) -> BString {
    let mut out = BString::default();
    for &byte in text {
        if byte <= b' ' || byte == b'%' || byte == b'+' || RESERVED.contains(&byte) {
            out.extend_from_slice(format!("%{byte:02x}").as_bytes())
        } else {
            out.push(byte)
        }
    }
    out
}

fn unescaped(mut text: &[u8]) -> BString {
    let mut out = BString::default();
    while let Some((&byte, rest)) = text.split_first() {
        let digits = rest.get(..2).filter(|digits| byte == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        let value = digits.and_then(|digits| u8::from_str_radix(digits.to_str().ok()?, 16).ok());
        out.push(value.unwrap_or(byte));
        text = if value.is_some() { &rest[2..] } else { rest };
    }
    out
}

/// Parses a number with a unit of k, m or g, powers of 1,024.
fn scaled(text: &[u8]) -> Option<u64> {
    let (digits, unit) = match text.split_last()? {
        (b'k' | b'K', digits) => (digits, 1 << 10),
        (b'm' | b'M', digits) => (digits, 1 << 20),
        (b'g' | b'G', digits) => (digits, 1 << 30),
        _ => (text, 1),
    };
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| digits.to_str().ok()?.parse::<u64>().ok()?.checked_mul(unit)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<String, Error> {
        Filter::parse(text.into()).map(|filter| filter.expanded().to_string())
    }

    #[test]
    fn parses_filters() {
        for (text, expanded) in [
            ("blob:none", "blob:none"),
            ("blob:limit=1k", "blob:limit=1024"),
            ("tree:0", "tree:0"),
            ("sparse:oid=main:x", "sparse:oid=main:x"),
            ("combine:blob:none+tree:3", "combine:blob:none+tree:3"),
            ("combine:sparse%3Aoid=x%2by", "combine:sparse%3Aoid=x%2by"),
        ] {
            assert_eq!(parse(text).as_deref(), Ok(expanded));
        }
        for text in ["", "blob", "blob:limit=", "blob:limit=k"] {
            assert_eq!(parse(text), Err(Error::Invalid(text.into())));
        }
        assert_eq!(parse("tree:x"), Err(Error::Depth));
        assert_eq!(parse("object:type=x"), Err(Error::Type("x".into())));
        assert_eq!(parse("combine:"), Err(Error::NoParts));
        assert_eq!(parse("combine:sparse:oid=a?"), Err(Error::Unescaped('?')));
    }

    #[test]
    fn combines_filters() {
        let one = Filter::parse("sparse:oid=a+b".into()).expect("a filter");
        let two = one.and("blob:limit=1k".into()).expect("a filter");
        assert_eq!(two.expanded(), "combine:sparse:oid=a%2bb+blob:limit=1k");
        let three = two.and("tree:3".into()).expect("a filter");
        assert_eq!(three.expanded(), "combine:sparse:oid=a%2bb+blob:limit=1k+tree:3");
    }
}
