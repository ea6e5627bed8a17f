//! Compares a file of the upper layer with the file from which it was copied up.

use std::{io, ops::Range};

use sys::File;

/// The difference of a copy from its origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    /// The bytes of the origin that the copy lacks: where it has a hole, and after its end.
    pub(super) lost: Vec<Range<u64>>,
    /// True if the copy has other bytes than its origin, within the length of the origin.
    pub(super) is_changed: bool,
    /// True if the copy is longer than its origin.
    pub(super) is_longer: bool,
}

/// An open file and its size.
#[derive(Clone, Copy)]
pub(super) struct Sized<'a> {
    pub(super) file: &'a File,
    pub(super) size: u64,
}

/// The bytes that are compared at once.
const PIECE: u64 = 1 << 16;

/// Compares a copy, which has data in the ranges `data`, with its origin.
pub(super) fn compare(copy: Sized<'_>, data: &[Range<u64>], origin: Sized<'_>) -> io::Result<Comparison> {
    let common = copy.size.min(origin.size);
    let mut found = Comparison { is_longer: copy.size > origin.size, ..Comparison::default() };
    let mut done = 0;
    for range in data.iter().cloned().chain(std::iter::once(common..common)) {
        let (start, end) = (range.start.min(common), range.end.min(common));
        if has_bytes(origin.file, done..start)? {
            found.lost.push(done..start);
        }
        found.is_changed = found.is_changed || differ(copy.file, origin.file, start..end)?;
        done = end;
    }
    if copy.size < origin.size {
        found.lost.push(copy.size..origin.size);
    }
    Ok(found)
}

fn pieces(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    (range.start..end).step_by(PIECE as usize).map(move |start| start..end.min(start + PIECE))
}

fn read(file: &File, range: &Range<u64>) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    file.read_exact_at(&mut bytes, range.start).map(|()| bytes)
}

/// Returns true if the file has a byte other than zero in the range.
fn has_bytes(file: &File, range: Range<u64>) -> io::Result<bool> {
    for piece in pieces(range) {
        if read(file, &piece)?.iter().any(|byte| *byte != 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn differ(one: &File, two: &File, range: Range<u64>) -> io::Result<bool> {
    for piece in pieces(range) {
        if read(one, &piece)? != read(two, &piece)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Writes the bytes of the origin to these ranges of the copy.
pub(super) fn fill(copy: &File, origin: &File, lost: &[Range<u64>]) -> io::Result<()> {
    for piece in lost.iter().cloned().flat_map(pieces) {
        let bytes = read(origin, &piece)?;
        copy.write_pieces_at(&mut [io::IoSlice::new(&bytes)], piece.start)?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, clippy::single_range_in_vec_init)]
mod tests {
    use sys::by_path;

    use super::*;

    const BLOCK: u64 = 4096;

    fn content(blocks: u64) -> Vec<u8> {
        (0..blocks * BLOCK).map(|at| (at % 251) as u8 + 1).collect()
    }

    /// Compares a copy, whose blocks `holes` were never written, with an origin.
    fn compared(copy: &[u8], holes: &[u64], origin: &[u8]) -> Comparison {
        let place = tempfile::tempdir().expect("a directory for tests");
        let file = |name: &str, bytes: &[u8]| {
            let path = place.path().join(name);
            std::fs::write(&path, bytes).expect("written");
            by_path::open(&path).expect("opened")
        };
        let (mut bytes, size) = (copy.to_vec(), copy.len() as u64);
        let mut data = vec![0..size];
        for hole in holes.iter().map(|at| at * BLOCK..(at + 1) * BLOCK) {
            bytes[hole.start as usize..hole.end as usize].fill(0);
            let last: Range<u64> = data.pop().expect("the rest");
            data.extend([last.start..hole.start, hole.end..last.end]);
        }
        data.retain(|range| !range.is_empty());
        let (copy, origin_file) = (file("copy", &bytes), file("origin", origin));
        let origin = Sized { file: &origin_file, size: origin.len() as u64 };
        compare(Sized { file: &copy, size }, &data, origin).expect("compared")
    }

    #[test]
    fn finds_the_lost_bytes_and_those_of_the_user() {
        let whole = content(4);
        let lost = |ranges: &[Range<u64>]| Comparison { lost: ranges.to_vec(), ..Comparison::default() };
        assert_eq!(compared(&whole, &[], &whole), lost(&[]));
        assert_eq!(compared(b"", &[], &whole), lost(&[0..4 * BLOCK]));
        assert_eq!(compared(&whole[..4096], &[], &whole), lost(&[BLOCK..4 * BLOCK]));
        assert_eq!(compared(&whole, &[1, 3], &whole), lost(&[BLOCK..2 * BLOCK, 3 * BLOCK..4 * BLOCK]));
        let short = lost(&[0..BLOCK, 2 * BLOCK..4 * BLOCK]);
        assert_eq!(compared(&whole[..8192], &[0], &whole), short);
        let appended = [&whole[..], b"more"].concat();
        let expected = Comparison { is_longer: true, ..lost(&[2 * BLOCK..3 * BLOCK]) };
        assert_eq!(compared(&appended, &[2], &whole), expected);
        let mut changed = whole.clone();
        changed[0] = 0;
        assert_eq!(compared(&changed, &[], &whole), Comparison { is_changed: true, ..lost(&[]) });
        let expected = Comparison { is_changed: true, ..lost(&[BLOCK..2 * BLOCK]) };
        assert_eq!(compared(&changed, &[1], &whole), expected);
        // A hole where the origin has zeros loses nothing.
        let mut zeros = whole;
        zeros[4096..8192].fill(0);
        assert_eq!(compared(&zeros, &[1], &zeros), lost(&[]));
        assert_eq!(compared(&zeros, &[], b""), Comparison { is_longer: true, ..lost(&[]) });
    }

    #[test]
    fn fills_what_is_lost() {
        let place = tempfile::tempdir().expect("a directory for tests");
        let (whole, path) = (content(40), place.path().join("copy"));
        std::fs::write(&path, [&[0; 8192][..], b"mine"].concat()).expect("written");
        std::fs::write(place.path().join("origin"), &whole).expect("written");
        let origin = by_path::open(&place.path().join("origin")).expect("opened");
        let copy = by_path::open_to_edit(&path).expect("opened");
        fill(&copy, &origin, &[0..8192, 8196..40 * BLOCK]).expect("filled");
        let filled = std::fs::read(&path).expect("read");
        assert_eq!(filled[8192..8196], *b"mine");
        assert!(filled[..8192] == whole[..8192] && filled[8196..] == whole[8196..]);
    }
}
