//! Keys of S3: from variables, for a token of a web identity, from the service of a container, or
//! from that of a virtual machine.
//!
//! Keys that expire are fetched again five minutes before. If that fails, the old ones serve while
//! they are valid, and the next attempt is ten seconds later.

use std::{
    path::Path,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use http::{Body, Request, without_user};
use serde_json::Value;
use sys::by_path;

use super::{
    super::client::{Http, is_success, read_body},
    super::retry::bad_status,
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

/// The pause after keys could not be replaced.
const PAUSE: Duration = Duration::from_secs(10);

/// The name of a session, unless `AWS_ROLE_SESSION_NAME` is another. Earlier releases had this one,
/// and policies may name it.
const SESSION: &str = "WebIdentitySession";

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

impl Keys {
    /// Returns `None` if a part cannot be in a header.
    fn checked(self) -> Option<Keys> {
        let parts = [Some(&self.id), Some(&self.secret), self.token.as_ref()];
        let is_good = |part: &String| http::is_header("x", part.as_bytes());
        let are_good = parts.into_iter().flatten().all(is_good);
        are_good.then_some(self)
    }
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
    fetched: Mutex<Option<Fetched>>,
}

/// Fetched keys.
#[derive(Clone)]
struct Fetched {
    keys: Keys,
    expiry: SystemTime,
    /// The time from which they are replaced.
    renewal: SystemTime,
}

impl Credentials {
    /// Chooses a source. `http` reaches services outside of this machine.
    pub(super) fn of(options: &Options<'_>, http: &Http) -> Result<Credentials, Error> {
        let read = |name: &str| variable(options, name);
        let source = if let Some((id, secret)) = fixed(options)? {
            Source::Fixed(Keys { id, secret, token: read("AWS_SESSION_TOKEN")? })
        } else if let (Some(token_file), Some(role)) =
            (read("AWS_WEB_IDENTITY_TOKEN_FILE")?, read("AWS_ROLE_ARN")?)
        {
            let usual = format!("https://sts.{}.amazonaws.com", region(options)?);
            Source::WebIdentity {
                http: http.clone(),
                endpoint: read("AWS_ENDPOINT_URL_STS")?.unwrap_or(usual),
                token_file,
                role,
                session: read("AWS_ROLE_SESSION_NAME")?.unwrap_or_else(|| SESSION.into()),
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
        renewed(&mut fetched, SystemTime::now(), |is_urgent| self.fetch(is_urgent, address))
    }

    /// Asks the service. Repeats a request as often as others if `is_urgent`, else once.
    fn fetch(&self, is_urgent: bool, address: &str) -> Result<Found, Error> {
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
                let endpoint = endpoint.trim_end_matches('/');
                let mut http = http.clone();
                if !is_urgent {
                    http.retry = http.retry.short();
                }
                let service = Service { http: &http, name: "AWS_ENDPOINT_URL_STS", place: endpoint, address };
                let answer = service.ask("POST", &query, &[])?;
                of_xml(&answer).ok_or_else(|| service.sent_no_keys())
            }
            Source::Container { http, url, token_file } => {
                let token = token_file.as_deref().map(token_of).transpose()?;
                let headers: Vec<_> = token.iter().map(|token| ("Authorization", token.as_str())).collect();
                let name = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
                let service = Service { http, name, place: url, address };
                let answer = service.ask("GET", "", &headers)?;
                of_json(&answer).ok_or_else(|| service.sent_no_keys())
            }
            Source::Machine { http, endpoint, old_too } => {
                let service = Service { http, name: "AWS_METADATA_ENDPOINT", place: endpoint, address };
                of_machine(&service, *old_too)
            }
        }
    }
}

/// Returns the key and the secret of the variables; `None` without both.
fn fixed(options: &Options<'_>) -> Result<Option<(String, String)>, Error> {
    let names = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
    let alone = |set: &str, other: &str| Err(Error::Setting(format!("{set} is set, and {other} is not")));
    match (variable(options, names[0])?, variable(options, names[1])?) {
        (Some(id), Some(secret)) => Ok(Some((id, secret))),
        (None, None) => Ok(None),
        (Some(_), None) => alone(names[0], names[1]),
        (None, Some(_)) => alone(names[1], names[0]),
    }
}

/// Returns the fetched keys, after it has replaced those that expire soon. `fetch` receives true if
/// no valid keys are left.
fn renewed(
    fetched: &mut Option<Fetched>,
    now: SystemTime,
    fetch: impl FnOnce(bool) -> Result<Found, Error>,
) -> Result<Keys, Error> {
    let old = fetched.as_mut().filter(|old| old.expiry > now);
    if let Some(old) = &old
        && old.renewal > now
    {
        return Ok(old.keys.clone());
    }
    match (fetch(old.is_none()), old) {
        (Ok((keys, expiry)), _) => {
            let expiry = expiry.unwrap_or(now + MARGIN * 2);
            // Keys that are valid for a short time alone are not fetched for each request.
            let renewal = (expiry - MARGIN).max(now + PAUSE);
            *fetched = Some(Fetched { keys: keys.clone(), expiry, renewal });
            Ok(keys)
        }
        (Err(Error::Interrupted), _) => Err(Error::Interrupted),
        (Err(_), Some(old)) => {
            old.renewal = now + PAUSE;
            Ok(old.keys.clone())
        }
        (Err(error), None) => Err(error),
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

/// A service that gives keys.
struct Service<'a> {
    http: &'a Http,
    /// The variable that names it.
    name: &'static str,
    /// Its URL.
    place: &'a str,
    /// The address of the file, for messages.
    address: &'a str,
}

impl Service<'_> {
    /// Sends a request to a path, and returns the answer.
    fn ask(&self, method: &'static str, path: &str, headers: &[(&str, &str)]) -> Result<String, Error> {
        let url = http::Address::parse(format!("{}{path}", self.place).as_bytes());
        let url = url.ok_or_else(|| bad(self.name))?;
        if let Some((name, _)) = headers.iter().find(|(name, value)| !http::is_header(name, value.as_bytes()))
        {
            let reason = format!("the token for the header '{name}' has a line end or a NUL");
            return Err(no_keys(self.address, &reason));
        }
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        let request = Request { method, address: url, headers, body: Body::Empty };
        let answer = self.http.retry.run(|| {
            let response = self.http.send(request.clone(), self.place)?;
            if !is_success(&response) {
                return Err(bad_status(self.place, response));
            }
            let body = read_body(response, LONGEST, self.place)?;
            Ok(String::from_utf8_lossy(&body).into_owned())
        });
        answer.map_err(|error| self.failed(error))
    }

    /// Returns the error for a file, for which no keys came.
    fn failed(&self, error: Error) -> Error {
        let (address, place) = (self.address.to_owned(), without_user(self.place.into()));
        let text = |reason: &str| format!("no credentials from '{place}' ({}): {reason}", self.name);
        match error {
            Error::Missing { .. } => Error::Denied { address, reason: text("it does not know the role") },
            Error::Denied { reason, .. } => Error::Denied { address, reason: text(&reason) },
            Error::Wrong { reason, .. } => Error::Wrong { address, reason: text(&reason) },
            Error::Failed { reason, .. } => Error::Failed { address, reason: text(&reason) },
            Error::Unreachable { reason, .. } => Error::Unreachable { address, reason: text(&reason) },
            Error::Certificate { reason, authorities, .. } => {
                Error::Certificate { address: place.to_string(), reason, authorities }
            }
            error => error,
        }
    }

    fn sent_no_keys(&self) -> Error {
        self.failed(Error::Denied { address: String::new(), reason: "it sent no keys".into() })
    }
}

/// Asks the metadata service of a virtual machine: version 2, or version 1 if it refuses that.
fn of_machine(service: &Service<'_>, old_too: bool) -> Result<Found, Error> {
    let time = [("X-aws-ec2-metadata-token-ttl-seconds", "600")];
    let token = match service.ask("PUT", "/latest/api/token", &time) {
        Ok(token) => Some(token),
        Err(Error::Denied { .. }) if old_too => None,
        // This is no virtual machine.
        Err(Error::Unreachable { .. }) => {
            let reason = "AWS_ACCESS_KEY_ID is not set, and no metadata service gives a role";
            return Err(no_keys(service.address, reason));
        }
        Err(error) => return Err(error),
    };
    let headers: Vec<_> = token.iter().map(|token| ("X-aws-ec2-metadata-token", token.trim())).collect();
    let roles = "/latest/meta-data/iam/security-credentials/";
    let role = service.ask("GET", roles, &headers)?;
    let answer = service.ask("GET", &format!("{roles}{}", encode(role.trim())), &headers)?;
    of_json(&answer).ok_or_else(|| service.sent_no_keys())
}

fn of_json(text: &str) -> Option<Found> {
    let answer: Value = serde_json::from_str(text).ok()?;
    let part = |name: &str| answer[name].as_str().map(str::to_owned);
    let keys = Keys { id: part("AccessKeyId")?, secret: part("SecretAccessKey")?, token: part("Token") };
    let keys = keys.checked()?;
    Some((keys, part("Expiration").and_then(|text| time::parse(&text))))
}

fn of_xml(text: &str) -> Option<Found> {
    let keys = Keys {
        id: xml::first(text, "AccessKeyId")?,
        secret: xml::first(text, "SecretAccessKey")?,
        token: xml::first(text, "SessionToken"),
    };
    let keys = keys.checked()?;
    Some((keys, xml::first(text, "Expiration").and_then(|text| time::parse(&text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(id: &str) -> Keys {
        Keys { id: id.into(), secret: "s".into(), token: None }
    }

    fn failed() -> Result<Found, Error> {
        Err(Error::Failed { address: "a".into(), reason: "r".into() })
    }

    #[test]
    fn valid_keys_serve_while_they_cannot_be_replaced() {
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut fetched = None;
        let never = |_| -> Result<Found, Error> { panic!("they are valid") };
        assert!(matches!(renewed(&mut fetched, start, |_| failed()), Err(Error::Failed { .. })));
        let first = renewed(&mut fetched, start, |is_urgent| {
            assert!(is_urgent);
            Ok((keys("1"), Some(after(3600))))
        });
        assert_eq!(first.expect("fetched"), keys("1"));
        assert_eq!(renewed(&mut fetched, after(3299), never).expect("kept"), keys("1"));
        let interrupted = renewed(&mut fetched.clone(), after(3301), |_| Err(Error::Interrupted));
        assert!(matches!(interrupted, Err(Error::Interrupted)));
        let mut attempts = 0;
        for seconds in [3301, 3302, 3310, 3312, 3599] {
            let kept = renewed(&mut fetched, after(seconds), |is_urgent| {
                assert!(!is_urgent);
                attempts += 1;
                failed()
            });
            assert_eq!(kept.expect("still valid"), keys("1"), "{seconds}");
        }
        assert_eq!(attempts, 3, "at 3301, 3312 and 3599");
        assert!(renewed(&mut fetched, after(3601), |_| failed()).is_err(), "they are not valid any more");
        let new = renewed(&mut fetched, after(3602), |_| Ok((keys("2"), Some(after(3700)))));
        assert_eq!(new.expect("fetched"), keys("2"));
        assert_eq!(renewed(&mut fetched, after(3605), never).expect("kept"), keys("2"));
    }

    #[test]
    fn keys_that_cannot_be_sent_are_none() {
        let json = |id: &str| format!(r#"{{"AccessKeyId":"{id}","SecretAccessKey":"s","Token":"t"}}"#);
        assert!(of_json(&json("AK")).is_some());
        assert!(of_json(&json(r"AK\r\nX: y")).is_none());
    }
}
