//! The packed-refs file: `<object name> SP <ref name>` lines sorted by name. If a ref points to a
//! tag, a line `^<object name>` follows with the object that the tag finally points to. A header
//! line lists traits of the file.
//!
//! Promise: a lookup touches a few pages of a file whose header states that it is sorted. So only
//! the lines that are read are checked, and the end of the file, as in Git. Skipped lines are not
//! validated. A file without that trait is sorted here. Source: `refs/packed-backend.c`, because
//! there is no document.

use std::{ops::Deref, path::Path};

use bstr::{BStr, BString, ByteSlice};

use crate::{
    HashKind, ObjectId,
    refname::{self, Levels},
};

/// The beginning of the header line.
pub const HEADER: &[u8] = b"# pack-refs with:";

/// The number of bytes that Git prints of a line of at least [`LONGEST_SHOWN`] bytes.
const SHOWN: usize = 75;
const LONGEST_SHOWN: usize = 80;

/// The reason why a file is malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Malformed {
    /// A line that is not valid at its position.
    Unexpected(BString),
    /// A last line without a newline.
    Unterminated(BString),
    /// A name that leads outside `refs/`.
    Dangerous(BString),
    /// A name that contains a NUL.
    Null(BString),
}

impl Malformed {
    /// Creates the error for the line at the start of `bytes`.
    fn line(bytes: &[u8]) -> Malformed {
        let shown = |line: &[u8]| {
            if line.len() < LONGEST_SHOWN {
                line.into()
            } else {
                BString::from([&line[..SHOWN], b"..."].concat())
            }
        };
        match bytes.find_byte(b'\n') {
            Some(end) => Malformed::Unexpected(shown(&bytes[..end])),
            None => Malformed::Unterminated(shown(bytes)),
        }
    }

    /// Returns Git's message for the file at `path`.
    pub fn message(&self, path: &Path) -> String {
        match self {
            Malformed::Unexpected(line) => format!("unexpected line in {}: {line}", path.display()),
            Malformed::Unterminated(line) => format!("unterminated line in {}: {line}", path.display()),
            Malformed::Dangerous(name) => format!("packed refname is dangerous: {name}"),
            Malformed::Null(name) => format!("packed refname contains embedded NULL: {name}"),
        }
    }
}

/// The lines of one ref.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its full name.
    pub name: &'a BStr,
    /// Its value. It is the null name if the ref name is invalid.
    pub oid: ObjectId,
    /// The object that the tag finally points to, if the file has that line.
    pub peeled: Option<ObjectId>,
    /// The unchanged lines, with their newlines.
    pub lines: &'a [u8],
}

/// A packed-refs file over its bytes, usually mapped. A missing file is treated as an empty one.
#[derive(Debug)]
pub struct PackedRefs<D> {
    content: Content<D>,
    hash: HashKind,
    /// The offset of the first record.
    start: usize,
    /// The text after [`HEADER`], if there is a header.
    traits: Option<BString>,
}

#[derive(Debug)]
enum Content<D> {
    Given(D),
    /// The sorted records of a file that was not sorted.
    Sorted(Vec<u8>),
}

impl<D: Deref<Target = [u8]>> PackedRefs<D> {
    /// Reads the header, checks the end of the file, and sorts the records if the header does not
    /// state that they are sorted.
    pub fn parse(bytes: D, hash: HashKind) -> Result<Self, Malformed> {
        let mut packed = PackedRefs { content: Content::Given(bytes), hash, start: 0, traits: None };
        if packed.bytes().starts_with(b"#") {
            let bytes = packed.bytes();
            let end = bytes.find_byte(b'\n').ok_or_else(|| Malformed::line(bytes))?;
            let traits = bytes[..end].strip_prefix(HEADER).filter(|traits| traits.starts_with(b" "));
            let traits = traits.ok_or_else(|| Malformed::line(bytes))?.into();
            (packed.start, packed.traits) = (end + 1, Some(traits));
        }
        packed.check_end()?;
        if !packed.has_trait("sorted") {
            packed.sort()?;
        }
        Ok(packed)
    }

    fn bytes(&self) -> &[u8] {
        match &self.content {
            Content::Given(bytes) => bytes,
            Content::Sorted(bytes) => bytes,
        }
    }

    /// Returns the length in bytes. It includes the header, unless the records had to be sorted.
    pub fn len(&self) -> usize {
        self.bytes().len()
    }

    /// Returns true if the file is empty, without a header.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the text after [`HEADER`], or `None` without a header.
    pub fn traits(&self) -> Option<&BStr> {
        self.traits.as_ref().map(|traits| traits.as_bstr())
    }

    /// Returns true if the header lists this trait.
    pub fn has_trait(&self, wanted: &str) -> bool {
        let traits = self.traits.as_ref().map(|traits| traits.split_str(" "));
        traits.is_some_and(|mut traits| traits.any(|name| name == wanted.as_bytes()))
    }

    /// Returns the minimum length of a record's first line: an object name, a space, and a newline
    /// or another byte.
    fn min_line_len(&self) -> usize {
        self.hash.hex_len() + 2
    }

    fn check_end(&self) -> Result<(), Malformed> {
        let bytes = self.bytes();
        if self.start == bytes.len() {
            return Ok(());
        }
        let last = self.record_start(self.start, bytes.len() - 1);
        if bytes.ends_with(b"\n") && bytes.len() - last >= self.min_line_len() {
            Ok(())
        } else {
            Err(Malformed::line(&bytes[last..]))
        }
    }

    /// Sorts the records. Files from Git before 2.15 may be unsorted.
    fn sort(&mut self) -> Result<(), Malformed> {
        let bytes = self.bytes();
        let mut records = Vec::new();
        let mut at = self.start;
        while at < bytes.len() {
            let end = self.record_end(at);
            let line = bytes[at..end].find_byte(b'\n').unwrap_or(end - at);
            if line < self.min_line_len() {
                return Err(Malformed::line(&bytes[at..]));
            }
            records.push((self.name_at(at), &bytes[at..end]));
            at = end;
        }
        if !records.is_sorted_by(|left, right| left.0 < right.0) {
            records.sort_by_key(|(name, _)| *name);
            let sorted = records.into_iter().map(|(_, lines)| lines).collect::<Vec<_>>().concat();
            (self.content, self.start) = (Content::Sorted(sorted), 0);
            self.check_end()?;
        }
        Ok(())
    }

    /// Returns the start of the record that contains the byte at `at`. `low` is the start of a
    /// record, and the result is not before it.
    fn record_start(&self, low: usize, at: usize) -> usize {
        let bytes = self.bytes();
        let mut at = at;
        loop {
            at = bytes[low..at].rfind_byte(b'\n').map_or(low, |newline| low + newline + 1);
            if at == low || bytes[at] != b'^' {
                return at;
            }
            at -= 1;
        }
    }

    /// Returns the end of the record that begins at `at`.
    fn record_end(&self, at: usize) -> usize {
        let bytes = self.bytes();
        let mut end = at;
        loop {
            let Some(newline) = bytes[end..].find_byte(b'\n') else { return bytes.len() };
            end += newline + 1;
            if bytes.get(end) != Some(&b'^') {
                return end;
            }
        }
    }

    /// Returns the name in the record that begins at `at`, or the empty string.
    fn name_at(&self, at: usize) -> &BStr {
        let line = self.bytes()[at..].lines().next().unwrap_or_default();
        line.get(self.hash.hex_len() + 1..).unwrap_or_default().as_bstr()
    }

    /// Returns the start of the first record whose name is not before `name`. A binary search over
    /// the bytes, so finding one ref of a hundred thousand touches only a few pages.
    fn seek(&self, name: &BStr) -> usize {
        let (mut low, mut high) = (self.start, self.len());
        while low < high {
            let at = self.record_start(low, low + (high - low) / 2);
            if self.name_at(at) < name { low = self.record_end(at).min(high) } else { high = at }
        }
        low
    }

    /// Returns the value of a ref.
    pub fn find(&self, name: &BStr) -> Result<Option<ObjectId>, Malformed> {
        let at = self.seek(name);
        if at == self.len() || self.name_at(at) != name {
            return Ok(None);
        }
        let bytes = &self.bytes()[at..];
        let oid = bytes.get(..self.hash.hex_len()).and_then(|hex| ObjectId::from_hex(self.hash, hex));
        oid.map(Some).ok_or_else(|| Malformed::line(bytes))
    }

    /// Iterates over all records whose names begin with `prefix`, in order. Ends after an error.
    pub fn below<'a>(
        &'a self,
        prefix: &'a BStr,
    ) -> impl Iterator<Item = Result<Record<'a>, Malformed>> + use<'a, D> {
        let mut at = if prefix.is_empty() { self.start } else { self.seek(prefix) };
        std::iter::from_fn(move || {
            if at >= self.len() {
                return None;
            }
            let record = self.record(at);
            at = record.as_ref().map_or(usize::MAX, |record| at + record.lines.len());
            match record {
                Ok(record) if !record.name.starts_with(prefix) => {
                    at = usize::MAX;
                    None
                }
                record => Some(record),
            }
        })
    }

    /// Parses the record whose first line begins at `at`.
    fn record(&self, at: usize) -> Result<Record<'_>, Malformed> {
        let bytes = &self.bytes()[at..];
        let id = |from: usize| {
            let hex = bytes.get(from..from + self.hash.hex_len())?;
            let after = bytes.get(from + hex.len())?;
            Some((ObjectId::from_hex(self.hash, hex)?, *after))
        };
        let end = bytes.find_byte(b'\n').filter(|end| *end + 1 >= self.min_line_len());
        let (Some(end), Some((mut oid, b' ' | b'\t' | b'\r'))) = (end, id(0)) else {
            return Err(Malformed::line(bytes));
        };
        let name = self.name_at(at);
        if name.contains(&0) {
            return Err(Malformed::Null(name[..name.find_byte(0).unwrap_or_default()].into()));
        }
        if refname::check(name, Levels::One).is_err() {
            if !refname::is_safe(name) {
                return Err(Malformed::Dangerous(name.to_owned()));
            }
            oid = ObjectId::null(self.hash);
        }
        let (mut len, mut peeled) = (end + 1, None);
        if bytes.get(len) == Some(&b'^') {
            let Some((id, b'\n')) = id(len + 1) else { return Err(Malformed::line(&bytes[len..])) };
            peeled = Some(id).filter(|_| !oid.is_null());
            len += self.hash.hex_len() + 2;
        }
        Ok(Record { name, oid, peeled, lines: &bytes[..len] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    fn parse(text: &str) -> Result<PackedRefs<&[u8]>, Malformed> {
        PackedRefs::parse(text.as_bytes(), HashKind::Sha1)
    }

    fn names(packed: &PackedRefs<&[u8]>, prefix: &str) -> Result<Vec<String>, Malformed> {
        packed.below(prefix.into()).map(|record| record.map(|record| record.name.to_string())).collect()
    }

    #[test]
    fn finds_by_name_and_by_prefix() {
        let header = "# pack-refs with: peeled fully-peeled sorted \n";
        let text = format!(
            "{header}{A} refs/heads/a\n{A} refs/heads/a-b\n{B} refs/heads/a/b\n{A} refs/tags/t\n^{B}\n{B} refs/x\n"
        );
        let unsorted = format!(
            "{B} refs/x\n{A} refs/tags/t\n^{B}\n{A} refs/heads/a-b\n{B} refs/heads/a/b\n{A} refs/heads/a\n"
        );
        for text in [&text, &unsorted] {
            let packed = parse(text).expect("well formed");
            for name in ["refs/heads/a", "refs/heads/a-b", "refs/tags/t"] {
                assert_eq!(
                    packed.find(name.into()).expect("well formed").map(|id| id.to_string()),
                    Some(A.into())
                );
            }
            for name in ["", "refs/heads", "refs/heads/aa", "refs/tags/t/x", "refs/y"] {
                assert_eq!(packed.find(name.into()), Ok(None), "{name}");
            }
            assert_eq!(names(&packed, "refs/heads/a/").expect("well formed"), ["refs/heads/a/b"]);
            assert_eq!(names(&packed, "refs/heads/").expect("well formed").len(), 3);
            assert_eq!(names(&packed, "").expect("well formed").len(), 5);
            let tag = packed.below("refs/tags/".into()).next().expect("there").expect("well formed");
            assert_eq!(tag.peeled.map(|id| id.to_string()).as_deref(), Some(B));
            assert_eq!(tag.lines, format!("{A} refs/tags/t\n^{B}\n").as_bytes());
        }
        let packed = parse(&text).expect("well formed");
        assert!(packed.has_trait("sorted") && packed.has_trait("peeled") && !packed.has_trait("peel"));
        assert!(parse("").expect("nothing").is_empty());
    }

    #[test]
    fn reports_malformed_files_in_gits_words() {
        let message = |text: &str| {
            let problem = match parse(text) {
                Ok(packed) => names(&packed, "").expect_err("malformed"),
                Err(problem) => problem,
            };
            problem.message(Path::new("f"))
        };
        assert_eq!(message("x\n"), "unexpected line in f: x");
        assert_eq!(message("# other\n"), "unexpected line in f: # other");
        assert_eq!(message(&format!("{A} refs/a")), format!("unterminated line in f: {A} refs/a"));
        assert_eq!(message(&format!("{A}refs/a\n")), format!("unexpected line in f: {A}refs/a"));
        let long = "x".repeat(90);
        assert_eq!(message(&format!("{long}\n")), format!("unexpected line in f: {}...", &long[..75]));
        assert_eq!(message(&format!("{A} refs/a\n^{B}x\n")), format!("unexpected line in f: ^{B}x"));
        assert_eq!(message(&format!("{A} refs/../a\n")), "packed refname is dangerous: refs/../a");
        assert_eq!(message(&format!("{A} refs/a\0b\n")), "packed refname contains embedded NULL: refs/a");
        let odd = format!("{A} refs/heads/a..b\n");
        let odd = parse(&odd).expect("safe");
        assert!(odd.below("".into()).all(|record| record.expect("safe").oid.is_null()));
    }

    proptest::proptest! {
        #[test]
        fn finds_every_record_that_it_lists(lines in proptest::collection::vec("(\\^?[ab]{39,41}[ ^]?)?[a-c/\0]{0,3}", 0..8), end in "\n?") {
            let text = lines.join("\n") + &end;
            let Ok(packed) = parse(&text) else { return Ok(()) };
            for record in packed.below("".into()).map_while(Result::ok) {
                let found = packed.find(record.name).expect("it was read");
                proptest::prop_assert!(found.is_some());
            }
        }
    }
}
