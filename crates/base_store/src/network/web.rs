//! A web server: read only, by ranges.
//!
//! This is reqwest, which S3 and registries use too, and not `object_store`'s store for HTTP: that
//! one speaks WebDAV, and takes no headers of one request.

use std::{ops::Range, path::Path};

use async_trait::async_trait;
use format::base_files::{DataFile, Digest, RecordKind, RecordName};
use percent_encoding::percent_decode_str;
use reqwest::{
    Method, RequestBuilder, StatusCode,
    header::{HeaderMap, HeaderName, HeaderValue, RANGE},
};
use url::Url;

use super::{
    Store,
    client::{Http, read_body, read_range},
    retry::{Attempt, bad_status},
};
use crate::{Address, Error, LONGEST_RECORD, Options, StoredData, StoredRecord};

/// See the module.
pub(super) struct Web {
    http: Http,
    address: Address,
    url: Url,
    credentials: Option<(String, String)>,
    headers: HeaderMap,
}

impl Web {
    pub(super) fn open(
        address: &Address,
        url: &Url,
        http: Http,
        options: &Options<'_>,
    ) -> Result<Web, Error> {
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let own = (!url.username().is_empty())
            .then(|| (decode(url.username()), decode(url.password().unwrap_or_default())));
        let mut bare = url.clone();
        // A URL with a host may have no user.
        let _ = bare.set_username("");
        let _ = bare.set_password(None);
        let mut headers = HeaderMap::new();
        for header in &options.headers {
            let parsed = header.split_once(':').and_then(|(name, value)| {
                Some((name.trim().parse::<HeaderName>().ok()?, value.trim().parse::<HeaderValue>().ok()?))
            });
            let (name, mut value) = parsed.ok_or_else(|| Error::Setting("bad HTTP header".into()))?;
            value.set_sensitive(true);
            headers.append(name, value);
        }
        Ok(Web {
            http,
            address: address.clone(),
            url: bare,
            credentials: own.or_else(|| options.credentials.clone()),
            headers,
        })
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut url = self.url.clone();
        url.set_path(&format!("{}/{path}", self.url.path().trim_end_matches('/')));
        let request = self.http.client.request(method, url).headers(self.headers.clone());
        match &self.credentials {
            Some((user, password)) => request.basic_auth(user, Some(password)),
            None => request,
        }
    }

    fn unsupported<T>(&self, what: &'static str) -> Result<T, Error> {
        Err(Error::Unsupported { address: self.address.to_string(), what })
    }
}

#[async_trait(?Send)]
impl Store for Web {
    async fn has(&self, digest: &Digest) -> Result<bool, Error> {
        let path = digest.path();
        let address = self.address.of(&path);
        let attempt = async || {
            let response = self.http.send(self.request(Method::HEAD, &path), &address).await?;
            if response.status().is_success() {
                Ok(true)
            } else {
                match bad_status(&address, response).await {
                    Attempt::Final(Error::Missing { .. }) => Ok(false),
                    failed => Err(failed),
                }
            }
        };
        self.http.retry.run(attempt).await
    }

    async fn read(&self, digest: &Digest, range: Range<u64>) -> Result<Vec<u8>, Error> {
        let path = digest.path();
        let address = self.address.of(&path);
        let asked = format!("bytes={}-{}", range.start, range.end - 1);
        let attempt = async || {
            let request = self.request(Method::GET, &path).header(RANGE, &asked);
            read_range(self.http.send(request, &address).await?, &range, &address).await
        };
        self.http.retry.run(attempt).await
    }

    async fn write(&self, _: &Digest, _: &Path) -> Result<(), Error> {
        self.unsupported("writing")
    }

    async fn record(&self, name: &RecordName) -> Result<Option<Vec<u8>>, Error> {
        let path = name.path();
        let address = self.address.of(&path);
        let attempt = async || {
            let response = self.http.send(self.request(Method::GET, &path), &address).await?;
            match response.status() {
                StatusCode::OK => read_body(response, LONGEST_RECORD, &address).await.map(Some),
                _ => match bad_status(&address, response).await {
                    Attempt::Final(Error::Missing { .. }) => Ok(None),
                    failed => Err(failed),
                },
            }
        };
        self.http.retry.run(attempt).await
    }

    async fn set_record(&self, _: &RecordName, _: &[u8], _: &[DataFile]) -> Result<(), Error> {
        self.unsupported("writing")
    }

    async fn remove_record(&self, _: &RecordName) -> Result<(), Error> {
        self.unsupported("removing")
    }

    async fn records(&self, _: RecordKind) -> Result<Vec<StoredRecord>, Error> {
        self.unsupported("listing")
    }

    async fn data(&self) -> Result<Vec<StoredData>, Error> {
        self.unsupported("listing")
    }

    async fn remove(&self, _: &Digest) -> Result<(), Error> {
        self.unsupported("removing")
    }

    async fn touch(&self, _: &Digest) -> Result<(), Error> {
        self.unsupported("writing")
    }
}
