//! Converts character encodings as Git does, so a re-encoded file has the same bytes.
//!
//! With glibc the C library converts, as it does for Git. A static program has no tables of glibc,
//! and musl writes `*` for a character that an encoding lacks. So a program with musl asks, in this
//! order:
//!
//! 1. its own code, for UTF-8, UTF-16, UTF-32, Latin-1 and ASCII, with the bytes that glibc writes;
//! 2. the system's program `iconv`, which has the tables that the system's Git uses;
//! 3. musl, if there is no such program, as on Alpine. It converts back, and a text that changes on
//!    the way is an error.

mod library;
mod program;
mod unicode;

use unicode::Encoding;

/// The reason why a conversion failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// One of the encodings is unknown here.
    Unknown,
    /// The input is invalid in its encoding, or not representable in the target encoding.
    Unfit,
}

/// Converts `input` from one encoding to another and appends the result to `out`. On failure `out`
/// is unchanged.
pub fn convert(to: &[u8], from: &[u8], input: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    if cfg!(target_env = "musl") {
        convert_without_glibc(to, from, input, out)
    } else {
        library::convert(to, from, input, out)
    }
}

fn convert_without_glibc(to: &[u8], from: &[u8], input: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    if let (Some(to), Some(from)) = (Encoding::of(to), Encoding::of(from)) {
        return unicode::convert(to, from, input, out);
    }
    match program::convert(to, from, input, out) {
        Some(result) => result,
        None => convert_with_check(to, from, input, out),
    }
}

/// Converts by way of UTF-8 with the C library, and compares the way back.
fn convert_with_check(to: &[u8], from: &[u8], input: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let mut text = Vec::new();
    match Encoding::of(from) {
        Some(from) => unicode::convert(Encoding::UTF_8, from, input, &mut text)?,
        None => library::convert(b"UTF-8", from, input, &mut text)?,
    }
    if let Some(to) = Encoding::of(to) {
        return unicode::convert(to, Encoding::UTF_8, &text, out);
    }
    let (mut converted, mut back) = (Vec::new(), Vec::new());
    library::convert(to, b"UTF-8", &text, &mut converted)?;
    library::convert(b"UTF-8", to, &converted, &mut back)?;
    if back != text {
        return Err(Error::Unfit);
    }
    out.extend_from_slice(&converted);
    Ok(())
}

#[cfg(test)]
mod tests;
