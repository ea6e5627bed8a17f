//! `http.*` for one URL, and the variables that override it.

use std::{path::PathBuf, time::Duration};

use ::http::{
    Address, Proxies,
    tls::{OldestTls, TlsSettings},
};
use bstr::{BStr, BString, ByteSlice};
use format::config;
use sys::UserPath;

use crate::{
    Error, HttpError, Settings,
    matching::{self, Choice},
};

/// The redirects that are followed: `http.followRedirects`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Redirects {
    Always,
    Never,
    /// Only those of the first request.
    Initial,
}

/// The credentials that are sent with the first request: `http.proactiveAuth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proactive {
    None,
    /// Basic, or the scheme that a credential helper chooses.
    Auto,
    Basic,
}

/// The settings for one URL.
#[derive(Clone, Debug)]
pub(super) struct UrlSettings {
    pub(super) tls: TlsSettings,
    /// The settings for proxies with TLS. As in Git, those for the server say nothing about them.
    pub(super) proxy_tls: TlsSettings,
    pub(super) redirects: Redirects,
    pub(super) proactive: Proactive,
    /// `http.extraHeader`, in order.
    pub(super) extra_headers: Vec<BString>,
    pub(super) user_agent: BString,
    /// `http.proxy`, and the proxies of curl's environment variables.
    pub(super) proxies: Proxies,
    /// `http.cookieFile` is set. An empty one keeps received cookies in memory.
    pub(super) keeps_cookies: bool,
    pub(super) cookie_file: Option<PathBuf>,
    pub(super) saves_cookies: bool,
    pub(super) low_speed: Option<(u64, Duration)>,
    /// The seconds to wait before a retry after status 429 without `Retry-After`.
    pub(super) retry_after: u64,
    pub(super) max_retries: u64,
    pub(super) max_retry_time: u64,
    pub(super) accept_language: Option<String>,
    /// `~/.netrc`, which may not exist; `None` without `HOME`.
    pub(super) netrc: Option<UserPath>,
}

impl UrlSettings {
    /// Reads the settings for a URL.
    pub(super) fn load(all: &dyn Settings, address: &Address) -> Result<UrlSettings, Error> {
        let mut settings = UrlSettings::new(all);
        let (mut low_limit, mut low_time) = (0, 0);
        for (name, value) in matching::settings(all.entries(), "http", address, Choice::Best) {
            let text = value.unwrap_or(BStr::new(""));
            let key = || format!("http.{name}");
            let path = || all.path(text);
            let boolean = || {
                let parsed = config::parse_bool(value);
                parsed.ok_or_else(|| Error::Boolean { key: key(), value: text.to_owned() })
            };
            let number = || {
                let parsed = config::parse_unsigned(text);
                parsed.map_err(|reason| {
                    HttpError::Setting(format!(
                        "bad numeric config value '{text}' for 'http.{name}': {reason}"
                    ))
                })
            };
            match name.as_bytes() {
                b"sslverify" => settings.tls.verify = boolean()?,
                b"sslcainfo" => settings.tls.ca_file = path()?,
                b"sslcapath" => settings.tls.ca_dir = path()?,
                b"sslcert" => settings.tls.certificate = path()?,
                b"sslkey" => settings.tls.key = path()?,
                b"proxysslcainfo" => settings.proxy_tls.ca_file = path()?,
                b"proxysslcert" => settings.proxy_tls.certificate = path()?,
                b"proxysslkey" => settings.proxy_tls.key = path()?,
                b"sslversion" => settings.tls.oldest = oldest(text),
                b"followredirects" if text == "initial" => settings.redirects = Redirects::Initial,
                b"followredirects" => {
                    settings.redirects = if boolean()? { Redirects::Always } else { Redirects::Never };
                }
                b"proactiveauth" => settings.proactive = proactive(text)?,
                b"extraheader" if text.is_empty() => settings.extra_headers.clear(),
                b"extraheader" => settings.extra_headers.push(line(&key(), text)?),
                b"useragent" => settings.user_agent = line(&key(), text)?,
                b"proxy" => settings.proxies.configured = Some(text.to_owned()),
                b"cookiefile" => {
                    (settings.keeps_cookies, settings.cookie_file) = (true, path()?);
                }
                b"savecookies" => settings.saves_cookies = boolean()?,
                b"lowspeedlimit" => low_limit = number()?,
                b"lowspeedtime" => low_time = number()?,
                b"retryafter" => settings.retry_after = number()?,
                b"maxretries" => settings.max_retries = number()?,
                b"maxretrytime" => settings.max_retry_time = number()?,
                _ if is_unknown(name, text) => {
                    let text = format!("sapwood's own HTTP client does not know 'http.{name}={text}'");
                    return Err(HttpError::Setting(text).into());
                }
                _ => {}
            }
        }
        let variable = |name: &str| all.variable(name).and_then(|text| config::parse_unsigned(text).ok());
        low_limit = variable("GIT_HTTP_LOW_SPEED_LIMIT").unwrap_or(low_limit);
        low_time = variable("GIT_HTTP_LOW_SPEED_TIME").unwrap_or(low_time);
        if low_limit > 0 && low_time > 0 {
            settings.low_speed = Some((low_limit, Duration::from_secs(low_time)));
        }
        settings.override_by(all)?;
        Ok(settings)
    }

    fn new(all: &dyn Settings) -> UrlSettings {
        UrlSettings {
            tls: TlsSettings::default(),
            proxy_tls: TlsSettings::default(),
            redirects: Redirects::Initial,
            proactive: Proactive::None,
            extra_headers: Vec::new(),
            // Servers recognize Git by this prefix.
            user_agent: concat!("git/sapwood-", env!("CARGO_PKG_VERSION")).into(),
            proxies: Proxies::of(None, &|name| all.variable(name).map(BStr::to_owned)),
            keeps_cookies: false,
            cookie_file: None,
            saves_cookies: false,
            low_speed: None,
            retry_after: 0,
            max_retries: 0,
            max_retry_time: 300,
            accept_language: accept_language(&|name| all.variable(name)),
            netrc: all.variable("HOME").map(|home| UserPath::new(home).with(".netrc")),
        }
    }

    /// Applies the variables of the environment.
    fn override_by(&mut self, all: &dyn Settings) -> Result<(), HttpError> {
        let path = |name: &str| all.variable(name).map(|path| PathBuf::from(sys::os_str(path)));
        if all.variable("GIT_SSL_NO_VERIFY").is_some() {
            self.tls.verify = false;
        }
        if let Some(version) = all.variable("GIT_SSL_VERSION").filter(|version| !version.is_empty()) {
            self.tls.oldest = oldest(version);
        }
        self.tls.certificate = path("GIT_SSL_CERT").or(self.tls.certificate.take());
        self.tls.key = path("GIT_SSL_KEY").or(self.tls.key.take());
        self.tls.ca_dir = path("GIT_SSL_CAPATH").or(self.tls.ca_dir.take());
        self.tls.ca_file = path("GIT_SSL_CAINFO").or(self.tls.ca_file.take());
        self.proxy_tls.certificate = path("GIT_PROXY_SSL_CERT").or(self.proxy_tls.certificate.take());
        self.proxy_tls.key = path("GIT_PROXY_SSL_KEY").or(self.proxy_tls.key.take());
        self.proxy_tls.ca_file = path("GIT_PROXY_SSL_CAINFO").or(self.proxy_tls.ca_file.take());
        if let Some(agent) = all.variable("GIT_HTTP_USER_AGENT") {
            self.user_agent = line("GIT_HTTP_USER_AGENT", agent)?;
        }
        let variable = |name: &str| all.variable(name).and_then(|text| config::parse_unsigned(text).ok());
        self.retry_after = variable("GIT_HTTP_RETRY_AFTER").unwrap_or(self.retry_after);
        self.max_retries = variable("GIT_HTTP_MAX_RETRIES").unwrap_or(self.max_retries);
        self.max_retry_time = variable("GIT_HTTP_MAX_RETRY_TIME").unwrap_or(self.max_retry_time);
        Ok(())
    }
}

/// Returns a text for a header, which must be one line.
fn line(name: &str, text: &BStr) -> Result<BString, HttpError> {
    if text.iter().any(|byte| b"\r\n\0".contains(byte)) {
        return Err(HttpError::Setting(format!("bad value of {name}: it has a line end or a NUL")));
    }
    Ok(text.to_owned())
}

/// Returns true if the value of a setting requests a feature that only Git's remote helper has.
fn is_unknown(name: &BStr, value: &BStr) -> bool {
    let harmless: &[&str] = match name.as_bytes() {
        b"proxyauthmethod" => &["anyauth", "basic"],
        b"delegation" => &["none"],
        b"sslcerttype" | b"sslkeytype" => &["PEM", "pem"],
        b"sslcertpasswordprotected" | b"proxysslcertpasswordprotected" => &["false", "no", "off", "0"],
        b"curloptresolve" | b"sslcipherlist" | b"pinnedpubkey" => &[],
        _ => return false,
    };
    !value.is_empty() && !harmless.iter().any(|word| value == *word)
}

/// Versions older than 1.2 are not supported.
fn oldest(value: &BStr) -> OldestTls {
    if value == "tlsv1.3" { OldestTls::V13 } else { OldestTls::V12 }
}

fn proactive(value: &BStr) -> Result<Proactive, HttpError> {
    match value.as_bytes() {
        b"auto" => Ok(Proactive::Auto),
        b"basic" => Ok(Proactive::Basic),
        b"none" => Ok(Proactive::None),
        _ => Err(HttpError::Setting(format!("Unknown value for http.proactiveauth: '{value}'"))),
    }
}

/// Returns the header `Accept-Language` for the user's languages.
fn accept_language<'v>(variable: &dyn Fn(&str) -> Option<&'v BStr>) -> Option<String> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_MESSAGES")).or_else(|| set("LANG"));
    let list = match set("LANGUAGE") {
        Some(list) => list,
        None => locale.filter(|locale| !is_plain(locale))?,
    };
    let tags: Vec<String> = list
        .split_str(":")
        .map(|tag| &tag[..tag.find_byteset(b".@").unwrap_or(tag.len())])
        .filter(|tag| !tag.is_empty())
        .map(|tag| tag.to_str_lossy().replace('_', "-"))
        .collect();
    if tags.is_empty() {
        return None;
    }
    let count = tags.len() + 1;
    // Weights decrease from 1 in equal steps, with as many decimals as the steps need.
    let decimals = match count {
        ..=10 => 1,
        11..=100 => 2,
        _ => 3,
    };
    let scale = 10_usize.pow(decimals as u32);
    let weighted = tags.iter().map(String::as_str).chain(["*"]).take(1000).enumerate();
    let words = weighted.map(|(at, tag)| match at {
        0 => tag.to_owned(),
        _ => format!("{tag};q=0.{:0decimals$}", scale.saturating_sub(at).max(1)),
    });
    Some(words.collect::<Vec<_>>().join(", "))
}

fn is_plain(locale: &[u8]) -> bool {
    let name = &locale[..locale.find_byte(b'.').unwrap_or(locale.len())];
    name == b"C" || name == b"POSIX"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn languages(variables: &[(&str, &str)]) -> Option<String> {
        accept_language(&|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| BStr::new(*value))
        })
    }

    #[test]
    fn weighs_languages_as_git() {
        assert_eq!(languages(&[("LANGUAGE", "ko_KR.UTF-8")]), Some("ko-KR, *;q=0.9".into()));
        assert_eq!(
            languages(&[("LANGUAGE", "ko_KR.UTF-8@euro:en_US.UTF-8"), ("LANG", "C")]),
            Some("ko-KR, en-US;q=0.9, *;q=0.8".into())
        );
        assert_eq!(languages(&[("LANG", "de_DE.UTF-8")]), Some("de-DE, *;q=0.9".into()));
        assert_eq!(languages(&[("LC_ALL", "C.UTF-8")]), None);
        assert_eq!(languages(&[]), None);
    }
}
