//! `--filter`: the objects that a partial clone leaves out.
//!
//! Source: git-rev-list(1) `--filter`. Combined filters and `sparse:` filters are not supported.

use bstr::{BStr, BString, ByteSlice};

/// A supported filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(BString);

impl Filter {
    /// Parses a filter. Returns `None` if it is invalid or not supported.
    pub fn parse(text: &BStr) -> Option<Filter> {
        if text == "blob:none" {
            return Some(Filter(text.to_owned()));
        }
        if let Some(limit) = text.strip_prefix(b"blob:limit=") {
            return Some(Filter(format!("blob:limit={}", scaled(limit)?).into()));
        }
        if let Some(depth) = text.strip_prefix(b"tree:") {
            return Some(Filter(format!("tree:{}", scaled(depth)?).into()));
        }
        let kind = text.strip_prefix(b"object:type=")?;
        [&b"blob"[..], b"tree", b"commit", b"tag"].contains(&kind).then(|| Filter(text.to_owned()))
    }

    /// Returns the filter with numbers written out, as the server and the configuration get it.
    pub fn expanded(&self) -> &BStr {
        self.0.as_bstr()
    }
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

    #[test]
    fn parses_supported_filters() {
        let parse = |text: &str| Filter::parse(text.into()).map(|filter| filter.expanded().to_string());
        assert_eq!(parse("blob:none").as_deref(), Some("blob:none"));
        assert_eq!(parse("blob:limit=1k").as_deref(), Some("blob:limit=1024"));
        assert_eq!(parse("tree:0").as_deref(), Some("tree:0"));
        for other in [
            "",
            "blob",
            "blob:limit=",
            "blob:limit=k",
            "tree:x",
            "sparse:oid=x",
            "combine:a+b",
            "object:type=x",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
