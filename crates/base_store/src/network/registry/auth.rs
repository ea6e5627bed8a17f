//! Authentication at a registry: basic, or a token from the server that the challenge names.
//!
//! Nothing is sent before the registry asks. Then the token or the password goes with each request
//! of the same access, until the registry refuses it.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http_auth::ChallengeRef;
use reqwest::{
    RequestBuilder, Response, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE},
};
use serde_json::Value;
use tokio::sync::OnceCell;
use url::Url;

use super::{
    super::{
        client::{Http, read_body},
        progress::Progress,
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
    credentials: OnceCell<Option<Credentials>>,
    headers: Mutex<HashMap<Access, HeaderValue>>,
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
            credentials: OnceCell::new(),
            headers: Mutex::default(),
        }
    }

    fn headers(&self) -> MutexGuard<'_, HashMap<Access, HeaderValue>> {
        self.headers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the request that `make` makes. If the registry asks for credentials, sends it again
    /// with them. A request with a body has its `progress`.
    pub(super) async fn send(
        &self,
        access: Access,
        make: &(dyn Fn() -> Result<RequestBuilder, Error> + '_),
        progress: Option<&Progress>,
        address: &str,
    ) -> Result<Response, Attempt> {
        let send = async |header: Option<HeaderValue>| {
            let mut request = make()?;
            if let Some(header) = header {
                request = request.header(AUTHORIZATION, header);
            }
            match progress {
                Some(progress) => self.http.send_watched(request, progress, address).await,
                None => self.http.send(request, address).await,
            }
        };
        let known = self.headers().get(&access).cloned();
        let response = send(known).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        let header = self.answer(access, &response, address).await?;
        self.headers().insert(access, header.clone());
        send(Some(header)).await
    }

    /// Returns the answer to a challenge.
    async fn answer(
        &self,
        access: Access,
        response: &Response,
        address: &str,
    ) -> Result<HeaderValue, Attempt> {
        let denied = |reason: &str| Error::Denied { address: address.to_owned(), reason: reason.into() };
        let texts =
            response.headers().get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let challenges: Vec<ChallengeRef<'_>> =
            texts.filter_map(|text| http_auth::parse_challenges(text).ok()).flatten().collect();
        let find = |scheme: &str| challenges.iter().find(|one| one.scheme.eq_ignore_ascii_case(scheme));
        if let Some(bearer) = find("bearer") {
            return self.token(access, bearer, address).await;
        }
        if find("basic").is_none() {
            return Err(denied("the registry asks for an unknown kind of authentication").into());
        }
        match self.credentials().await? {
            Some(Credentials::Password { user, password }) => Ok(basic(user, password)),
            _ => {
                Err(denied("the registry asks for a password, and Docker's config.json has none for it")
                    .into())
            }
        }
    }

    async fn token(
        &self,
        access: Access,
        challenge: &ChallengeRef<'_>,
        address: &str,
    ) -> Result<HeaderValue, Attempt> {
        let parameter = |name: &str| {
            let found = challenge.params.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.to_unescaped())
        };
        let wrong = |reason: &str| Error::Wrong { address: address.to_owned(), reason: reason.into() };
        let realm = parameter("realm").and_then(|realm| Url::parse(&realm).ok());
        let mut realm = realm.ok_or_else(|| wrong("a challenge without a realm"))?;
        let is_plain = matches!(self.address, Address::Registry { scheme: crate::Scheme::Http, .. });
        if realm.scheme() != "https" && !is_plain {
            return Err(wrong("tokens of a server without TLS").into());
        }
        let own = || format!("repository:{}:{}", self.name, access.actions());
        let scope = parameter("scope").unwrap_or_else(own);
        let service = parameter("service");
        let credentials = self.credentials().await?;
        let request = match credentials {
            Some(Credentials::Token(token)) => {
                let mut form = url::form_urlencoded::Serializer::new(String::new());
                form.append_pair("grant_type", "refresh_token").append_pair("client_id", "sapwood");
                form.append_pair("refresh_token", token).append_pair("scope", &scope);
                form.extend_pairs(service.iter().map(|service| ("service", service)));
                let request = self.http.sender.post(realm.clone()).body(form.finish());
                request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").timeout(self.http.timeout)
            }
            _ => {
                realm.query_pairs_mut().extend_pairs(service.iter().map(|service| ("service", service)));
                realm.query_pairs_mut().append_pair("scope", &scope);
                let request = self.http.client.get(realm.clone());
                match credentials {
                    Some(Credentials::Password { user, password }) => {
                        request.header(AUTHORIZATION, basic(user, password))
                    }
                    _ => request,
                }
            }
        };
        let response = self.http.send(request, address).await?;
        if !response.status().is_success() {
            return Err(bad_status(address, response).await);
        }
        let body = read_body(response, LONGEST_TOKEN, address).await?;
        let body: Value = serde_json::from_slice(&body).map_err(|_| wrong("a token that is no JSON"))?;
        let token = body["token"].as_str().or_else(|| body["access_token"].as_str());
        let token = token.ok_or_else(|| wrong("an answer without a token"))?;
        let header = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut header = header.map_err(|_| wrong("a token with control characters"))?;
        header.set_sensitive(true);
        Ok(header)
    }

    /// Returns the credentials, which are looked up once.
    async fn credentials(&self) -> Result<Option<&Credentials>, Error> {
        let look_up = async {
            if let Some((user, password)) = &self.given {
                let (user, password) = (user.clone(), password.clone());
                return Ok(Some(Credentials::Password { user, password }));
            }
            let (config, host) = (self.config.clone(), self.host.clone());
            // A helper is a process that may take long.
            let found = tokio::task::spawn_blocking(move || config.find(&host)).await;
            found.map_err(|error| Error::Setting(format!("cannot look up credentials: {error}")))?
        };
        self.credentials.get_or_try_init(|| look_up).await.map(Option::as_ref)
    }
}

fn basic(user: &str, password: &str) -> HeaderValue {
    let text = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")));
    let mut header = HeaderValue::from_str(&text).expect("base64 has no control characters");
    header.set_sensitive(true);
    header
}
