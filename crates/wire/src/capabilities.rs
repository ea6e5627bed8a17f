//! The capabilities that a server announces.

use bstr::{BStr, BString, ByteSlice};
use format::HashKind;

use super::Error;

/// The agent name that sapwood sends to servers.
pub(super) fn agent() -> &'static str {
    concat!("sapwood/", env!("CARGO_PKG_VERSION"))
}

/// The capabilities, each with its value: `name` or `name=value`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Capabilities(Vec<BString>);

impl Capabilities {
    /// Parses the space-separated list of the versions 0 and 1.
    pub(super) fn of_words(words: &[u8]) -> Capabilities {
        let words = words.trim_ascii_end().split_str(" ").filter(|word| !word.is_empty());
        Capabilities(words.map(BString::from).collect())
    }

    pub(super) fn push(&mut self, capability: &[u8]) {
        self.0.push(capability.into());
    }

    /// Returns all values of a capability, in the server's order.
    pub(super) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a BStr> {
        let value = move |capability: &'a BString| {
            let value = capability.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(value.as_bstr())
        };
        self.0.iter().filter_map(value)
    }

    /// Returns true if the server has a capability, with or without a value.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|capability| capability == name) || self.values(name).next().is_some()
    }

    /// Returns true if `word` is among the space-separated values of the capability `name`.
    pub(super) fn has_word(&self, name: &str, word: &str) -> bool {
        self.values(name).any(|values| values.split_str(" ").any(|value| value == word.as_bytes()))
    }

    /// Returns the hash of the server's object names.
    pub(super) fn hash(&self) -> Result<HashKind, Error> {
        match self.values("object-format").next().map(|name| name.as_bytes()) {
            None | Some(b"sha1") => Ok(HashKind::Sha1),
            Some(b"sha256") => Ok(HashKind::Sha256),
            Some(other) => Err(Error::Message(format!(
                "unknown object format '{}' specified by server",
                other.as_bstr()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_values() {
        let found =
            Capabilities::of_words(b" multi_ack symref=HEAD:refs/heads/a symref=B:C object-format=sha256\n");
        assert!(found.has("multi_ack") && found.has("symref") && !found.has("sym"));
        assert_eq!(found.values("symref").collect::<Vec<_>>(), ["HEAD:refs/heads/a", "B:C"]);
        assert_eq!(found.hash().expect("known"), HashKind::Sha256);
        let mut found = Capabilities::default();
        found.push(b"fetch=shallow filter");
        assert!(found.has_word("fetch", "filter") && !found.has_word("fetch", "filt"));
        found.push(b"object-format=md5");
        assert!(found.hash().is_err());
    }
}
