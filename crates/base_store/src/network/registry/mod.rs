//! A registry: the OCI distribution specification, version 1.1.
//!
//! A data file is a blob. A record is a tag `<kind>-<id>`, whose manifest has the record's bytes as
//! its config. Its layers are the record and the data files that the record needs, each with the
//! path below the remote as its title. So an image volume of the artifact has the layout of a
//! `file://` remote. A registry keeps the blobs that manifests name.
//!
//! The requests are our own. `oci-client` makes its HTTP client itself, has no call for removing,
//! and does not repeat.

mod auth;
mod credentials;

use std::{ops::Range, path::Path};

use format::base_files::{DataFile, Digest, RecordKind, RecordName};
use http::{Body, Request, Response};
use serde_json::{Value, json};
use sys::{File, by_path};

use self::auth::{Access, Auth};
use super::{
    client::{Http, is_success, read_body, read_range, text},
    retry::{Attempt, bad_status},
};
use crate::{Address, Error, LONGEST_RECORD, Options, Scheme, StoredData, StoredRecord, backend::Backend};

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
    base: http::Address,
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
        let base = http::Address::parse(format!("{scheme}://{server}/v2/{name}/").as_bytes());
        let base = base.ok_or_else(|| Error::Setting(format!("{address}: not the name of a host")))?;
        let auth = Auth::new(http.clone(), address, host, name, options);
        Ok(Registry { http, auth, address: address.clone(), base })
    }

    fn url(&self, path: &str) -> http::Address {
        let mut url = self.base.clone();
        url.target.extend_from_slice(path.as_bytes());
        url
    }

    fn blob(&self, digest: &Digest) -> http::Address {
        self.url(&format!("blobs/sha256:{digest}"))
    }

    /// Sends a request without a body, and returns a response that is a success.
    fn send(
        &self,
        access: Access,
        method: &'static str,
        url: &http::Address,
        header: Option<(&str, &str)>,
        address: &str,
    ) -> Result<Response<'_>, Attempt> {
        let headers = header.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        let request = Request { method, address: url.clone(), headers, body: Body::Empty };
        let response = self.auth.send(access, &request, address)?;
        if is_success(&response) { Ok(response) } else { Err(bad_status(address, response)) }
    }

    /// Returns true if the registry has the blob.
    fn has_blob(&self, digest: &Digest) -> Result<bool, Error> {
        let (url, address) = (self.blob(digest), self.address.of(&digest.path()));
        let head = || self.send(Access::Read, "HEAD", &url, None, &address).map(drop);
        match self.http.retry.run(head) {
            Ok(()) => Ok(true),
            Err(Error::Missing { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Uploads a blob: a session, and one request with all bytes. A failed one begins again.
    fn upload(&self, digest: &Digest, body: Body<'_>, address: &str) -> Result<(), Error> {
        let attempt = || {
            let url = self.url("blobs/uploads/");
            let start = Request { method: "POST", address: url, headers: Vec::new(), body: Body::Empty };
            let started = self.auth.send(Access::Write, &start, address)?;
            if started.head.status != 202 {
                return Err(bad_status(address, started));
            }
            let mut to = self.location(&started, address)?;
            to.append("digest", &format!("sha256:{digest}"));
            drop(started);
            // Another host has its own credentials in the address.
            let is_own = to.is_same_server(&self.base);
            let headers = vec![("Content-Type".to_owned(), "application/octet-stream".into())];
            let put = Request { method: "PUT", address: to, headers, body };
            let sent = match is_own {
                true => self.auth.send(Access::Write, &put, address)?,
                false => self.http.send(put, address)?,
            };
            if is_success(&sent) {
                return Ok(());
            }
            Err(match bad_status(address, sent) {
                // A registry forgets the session when its connection breaks.
                Attempt::Final(Error::Missing { address }) => Attempt::Passing {
                    error: Error::Failed { address, reason: "the registry lost the upload".into() },
                    after: None,
                },
                failed => failed,
            })
        };
        self.http.retry.run(attempt)
    }

    fn location(&self, response: &Response<'_>, address: &str) -> Result<http::Address, Attempt> {
        let location = response.head.get("location");
        let url = location.and_then(|location| response.address.redirected(location));
        let wrong =
            || Error::Wrong { address: address.to_owned(), reason: "no address of the upload".into() };
        Ok(url.ok_or_else(wrong)?)
    }

    /// Returns the bytes of the manifest of a record, and their digest.
    fn manifest(&self, name: &RecordName) -> Result<Option<(Vec<u8>, Digest)>, Error> {
        let (url, address) = (self.url(&format!("manifests/{}", tag(name))), self.address.of(&name.path()));
        let attempt = || {
            let accept = Some(("Accept", MANIFEST));
            let response = self.send(Access::Read, "GET", &url, accept, &address)?;
            read_body(response, LONGEST_MANIFEST, &address)
        };
        match self.http.retry.run(attempt) {
            Ok(bytes) => {
                let digest = Digest::of(&bytes);
                Ok(Some((bytes, digest)))
            }
            Err(Error::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns all tags.
    fn tags(&self) -> Result<Vec<String>, Error> {
        let address = self.address.to_string();
        let mut tags = Vec::new();
        let mut next = Some(self.url("tags/list?n=1000"));
        while let Some(url) = next {
            let attempt = || {
                let response = self.send(Access::Read, "GET", &url, None, &address)?;
                let link = text(&response, "link").and_then(next_page);
                let link = link.and_then(|link| response.address.redirected(link.as_bytes()));
                Ok((read_body(response, LONGEST_MANIFEST, &address)?, link))
            };
            let (bytes, link) = match self.http.retry.run(attempt) {
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

impl Backend for Registry {
    fn has(&self, digest: &Digest) -> Result<bool, Error> {
        self.has_blob(digest)
    }

    fn read(&self, digest: &Digest, range: Range<u64>) -> Result<Vec<u8>, Error> {
        let (url, address) = (self.blob(digest), self.address.of(&digest.path()));
        let asked = format!("bytes={}-{}", range.start, range.end - 1);
        let attempt = || {
            let response = self.send(Access::Read, "GET", &url, Some(("Range", &asked)), &address)?;
            read_range(response, &range, &address)
        };
        self.http.retry.run(attempt)
    }

    fn write(&self, digest: &Digest, path: &Path) -> Result<(), Error> {
        let failed = |what| move |source| Error::Io { what, path: path.to_owned(), source };
        let stat = by_path::stat_followed(path).map_err(failed("stat"))?;
        let missing = || Error::Missing { address: path.display().to_string() };
        let size = stat.ok_or_else(missing)?.size;
        let file: File = by_path::open(path).map_err(failed("open"))?;
        let address = self.address.of(&digest.path());
        let sent = self.upload(digest, Body::File { file: &file, path, size }, &address);
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

    fn record(&self, name: &RecordName) -> Result<Option<Vec<u8>>, Error> {
        let address = self.address.of(&name.path());
        let Some((bytes, _)) = self.manifest(name)? else { return Ok(None) };
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
        let attempt = || {
            let response = self.send(Access::Read, "GET", &url, None, &address)?;
            read_body(response, LONGEST_RECORD, &address)
        };
        let bytes = self.http.retry.run(attempt)?;
        if bytes.len() as u64 == size && Digest::of(&bytes) == digest {
            Ok(Some(bytes))
        } else {
            Err(wrong("the record has another digest than the manifest says"))
        }
    }

    fn set_record(&self, name: &RecordName, bytes: &[u8], files: &[DataFile]) -> Result<(), Error> {
        let address = self.address.of(&name.path());
        let digest = Digest::of(bytes);
        if !self.has_blob(&digest)? {
            self.upload(&digest, Body::Bytes(bytes), &address)?;
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
        let body = manifest.to_string();
        let put = Request {
            method: "PUT",
            address: self.url(&format!("manifests/{}", tag(name))),
            headers: vec![("Content-Type".to_owned(), MANIFEST.into())],
            body: Body::Bytes(body.as_bytes()),
        };
        let attempt = || {
            let sent = self.auth.send(Access::Write, &put, &address)?;
            if is_success(&sent) { Ok(()) } else { Err(bad_status(&address, sent)) }
        };
        self.http.retry.run(attempt)
    }

    fn remove_record(&self, name: &RecordName) -> Result<(), Error> {
        let Some((_, digest)) = self.manifest(name)? else { return Ok(()) };
        let address = self.address.of(&name.path());
        let url = self.url(&format!("manifests/sha256:{digest}"));
        let delete = || self.send(Access::Delete, "DELETE", &url, None, &address).map(drop);
        match self.http.retry.run(delete) {
            Err(Error::Missing { .. }) => Ok(()),
            removed => removed,
        }
    }

    fn records(&self, kind: RecordKind) -> Result<Vec<StoredRecord>, Error> {
        let begin = format!("{}-", prefix(kind));
        let named = self.tags()?.into_iter().filter_map(|tag| {
            let name = RecordName::new(kind, tag.strip_prefix(&begin)?).ok()?;
            Some(StoredRecord { name, modified: None })
        });
        Ok(named.collect())
    }

    fn data(&self) -> Result<Vec<StoredData>, Error> {
        Ok(Vec::new())
    }

    fn remove(&self, _: &Digest) -> Result<(), Error> {
        Ok(())
    }

    fn touch(&self, digest: &Digest) -> Result<(), Error> {
        if self.has_blob(digest)? {
            Ok(())
        } else {
            Err(Error::Missing { address: self.address.of(&digest.path()) })
        }
    }
}
