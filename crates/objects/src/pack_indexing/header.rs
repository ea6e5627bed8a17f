//! Parses the header of an entry from a stream that may not have delivered all of it yet.

use format::{HashKind, Kind, ObjectId};

use super::{
    Error,
    error::Flaw,
    table::{Form, NONE},
};

/// The base of a delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    None,
    /// The entry at this offset.
    Offset(u64),
    Name(ObjectId),
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) form: Form,
    pub(super) base: Base,
    pub(super) size: u64,
    pub(super) len: usize,
}

/// Parses the header at the start of `data`, for the entry at `offset`. Returns `None` if the
/// header continues after the end of `data`. The order of the checks is Git's.
pub(super) fn parse(data: &[u8], offset: u64, hash: HashKind) -> Result<Option<Header>, Error> {
    let bad = |flaw| Error::BadObject { offset, flaw };
    let mut at = 0;
    let mut next = || {
        at += 1;
        data.get(at - 1).copied()
    };
    let Some(first) = next() else { return Ok(None) };
    let (mut size, mut shift, mut byte) = (u64::from(first & 15), 4, first);
    while byte & 0x80 != 0 {
        if shift > u64::BITS - 7 {
            return Err(Error::TooLarge);
        }
        let Some(more) = next() else { return Ok(None) };
        byte = more;
        size = size.wrapping_add(u64::from(byte & 0x7f) << shift);
        shift += 7;
    }
    let whole = |kind| (Form::Whole(kind), Base::None);
    let (form, base) = match (first >> 4) & 7 {
        1 => whole(Kind::Commit),
        2 => whole(Kind::Tree),
        3 => whole(Kind::Blob),
        4 => whole(Kind::Tag),
        6 => {
            let Some(mut byte) = next() else { return Ok(None) };
            let mut distance = u64::from(byte & 0x7f);
            while byte & 0x80 != 0 {
                distance += 1;
                if distance >> 57 != 0 {
                    return Err(bad(Flaw::BaseOverflow));
                }
                let Some(more) = next() else { return Ok(None) };
                byte = more;
                distance = (distance << 7) + u64::from(byte & 0x7f);
            }
            if distance == 0 || distance >= offset {
                return Err(bad(Flaw::BaseOutside));
            }
            (Form::Delta, Base::Offset(offset - distance))
        }
        7 => {
            let Some(raw) = data.get(at..at + hash.len()) else { return Ok(None) };
            at += hash.len();
            let name = ObjectId::from_bytes(hash, raw).expect("as long as the hash");
            return Ok(Some(Header { form: Form::Delta, base: Base::Name(name), size, len: at }));
        }
        other => return Err(bad(Flaw::Type(other))),
    };
    Ok(Some(Header { form, base, size, len: at }))
}

/// Converts an optional entry number; `None` becomes [`NONE`].
pub(super) fn or_none(index: Option<u32>) -> u32 {
    index.unwrap_or(NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(data: &[u8]) -> Result<Option<Header>, String> {
        parse(data, 1000, HashKind::Sha1).map_err(|error| error.to_string())
    }

    #[test]
    fn headers_and_their_flaws() {
        let whole =
            |kind, size, len| Ok(Some(Header { form: Form::Whole(kind), base: Base::None, size, len }));
        assert_eq!(parsed(&[0x35, 9]), whole(Kind::Blob, 5, 1));
        assert_eq!(parsed(&[0x9f, 0xff, 0x01]), whole(Kind::Commit, 15 + (127 << 4) + (1 << 11), 3));
        for cut in [&[][..], &[0x9f], &[0x9f, 0xff], &[0x65], &[0x65, 0x80], &[0x75, 1, 2]] {
            assert_eq!(parsed(cut), Ok(None), "{cut:?}");
        }
        let delta = parsed(&[0x65, 0x80, 0x00]).expect("no flaw").expect("whole");
        assert_eq!((delta.form, delta.base, delta.len), (Form::Delta, Base::Offset(872), 3));
        let named = parsed(&[[0x75; 1].as_slice(), &[7; 20]].concat()).expect("no flaw").expect("whole");
        assert!(matches!(named.base, Base::Name(_)) && named.len == 21);
        let flaw = |data: &[u8]| parsed(data).expect_err("a flaw");
        assert_eq!(flaw(&[0x05]), "pack has bad object at offset 1000: unknown object type 0");
        assert_eq!(flaw(&[0x55]), "pack has bad object at offset 1000: unknown object type 5");
        assert_eq!(flaw(&[0x65, 0]), "pack has bad object at offset 1000: delta base offset is out of bound");
        assert_eq!(flaw(&[0x65, 0x86, 0x68]), flaw(&[0x65, 0]), "the distance is 1000");
        let far = [[0x65; 1].as_slice(), &[0xff; 12]].concat();
        assert!(flaw(&far).ends_with("offset value overflow for delta base object"));
        assert_eq!(flaw(&[0xff; 30]), "object size too large for this platform");
    }
}
