//! Bundle lists, from a file in Git's config format or from a server.
//!
//! Source: Git's technical notes on bundle URIs, "Bundle Lists".

use bstr::{BStr, BString, ByteSlice as _};
use repo::wire::url;

/// The bundles of a list that a client needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// All of them.
    #[default]
    All,
    /// Any one of them.
    Any,
}

/// A bundle of a list, or a nested list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: BString,
    pub(super) uri: Option<BString>,
    /// `creationToken`
    pub(super) token: u64,
}

/// A bundle list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct List {
    pub(super) mode: Mode,
    /// `heuristic = creationToken`
    pub(super) is_by_token: bool,
    /// The entries, in the order in which the list defines them.
    pub(super) entries: Vec<Entry>,
    /// The base of relative URIs.
    base: BString,
}

/// A key or value that Git does not accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl List {
    /// Returns an empty list whose relative URIs start at `address`.
    pub(super) fn at(address: &BStr) -> List {
        List { base: address.to_owned(), ..List::default() }
    }

    /// Returns an empty list from a file at `address`. Its relative URIs start at the file's
    /// directory.
    pub(super) fn of_file(address: &BStr) -> List {
        let end = address.rfind_byte(b'/').map_or(0, |slash| slash + 1);
        List::at(address[..end].as_bstr())
    }

    /// Sets a key of the list. Unknown keys are ignored. Returns a warning to print, if any.
    pub(super) fn set(&mut self, key: &[u8], value: &BStr) -> Result<Option<String>, Malformed> {
        let key = key.strip_prefix(b"bundle.").ok_or(Malformed)?;
        let Some((id, name)) = key.rsplit_once_str(".").filter(|(id, _)| !id.is_empty()) else {
            return self.set_global(key, value).map(|()| None);
        };
        let at = self.entries.iter().position(|entry| entry.id == id).unwrap_or_else(|| {
            self.entries.push(Entry { id: id.into(), ..Entry::default() });
            self.entries.len() - 1
        });
        let entry = &mut self.entries[at];
        match name {
            b"uri" if entry.uri.is_some() => return Err(Malformed),
            b"uri" => entry.uri = Some(url::relative(self.base.as_bstr(), value).map_err(|_| Malformed)?),
            b"creationtoken" => match leading_number(value) {
                Some(token) => entry.token = token,
                None => {
                    let text = "could not parse bundle list key creationToken with value";
                    return Ok(Some(format!("{text} '{value}'")));
                }
            },
            _ => {}
        }
        Ok(None)
    }

    fn set_global(&mut self, name: &[u8], value: &BStr) -> Result<(), Malformed> {
        match (name, value.as_bytes()) {
            (b"version", value) if value != b"1" => return Err(Malformed),
            (b"mode", b"all") => self.mode = Mode::All,
            (b"mode", b"any") => self.mode = Mode::Any,
            (b"mode", _) => return Err(Malformed),
            (b"heuristic", b"creationToken") => self.is_by_token = true,
            _ => {}
        }
        Ok(())
    }

    /// Returns the entries in the order in which Git processes them.
    pub(super) fn in_order(self) -> Vec<Entry> {
        let order = in_order(self.entries.iter().map(|entry| entry.id.as_bstr()));
        let mut entries: Vec<Option<Entry>> = self.entries.into_iter().map(Some).collect();
        order.into_iter().filter_map(|at| entries[at].take()).collect()
    }
}

/// The number at the beginning of a text, as C's `sscanf` reads it.
fn leading_number(text: &BStr) -> Option<u64> {
    let text = text.trim_ascii_start();
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text[..end].to_str().ok()?.parse().ok()
}

/// Returns the order in which Git's hash table iterates over these names.
///
/// The author of a list in mode `any` does not order it, so the hash table decides which bundle a
/// client downloads. Servers expect Git's choice.
pub(super) fn in_order<'a>(names: impl Iterator<Item = &'a BStr>) -> Vec<usize> {
    const FIRST_SIZE: usize = 64;
    let mut table: Vec<Vec<(u32, usize)>> = vec![Vec::new(); FIRST_SIZE];
    for (at, name) in names.enumerate() {
        // FNV-1, 32 bits.
        let hash =
            name.iter().fold(0x811c_9dc5_u32, |hash, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(*byte));
        let size = table.len();
        table[hash as usize % size].insert(0, (hash, at));
        if at + 1 > size * 80 / 100 {
            let mut larger = vec![Vec::new(); size * 4];
            for (hash, at) in table.into_iter().flatten() {
                larger[hash as usize % (size * 4)].insert(0, (hash, at));
            }
            table = larger;
        }
    }
    table.into_iter().flatten().map(|(_, at)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_values() {
        let mut list = List::of_file("https://host/dir/list".into());
        for (key, value) in [
            ("bundle.version", "1"),
            ("bundle.mode", "any"),
            ("bundle.heuristic", "creationToken"),
            ("bundle.later", "x"),
            ("bundle.a.b.uri", "../one.bundle"),
            ("bundle.a.b.creationtoken", "12"),
            ("bundle.c.uri", "https://other/two"),
        ] {
            assert_eq!(list.set(key.as_bytes(), value.into()), Ok(None), "{key}");
        }
        assert!(list.is_by_token && list.mode == Mode::Any);
        let entry = Entry { id: "a.b".into(), uri: Some("https://host/one.bundle".into()), token: 12 };
        assert_eq!(list.entries[0], entry);
        assert_eq!(list.entries[1].uri, Some("https://other/two".into()));
        for (key, value) in
            [("bundle.version", "2"), ("bundle.mode", "x"), ("bundle.c.uri", "y"), ("a.b", "")]
        {
            assert_eq!(list.set(key.as_bytes(), value.into()), Err(Malformed), "{key}");
        }
        assert!(list.set(b"bundle.c.creationtoken", "x".into()).is_ok_and(|warning| warning.is_some()));
    }

    #[test]
    fn every_name_is_there_once() {
        let names: Vec<BString> = (0..300).map(|number| format!("bundle-{number}").into()).collect();
        let mut order = in_order(names.iter().map(|name| name.as_bstr()));
        order.sort_unstable();
        assert!(order.into_iter().eq(0..300));
    }
}
