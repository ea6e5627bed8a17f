//! Downloads of one file by GET, from any offset.
//!
//! A server that does not support ranges, or whose file has changed, sends the whole file: `begin`
//! receives the offset of the first byte before any byte is written.

use std::io::{self, Read as _, Write};

use ::http::Head;
use bstr::{BStr, BString, ByteSlice};

use super::{
    Setup,
    session::{Request, Response},
};
use crate::{Error, HttpError};

/// The part of a file that was already downloaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resume {
    /// The number of bytes.
    pub offset: u64,
    /// The validator of the file at the time of that download. Without one, the download starts
    /// again.
    pub validator: Option<BString>,
}

/// The beginning of a download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// The offset of the first byte: that of [`Resume`], or 0.
    pub offset: u64,
    /// The size of the whole file, if the server sends it.
    pub size: Option<u64>,
    /// The validator for resuming: the file's `ETag` if it is strong, else its modification time.
    pub validator: Option<BString>,
}

/// The size of the copy buffer, in bytes.
const PIECE: usize = 128 << 10;

/// Downloads a file; see the module. Returns the number of bytes that were written.
pub(crate) fn download(
    setup: &Setup<'_>,
    url: &BStr,
    resume: &Resume,
    begin: &mut dyn FnMut(&Beginning) -> io::Result<()>,
    into: &mut dyn Write,
) -> Result<u64, Error> {
    let (mut session, address) = setup.session(url)?;
    let shown = address.without_user();
    let mut wanted = resume.clone();
    let head = loop {
        let mut headers: Vec<(&'static str, BString)> =
            vec![("Accept", "*/*".into()), ("Pragma", "no-cache".into())];
        if let Some(validator) = wanted.validator.as_ref().filter(|_| wanted.offset > 0) {
            headers.push(("Range", format!("bytes={}-", wanted.offset).into()));
            headers.push(("If-Range", validator.clone()));
        }
        let address = address.clone();
        let request = Request { method: "GET", address, tail: "", headers, body: b"", is_first: true };
        let Response { head, .. } = session.request(request)?;
        match head.status {
            // The server's file is not longer than the offset, so it may be another file.
            416 if wanted.offset > 0 => wanted = Resume::default(),
            200..=299 => break head,
            404 | 410 => return Err(HttpError::NotFound(shown).into()),
            status => {
                let reason = format!("The requested URL returned error: {status}");
                return Err(HttpError::Access { url: shown, reason }.into());
            }
        }
    };
    let beginning = beginning(&head, wanted.offset)
        .ok_or_else(|| HttpError::Access { url: shown, reason: "the server sent another range".into() })?;
    begin(&beginning).map_err(HttpError::Io)?;
    let (mut piece, mut written) = (vec![0; PIECE], 0);
    loop {
        let read = session.read(&mut piece).map_err(HttpError::Io)?;
        if read == 0 {
            break;
        }
        into.write_all(&piece[..read]).map_err(HttpError::Io)?;
        written += read as u64;
    }
    match beginning.size {
        Some(size) if size != beginning.offset + written => Err(early().into()),
        _ => Ok(written),
    }
}

fn early() -> HttpError {
    let text = "transfer closed with outstanding read data remaining";
    HttpError::Io(io::Error::new(io::ErrorKind::UnexpectedEof, text))
}

/// Parses the head of a response; `None` if the range is not the requested one.
fn beginning(head: &Head, wanted: u64) -> Option<Beginning> {
    let number = |text: &[u8]| text.to_str().ok()?.trim().parse::<u64>().ok();
    let etag = head.get("etag").filter(|tag| tag.starts_with(b"\""));
    let validator = etag.or_else(|| head.get("last-modified")).map(BStr::to_owned);
    if head.status != 206 {
        let size = head.get("content-length").and_then(|text| number(text));
        return Some(Beginning { offset: 0, size, validator });
    }
    let range = head.get("content-range")?.strip_prefix(b"bytes ")?;
    let (range, size) = range.split_once_str("/")?;
    let (first, _) = range.split_once_str("-")?;
    let offset = number(first).filter(|first| *first == wanted)?;
    Some(Beginning { offset, size: number(size), validator })
}
