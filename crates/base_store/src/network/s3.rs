//! S3 and stores that speak its protocol, by `object_store`.
//!
//! `object_store` signs, finds credentials and repeats. A file of one part is one `PutObject`. A
//! larger one is uploaded in parts and completed only if its digest is right, so a killed upload
//! leaves parts that nobody sees; rules of the bucket remove them.

use std::{fmt, io, ops::Range, path::Path, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use format::base_files::{DataFile, Digest, Digester, RecordKind, RecordName};
use futures_util::TryStreamExt as _;
use object_store::{
    BackoffConfig, ClientOptions, GetOptions, GetRange, MultipartId, ObjectStore, ObjectStoreExt as _,
    PutPayload, RetryConfig,
    aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey},
    client::{HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService},
    multipart::{MultipartStore, PartId},
    path::Path as ObjectPath,
};
use reqwest::Method;
use sys::{File, by_path};

use super::{
    Store,
    client::Http,
    progress::{PIECE, Progress, Watched},
    retry::{LONGEST_PAUSE, chain, innermost},
    tls,
};
use crate::{Address, Error, LONGEST_RECORD, Options, StoredData, StoredRecord};

/// The smallest part of an upload.
const PART: u64 = 8 << 20;

/// The longest time in which a request is repeated, if the caller names none.
const RETRY: Duration = Duration::from_secs(180);

/// The largest number of parts of an upload.
const PARTS: u64 = 10_000;

/// The variables that are read. `object_store` knows them by these names.
const VARIABLES: [&str; 24] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_DEFAULT_REGION",
    "AWS_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL_STS",
    "AWS_ALLOW_HTTP",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
    "AWS_S3_EXPRESS",
    "AWS_IMDSV1_FALLBACK",
    "AWS_METADATA_ENDPOINT",
    "AWS_UNSIGNED_PAYLOAD",
    "AWS_CHECKSUM_ALGORITHM",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_SKIP_SIGNATURE",
    "AWS_REQUEST_PAYER",
    "AWS_SERVER_SIDE_ENCRYPTION",
];

/// The addresses of metadata services begin so.
const LINK: &str = "169.254.";

/// The longest time for an answer of a metadata service.
const METADATA: Duration = Duration::from_secs(2);

/// Codes of S3 for requests that this user may not make. `object_store` does not tell all of them
/// from other failures.
const DENIALS: [&str; 6] = [
    "AccessDenied",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
];

/// See the module.
pub(super) struct S3 {
    store: AmazonS3,
    address: Address,
    prefix: String,
}

impl S3 {
    pub(super) fn open(
        address: &Address,
        bucket: &str,
        prefix: &str,
        http: Http,
        options: &Options<'_>,
    ) -> Result<S3, Error> {
        let (max_retries, retry_timeout) = if options.patience.is_zero() {
            (usize::try_from(options.retries).unwrap_or(usize::MAX), RETRY)
        } else {
            (usize::MAX, options.patience)
        };
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(bucket)
            // Some stores have no request that removes several objects.
            .with_config(AmazonS3ConfigKey::DisableBulkDelete, "true")
            .with_http_connector(Connector(http))
            .with_retry(RetryConfig {
                backoff: BackoffConfig { init_backoff: options.pause, max_backoff: LONGEST_PAUSE, base: 2.0 },
                max_retries,
                retry_timeout,
            });
        for name in VARIABLES {
            let Some(value) = (options.variable)(name).filter(|value| !value.is_empty()) else { continue };
            let bad = || Error::Setting(format!("bad value of {name}"));
            let key: AmazonS3ConfigKey = name.to_lowercase().parse().map_err(|_| bad())?;
            builder = builder.with_config(key, value.into_string().map_err(|_| bad())?);
        }
        let store =
            builder.build().map_err(|error| Error::Setting(format!("{address}: {}", chain(&error))))?;
        Ok(S3 { store, address: address.clone(), prefix: prefix.to_owned() })
    }

    fn key(&self, path: &str) -> ObjectPath {
        match self.prefix.as_str() {
            "" => ObjectPath::from(path),
            prefix => ObjectPath::from(format!("{prefix}/{path}")),
        }
    }

    fn failed(&self, path: &str, error: &object_store::Error) -> Error {
        failure(self.address.of(path), error)
    }

    async fn get(&self, path: &str, range: Range<u64>) -> Result<Bytes, Error> {
        let options = GetOptions { range: Some(GetRange::Bounded(range.clone())), ..GetOptions::default() };
        let failed = |error| self.failed(path, &error);
        let wrong = |reason| Error::Wrong { address: self.address.of(path), reason };
        let found = self.store.get_opts(&self.key(path), options).await.map_err(failed)?;
        if found.range != range {
            return Err(wrong(format!("asked for bytes {range:?}, got {:?}", found.range)));
        }
        let expected = range.end - range.start;
        let bytes = found.bytes().await.map_err(failed)?;
        if bytes.len() as u64 == expected {
            Ok(bytes)
        } else {
            Err(wrong(format!("asked for {expected} bytes, got {}", bytes.len())))
        }
    }

    async fn put(&self, path: &str, bytes: Bytes) -> Result<(), Error> {
        let put = self.store.put(&self.key(path), payload(&bytes)).await;
        put.map(drop).map_err(|error| self.failed(path, &error))
    }

    /// Writes an object of `size` bytes from `source`, if they have the digest.
    async fn upload(&self, digest: &Digest, size: u64, source: Source<'_>) -> Result<(), Error> {
        let path = digest.path();
        let mut digester = Digester::default();
        let part_size = PART.max(size.div_ceil(PARTS));
        if size <= part_size {
            let bytes = self.part(&source, 0..size).await?;
            digester.update(&bytes);
            source.check(digest, digester)?;
            return self.put(&path, bytes).await;
        }
        match self.upload_in_parts(digest, size, part_size, &source).await {
            // A server may lose an upload whose completion it does not finish: begin again, once.
            Err(Error::Failed { .. }) => self.upload_in_parts(digest, size, part_size, &source).await,
            uploaded => uploaded,
        }
    }

    async fn upload_in_parts(
        &self,
        digest: &Digest,
        size: u64,
        part_size: u64,
        source: &Source<'_>,
    ) -> Result<(), Error> {
        let path = digest.path();
        let key = self.key(&path);
        let id = self.store.create_multipart(&key).await.map_err(|error| self.failed(&path, &error))?;
        let sent = self.upload_parts(digest, size, part_size, source, &id).await;
        let error = match sent {
            Err(error) => error,
            Ok(parts) => match self.store.complete_multipart(&key, &id, parts).await {
                Ok(_) => return Ok(()),
                Err(error) => {
                    let is_new = matches!(source, Source::File { .. });
                    // If the answer was lost, the upload is gone and the object is there.
                    if is_new && self.store.head(&key).await.is_ok_and(|found| found.size == size) {
                        return Ok(());
                    }
                    self.failed(&path, &error)
                }
            },
        };
        // The caller must know the failure above. Rules of the bucket remove the parts.
        let _ = self.store.abort_multipart(&key, &id).await;
        Err(error)
    }

    async fn upload_parts(
        &self,
        digest: &Digest,
        size: u64,
        part_size: u64,
        source: &Source<'_>,
        id: &MultipartId,
    ) -> Result<Vec<PartId>, Error> {
        let path = digest.path();
        let mut digester = Digester::default();
        let mut parts = Vec::new();
        let mut at = 0;
        while at < size {
            let end = size.min(at + part_size);
            let bytes = self.part(source, at..end).await?;
            digester.update(&bytes);
            let part = self.store.put_part(&self.key(&path), id, parts.len(), payload(&bytes)).await;
            parts.push(part.map_err(|error| self.failed(&path, &error))?);
            at = end;
        }
        source.check(digest, digester)?;
        Ok(parts)
    }

    async fn part(&self, source: &Source<'_>, range: Range<u64>) -> Result<Bytes, Error> {
        match source {
            Source::File { file, path } => {
                let failed = |source: io::Error| Error::Io { what: "read", path: (*path).to_owned(), source };
                let length = usize::try_from(range.end - range.start);
                let mut bytes = vec![0; length.map_err(|_| failed(io::ErrorKind::OutOfMemory.into()))?];
                file.read_exact_at(&mut bytes, range.start).map_err(failed)?;
                Ok(bytes.into())
            }
            Source::Object(_) if range.is_empty() => Ok(Bytes::new()),
            Source::Object(path) => self.get(path, range).await,
        }
    }

    async fn list(&self, directory: &str) -> Result<Vec<object_store::ObjectMeta>, Error> {
        let listed = self.store.list(Some(&self.key(directory)));
        listed.try_collect().await.map_err(|error| self.failed(directory, &error))
    }

    async fn delete(&self, path: &str) -> Result<(), Error> {
        match self.store.delete(&self.key(path)).await {
            Err(error) => match self.failed(path, &error) {
                Error::Missing { .. } => Ok(()),
                error => Err(error),
            },
            Ok(()) => Ok(()),
        }
    }
}

/// Where the bytes of an upload are.
enum Source<'a> {
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

/// Cuts the bytes into pieces whose progress is seen.
fn payload(bytes: &Bytes) -> PutPayload {
    (0..bytes.len()).step_by(PIECE).map(|at| bytes.slice(at..bytes.len().min(at + PIECE))).collect()
}

fn failure(address: String, error: &object_store::Error) -> Error {
    let text = chain(error);
    let tag = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once('<')?.0.to_owned())
    };
    let code = tag("Code");
    let reason = match (&code, tag("Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.clone(),
        _ => text.clone(),
    };
    if let Some(reason) = tls::refusal(error) {
        return Error::Certificate { address, reason, authorities: String::new() };
    }
    let is_denied = |code: &str| DENIALS.contains(&code);
    if ["/latest/api/token", "/latest/meta-data/"].iter().any(|path| text.contains(path)) {
        let reason = "no credentials: AWS_ACCESS_KEY_ID is not set, and no metadata service gives a role";
        return Error::Denied { address, reason: reason.into() };
    }
    match error {
        _ if code.as_deref().is_some_and(is_denied) => Error::Denied { address, reason },
        _ if code.as_deref() == Some("NoSuchBucket") => Error::NoBucket { address, reason },
        _ if is_unreachable(error) => Error::Unreachable { address, reason: innermost(error) },
        object_store::Error::NotFound { .. } => Error::Missing { address },
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
            Error::Denied { address, reason }
        }
        _ if code.as_deref() == Some("InvalidRange") => {
            Error::Wrong { address, reason: "it is shorter than expected".into() }
        }
        _ => Error::Failed { address, reason },
    }
}

/// Returns true if no connection came about.
fn is_unreachable(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect) {
            return true;
        }
        next = error.source();
    }
    false
}

#[async_trait(?Send)]
impl Store for S3 {
    async fn has(&self, digest: &Digest) -> Result<bool, Error> {
        let path = digest.path();
        match self.store.head(&self.key(&path)).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.failed(&path, &error)),
        }
    }

    async fn read(&self, digest: &Digest, range: Range<u64>) -> Result<Vec<u8>, Error> {
        Ok(self.get(&digest.path(), range).await?.into())
    }

    async fn write(&self, digest: &Digest, path: &Path) -> Result<(), Error> {
        let failed = |what| move |source| Error::Io { what, path: path.to_owned(), source };
        let file = by_path::open(path).map_err(failed("open"))?;
        let size = sys::stat_of(&file).map_err(failed("stat"))?.size;
        self.upload(digest, size, Source::File { file: &file, path }).await
    }

    async fn record(&self, name: &RecordName) -> Result<Option<Vec<u8>>, Error> {
        let path = name.path();
        let read = async {
            let found = self.store.get(&self.key(&path)).await?;
            if found.meta.size > LONGEST_RECORD as u64 {
                Ok(Err(format!("a record of {} bytes", found.meta.size)))
            } else {
                found.bytes().await.map(Ok)
            }
        };
        match read.await {
            Ok(Ok(bytes)) => Ok(Some(bytes.into())),
            Ok(Err(reason)) => Err(Error::Wrong { address: self.address.of(&path), reason }),
            Err(error) => match self.failed(&path, &error) {
                Error::Missing { .. } => Ok(None),
                error => Err(error),
            },
        }
    }

    async fn set_record(&self, name: &RecordName, bytes: &[u8], _: &[DataFile]) -> Result<(), Error> {
        self.put(&name.path(), Bytes::copy_from_slice(bytes)).await
    }

    async fn remove_record(&self, name: &RecordName) -> Result<(), Error> {
        self.delete(&name.path()).await
    }

    async fn records(&self, kind: RecordKind) -> Result<Vec<StoredRecord>, Error> {
        let named = self.list(kind.directory()).await?.into_iter().filter_map(|object| {
            let name = RecordName::new(kind, object.location.filename()?).ok()?;
            let modified = Some(object.last_modified.into());
            (object.location == self.key(&name.path())).then_some(StoredRecord { name, modified })
        });
        Ok(named.collect())
    }

    async fn data(&self) -> Result<Vec<StoredData>, Error> {
        let named = self.list("data").await?.into_iter().filter_map(|object| {
            let digest: Digest = object.location.filename()?.parse().ok()?;
            let file = DataFile { digest, size: object.size };
            let modified = object.last_modified.into();
            (object.location == self.key(&digest.path())).then_some(StoredData { file, modified })
        });
        Ok(named.collect())
    }

    async fn remove(&self, digest: &Digest) -> Result<(), Error> {
        self.delete(&digest.path()).await
    }

    /// Writes the object again. S3 refuses to copy an object onto itself.
    async fn touch(&self, digest: &Digest) -> Result<(), Error> {
        let path = digest.path();
        let found = self.store.head(&self.key(&path)).await;
        let size = found.map_err(|error| self.failed(&path, &error))?.size;
        self.upload(digest, size, Source::Object(&path)).await
    }
}

/// Gives `object_store` our HTTP client.
struct Connector(Http);

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Connector(self.0.clone())))
    }
}

#[async_trait]
impl HttpService for Connector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if !request.uri().host().is_some_and(|host| host.starts_with(LINK)) {
            return self.answer(request).await;
        }
        // Elsewhere than in a cloud nobody is there, and packets to them may vanish.
        let answered = tokio::time::timeout(METADATA, self.answer(request)).await;
        answered.map_err(|late| HttpError::new(HttpErrorKind::Timeout, late))?
    }
}

impl Connector {
    async fn answer(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // The body is long. `object_store` asks for the rest of one that is cut.
        if request.method() == Method::GET {
            return self.0.client.call(request).await.map_err(final_if_refused);
        }
        let (parts, body) = request.into_parts();
        let url =
            parts.uri.to_string().parse().map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let progress = Progress::start();
        let mut sent = reqwest::Request::new(parts.method, url);
        *sent.headers_mut() = parts.headers;
        if body.content_length() > 0 {
            *sent.body_mut() = Some(reqwest::Body::wrap(Watched::new(body, &progress)));
        }
        let answered = async {
            let response = self.0.sender.execute(sent).await?;
            let (status, headers) = (response.status(), response.headers().clone());
            Ok((status, headers, response.bytes().await?))
        };
        let stalled = || again(io::Error::from(io::ErrorKind::TimedOut));
        let answered = progress.watch(self.0.timeout, answered).await.ok_or_else(stalled)?;
        let (status, headers, bytes) =
            answered.map_err(|error: reqwest::Error| final_if_refused(again(error.without_url())))?;
        let mut answer = HttpResponse::new(bytes.into());
        *answer.status_mut() = status;
        *answer.headers_mut() = headers;
        Ok(answer)
    }
}

/// Keeps `object_store` from repeating a request to a server whose certificate is refused.
fn final_if_refused(error: HttpError) -> HttpError {
    match tls::refusal(&error) {
        Some(_) => HttpError::new(HttpErrorKind::Unknown, error),
        None => error,
    }
}

/// Returns the error after which `object_store` sends any request again. All of ours may be
/// repeated: see [`S3::upload_in_parts`] for the one that completes an upload.
fn again(error: impl std::error::Error + Send + Sync + 'static) -> HttpError {
    HttpError::new(HttpErrorKind::Request, error)
}
