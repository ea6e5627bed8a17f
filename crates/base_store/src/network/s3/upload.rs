//! Writing of objects: one request, or an upload in parts.

use std::{io, ops::Range, path::Path};

use format::base_files::{Digest, Digester};
use sys::File;

use super::{CHECKSUM, Call, S3, text, xml};
use crate::Error;

/// The smallest part of an upload.
const PART: u64 = 8 << 20;

/// The largest number of parts of an upload.
const PARTS: u64 = 10_000;

/// A part of an upload.
struct Part {
    tag: String,
    checksum: Option<String>,
}

/// Where the bytes of an upload are.
pub(super) enum Source<'a> {
    File { file: &'a File, path: &'a Path },
    Object(&'a str),
}

impl Source<'_> {
    fn check(&self, expected: &Digest, found: Digester) -> Result<(), Error> {
        let found = found.finish();
        if found == *expected {
            return Ok(());
        }
        let path = match self {
            Source::File { path, .. } => (*path).to_owned(),
            Source::Object(path) => (*path).into(),
        };
        Err(Error::WrongDigest { path, expected: *expected, found })
    }
}

impl S3 {
    /// Writes an object of `size` bytes from `source`, if they have the digest.
    pub(super) fn upload(&self, digest: &Digest, size: u64, source: Source<'_>) -> Result<(), Error> {
        let path = digest.path();
        let mut digester = Digester::default();
        let part_size = PART.max(size.div_ceil(PARTS));
        if size <= part_size {
            let bytes = self.part(&source, 0..size)?;
            digester.update(&bytes);
            source.check(digest, digester)?;
            return self.put(&path, &bytes);
        }
        match self.upload_in_parts(digest, size, part_size, &source) {
            // A server may lose an upload whose completion it does not finish: begin again, once.
            Err(Error::Failed { .. }) => self.upload_in_parts(digest, size, part_size, &source),
            uploaded => uploaded,
        }
    }

    fn upload_in_parts(
        &self,
        digest: &Digest,
        size: u64,
        part_size: u64,
        source: &Source<'_>,
    ) -> Result<(), Error> {
        let path = digest.path();
        let id = self.create_upload(&path)?;
        let sent = self.upload_parts(digest, size, part_size, source, &id);
        let error = match sent {
            Err(error) => error,
            Ok(parts) => match self.complete_upload(&path, &id, &parts) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    let is_new = matches!(source, Source::File { .. });
                    // If the answer was lost, the upload is gone and the object is there.
                    if is_new && self.head(&path).is_ok_and(|found| found == size) {
                        return Ok(());
                    }
                    match error {
                        Error::Missing { address } => {
                            Error::Failed { address, reason: "the server lost the upload".into() }
                        }
                        error => error,
                    }
                }
            },
        };
        // The caller must know the failure above. Rules of the bucket remove the parts.
        let _ = self.abort_upload(&path, &id);
        Err(error)
    }

    fn upload_parts(
        &self,
        digest: &Digest,
        size: u64,
        part_size: u64,
        source: &Source<'_>,
        id: &str,
    ) -> Result<Vec<Part>, Error> {
        let path = digest.path();
        let mut digester = Digester::default();
        let mut parts = Vec::new();
        let mut at = 0;
        while at < size {
            let end = size.min(at + part_size);
            let bytes = self.part(source, at..end)?;
            digester.update(&bytes);
            parts.push(self.put_part(&path, id, parts.len() + 1, &bytes)?);
            at = end;
        }
        source.check(digest, digester)?;
        Ok(parts)
    }

    fn part(&self, source: &Source<'_>, range: Range<u64>) -> Result<Vec<u8>, Error> {
        match source {
            Source::File { file, path } => {
                let failed = |source: io::Error| Error::Io { what: "read", path: (*path).to_owned(), source };
                let length = usize::try_from(range.end - range.start);
                let mut bytes = vec![0; length.map_err(|_| failed(io::ErrorKind::OutOfMemory.into()))?];
                file.read_exact_at(&mut bytes, range.start).map_err(failed)?;
                Ok(bytes)
            }
            Source::Object(_) if range.is_empty() => Ok(Vec::new()),
            Source::Object(path) => self.get(path, range),
        }
    }

    fn create_upload(&self, path: &str) -> Result<String, Error> {
        let key = self.key(path);
        let mut call = Call { query: vec![("uploads", String::new())], ..Call::new("POST", &key) };
        call.headers.extend(self.encryption());
        if self.settings.sends_checksum {
            call.headers.push(("x-amz-checksum-algorithm".into(), "SHA256".into()));
        }
        let answer = self.call_for_xml(&call, path)?;
        let wrong = || Error::Wrong { address: self.address.of(path), reason: "no id of the upload".into() };
        xml::first(&answer, "UploadId").ok_or_else(wrong)
    }

    /// Sends a part. Parts are counted from 1.
    fn put_part(&self, path: &str, id: &str, number: usize, bytes: &[u8]) -> Result<Part, Error> {
        let key = self.key(path);
        let query = vec![("partNumber", number.to_string()), ("uploadId", id.to_owned())];
        let mut call = Call { query, body: bytes, ..Call::new("PUT", &key) };
        let checksum = self.checksum(bytes);
        call.headers.extend(checksum.clone().map(|sum| (CHECKSUM.to_owned(), sum.into())));
        self.call(&call, path, |response, address| {
            let wrong = || Error::Wrong { address: address.to_owned(), reason: "no ETag of a part".into() };
            let tag = text(&response, "etag").ok_or_else(wrong)?.to_owned();
            Ok(Part { tag, checksum: checksum.clone() })
        })
    }

    fn complete_upload(&self, path: &str, id: &str, parts: &[Part]) -> Result<(), Error> {
        let key = self.key(path);
        let mut body =
            String::from("<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
        for (at, part) in parts.iter().enumerate() {
            let checksum = part.checksum.iter();
            let checksum: String =
                checksum.map(|sum| format!("<ChecksumSHA256>{sum}</ChecksumSHA256>")).collect();
            let (number, tag) = (at + 1, xml::encode(&part.tag));
            body += &format!("<Part><ETag>{tag}</ETag><PartNumber>{number}</PartNumber>{checksum}</Part>");
        }
        body += "</CompleteMultipartUpload>";
        let query = vec![("uploadId", id.to_owned())];
        let mut call = Call { query, body: body.as_bytes(), ..Call::new("POST", &key) };
        call.headers.push(("Content-Type".into(), "application/xml".into()));
        self.call_for_xml(&call, path).map(drop)
    }

    fn abort_upload(&self, path: &str, id: &str) -> Result<(), Error> {
        let key = self.key(path);
        let call = Call { query: vec![("uploadId", id.to_owned())], ..Call::new("DELETE", &key) };
        self.call(&call, path, |_, _| Ok(()))
    }
}
