//! A web server: read only, by ranges.

use std::{ops::Range, path::Path};

use bstr::BString;
use format::base_files::{DataFile, Digest, RecordKind, RecordName};
use http::{Body, Request};

use super::{
    client::{Http, is_success, read_body, read_range},
    retry::{Attempt, bad_status},
};
use crate::{
    Address, Error, LONGEST_RECORD, Options, StoredData, StoredRecord, WebAddress, backend::Backend,
};

/// See the module.
pub(super) struct Web {
    http: Http,
    address: Address,
    url: http::Address,
    /// `http.extraHeader`, and the credentials.
    headers: Vec<(String, BString)>,
}

impl Web {
    pub(super) fn open(
        address: &Address,
        url: &WebAddress,
        http: Http,
        options: &Options<'_>,
    ) -> Result<Web, Error> {
        let url = url.parsed().clone();
        let mut headers = Vec::new();
        for header in &options.headers {
            let parsed = header.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
            let parsed = parsed.filter(|(name, value)| http::is_header(name, value.as_bytes()));
            let bad = || Error::Setting("bad value of http.extraHeader: not a header on one line".into());
            let (name, value) = parsed.ok_or_else(bad)?;
            headers.push((name.to_owned(), value.into()));
        }
        let own = url.user.as_ref().filter(|user| !user.is_empty());
        let own = own.map(|user| http::basic(user, url.password.as_deref().map_or(b"", |text| text)));
        let given = || options.credentials.as_ref();
        let given = || given().map(|(user, password)| http::basic(user.as_bytes(), password.as_bytes()));
        headers.extend(own.or_else(given).map(|value| ("Authorization".to_owned(), value)));
        Ok(Web { http, address: address.clone(), url, headers })
    }

    fn request(&self, method: &'static str, path: &str) -> Request<'static> {
        let mut address = self.url.clone();
        address.target = format!("{}/{path}", self.url.target.to_string().trim_end_matches('/')).into();
        Request { method, address, headers: self.headers.clone(), body: Body::Empty }
    }

    fn unsupported<T>(&self, what: &'static str) -> Result<T, Error> {
        Err(Error::Unsupported { address: self.address.to_string(), what })
    }
}

impl Backend for Web {
    fn has(&self, digest: &Digest) -> Result<bool, Error> {
        let path = digest.path();
        let address = self.address.of(&path);
        let attempt = || {
            let response = self.http.send(self.request("HEAD", &path), &address)?;
            if is_success(&response) {
                Ok(true)
            } else {
                match bad_status(&address, response) {
                    Attempt::Final(Error::Missing { .. }) => Ok(false),
                    failed => Err(failed),
                }
            }
        };
        self.http.retry.run(attempt)
    }

    fn read(&self, digest: &Digest, range: Range<u64>) -> Result<Vec<u8>, Error> {
        let path = digest.path();
        let address = self.address.of(&path);
        let asked = format!("bytes={}-{}", range.start, range.end - 1);
        let attempt = || {
            let mut request = self.request("GET", &path);
            request.headers.push(("Range".into(), asked.as_str().into()));
            read_range(self.http.send(request, &address)?, &range, &address)
        };
        self.http.retry.run(attempt)
    }

    fn write(&self, _: &Digest, _: &Path) -> Result<(), Error> {
        self.unsupported("writing")
    }

    fn record(&self, name: &RecordName) -> Result<Option<Vec<u8>>, Error> {
        let path = name.path();
        let address = self.address.of(&path);
        let attempt = || {
            let response = self.http.send(self.request("GET", &path), &address)?;
            match response.head.status {
                200 => read_body(response, LONGEST_RECORD, &address).map(Some),
                _ => match bad_status(&address, response) {
                    Attempt::Final(Error::Missing { .. }) => Ok(None),
                    failed => Err(failed),
                },
            }
        };
        self.http.retry.run(attempt)
    }

    fn set_record(&self, _: &RecordName, _: &[u8], _: &[DataFile]) -> Result<(), Error> {
        self.unsupported("writing")
    }

    fn remove_record(&self, _: &RecordName) -> Result<(), Error> {
        self.unsupported("removing")
    }

    fn records(&self, _: RecordKind) -> Result<Vec<StoredRecord>, Error> {
        self.unsupported("listing")
    }

    fn data(&self) -> Result<Vec<StoredData>, Error> {
        self.unsupported("listing")
    }

    fn remove(&self, _: &Digest) -> Result<(), Error> {
        self.unsupported("removing")
    }

    fn touch(&self, _: &Digest) -> Result<(), Error> {
        self.unsupported("writing")
    }
}
