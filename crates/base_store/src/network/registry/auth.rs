//! Authentication at a registry: basic, or a token from the server that the challenge names.
//!
//! Nothing is sent before the registry asks. Then the token or the password goes with each request
//! of the same access, until the registry refuses it.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bstr::{BString, ByteSlice as _};
use http::{Body, Request, Response};
use http_auth::ChallengeRef;
use serde_json::Value;

use super::{
    super::{
        client::{Http, is_success, read_body},
        retry::{Attempt, bad_status},
    },
    credentials::{Credentials, DockerConfig},
};
use crate::{Address, Error, Options};

/// The longest answer of a server of tokens.
const LONGEST_TOKEN: usize = 1 << 20;

/// The permission that a request needs.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Access {
    Read,
    Write,
    Delete,
}

impl Access {
    fn actions(self) -> &'static str {
        match self {
            Access::Read => "pull",
            Access::Write => "pull,push",
            Access::Delete => "delete",
        }
    }
}

/// See the module.
pub(super) struct Auth {
    http: Http,
    address: Address,
    host: String,
    name: String,
    given: Option<(String, String)>,
    config: DockerConfig,
    /// `None` until they are looked up.
    credentials: Mutex<Option<Option<Credentials>>>,
    headers: Mutex<HashMap<Access, BString>>,
}

impl Auth {
    pub(super) fn new(http: Http, address: &Address, host: &str, name: &str, options: &Options<'_>) -> Auth {
        Auth {
            http,
            address: address.clone(),
            host: host.to_owned(),
            name: name.to_owned(),
            given: options.credentials.clone(),
            config: DockerConfig::of(options.variable),
            credentials: Mutex::default(),
            headers: Mutex::default(),
        }
    }

    fn headers(&self) -> MutexGuard<'_, HashMap<Access, BString>> {
        self.headers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request. If the registry asks for credentials, sends it again with them.
    pub(super) fn send(
        &self,
        access: Access,
        request: &Request<'_>,
        address: &str,
    ) -> Result<Response<'_>, Attempt> {
        let send = |header: Option<BString>| {
            let mut request = request.clone();
            request.headers.extend(header.map(|header| ("Authorization".to_owned(), header)));
            self.http.send(request, address)
        };
        let known = self.headers().get(&access).cloned();
        let response = send(known)?;
        if response.head.status != 401 {
            return Ok(response);
        }
        let header = self.answer(access, &response, address)?;
        drop(response);
        self.headers().insert(access, header.clone());
        send(Some(header))
    }

    /// Returns the answer to a challenge.
    fn answer(&self, access: Access, response: &Response<'_>, address: &str) -> Result<BString, Attempt> {
        let denied = |reason: &str| Error::Denied { address: address.to_owned(), reason: reason.into() };
        let texts = response.head.all("www-authenticate").filter_map(|value| value.to_str().ok());
        let challenges: Vec<ChallengeRef<'_>> =
            texts.filter_map(|text| http_auth::parse_challenges(text).ok()).flatten().collect();
        let find = |scheme: &str| challenges.iter().find(|one| one.scheme.eq_ignore_ascii_case(scheme));
        if let Some(bearer) = find("bearer") {
            return self.token(access, bearer, address);
        }
        if find("basic").is_none() {
            return Err(denied("the registry asks for an unknown kind of authentication").into());
        }
        match &self.credentials()? {
            Some(Credentials::Password { user, password }) => {
                Ok(http::basic(user.as_bytes(), password.as_bytes()))
            }
            _ => {
                Err(denied("the registry asks for a password, and Docker's config.json has none for it")
                    .into())
            }
        }
    }

    fn token(&self, access: Access, challenge: &ChallengeRef<'_>, address: &str) -> Result<BString, Attempt> {
        let parameter = |name: &str| {
            let found = challenge.params.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.to_unescaped())
        };
        let wrong = |reason: &str| Error::Wrong { address: address.to_owned(), reason: reason.into() };
        let realm = parameter("realm").and_then(|realm| http::Address::parse(realm.as_bytes()));
        let realm = realm.ok_or_else(|| wrong("a challenge without a realm"))?;
        let is_plain = matches!(self.address, Address::Registry { scheme: crate::Scheme::Http, .. });
        if !realm.tls && !is_plain {
            return Err(wrong("tokens of a server without TLS").into());
        }
        let own = || format!("repository:{}:{}", self.name, access.actions());
        let scope = parameter("scope").unwrap_or_else(own);
        let service = parameter("service");
        let credentials = self.credentials()?;
        let mut form = http::Address { target: BString::default(), ..realm.clone() };
        let mut request = Request { method: "GET", address: realm, headers: Vec::new(), body: Body::Empty };
        if let Some(Credentials::Token(token)) = &credentials {
            for (name, value) in [
                ("grant_type", "refresh_token"),
                ("client_id", "sapwood"),
                ("refresh_token", token),
                ("scope", &scope),
            ] {
                form.append(name, value);
            }
            service.iter().for_each(|service| form.append("service", service));
            let kind = "application/x-www-form-urlencoded";
            request.headers.push(("Content-Type".to_owned(), kind.into()));
            request.method = "POST";
            // The first byte separates a query from a path.
            request.body = Body::Bytes(&form.target[1..]);
        } else {
            service.iter().for_each(|service| request.address.append("service", service));
            request.address.append("scope", &scope);
            if let Some(Credentials::Password { user, password }) = &credentials {
                let value = http::basic(user.as_bytes(), password.as_bytes());
                request.headers.push(("Authorization".to_owned(), value));
            }
        }
        let response = self.http.send(request, address)?;
        if !is_success(&response) {
            return Err(bad_status(address, response));
        }
        let body = read_body(response, LONGEST_TOKEN, address)?;
        let body: Value = serde_json::from_slice(&body).map_err(|_| wrong("a token that is no JSON"))?;
        let token = body["token"].as_str().or_else(|| body["access_token"].as_str());
        let token = token.ok_or_else(|| wrong("an answer without a token"))?;
        let header = BString::from(format!("Bearer {token}"));
        if !http::is_header("Authorization", &header) {
            return Err(wrong("a token with control characters").into());
        }
        Ok(header)
    }

    /// Returns the credentials, which are looked up once.
    fn credentials(&self) -> Result<Option<Credentials>, Error> {
        let mut known = self.credentials.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known {
            return Ok(known.clone());
        }
        let found = match &self.given {
            Some((user, password)) => {
                Some(Credentials::Password { user: user.clone(), password: password.clone() })
            }
            None => self.config.find(&self.host)?,
        };
        *known = Some(found.clone());
        Ok(found)
    }
}
