//! Proxies: `http.proxy` and curl's environment variables.

use bstr::{BStr, BString, ByteSlice};

use super::settings::UrlSettings;
use crate::{HttpError, Settings, address::Address, credential};

/// A proxy for HTTP.
#[derive(Clone, Debug)]
pub(super) struct Proxy {
    pub(super) address: Address,
    /// The value of `Proxy-Authorization`.
    pub(super) authorization: Option<BString>,
}

/// The proxies of curl's environment variables; `None` for a variable that is not set or empty.
#[derive(Clone, Debug)]
pub(super) struct DefaultProxies {
    http: Option<BString>,
    https: Option<BString>,
    /// The hosts that are reached without a proxy, even with `http.proxy`.
    excepted: Option<BString>,
}

impl DefaultProxies {
    pub(super) fn of(settings: &dyn Settings) -> DefaultProxies {
        let first = |names: &[&str]| {
            let mut values = names.iter().filter_map(|name| settings.variable(name));
            values.find(|value| !value.is_empty()).map(BStr::to_owned)
        };
        DefaultProxies {
            // In a CGI program, upper-case `HTTP_PROXY` could come from a request's header.
            http: first(&["http_proxy", "all_proxy", "ALL_PROXY"]),
            https: first(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
            excepted: first(&["no_proxy", "NO_PROXY"]),
        }
    }
}

impl Proxy {
    /// Returns the proxy for a URL; `None` for a direct connection.
    pub(super) fn of(settings: &UrlSettings, address: &Address) -> Result<Option<Proxy>, HttpError> {
        let defaults = &settings.default_proxies;
        let default = if address.tls { &defaults.https } else { &defaults.http };
        let text =
            settings.proxy.as_ref().or(default.as_ref()).map(|text| text.as_bstr()).unwrap_or_default();
        let is_excepted = |list: &BString| is_excepted(list.as_bstr(), address.host_name());
        if text.is_empty() || defaults.excepted.as_ref().is_some_and(is_excepted) {
            return Ok(None);
        }
        let has_scheme = text.contains_str("://");
        let whole = if has_scheme { text.to_owned() } else { [b"http://", text.as_bytes()].concat().into() };
        let parsed = Address::parse(&whole).filter(|parsed| !parsed.tls);
        let Some(mut parsed) = parsed else {
            let reason = if has_scheme {
                format!("the proxy '{text}' has a scheme that sapwood's own HTTP client does not speak")
            } else {
                format!("Invalid proxy URL '{text}'")
            };
            return Err(HttpError::Setting(reason));
        };
        // Port 1080 is curl's default for proxies.
        if !whole[b"http://".len()..].rsplit_str("@").next().unwrap_or_default().contains(&b':') {
            parsed.port = 1080;
        }
        // A user name without a password is completed when the proxy requests authentication.
        let authorization = match (&parsed.user, &parsed.password) {
            (Some(user), Some(password)) => Some(credential::basic(user.as_bstr(), password.as_bstr())),
            _ => None,
        };
        Ok(Some(Proxy { address: parsed, authorization }))
    }
}

/// Matches a host against a list of hosts and domains.
fn is_excepted(list: &BStr, host: &str) -> bool {
    list.split(|byte| b", ".contains(byte)).filter(|entry| !entry.is_empty()).any(|entry| {
        let entry = entry.to_str_lossy().to_ascii_lowercase();
        let domain = entry.trim_matches('.');
        entry == "*" || host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excepts_hosts_and_domains() {
        for (list, host, expected) in [
            ("*", "a.example", true),
            ("example.com", "example.com", true),
            ("x, .example.com", "www.example.com", true),
            ("example.com", "badexample.com", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("", "a", false),
        ] {
            assert_eq!(is_excepted(list.into(), host), expected, "{list} {host}");
        }
    }
}
