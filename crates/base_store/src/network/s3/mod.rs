//! S3 and stores that speak its protocol.
//!
//! A file of one part is one `PutObject`. A larger one is uploaded in parts and completed only if
//! its digest is right, so a killed upload leaves parts that nobody sees. Rules of the bucket
//! remove them. Every request may be repeated. [`S3::upload_in_parts`] says so of the one that
//! completes an upload.

mod credentials;
mod settings;
mod sign;
mod time;
mod upload;
mod xml;

use std::{io::Read as _, ops::Range, path::Path, time::SystemTime};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bstr::BString;
use format::base_files::{DataFile, Digest, RecordKind, RecordName};
use http::{Body, Request, Response};
use sys::by_path;

use self::{
    credentials::Credentials,
    settings::Settings,
    sign::{encode, object_key},
    upload::Source,
};
use super::{
    client::{Http, is_success, read_body, read_range, text},
    retry::{Attempt, one_line, refusal},
};
use crate::{Address, Error, LONGEST_RECORD, Options, StoredData, StoredRecord, backend::Backend};

/// The longest answer in XML: a page of a list has at most 1000 objects.
const LONGEST_ANSWER: usize = 16 << 20;

/// The longest description of an error.
const LONGEST_ERROR: u64 = 64 << 10;

/// The characters of a code or a message that are shown.
const SHOWN: usize = 300;

/// The header with the SHA-256 of a body.
const CHECKSUM: &str = "x-amz-checksum-sha256";

/// Codes of S3 for requests that this user may not make. Some of them come with status 400.
const DENIALS: [&str; 6] = [
    "AccessDenied",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
];

/// Codes of S3 for failures that may pass, and come with another status than 5xx.
const PASSING: [&str; 3] = ["InternalError", "RequestTimeout", "SlowDown"];

/// See the module.
pub(super) struct S3 {
    http: Http,
    credentials: Credentials,
    settings: Settings,
    address: Address,
    prefix: String,
}

/// An object that the store lists.
struct Object {
    key: String,
    size: u64,
    modified: SystemTime,
}

/// A request before it is signed.
struct Call<'a> {
    method: &'static str,
    /// The key of the object; empty for the bucket.
    key: &'a str,
    /// Names and values of the query, which must not be encoded.
    query: Vec<(&'a str, String)>,
    headers: Vec<(String, BString)>,
    body: &'a [u8],
}

impl<'a> Call<'a> {
    fn new(method: &'static str, key: &'a str) -> Call<'a> {
        Call { method, key, query: Vec::new(), headers: Vec::new(), body: b"" }
    }
}

impl S3 {
    pub(super) fn open(
        address: &Address,
        bucket: &str,
        prefix: &str,
        http: Http,
        options: &Options<'_>,
    ) -> Result<S3, Error> {
        let settings = Settings::load(options, bucket)?;
        let credentials = Credentials::of(options, &http)?;
        Ok(S3 { http, credentials, settings, address: address.clone(), prefix: prefix.to_owned() })
    }

    /// Returns the key of the object of a file.
    fn key(&self, path: &str) -> String {
        match self.prefix.as_str() {
            "" => object_key(path),
            prefix => object_key(&format!("{prefix}/{path}")),
        }
    }

    /// Sends a request once. Returns the response, whatever its status is.
    fn send(&self, call: &Call<'_>, address: &str) -> Result<Response<'_>, Attempt> {
        let mut url = self.settings.bucket.clone();
        if !call.key.is_empty() || url.target.is_empty() {
            let key: Vec<String> = call.key.split('/').map(encode).collect();
            url.target.push(b'/');
            url.target.extend_from_slice(key.join("/").as_bytes());
        }
        for (at, (name, value)) in call.query.iter().enumerate() {
            url.target.push(if at == 0 { b'?' } else { b'&' });
            url.target.extend_from_slice(format!("{name}={}", encode(value)).as_bytes());
        }
        let body = if call.body.is_empty() { Body::Empty } else { Body::Bytes(call.body) };
        let mut request = Request { method: call.method, address: url, headers: call.headers.clone(), body };
        request.headers.extend(self.settings.headers.iter().cloned());
        if self.settings.sends_signature {
            let payload = match self.settings.signs_payload {
                true => Digest::of(call.body).to_string(),
                false => sign::UNSIGNED.to_owned(),
            };
            let keys = self.credentials.keys(address)?;
            sign::sign(&mut request, &keys, &self.settings.region, &payload, SystemTime::now());
        }
        self.http.send(request, address)
    }

    /// Sends a request until it succeeds. `read` takes the response.
    fn call<T>(
        &self,
        call: &Call<'_>,
        path: &str,
        read: impl Fn(Response<'_>, &str) -> Result<T, Attempt>,
    ) -> Result<T, Error> {
        let address = self.address.of(path);
        self.http.retry.run(|| {
            let response = self.send(call, &address)?;
            if is_success(&response) { read(response, &address) } else { Err(failure(response, &address)) }
        })
    }

    /// Sends a request until it succeeds, and returns the XML of the answer.
    fn call_for_xml(&self, call: &Call<'_>, path: &str) -> Result<String, Error> {
        self.call(call, path, |response, address| {
            let body = read_body(response, LONGEST_ANSWER, address)?;
            let body = String::from_utf8_lossy(&body).into_owned();
            // A server that completes an upload begins its answer before it knows the outcome.
            match xml::first(&body, "Error") {
                Some(_) => Err(Attempt::Passing {
                    error: Error::Failed { address: address.to_owned(), reason: words(&body).1 },
                    after: None,
                }),
                None => Ok(body),
            }
        })
    }

    /// Returns the size of an object.
    fn head(&self, path: &str) -> Result<u64, Error> {
        self.call(&Call::new("HEAD", &self.key(path)), path, |response, address| {
            let wrong = || Error::Wrong { address: address.to_owned(), reason: "no size".into() };
            Ok(response.length().ok_or_else(wrong)?)
        })
    }

    fn get(&self, path: &str, range: Range<u64>) -> Result<Vec<u8>, Error> {
        let key = self.key(path);
        let mut call = Call::new("GET", &key);
        let asked = format!("bytes={}-{}", range.start, range.end - 1);
        call.headers.push(("Range".into(), asked.into()));
        self.call(&call, path, |response, address| read_range(response, &range, address))
    }

    fn put(&self, path: &str, bytes: &[u8]) -> Result<(), Error> {
        let key = self.key(path);
        let mut call = Call { body: bytes, ..Call::new("PUT", &key) };
        call.headers.extend(self.encryption());
        call.headers.extend(self.checksum(bytes).map(|sum| (CHECKSUM.to_owned(), sum.into())));
        self.call(&call, path, |_, _| Ok(()))
    }

    fn encryption(&self) -> Option<(String, BString)> {
        let kind = self.settings.encryption.as_deref()?;
        Some(("x-amz-server-side-encryption".into(), kind.into()))
    }

    fn checksum(&self, bytes: &[u8]) -> Option<String> {
        let sum = || BASE64_STANDARD.encode(Digest::of(bytes).as_bytes());
        self.settings.sends_checksum.then(sum)
    }

    /// Lists the objects below a directory.
    fn list(&self, directory: &str) -> Result<Vec<Object>, Error> {
        let wrong =
            |reason: &str| Error::Wrong { address: self.address.of(directory), reason: reason.into() };
        let mut objects = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let mut call = Call::new("GET", "");
            call.query = vec![("list-type", "2".into()), ("prefix", format!("{}/", self.key(directory)))];
            call.query.extend(next.take().map(|token| ("continuation-token", token)));
            let page = self.call_for_xml(&call, directory)?;
            let before = objects.len();
            for object in xml::all(&page, "Contents") {
                let size = xml::first(object, "Size").and_then(|size| size.parse().ok());
                let modified = xml::first(object, "LastModified").and_then(|text| time::parse(&text));
                let key = xml::first(object, "Key");
                let (Some(key), Some(size), Some(modified)) = (key, size, modified) else {
                    return Err(wrong("an object without key, size or time"));
                };
                objects.push(Object { key, size, modified });
            }
            if xml::first(&page, "IsTruncated").as_deref() != Some("true") {
                return Ok(objects);
            }
            next = xml::first(&page, "NextContinuationToken");
            // Such a page would be followed by itself.
            if next.is_none() || objects.len() == before {
                return Err(wrong("a list that does not continue"));
            }
        }
    }

    fn delete(&self, path: &str) -> Result<(), Error> {
        match self.call(&Call::new("DELETE", &self.key(path)), path, |_, _| Ok(())) {
            Err(Error::Missing { .. }) => Ok(()),
            deleted => deleted,
        }
    }
}

/// Returns the failure that a response with a bad status is.
fn failure(mut response: Response<'_>, address: &str) -> Attempt {
    let mut body = Vec::new();
    // The status is the failure to report, even if the description cannot be read.
    let _ = response.by_ref().take(LONGEST_ERROR).read_to_end(&mut body);
    let (code, reason) = words(&String::from_utf8_lossy(&body));
    let code = code.as_deref().unwrap_or_default();
    let to = || address.to_owned();
    if let Some(region) = text(&response, "x-amz-bucket-region")
        && (response.head.status == 301 || code == "AuthorizationHeaderMalformed")
    {
        let reason = format!("{reason}: the bucket is in the region {region}, which AWS_REGION must name");
        return Error::Failed { address: to(), reason: reason.trim_start_matches(": ").to_owned() }.into();
    }
    match code {
        _ if DENIALS.contains(&code) => Error::Denied { address: to(), reason }.into(),
        "NoSuchBucket" => Error::NoBucket { address: to(), reason }.into(),
        "InvalidRange" => Error::Wrong { address: to(), reason: "it is shorter than expected".into() }.into(),
        _ if PASSING.contains(&code) => {
            Attempt::Passing { error: Error::Failed { address: to(), reason }, after: None }
        }
        _ => refusal(address, &response, &reason),
    }
}

/// Returns the code of an error, and the code with the message.
fn words(body: &str) -> (Option<String>, String) {
    let shown = |text: String| one_line(&text.chars().take(SHOWN).collect::<String>());
    let code = xml::first(body, "Code").map(shown);
    let reason = match (&code, xml::first(body, "Message").map(shown)) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.clone(),
        _ => String::new(),
    };
    (code, reason)
}

impl Backend for S3 {
    fn has(&self, digest: &Digest) -> Result<bool, Error> {
        match self.head(&digest.path()) {
            Ok(_) => Ok(true),
            Err(Error::Missing { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn read(&self, digest: &Digest, range: Range<u64>) -> Result<Vec<u8>, Error> {
        self.get(&digest.path(), range)
    }

    fn write(&self, digest: &Digest, path: &Path) -> Result<(), Error> {
        let failed = |what| move |source| Error::Io { what, path: path.to_owned(), source };
        let file = by_path::open(path).map_err(failed("open"))?;
        let size = sys::stat_of(&file).map_err(failed("stat"))?.size;
        self.upload(digest, size, Source::File { file: &file, path })
    }

    fn record(&self, name: &RecordName) -> Result<Option<Vec<u8>>, Error> {
        let path = name.path();
        let read = self.call(&Call::new("GET", &self.key(&path)), &path, |response, address| {
            read_body(response, LONGEST_RECORD, address)
        });
        match read {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Error::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn set_record(&self, name: &RecordName, bytes: &[u8], _: &[DataFile]) -> Result<(), Error> {
        self.put(&name.path(), bytes)
    }

    fn remove_record(&self, name: &RecordName) -> Result<(), Error> {
        self.delete(&name.path())
    }

    fn records(&self, kind: RecordKind) -> Result<Vec<StoredRecord>, Error> {
        let named = self.list(kind.directory())?.into_iter().filter_map(|object| {
            let name = RecordName::new(kind, object.key.rsplit('/').next()?).ok()?;
            let modified = Some(object.modified);
            (object.key == self.key(&name.path())).then_some(StoredRecord { name, modified })
        });
        Ok(named.collect())
    }

    fn data(&self) -> Result<Vec<StoredData>, Error> {
        let named = self.list("data")?.into_iter().filter_map(|object| {
            let digest: Digest = object.key.rsplit('/').next()?.parse().ok()?;
            let file = DataFile { digest, size: object.size };
            let modified = object.modified;
            (object.key == self.key(&digest.path())).then_some(StoredData { file, modified })
        });
        Ok(named.collect())
    }

    fn remove(&self, digest: &Digest) -> Result<(), Error> {
        self.delete(&digest.path())
    }

    /// Writes the object again. S3 refuses to copy an object onto itself.
    fn touch(&self, digest: &Digest) -> Result<(), Error> {
        let path = digest.path();
        let size = self.head(&path)?;
        self.upload(digest, size, Source::Object(&path))
    }
}
