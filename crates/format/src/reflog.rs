//! The lines of a reflog: two object names, the committer with seconds and zone, each after a
//! space; then a tab and the message, if there is one, and LF. Git skips a malformed line. Source:
//! gitrepository-layout(5).

use bstr::{BStr, ByteSlice};

use crate::{HashKind, ObjectId};

/// A line of a reflog: one change of a ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The value before; null if the ref was created.
    pub old: ObjectId,
    /// The value after; null if the ref was deleted.
    pub new: ObjectId,
    /// `<name> <<email>>` of the committer.
    pub committer: &'a BStr,
    /// Seconds since the epoch.
    pub time: i64,
    /// The time zone, such as `+0200`.
    pub zone: &'a BStr,
    /// The message, which may be empty.
    pub message: &'a BStr,
    /// The line without both object names and its end.
    pub rest: &'a BStr,
}

/// Parses a line. The last line of a file may lack its end.
pub fn parse(hash: HashKind, line: &[u8]) -> Option<Entry<'_>> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let width = hash.hex_len();
    let name = |at: usize| {
        let (name, rest) = line.get(at..)?.split_at_checked(width)?;
        ObjectId::from_hex(hash, name).filter(|_| rest.first() == Some(&b' '))
    };
    let (old, new) = (name(0)?, name(width + 1)?);
    let rest = &line[2 * (width + 1)..];
    let end = rest.find_byte(b'>')? + 1;
    let date = rest[end..].strip_prefix(b" ")?;
    let digits = date.iter().take_while(|byte| byte.is_ascii_digit()).count();
    // Git treats a time of zero as malformed.
    let time = date[..digits].to_str().ok()?.parse().ok().filter(|time| *time != 0)?;
    let zone = date[digits..].strip_prefix(b" ")?;
    let (sign, number) = zone.get(..5)?.split_first()?;
    if !matches!(sign, b'+' | b'-') || !number.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let message = &zone[5..];
    Some(Entry {
        old,
        new,
        committer: rest[..end].as_bstr(),
        time,
        zone: zone[..5].as_bstr(),
        message: message.strip_prefix(b"\t").unwrap_or(message).as_bstr(),
        rest: rest.as_bstr(),
    })
}

/// Iterates over the well-formed lines of a reflog, oldest first.
pub fn entries(hash: HashKind, content: &[u8]) -> impl DoubleEndedIterator<Item = Entry<'_>> {
    content.lines_with_terminator().filter_map(move |line| parse(hash, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    #[test]
    fn parses_lines() {
        let line = format!("{A} {B} C O <c@x> 1112911993 -0700\tcommit: a\tb\n");
        let entry = parse(HashKind::Sha1, line.as_bytes()).expect("well-formed");
        assert_eq!((entry.old.to_string(), entry.new.to_string()), (A.to_owned(), B.to_owned()));
        assert_eq!((entry.committer, entry.time), ("C O <c@x>".into(), 1112911993));
        assert_eq!((entry.zone, entry.message), ("-0700".into(), "commit: a\tb".into()));
        assert_eq!(entry.rest, "C O <c@x> 1112911993 -0700\tcommit: a\tb");
        for (end, message) in [("+0000", ""), ("+0000\t", ""), ("+0000\n", ""), ("+0000 x\n", " x")] {
            let line = format!("{A} {B} n <m> 1 {end}");
            assert_eq!(parse(HashKind::Sha1, line.as_bytes()).expect("well-formed").message, message);
        }
    }

    #[test]
    fn skips_malformed_lines() {
        for bad in [
            "".to_owned(),
            format!("{A} {B}"),
            format!("{A}  {B} n <m> 1 +0000"),
            format!("{A} {B} n <m> 0 +0000"),
            format!("{A} {B} n <m>1 +0000"),
            format!("{A} {B} n <m> 1 0000"),
            format!("{A} {B} n <m> 1 +000"),
            format!("{A} {B} n m 1 +0000"),
            format!("{A}x {B} n <m> 1 +0000"),
        ] {
            assert_eq!(parse(HashKind::Sha1, bad.as_bytes()), None, "{bad:?}");
        }
        let content = format!("{A} {B} n <m> 1 +0000\nbad\n{B} {A} n <m> 2 +0000");
        let times: Vec<i64> = entries(HashKind::Sha1, content.as_bytes()).map(|entry| entry.time).collect();
        assert_eq!(times, [1, 2]);
    }
}
