//! Repetition of requests after failures that may pass.

use std::time::{Duration, Instant};

use reqwest::{Response, StatusCode, header::RETRY_AFTER};

use super::tls;
use crate::{Error, Options};

/// The longest pause.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The longest pause that a server may ask for.
const LONGEST_WISH: Duration = Duration::from_secs(60);

/// The bytes of a server's message that are shown.
const SHOWN: usize = 300;

/// A failed attempt.
pub(super) enum Attempt {
    /// The next attempt would fail as well.
    Final(Error),
    /// The failure may pass, perhaps after the time that the server names.
    Passing { error: Error, after: Option<Duration> },
}

impl From<Error> for Attempt {
    fn from(error: Error) -> Attempt {
        Attempt::Final(error)
    }
}

/// How often to try, and how long to wait.
#[derive(Clone, Copy)]
pub(super) struct Retry {
    retries: u32,
    pause: Duration,
    patience: Duration,
}

impl Retry {
    pub(super) fn of(options: &Options<'_>) -> Retry {
        Retry { retries: options.retries, pause: options.pause, patience: options.patience }
    }

    /// Repeats `attempt` until it succeeds, fails for good, or has failed too often and too long.
    /// The pauses double; each is shortened by a random part, so that many hosts do not return at
    /// once.
    pub(super) async fn run<T>(&self, attempt: impl AsyncFn() -> Result<T, Attempt>) -> Result<T, Error> {
        let mut pause = self.pause;
        let mut tried = 0;
        let start = Instant::now();
        loop {
            let (error, after) = match attempt().await {
                Ok(value) => return Ok(value),
                Err(Attempt::Final(error)) => return Err(error),
                Err(Attempt::Passing { error, after }) => (error, after),
            };
            tried += 1;
            let rest = self.patience.saturating_sub(start.elapsed());
            if tried > self.retries && rest.is_zero() {
                return Err(match error {
                    Error::Failed { address, reason } if tried > 1 => {
                        Error::Failed { address, reason: format!("{reason} (tried {tried} times)") }
                    }
                    Error::Unreachable { address, reason } if tried > 1 => {
                        Error::Unreachable { address, reason: format!("{reason} (tried {tried} times)") }
                    }
                    error => error,
                });
            }
            let mut random = pause.mul_f64(rand::random_range(0.5..=1.0));
            if tried > self.retries {
                // The last attempt is at the end of the time.
                random = random.min(rest);
            }
            tokio::time::sleep(after.map_or(random, |after| after.min(LONGEST_WISH).max(random))).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Returns the failure that a response with a bad status is.
pub(super) async fn bad_status(address: &str, response: Response) -> Attempt {
    let status = response.status();
    let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let message = message(response).await;
    let reason = if message.is_empty() { status.to_string() } else { format!("{status}: {message}") };
    let address = address.to_owned();
    match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => Error::Missing { address }.into(),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            Error::Denied { address, reason }.into()
        }
        StatusCode::RANGE_NOT_SATISFIABLE => {
            Error::Wrong { address, reason: "it is shorter than expected".into() }.into()
        }
        StatusCode::NOT_IMPLEMENTED => Error::Failed { address, reason }.into(),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => Attempt::Passing {
            error: Error::Failed { address, reason },
            after: after.map(Duration::from_secs),
        },
        _ if status.is_server_error() => Attempt::Passing {
            error: Error::Failed { address, reason },
            after: after.map(Duration::from_secs),
        },
        _ => Error::Failed { address, reason }.into(),
    }
}

/// Returns the beginning of a server's message, on one line. Pages for browsers are left out.
async fn message(mut response: Response) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < SHOWN {
        let Ok(Some(chunk)) = response.chunk().await else { break };
        bytes.extend_from_slice(&chunk);
    }
    bytes.truncate(SHOWN);
    let text = String::from_utf8_lossy(&bytes);
    if text.trim_start().starts_with('<') {
        return String::new();
    }
    let text: String = text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    text.trim().to_owned()
}

/// Returns the failure that a request without an answer is.
pub(super) fn no_answer(address: &str, error: reqwest::Error) -> Attempt {
    let error = error.without_url();
    let address = address.to_owned();
    if let Some(reason) = tls::refusal(&error) {
        return Attempt::Final(Error::Certificate { address, reason, authorities: String::new() });
    }
    let may_pass = !(error.is_builder() || error.is_redirect());
    let error = if error.is_connect() {
        Error::Unreachable { address, reason: innermost(&error) }
    } else {
        Error::Failed { address, reason: chain(&error) }
    };
    if may_pass { Attempt::Passing { error, after: None } } else { Attempt::Final(error) }
}

/// Returns the message of the last source of an error.
pub(super) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

/// Returns the message of an error with those of its sources that add something.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = error.source();
    }
    text
}
