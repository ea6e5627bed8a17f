//! Splits bytes at a byte.

/// Returns the bytes before and after the first `byte`. A general search for a text is slower for
/// the few short words of a command line: it prepares tables, which costs page faults.
pub fn split_once(bytes: &[u8], byte: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|&found| found == byte)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_at_the_first() {
        assert_eq!(split_once(b"a=b=c", b'='), Some((&b"a"[..], &b"b=c"[..])));
        assert_eq!(split_once(b"=", b'='), Some((&b""[..], &b""[..])));
        assert_eq!(split_once(b"a", b'='), None);
    }
}
