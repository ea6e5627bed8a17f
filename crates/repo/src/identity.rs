//! The identities of a commit's author and committer. The committer also goes into reflogs.
//!
//! Source: git-commit-tree(1) "COMMIT INFORMATION", git-config(1) `user.*`. Order for both name and
//! mail: `GIT_COMMITTER_*`, `committer.*`, `user.*`, (`EMAIL`,) the user database. The date: see
//! [`crate::date`]. All identities of one command have the same time.

use std::{
    cell::LazyCell,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use bstr::{BStr, BString, ByteSlice};
use format::keys::{self, Key};

use crate::{ConfigError, Env, Error, Repository, date, disk};

/// The role whose identity is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The author of a commit.
    Author,
    /// The committer of a commit. Reflogs record the committer too.
    Committer,
}

impl Who {
    fn variable(self, part: &str) -> String {
        match self {
            Who::Author => format!("GIT_AUTHOR_{part}"),
            Who::Committer => format!("GIT_COMMITTER_{part}"),
        }
    }
}

/// The settings for a part of an identity.
struct Part {
    author: Key<Option<BString>>,
    committer: Key<Option<BString>>,
    user: Key<Option<BString>>,
}

const MAIL: Part =
    Part { author: keys::author::EMAIL, committer: keys::committer::EMAIL, user: keys::user::EMAIL };

const NAME: Part =
    Part { author: keys::author::NAME, committer: keys::committer::NAME, user: keys::user::NAME };

impl Part {
    fn own(&self, who: Who) -> &Key<Option<BString>> {
        match who {
            Who::Author => &self.author,
            Who::Committer => &self.committer,
        }
    }
}

/// Parts of an identity that override environment and configuration.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The name.
    pub name: Option<BString>,
    /// The mail address.
    pub mail: Option<BString>,
    /// The date, in a format that commits or Git's options use.
    pub date: Option<BString>,
}

/// The identity of a commit's author or committer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// The name, without characters that delimit it.
    pub name: BString,
    /// The mail address, without characters that delimit it.
    pub mail: BString,
    /// `<seconds> <zone>`
    pub date: String,
}

impl Person {
    /// Returns `Name <mail>`.
    pub fn name_and_mail(&self) -> BString {
        bstr::concat([&self.name[..], b" <", &self.mail[..], b">"]).into()
    }

    /// Returns `Name <mail> <seconds> <zone>`, as commits hold it.
    pub fn line(&self) -> BString {
        bstr::concat([&self.name_and_mail()[..], b" ", self.date.as_bytes()]).into()
    }
}

/// The reason why a commit cannot have this author or committer. The message is Git's.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct IdentityError {
    /// The role that has no configured identity. Git then explains how to configure it.
    pub unknown: Option<Who>,
    message: BString,
}

impl IdentityError {
    fn because(message: impl Into<BString>) -> IdentityError {
        IdentityError { unknown: None, message: message.into() }
    }
}

impl Repository {
    /// Returns `Name <mail> seconds zone` for a reflog line. As in Git, a guessed identity is
    /// accepted; only an invalid date is an error.
    pub fn committer(&self) -> Result<BString, Error> {
        let user = LazyCell::new(sys::user::current);
        let who = Who::Committer;
        let name = self.variable(who, "NAME").or_else(|| self.identity_setting(who, &NAME));
        let name = name.unwrap_or_else(|| guess_name(user.as_ref()).trim().into());
        let login = || user.as_ref().map_or("unknown".into(), |user| user.name.as_slice().into());
        let name = if name.is_empty() { login() } else { name };
        let mail = self
            .variable(who, "EMAIL")
            .or_else(|| self.identity_setting(who, &MAIL))
            .or_else(|| self.mail_of_environment())
            .unwrap_or_else(|| guess_mail(user.as_ref()).0);
        let date = match self.variable(who, "DATE").filter(|date| !date.is_empty()) {
            Some(date) => parse_date(date.as_bstr())?,
            None => self.now(),
        };
        let (name, mail) = (clean(name.as_bstr()), clean(mail.as_bstr()));
        Ok(Person { name, mail, date: date.to_string() }.line())
    }

    /// Returns the author or committer of a commit. A name or address that Git would only guess is
    /// an error if the guess is poor, or if `user.useConfigOnly` is set.
    pub fn person(&self, who: Who, given: Given) -> Result<Person, IdentityError> {
        let user = LazyCell::new(sys::user::current);
        let only_configured = self.config(&keys::user::USE_CONFIG_ONLY);
        let only_configured = only_configured.map_err(|error| IdentityError::because(error.to_string()))?;
        let unknown = |message: BString| IdentityError { unknown: Some(who), message };
        let mail =
            given.mail.or_else(|| self.variable(who, "EMAIL")).or_else(|| self.identity_setting(who, &MAIL));
        let mail = match mail {
            Some(mail) => mail,
            None if only_configured => {
                return Err(unknown("no email was given and auto-detection is disabled".into()));
            }
            None => match self.mail_of_environment() {
                Some(mail) => mail.trim().into(),
                None => {
                    let (mail, guess) = guess_mail(user.as_ref());
                    if guess == Guess::Poor || user.is_none() {
                        let message = format!("unable to auto-detect email address (got '{mail}')");
                        return Err(unknown(message.into()));
                    }
                    mail
                }
            },
        };
        let told = given.name.or_else(|| self.variable(who, "NAME"));
        let has_own = || {
            let own = self.config_str(NAME.own(who));
            own.is_some_and(|name| !name.is_empty())
        };
        let is_default = told.is_none() && !has_own();
        let configured = told.or_else(|| self.identity_setting(who, &NAME));
        let name = match configured {
            Some(name) => name,
            None if only_configured => {
                return Err(unknown("no name was given and auto-detection is disabled".into()));
            }
            None => {
                let name = BString::from(guess_name(user.as_ref()).trim());
                if user.is_none() {
                    return Err(unknown(format!("unable to auto-detect name (got '{name}')").into()));
                }
                name
            }
        };
        if name.is_empty() {
            let message = format!("empty ident name (for <{mail}>) not allowed").into();
            return Err(if is_default { unknown(message) } else { IdentityError::because(message) });
        }
        if name.chars().all(is_crud) {
            let message = format!("name consists only of disallowed characters: {name}");
            return Err(IdentityError::because(message));
        }
        let date = given.date.or_else(|| self.variable(who, "DATE")).filter(|date| !date.is_empty());
        let date = match date {
            Some(date) => {
                let parsed = parse_date(date.as_bstr());
                parsed.map_err(|error| IdentityError::because(error.to_string()))?
            }
            None => self.now(),
        };
        Ok(Person { name: clean(name.as_bstr()), mail: clean(mail.as_bstr()), date: date.to_string() })
    }

    /// Returns true if the committer's address comes from the environment or the configuration.
    pub fn names_committer(&self) -> bool {
        let is_set = |key: Key<Option<BString>>| self.config_str(&key).is_some();
        self.variable(Who::Committer, "EMAIL").is_some()
            || is_set(keys::committer::EMAIL)
            || is_set(keys::user::EMAIL)
            || !is_set(keys::author::EMAIL) && self.mail_of_environment().is_some()
    }

    /// Returns true if the name or the address of the person would be guessed.
    pub fn guesses(&self, who: Who) -> bool {
        let told = |variable: &str, part: &Part| {
            self.variable(who, variable).is_some() || self.identity_setting(who, part).is_some()
        };
        let has_mail = told("EMAIL", &MAIL) || self.mail_of_environment().is_some();
        let only_configured = matches!(self.config(&keys::user::USE_CONFIG_ONLY), Ok(true));
        !(only_configured || has_mail && told("NAME", &NAME))
    }

    fn variable(&self, who: Who, part: &str) -> Option<BString> {
        self.env().bytes(&who.variable(part)).map(ToOwned::to_owned)
    }

    /// Returns `EMAIL`, unless it is empty.
    fn mail_of_environment(&self) -> Option<BString> {
        self.env().bytes("EMAIL").filter(|mail| !mail.is_empty()).map(ToOwned::to_owned)
    }

    /// Returns the configured value of a part of an identity.
    fn identity_setting(&self, who: Who, part: &Part) -> Option<BString> {
        let own = self.config_str(part.own(who)).filter(|value| !value.is_empty());
        let own = own.or_else(|| self.config_str(&part.user));
        // If any identity is configured, the missing part is empty and not guessed.
        own.or_else(|| {
            let any = self.config_str(&part.author).or_else(|| self.config_str(&part.committer));
            any.map(|_| BString::default())
        })
    }

    /// Returns the time of all objects and reflog entries of this command, in Git's local time
    /// zone.
    fn now(&self) -> date::Time {
        *self.now.get_or_init(now)
    }

    /// Returns true if `text` is a date that does not depend on the current time.
    pub fn is_absolute_date(text: &BStr) -> bool {
        date::parse(text, seconds_now()).is_some()
    }
}

/// Returns an error if the environment names an invalid date for the committer.
pub fn check_committer_date(env: &Env) -> Result<(), Error> {
    match env.bytes("GIT_COMMITTER_DATE").filter(|date| !date.is_empty()) {
        Some(date) => parse_date(date).map(drop),
        None => Ok(()),
    }
}

fn is_crud(letter: char) -> bool {
    letter <= ' ' || matches!(letter, ',' | ':' | ';' | '<' | '>' | '"' | '\\' | '\'')
}

/// Removes characters that an identity must not contain: punctuation and blanks at both ends, and
/// the three delimiters inside.
fn clean(text: &BStr) -> BString {
    text.trim_with(is_crud)
        .iter()
        .copied()
        .filter(|c| !matches!(c, b'\n' | b'<' | b'>'))
        .collect::<Vec<_>>()
        .into()
}

/// Returns the full name of the user database, in which `&` stands for the login name.
fn guess_name(user: Option<&sys::user::User>) -> BString {
    let Some(user) = user else { return "unknown".into() };
    let full = user.gecos.split(|&c| c == b',').next().unwrap_or_default();
    let mut name = BString::default();
    for &c in full {
        if c == b'&' {
            let at = name.len();
            name.extend_from_slice(&user.name);
            name[at..(at + 1).min(at + user.name.len())].make_ascii_uppercase();
        } else {
            name.push(c);
        }
    }
    name
}

/// The quality of a guessed address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guess {
    Fair,
    /// The host has no domain.
    Poor,
}

/// Returns `login@host`. The host comes from `/etc/mailname` or is the host name. A host name
/// without a domain gets the suffix that Git uses.
fn guess_mail(user: Option<&sys::user::User>) -> (BString, Guess) {
    let mut mail = BString::from(user.map_or(&b"unknown"[..], |user| &user.name));
    mail.push(b'@');
    let mailname = disk::read_optional(Path::new("/etc/mailname")).ok().flatten().unwrap_or_default();
    if let Some(name) = mailname.lines().next().map(|line| line.trim()).filter(|name| !name.is_empty()) {
        mail.extend_from_slice(name);
        return (mail, Guess::Fair);
    }
    let host = sys::user::host_name();
    mail.extend_from_slice(&host);
    if host.contains(&b'.') {
        return (mail, Guess::Fair);
    }
    mail.extend_from_slice(b".(none)");
    (mail, Guess::Poor)
}

fn parse_date(text: &BStr) -> Result<date::Time, Error> {
    date::parse(text, seconds_now()).ok_or_else(|| ConfigError::Date(text.to_owned()).into())
}

/// Parses a date; returns `None` if no word of the text was recognized. Returns seconds since the
/// epoch.
pub(crate) fn parse_time(text: &BStr) -> Option<i64> {
    let date = date::approximate(text, seconds_now());
    date.is_date.then_some(date.seconds)
}

/// Parses a date of `--shallow-since` and similar options. As in Git, every text is a date. Returns
/// seconds since the epoch.
pub fn parse_moment(text: &BStr) -> i64 {
    date::approximate(text, seconds_now()).seconds
}

/// Returns the current time in Git's local time zone.
fn now() -> date::Time {
    let seconds = seconds_now();
    let offset = i32::try_from(sys::utc_offset(seconds)).unwrap_or_default();
    date::Time { seconds: seconds.cast_unsigned(), offset: offset / 60 }
}

fn seconds_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs().cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_crud() {
        assert_eq!(clean("  ,A <U> Thor\n\"".into()), "A U Thor");
    }

    #[test]
    fn names_an_invalid_date() {
        assert_eq!(parse_date("never".into()).unwrap_err().to_string(), "invalid date format: never");
    }
}
