//! A registry: the OCI distribution specification, version 1.1.
//!
//! A data file is a blob. A record is a tag `<kind>-<id>`, whose manifest has the record's bytes as
//! its config. Its layers are the record and the data files that the record needs, each with the
//! path below the remote as its title. So an image volume of the artifact has the layout of a
//! `file://` remote. A registry keeps the blobs that manifests name.
//!
//! The requests are our own. `oci-client` makes its HTTP client itself, with the process's TLS
//! provider, has no call for removing, and does not repeat.

mod auth;
mod credentials;

use std::{ops::Range, path::Path};

use async_trait::async_trait;
use bytes::Bytes;
use format::base_files::{DataFile, Digest, RecordKind, RecordName};
use reqwest::{
    Body, Method, Response, StatusCode,
    header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, LINK, LOCATION, RANGE},
};
use serde_json::{Value, json};
use sys::by_path;
use url::Url;

use self::auth::{Access, Auth};
use super::{
    Store,
    client::{Http, read_body, read_range},
    progress::{FileBody, Progress, Watched},
    retry::{Attempt, bad_status},
};
use crate::{Address, Error, LONGEST_RECORD, Options, Scheme, StoredData, StoredRecord};

/// The type of a manifest.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// The type of our manifests among all artifacts.
const ARTIFACT: &str = "application/vnd.sapwood.base.v1";

/// The type of a record.
const RECORD: &str = "application/vnd.sapwood.record.v1";

/// The type of a data file.
const DATA: &str = "application/vnd.sapwood.data.v1";

/// The longest manifest, and the longest page of a list.
const LONGEST_MANIFEST: usize = 16 << 20;

/// See the module.
pub(super) struct Registry {
    http: Http,
    auth: Auth,
    address: Address,
    /// `https://host/v2/name/`
    base: Url,
}

/// The bytes of an upload.
enum Content<'a> {
    File { path: &'a Path, size: u64 },
    Bytes(&'a [u8]),
}

impl Content<'_> {
    fn size(&self) -> u64 {
        match self {
            Content::File { size, .. } => *size,
            Content::Bytes(bytes) => bytes.len() as u64,
        }
    }

    fn body(&self, progress: &Progress) -> Result<Body, Error> {
        match self {
            Content::File { path, size } => {
                let failed = |source| Error::Io { what: "open", path: (*path).to_owned(), source };
                let file = by_path::open(path).map_err(failed)?;
                Ok(Body::wrap(Watched::new(FileBody::new(file, *size), progress)))
            }
            Content::Bytes(bytes) => Ok(Bytes::copy_from_slice(bytes).into()),
        }
    }
}

/// Returns the tag of a record.
fn tag(name: &RecordName) -> String {
    format!("{}-{}", prefix(name.kind()), name.id())
}

fn prefix(kind: RecordKind) -> &'static str {
    match kind {
        RecordKind::Commit => "commit",
        RecordKind::Branch => "branch",
        RecordKind::Lease => "lease",
        RecordKind::Bundles => "bundles",
    }
}

impl Registry {
    pub(super) fn open(
        address: &Address,
        scheme: Scheme,
        host: &str,
        name: &str,
        http: Http,
        options: &Options<'_>,
    ) -> Result<Registry, Error> {
        let scheme = match scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        let server = if host == "docker.io" { "registry-1.docker.io" } else { host };
        let base = Url::parse(&format!("{scheme}://{server}/v2/{name}/"));
        let base = base.map_err(|_| Error::Setting(format!("{address}: not the name of a host")))?;
        let auth = Auth::new(http.clone(), address, host, name, options);
        Ok(Registry { http, auth, address: address.clone(), base })
    }

    fn url(&self, path: &str) -> Url {
        self.base.join(path).expect("paths of the specification are valid")
    }

    fn blob(&self, digest: &Digest) -> Url {
        self.url(&format!("blobs/sha256:{digest}"))
    }

    /// Sends a request without a body, and returns a response that is a success.
    async fn send(
        &self,
        access: Access,
        method: Method,
        url: &Url,
        header: Option<(reqwest::header::HeaderName, &str)>,
        address: &str,
    ) -> Result<Response, Attempt> {
        let make = || {
            let request = self.http.client.request(method.clone(), url.clone());
            match &header {
                Some((name, value)) => Ok(request.header(name, *value)),
                None => Ok(request),
            }
        };
        let response = self.auth.send(access, &make, None, address).await?;
        if response.status().is_success() { Ok(response) } else { Err(bad_status(address, response).await) }
    }

    /// Returns true if the registry has the blob.
    async fn has_blob(&self, digest: &Digest) -> Result<bool, Error> {
        let (url, address) = (self.blob(digest), self.address.of(&digest.path()));
        let head = async || self.send(Access::Read, Method::HEAD, &url, None, &address).await.map(drop);
        match self.http.retry.run(head).await {
            Ok(()) => Ok(true),
            Err(Error::Missing { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Uploads a blob: a session, and one request with all bytes. A failed one begins again.
    async fn upload(&self, digest: &Digest, content: &Content<'_>, address: &str) -> Result<(), Error> {
        let attempt = async || {
            let start = || {
                let url = self.url("blobs/uploads/");
                Ok(self.http.sender.post(url).header(CONTENT_LENGTH, HeaderValue::from_static("0")))
            };
            let progress = Progress::start();
            let started = self.auth.send(Access::Write, &start, Some(&progress), address).await?;
            if started.status() != StatusCode::ACCEPTED {
                return Err(bad_status(address, started).await);
            }
            let mut to = self.location(&started, address)?;
            to.query_pairs_mut().append_pair("digest", &format!("sha256:{digest}"));
            let progress = Progress::start();
            let put = || {
                Ok(self
                    .http
                    .sender
                    .put(to.clone())
                    .header(CONTENT_TYPE, "application/octet-stream")
                    .header(CONTENT_LENGTH, content.size())
                    .body(content.body(&progress)?))
            };
            // Another host has its own credentials in the address.
            let sent = if to.origin() == self.base.origin() {
                self.auth.send(Access::Write, &put, Some(&progress), address).await?
            } else {
                self.http.send_watched(put()?, &progress, address).await?
            };
            if sent.status().is_success() { Ok(()) } else { Err(bad_status(address, sent).await) }
        };
        self.http.retry.run(attempt).await
    }

    fn location(&self, response: &Response, address: &str) -> Result<Url, Attempt> {
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let url = location.and_then(|location| response.url().join(location).ok());
        let wrong =
            || Error::Wrong { address: address.to_owned(), reason: "no address of the upload".into() };
        Ok(url.ok_or_else(wrong)?)
    }

    /// Returns the bytes of the manifest of a record, and their digest.
    async fn manifest(&self, name: &RecordName) -> Result<Option<(Vec<u8>, Digest)>, Error> {
        let (url, address) = (self.url(&format!("manifests/{}", tag(name))), self.address.of(&name.path()));
        let attempt = async || {
            let accept = Some((ACCEPT, MANIFEST));
            let response = self.send(Access::Read, Method::GET, &url, accept, &address).await?;
            read_body(response, LONGEST_MANIFEST, &address).await
        };
        match self.http.retry.run(attempt).await {
            Ok(bytes) => {
                let digest = Digest::of(&bytes);
                Ok(Some((bytes, digest)))
            }
            Err(Error::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns all tags.
    async fn tags(&self) -> Result<Vec<String>, Error> {
        let address = self.address.to_string();
        let mut tags = Vec::new();
        let mut next = Some(self.url("tags/list?n=1000"));
        while let Some(url) = next {
            let attempt = async || {
                let response = self.send(Access::Read, Method::GET, &url, None, &address).await?;
                let link = response.headers().get(LINK).and_then(|value| value.to_str().ok());
                let link = link.and_then(next_page).and_then(|link| response.url().join(link).ok());
                Ok((read_body(response, LONGEST_MANIFEST, &address).await?, link))
            };
            let (bytes, link) = match self.http.retry.run(attempt).await {
                // A registry has no names without content.
                Err(Error::Missing { .. }) => return Ok(tags),
                page => page?,
            };
            let page: Value = parse(&bytes, &address)?;
            let listed = page["tags"].as_array().into_iter().flatten();
            let before = tags.len();
            tags.extend(listed.filter_map(|tag| tag.as_str().map(str::to_owned)));
            // An empty page would be followed by itself.
            next = link.filter(|_| tags.len() > before);
        }
        Ok(tags)
    }
}

/// Returns the target of a header `Link: <target>; rel="next"`.
fn next_page(link: &str) -> Option<&str> {
    let (target, parameters) = link.strip_prefix('<')?.split_once('>')?;
    parameters.contains("next").then_some(target)
}

fn parse(bytes: &[u8], address: &str) -> Result<Value, Error> {
    serde_json::from_slice(bytes)
        .map_err(|error| Error::Wrong { address: address.to_owned(), reason: format!("bad JSON: {error}") })
}

#[async_trait(?Send)]
impl Store for Registry {
    async fn has(&self, digest: &Digest) -> Result<bool, Error> {
        self.has_blob(digest).await
    }

    async fn read(&self, digest: &Digest, range: Range<u64>) -> Result<Vec<u8>, Error> {
        let (url, address) = (self.blob(digest), self.address.of(&digest.path()));
        let asked = format!("bytes={}-{}", range.start, range.end - 1);
        let attempt = async || {
            let response =
                self.send(Access::Read, Method::GET, &url, Some((RANGE, &asked)), &address).await?;
            read_range(response, &range, &address).await
        };
        self.http.retry.run(attempt).await
    }

    async fn write(&self, digest: &Digest, path: &Path) -> Result<(), Error> {
        let failed = |what| move |source| Error::Io { what, path: path.to_owned(), source };
        let stat = by_path::stat_followed(path).map_err(failed("stat"))?;
        let missing = || Error::Missing { address: path.display().to_string() };
        let content = Content::File { path, size: stat.ok_or_else(missing)?.size };
        let address = self.address.of(&digest.path());
        let sent = self.upload(digest, &content, &address).await;
        if matches!(sent, Err(Error::Failed { .. } | Error::Wrong { .. })) {
            // Registries check digests, in words of their own.
            let bytes = by_path::read(path).map_err(failed("read"))?.unwrap_or_default();
            let found = Digest::of(&bytes);
            if found != *digest {
                return Err(Error::WrongDigest { path: path.to_owned(), expected: *digest, found });
            }
        }
        sent
    }

    async fn record(&self, name: &RecordName) -> Result<Option<Vec<u8>>, Error> {
        let address = self.address.of(&name.path());
        let Some((bytes, _)) = self.manifest(name).await? else { return Ok(None) };
        let manifest = parse(&bytes, &address)?;
        let wrong = |reason: &str| Error::Wrong { address: address.clone(), reason: reason.into() };
        if manifest["artifactType"] != ARTIFACT {
            return Err(wrong("not a base of sapwood"));
        }
        let config = &manifest["config"];
        let digest =
            config["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:")?.parse().ok());
        let digest: Digest = digest.ok_or_else(|| wrong("a manifest without a config"))?;
        let size = config["size"].as_u64().filter(|size| *size <= LONGEST_RECORD as u64);
        let size = size.ok_or_else(|| wrong("a record without a size, or too long"))?;
        let url = self.blob(&digest);
        let attempt = async || {
            let response = self.send(Access::Read, Method::GET, &url, None, &address).await?;
            read_body(response, LONGEST_RECORD, &address).await
        };
        let bytes = self.http.retry.run(attempt).await?;
        if bytes.len() as u64 == size && Digest::of(&bytes) == digest {
            Ok(Some(bytes))
        } else {
            Err(wrong("the record has another digest than the manifest says"))
        }
    }

    async fn set_record(&self, name: &RecordName, bytes: &[u8], files: &[DataFile]) -> Result<(), Error> {
        let address = self.address.of(&name.path());
        let digest = Digest::of(bytes);
        if !self.has_blob(&digest).await? {
            self.upload(&digest, &Content::Bytes(bytes), &address).await?;
        }
        let layer = |kind: &str, digest: &Digest, size: u64, title: String| {
            json!({
                "mediaType": kind,
                "digest": format!("sha256:{digest}"),
                "size": size,
                "annotations": { "org.opencontainers.image.title": title },
            })
        };
        let size = bytes.len() as u64;
        let mut layers = vec![layer(RECORD, &digest, size, name.path())];
        layers.extend(files.iter().map(|file| layer(DATA, &file.digest, file.size, file.digest.path())));
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": ARTIFACT,
            "config": { "mediaType": RECORD, "digest": format!("sha256:{digest}"), "size": size },
            "layers": layers,
        });
        let body = Bytes::from(manifest.to_string());
        let url = self.url(&format!("manifests/{}", tag(name)));
        let attempt = async || {
            let put = || {
                let request = self.http.sender.put(url.clone()).header(CONTENT_TYPE, MANIFEST);
                Ok(request.body(body.clone()))
            };
            let progress = Progress::start();
            let sent = self.auth.send(Access::Write, &put, Some(&progress), &address).await?;
            if sent.status().is_success() { Ok(()) } else { Err(bad_status(&address, sent).await) }
        };
        self.http.retry.run(attempt).await
    }

    async fn remove_record(&self, name: &RecordName) -> Result<(), Error> {
        let Some((_, digest)) = self.manifest(name).await? else { return Ok(()) };
        let address = self.address.of(&name.path());
        let url = self.url(&format!("manifests/sha256:{digest}"));
        let delete = async || self.send(Access::Delete, Method::DELETE, &url, None, &address).await.map(drop);
        match self.http.retry.run(delete).await {
            Err(Error::Missing { .. }) => Ok(()),
            removed => removed,
        }
    }

    async fn records(&self, kind: RecordKind) -> Result<Vec<StoredRecord>, Error> {
        let begin = format!("{}-", prefix(kind));
        let named = self.tags().await?.into_iter().filter_map(|tag| {
            let name = RecordName::new(kind, tag.strip_prefix(&begin)?).ok()?;
            Some(StoredRecord { name, modified: None })
        });
        Ok(named.collect())
    }

    async fn data(&self) -> Result<Vec<StoredData>, Error> {
        Ok(Vec::new())
    }

    async fn remove(&self, _: &Digest) -> Result<(), Error> {
        Ok(())
    }

    async fn touch(&self, digest: &Digest) -> Result<(), Error> {
        if self.has_blob(digest).await? {
            Ok(())
        } else {
            Err(Error::Missing { address: self.address.of(&digest.path()) })
        }
    }
}
