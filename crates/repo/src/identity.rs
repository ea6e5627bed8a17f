//! The committer's identity: the line that goes into reflogs.
//!
//! Source: git-commit-tree(1) "COMMIT INFORMATION", git-config(1) `user.*`. Order for both name and
//! mail: `GIT_COMMITTER_*`, `committer.*`, `user.*`, (`EMAIL`,) the user database. The date: see
//! [`crate::date`].

use std::{
    cell::LazyCell,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use bstr::{BStr, BString, ByteSlice};

use crate::{ConfigError, Env, Error, Repository, date, disk};

impl Repository {
    /// Returns `Name <mail> seconds zone` for a reflog line. As in Git, a guessed identity is
    /// allowed here; only an invalid date is an error.
    pub fn committer(&self) -> Result<BString, Error> {
        let user = LazyCell::new(sys::user::current);
        let configured = |key: &str| {
            let of = |who: &str| self.config_str(&format!("{who}.{key}"));
            let own = of("committer").filter(|value| !value.is_empty()).or_else(|| of("user"));
            // If any identity is configured, the missing part is empty and not guessed.
            own.or_else(|| of("author").or_else(|| of("committer")).map(|_| BString::default()))
        };
        let set = |name: &str| self.env.bytes(name).map(ToOwned::to_owned);

        let name = set("GIT_COMMITTER_NAME").or_else(|| configured("name"));
        let name = name.unwrap_or_else(|| guess_name(user.as_ref()).trim().into());
        let login = || user.as_ref().map_or("unknown".into(), |user| user.name.as_slice().into());
        let name = if name.is_empty() { login() } else { name };
        let mail = set("GIT_COMMITTER_EMAIL")
            .or_else(|| configured("email"))
            .or_else(|| set("EMAIL").filter(|mail| !mail.is_empty()))
            .unwrap_or_else(|| guess_mail(user.as_ref()));
        let date = match self.env.bytes("GIT_COMMITTER_DATE").filter(|date| !date.is_empty()) {
            Some(date) => parse_date(date)?,
            None => now(),
        };
        let date = date.to_string();
        let parts: [&[u8]; 5] =
            [&clean(name.as_bstr()), b" <", &clean(mail.as_bstr()), b"> ", date.as_bytes()];
        Ok(bstr::concat(parts).into())
    }
}

/// Returns an error if the environment names an invalid date for the committer.
pub fn check_committer_date(env: &Env) -> Result<(), Error> {
    match env.bytes("GIT_COMMITTER_DATE").filter(|date| !date.is_empty()) {
        Some(date) => parse_date(date).map(drop),
        None => Ok(()),
    }
}

/// Removes characters that an identity must not contain: punctuation and blanks at both ends, and
/// the three delimiters inside.
fn clean(text: &BStr) -> BString {
    let is_crud = |c: char| c <= ' ' || matches!(c, ',' | ':' | ';' | '<' | '>' | '"' | '\\' | '\'');
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

/// Returns `login@host`; the host comes from `/etc/mailname` or is the host name. Git marks a host
/// without a domain.
fn guess_mail(user: Option<&sys::user::User>) -> BString {
    let mut mail = BString::from(user.map_or(&b"unknown"[..], |user| &user.name));
    mail.push(b'@');
    let mailname = disk::read_optional(Path::new("/etc/mailname")).ok().flatten().unwrap_or_default();
    if let Some(name) = mailname.lines().next().map(|line| line.trim()).filter(|name| !name.is_empty()) {
        mail.extend_from_slice(name);
        return mail;
    }
    let host = sys::user::host_name();
    mail.extend_from_slice(&host);
    if !host.contains(&b'.') {
        mail.extend_from_slice(b".(none)");
    }
    mail
}

fn parse_date(text: &BStr) -> Result<date::Time, Error> {
    date::parse(text, seconds_now()).ok_or_else(|| ConfigError::Date(text.to_owned()).into())
}

/// Parses any date that Git documents, including relative ones. Only relative dates search the time
/// zone database.
pub(crate) fn parse_time(text: &BStr) -> Option<gix_date::Time> {
    let text = text.to_str().ok()?;
    let relative = || gix_date::parse(text, Some(gix_date::Zoned::now()));
    gix_date::parse(text, None).or_else(|_| relative()).ok()
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
