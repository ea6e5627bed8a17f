//! Proxies: `http.proxy` and curl's environment variables.

use bstr::{BStr, BString, ByteSlice};

use super::{HttpError, address::Address, settings::Settings};
use crate::{Env, wire::credential};

/// A proxy for HTTP.
#[derive(Clone, Debug)]
pub(super) struct Proxy {
    pub(super) address: Address,
    /// The value of `Proxy-Authorization`.
    pub(super) authorization: Option<BString>,
}

impl Proxy {
    /// Returns the proxy for a URL; `None` for a direct connection.
    pub(super) fn of(settings: &Settings, env: &Env, address: &Address) -> Result<Option<Proxy>, HttpError> {
        let set = |name: &str| env.bytes(name).filter(|value| !value.is_empty());
        let from_env = || {
            // In a CGI program, upper-case `HTTP_PROXY` could come from a request's header.
            let own = match address.tls {
                true => set("https_proxy").or_else(|| set("HTTPS_PROXY")),
                false => set("http_proxy"),
            };
            own.or_else(|| set("all_proxy")).or_else(|| set("ALL_PROXY"))
        };
        let text = match &settings.proxy {
            Some(text) => text.as_bstr(),
            None => from_env().unwrap_or_default(),
        };
        let no_proxy = set("no_proxy").or_else(|| set("NO_PROXY"));
        if text.is_empty() || no_proxy.is_some_and(|list| is_excepted(list, address.host_name())) {
            return Ok(None);
        }
        let has_scheme = text.contains_str("://");
        let whole = if has_scheme { text.to_owned() } else { [b"http://", text.as_bytes()].concat().into() };
        let parsed = Address::parse(&whole).filter(|parsed| !parsed.tls);
        let Some(mut parsed) = parsed else {
            let reason = match has_scheme {
                true => {
                    format!("the proxy '{text}' has a scheme that sapwood's own HTTP client does not speak")
                }
                false => format!("Invalid proxy URL '{text}'"),
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
