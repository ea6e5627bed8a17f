//! Tree objects: `<octal mode> SP <name> NUL <raw object name>`, repeated. Source: Git's behaviour
//! (`tree-walk.c`).

use bstr::{BStr, ByteSlice};

use crate::{HashKind, Mode, ObjectId};

/// One entry of a tree, borrowing its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeEntry<'a> {
    /// The canonical mode.
    pub mode: Mode,
    /// One path component. It is not validated; see [`crate::path`].
    pub name: &'a BStr,
    /// The object.
    pub oid: ObjectId,
}

/// The bytes are not a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed tree object")]
pub struct Malformed;

/// Iterates over the entries of a tree object, in the tree's order. Ends after an error.
#[derive(Clone)]
pub struct TreeEntries<'a> {
    data: &'a [u8],
    kind: HashKind,
}

impl<'a> TreeEntries<'a> {
    /// Creates an iterator over `data`, the content of the tree object without its header.
    pub fn new(kind: HashKind, data: &'a [u8]) -> Self {
        TreeEntries { data, kind }
    }

    fn parse(&self) -> Option<(TreeEntry<'a>, &'a [u8])> {
        let space = self.data.iter().take(8).position(|&byte| byte == b' ')?;
        let digits = &self.data[..space];
        if digits.is_empty() {
            return None;
        }
        let mut mode = 0u32;
        for &digit in digits {
            if !(b'0'..=b'7').contains(&digit) {
                return None;
            }
            mode = mode << 3 | u32::from(digit - b'0');
        }
        let rest = &self.data[space + 1..];
        let nul = rest.find_byte(0)?;
        let name = &rest[..nul];
        let raw = rest.get(nul + 1..nul + 1 + self.kind.len())?;
        if name.is_empty() {
            return None;
        }
        let oid = ObjectId::from_bytes(self.kind, raw)?;
        let entry = TreeEntry { mode: Mode::canonical(mode), name: name.as_bstr(), oid };
        Some((entry, &rest[nul + 1 + self.kind.len()..]))
    }
}

impl<'a> Iterator for TreeEntries<'a> {
    type Item = Result<TreeEntry<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.data.is_empty() {
            return None;
        }
        match self.parse() {
            Some((entry, rest)) => {
                self.data = rest;
                Some(Ok(entry))
            }
            None => {
                self.data = &[];
                Some(Err(Malformed))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_entries_and_refuses_truncated_ones() {
        let mut data = b"100644 a\0".to_vec();
        data.extend([1; 20]);
        data.extend(b"40000 dir\0");
        data.extend([2; 20]);
        let entries: Vec<_> =
            TreeEntries::new(HashKind::Sha1, &data).collect::<Result<_, _>>().expect("valid");
        assert_eq!(entries.len(), 2);
        assert_eq!((entries[0].mode, entries[0].name), (Mode::FILE, b"a".as_bstr()));
        assert_eq!((entries[1].mode, entries[1].name), (Mode::TREE, b"dir".as_bstr()));
        for cut in 1..data.len() {
            if cut != 29 {
                let last = TreeEntries::new(HashKind::Sha1, &data[..cut]).last().expect("not empty");
                assert_eq!(last, Err(Malformed), "cut at {cut}");
            }
        }
    }
}
