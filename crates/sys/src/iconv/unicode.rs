//! Encodings that need no table: UTF-8, UTF-16, UTF-32, Latin-1 and ASCII. The bytes are glibc's;
//! a test compares them. Source: The Unicode Standard, chapter 3.9; RFC 2781.

use super::Error;

/// An encoding that needs no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Encoding {
    unit: Unit,
    order: Order,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Utf8,
    Utf16,
    Utf32,
    /// One byte for each character up to this one.
    Byte(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// A byte order mark says it. Without a mark it is the machine's; a mark is always written.
    Marked,
    Little,
    Big,
}

impl Encoding {
    pub(super) const UTF_8: Encoding = Encoding { unit: Unit::Utf8, order: Order::Little };

    /// Returns the encoding that glibc knows by `name`.
    pub(super) fn of(name: &[u8]) -> Option<Encoding> {
        let name = name.to_ascii_uppercase();
        let (unit, order) = match name.as_slice() {
            b"UTF-8" | b"UTF8" => return Some(Encoding::UTF_8),
            b"UTF-16" | b"UTF16" => (Unit::Utf16, Order::Marked),
            b"UTF-16LE" | b"UTF16LE" => (Unit::Utf16, Order::Little),
            b"UTF-16BE" | b"UTF16BE" => (Unit::Utf16, Order::Big),
            b"UTF-32" | b"UTF32" => (Unit::Utf32, Order::Marked),
            b"UTF-32LE" | b"UTF32LE" => (Unit::Utf32, Order::Little),
            b"UTF-32BE" | b"UTF32BE" => (Unit::Utf32, Order::Big),
            b"ISO-8859-1" | b"ISO8859-1" | b"ISO88591" | b"ISO_8859-1" | b"LATIN1" => {
                (Unit::Byte(u8::MAX), Order::Little)
            }
            b"ASCII" | b"US-ASCII" => (Unit::Byte(0x7f), Order::Little),
            _ => return None,
        };
        Some(Encoding { unit, order })
    }
}

/// Converts `input` and appends the result to `out`. On failure `out` is unchanged.
pub(super) fn convert(to: Encoding, from: Encoding, input: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let before = out.len();
    let done = match from.unit {
        Unit::Utf8 => std::str::from_utf8(input)
            .map_err(|_| Error::Unfit)
            .and_then(|text| encode(to, text.chars().map(Ok), out)),
        Unit::Byte(last) => {
            let letter = |&byte: &u8| if byte <= last { Ok(char::from(byte)) } else { Err(Error::Unfit) };
            encode(to, input.iter().map(letter), out)
        }
        Unit::Utf16 => {
            let (units, rest) = input.as_chunks::<2>();
            let (units, is_big) = without_mark(units, from.order, |&unit| u16::from_le_bytes(unit).into());
            let units = units
                .iter()
                .map(|&unit| if is_big { u16::from_be_bytes(unit) } else { u16::from_le_bytes(unit) });
            let letters = char::decode_utf16(units).map(|letter| letter.map_err(|_| Error::Unfit));
            encode(to, letters.chain(cut(rest)), out)
        }
        Unit::Utf32 => {
            let (units, rest) = input.as_chunks::<4>();
            let (units, is_big) = without_mark(units, from.order, |&unit| u32::from_le_bytes(unit));
            let letters = units.iter().map(|&unit| {
                let number = if is_big { u32::from_be_bytes(unit) } else { u32::from_le_bytes(unit) };
                char::from_u32(number).ok_or(Error::Unfit)
            });
            encode(to, letters.chain(cut(rest)), out)
        }
    };
    if done.is_err() {
        out.truncate(before);
    }
    done
}

/// Returns an error if the input ends inside a character.
fn cut(rest: &[u8]) -> Option<Result<char, Error>> {
    (!rest.is_empty()).then_some(Err(Error::Unfit))
}

/// Removes the byte order mark, if the encoding has one. Returns true for the big-endian order.
fn without_mark<T>(units: &[T], order: Order, read: impl Fn(&T) -> u32) -> (&[T], bool) {
    let swapped = if size_of::<T>() == 2 { 0xfffe } else { 0xfffe_0000 };
    match (order, units) {
        (Order::Little, _) => (units, false),
        (Order::Big, _) => (units, true),
        (Order::Marked, [first, rest @ ..]) if read(first) == u32::from(MARK) => (rest, false),
        (Order::Marked, [first, rest @ ..]) if read(first) == swapped => (rest, true),
        (Order::Marked, _) => (units, cfg!(target_endian = "big")),
    }
}

const MARK: char = '\u{feff}';

fn encode(
    to: Encoding,
    letters: impl Iterator<Item = Result<char, Error>>,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let is_big = match to.order {
        Order::Marked => cfg!(target_endian = "big"),
        order => order == Order::Big,
    };
    let mut mark = (to.order == Order::Marked).then_some(MARK);
    for letter in letters {
        let letter = letter?;
        if let Some(mark) = mark.take() {
            push(to.unit, is_big, mark, out)?;
        }
        push(to.unit, is_big, letter, out)?;
    }
    Ok(())
}

fn push(unit: Unit, is_big: bool, letter: char, out: &mut Vec<u8>) -> Result<(), Error> {
    match unit {
        Unit::Utf8 => out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        Unit::Utf16 => {
            for &unit in &*letter.encode_utf16(&mut [0; 2]) {
                out.extend_from_slice(&if is_big { unit.to_be_bytes() } else { unit.to_le_bytes() });
            }
        }
        Unit::Utf32 => {
            let number = u32::from(letter);
            out.extend_from_slice(&if is_big { number.to_be_bytes() } else { number.to_le_bytes() });
        }
        Unit::Byte(last) => match u8::try_from(letter) {
            Ok(byte) if byte <= last => out.push(byte),
            // glibc leaves the language tags of Unicode out where an encoding lacks them.
            _ if ('\u{e0000}'..='\u{e007f}').contains(&letter) => {}
            _ => return Err(Error::Unfit),
        },
    }
    Ok(())
}
