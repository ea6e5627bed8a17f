//! Keys of S3: from variables, for a token of a web identity, from the service of a container, or
//! from that of a virtual machine.
//!
//! Keys that expire are fetched again five minutes before.

use std::{
    path::Path,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use http::{Body, Request};
use serde_json::Value;
use sys::by_path;

use super::{
    super::client::{Http, is_success, read_body},
    super::retry::{Attempt, bad_status},
    settings::{bad, flag, region, variable},
    sign::encode,
    time, xml,
};
use crate::{Error, Options};

/// The longest time for an answer of a service of this machine.
const NEAR: Duration = Duration::from_secs(2);

/// The longest answer.
const LONGEST: usize = 1 << 20;

/// The rest of the time of keys at which they are replaced.
const MARGIN: Duration = Duration::from_secs(300);

/// The service of a virtual machine, unless `AWS_METADATA_ENDPOINT` names another.
const METADATA: &str = "http://169.254.169.254";

/// The service of a container whose variable names only a path.
const CONTAINER: &str = "http://169.254.170.2";

/// Keys to sign with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) token: Option<String>,
}

enum Source {
    Fixed(Keys),
    WebIdentity { http: Http, endpoint: String, token_file: String, role: String, session: String },
    Container { http: Http, url: String, token_file: Option<String> },
    Machine { http: Http, endpoint: String, old_too: bool },
}

/// See the module.
pub(super) struct Credentials {
    source: Source,
    /// Fetched keys, and the time at which they expire.
    fetched: Mutex<Option<(Keys, SystemTime)>>,
}

impl Credentials {
    /// Chooses a source. `http` reaches services outside of this machine.
    pub(super) fn of(options: &Options<'_>, http: &Http) -> Result<Credentials, Error> {
        let read = |name: &str| variable(options, name);
        let source = if let Some(id) = read("AWS_ACCESS_KEY_ID")? {
            let secret = read("AWS_SECRET_ACCESS_KEY")?;
            let missing =
                || Error::Setting("AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not".into());
            Source::Fixed(Keys { id, secret: secret.ok_or_else(missing)?, token: read("AWS_SESSION_TOKEN")? })
        } else if let (Some(token_file), Some(role)) =
            (read("AWS_WEB_IDENTITY_TOKEN_FILE")?, read("AWS_ROLE_ARN")?)
        {
            let usual = format!("https://sts.{}.amazonaws.com", region(options)?);
            Source::WebIdentity {
                http: http.clone(),
                endpoint: read("AWS_ENDPOINT_URL_STS")?.unwrap_or(usual),
                token_file,
                role,
                session: read("AWS_ROLE_SESSION_NAME")?.unwrap_or_else(|| "sapwood".into()),
            }
        } else if let Some(path) = read("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")? {
            let url = format!("{CONTAINER}{path}");
            Source::Container { http: http.near(options, NEAR), url, token_file: None }
        } else if let Some(url) = read("AWS_CONTAINER_CREDENTIALS_FULL_URI")? {
            let token_file = read("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")?;
            Source::Container { http: http.near(options, NEAR), url, token_file }
        } else {
            let endpoint = read("AWS_METADATA_ENDPOINT")?.unwrap_or_else(|| METADATA.into());
            Source::Machine {
                http: http.near(options, NEAR),
                endpoint: endpoint.trim_end_matches('/').to_owned(),
                old_too: flag(options, "AWS_IMDSV1_FALLBACK")?,
            }
        };
        Ok(Credentials { source, fetched: Mutex::default() })
    }

    /// Returns keys that are valid now. `address` is that of the file, for messages.
    pub(super) fn keys(&self, address: &str) -> Result<Keys, Error> {
        if let Source::Fixed(keys) = &self.source {
            return Ok(keys.clone());
        }
        // Other threads wait for the keys.
        let mut fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemTime::now();
        if let Some((keys, expiry)) = &*fetched
            && *expiry > now + MARGIN
        {
            return Ok(keys.clone());
        }
        let (keys, expiry) = self.fetch(address)?;
        *fetched = Some((keys.clone(), expiry.unwrap_or(now + MARGIN * 2)));
        Ok(keys)
    }

    fn fetch(&self, address: &str) -> Result<Found, Error> {
        match &self.source {
            Source::Fixed(keys) => Ok((keys.clone(), None)),
            Source::WebIdentity { http, endpoint, token_file, role, session } => {
                let token = token_of(token_file)?;
                let query = format!(
                    "/?Action=AssumeRoleWithWebIdentity&DurationSeconds=3600&RoleArn={}&RoleSessionName={}\
                     &Version=2011-06-15&WebIdentityToken={}",
                    encode(role),
                    encode(session),
                    encode(&token)
                );
                let url = format!("{}{query}", endpoint.trim_end_matches('/'));
                let answer = ask(http, "POST", &url, &[], "AWS_ENDPOINT_URL_STS", address)?;
                of_xml(&answer).ok_or_else(|| no_keys(address, "the token service sent no keys"))
            }
            Source::Container { http, url, token_file } => {
                let token = token_file.as_deref().map(token_of).transpose()?;
                let headers: Vec<_> = token.iter().map(|token| ("Authorization", token.as_str())).collect();
                let name = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
                let answer = ask(http, "GET", url, &headers, name, address)?;
                of_json(&answer).ok_or_else(|| no_keys(address, "the container's service sent no keys"))
            }
            Source::Machine { http, endpoint, old_too } => of_machine(http, endpoint, *old_too, address)
                .map_err(|error| match error {
                    Error::Interrupted | Error::Setting(_) => error,
                    _ => {
                        no_keys(address, "AWS_ACCESS_KEY_ID is not set, and no metadata service gives a role")
                    }
                }),
        }
    }
}

/// Keys, and the time at which they expire, if it is known.
type Found = (Keys, Option<SystemTime>);

fn no_keys(address: &str, reason: &str) -> Error {
    Error::Denied { address: address.to_owned(), reason: format!("no credentials: {reason}") }
}

/// Reads a file that holds a token.
fn token_of(file: &str) -> Result<String, Error> {
    let failed = |source| Error::Io { what: "read", path: file.into(), source };
    let text = by_path::read(Path::new(file)).map_err(failed)?;
    let text = text.ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
    let text = String::from_utf8(text).map_err(|_| failed(std::io::ErrorKind::InvalidData.into()))?;
    Ok(text.trim().to_owned())
}

/// Asks a service. `name` is the variable that names it.
fn ask(
    http: &Http,
    method: &'static str,
    url: &str,
    headers: &[(&str, &str)],
    name: &str,
    address: &str,
) -> Result<String, Error> {
    let parsed = http::Address::parse(url.as_bytes()).ok_or_else(|| bad(name))?;
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    let request = Request { method, address: parsed, headers, body: Body::Empty };
    http.retry.run(|| {
        let response = http.send(request.clone(), address)?;
        if !is_success(&response) {
            return Err(match bad_status(address, response) {
                // The file of the remote is not the one that is missing.
                Attempt::Final(Error::Missing { .. }) => {
                    no_keys(address, "the service of credentials does not know the role").into()
                }
                failed => failed,
            });
        }
        let body = read_body(response, LONGEST, address)?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    })
}

/// Asks the metadata service of a virtual machine: version 2, or version 1 if it refuses that.
fn of_machine(http: &Http, endpoint: &str, old_too: bool, address: &str) -> Result<Found, Error> {
    let name = "AWS_METADATA_ENDPOINT";
    let url = format!("{endpoint}/latest/api/token");
    let time = [("X-aws-ec2-metadata-token-ttl-seconds", "600")];
    let token = match ask(http, "PUT", &url, &time, name, address) {
        Ok(token) => Some(token),
        Err(Error::Denied { .. }) if old_too => None,
        Err(error) => return Err(error),
    };
    let headers: Vec<_> = token.iter().map(|token| ("X-aws-ec2-metadata-token", token.trim())).collect();
    let roles = format!("{endpoint}/latest/meta-data/iam/security-credentials/");
    let role = ask(http, "GET", &roles, &headers, name, address)?;
    let answer = ask(http, "GET", &format!("{roles}{}", role.trim()), &headers, name, address)?;
    of_json(&answer).ok_or_else(|| no_keys(address, "the metadata service sent no keys"))
}

fn of_json(text: &str) -> Option<Found> {
    let answer: Value = serde_json::from_str(text).ok()?;
    let part = |name: &str| answer[name].as_str().map(str::to_owned);
    let keys = Keys { id: part("AccessKeyId")?, secret: part("SecretAccessKey")?, token: part("Token") };
    Some((keys, part("Expiration").and_then(|text| time::parse(&text))))
}

fn of_xml(text: &str) -> Option<Found> {
    let keys = Keys {
        id: xml::first(text, "AccessKeyId")?,
        secret: xml::first(text, "SecretAccessKey")?,
        token: xml::first(text, "SessionToken"),
    };
    Some((keys, xml::first(text, "Expiration").and_then(|text| time::parse(&text))))
}
