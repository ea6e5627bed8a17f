//! Repetition of requests after failures that may pass.

use std::{
    hash::{BuildHasher as _, RandomState},
    io::Read as _,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use http::{Interrupted, Response};

use super::client::text;
use crate::{Error, Options};

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The longest pause that a server may ask for.
const LONGEST_WISH: Duration = Duration::from_secs(60);

/// The bytes of a server's message that are shown.
const SHOWN: u64 = 300;

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
#[derive(Clone)]
pub(super) struct Retry {
    retries: u32,
    pause: Duration,
    patience: Duration,
    interrupt: Option<Arc<AtomicBool>>,
}

impl Retry {
    pub(super) fn of(options: &Options<'_>) -> Retry {
        Retry {
            retries: options.retries,
            pause: options.pause,
            patience: options.patience,
            interrupt: Some(Arc::clone(&options.interrupt)),
        }
    }

    /// Repeats once.
    pub(super) fn short(self) -> Retry {
        Retry { retries: 1, patience: Duration::ZERO, ..self }
    }

    /// Repeats `attempt` until it succeeds, fails for good, or has failed too often and too long.
    /// The pauses double; each is shortened by a random part, so that many hosts do not return at
    /// once.
    pub(super) fn run<T>(&self, mut attempt: impl FnMut() -> Result<T, Attempt>) -> Result<T, Error> {
        let mut pause = self.pause;
        let mut tried = 0;
        let start = Instant::now();
        loop {
            let (error, after) = match attempt() {
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
            let mut random = pause.mul_f64(0.5 + random() / 2.0);
            if tried > self.retries {
                // The last attempt is at the end of the time.
                random = random.min(rest);
            }
            let wait = after.map_or(random, |after| after.min(LONGEST_WISH).max(random));
            http::sleep(&self.interrupt, wait).map_err(|Interrupted| Error::Interrupted)?;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Returns a random number from 0 to 1.
fn random() -> f64 {
    // Each state has random keys.
    let bits = RandomState::new().hash_one(0_u8);
    (bits >> 32) as f64 / f64::from(u32::MAX)
}

/// Returns the failure that a response with a bad status is.
pub(super) fn bad_status(address: &str, mut response: Response<'_>) -> Attempt {
    let message = message(&mut response);
    refusal(address, &response, &message)
}

/// Returns the failure that a bad status with this message is.
pub(super) fn refusal(address: &str, response: &Response<'_>, message: &str) -> Attempt {
    let status = response.head.status;
    let after = text(response, "retry-after").and_then(|value| value.parse().ok());
    let words = format!("{status} {}", response.head.reason);
    let reason =
        if message.is_empty() { words.trim().to_owned() } else { format!("{}: {message}", words.trim()) };
    let address = address.to_owned();
    match status {
        404 | 410 => Error::Missing { address }.into(),
        401 | 403 | 407 => Error::Denied { address, reason }.into(),
        416 => Error::Wrong { address, reason: "it is shorter than expected".into() }.into(),
        501 => Error::Failed { address, reason }.into(),
        408 | 429 | 500..=599 => Attempt::Passing {
            error: Error::Failed { address, reason },
            after: after.map(Duration::from_secs),
        },
        _ => Error::Failed { address, reason }.into(),
    }
}

/// Returns the beginning of a server's message, on one line. Pages for browsers are left out.
fn message(response: &mut Response<'_>) -> String {
    let mut bytes = Vec::new();
    // The status is the failure to report, even if the message cannot be read.
    let _ = response.by_ref().take(SHOWN).read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    if text.trim_start().starts_with('<') {
        return String::new();
    }
    one_line(&text)
}

/// Returns a text without line ends and other control characters.
pub(super) fn one_line(text: &str) -> String {
    let text: String = text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    text.trim().to_owned()
}
