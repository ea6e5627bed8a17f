//! Proxies: `http.proxy` and curl's environment variables.

use std::net::IpAddr;

use bstr::{BStr, BString, ByteSlice};

use crate::{Address, basic, without_user};

/// A proxy for HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Its address.
    pub address: Address,
    /// The value of `Proxy-Authorization`.
    pub authorization: Option<BString>,
}

/// The proxies that settings and environment name.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    /// `http.proxy`: empty for a direct connection, `None` for the proxies of the environment.
    pub configured: Option<BString>,
    http: Option<BString>,
    https: Option<BString>,
    /// The hosts that are reached without a proxy, even with `http.proxy`.
    excepted: Option<BString>,
}

impl Proxies {
    /// Reads curl's environment variables.
    pub fn of(configured: Option<BString>, variable: &dyn Fn(&str) -> Option<BString>) -> Proxies {
        let first = |names: &[&str]| {
            let mut values = names.iter().filter_map(|name| variable(name));
            values.find(|value| !value.is_empty())
        };
        Proxies {
            configured,
            // In a CGI program, upper-case `HTTP_PROXY` could come from a request's header.
            http: first(&["http_proxy", "all_proxy", "ALL_PROXY"]),
            https: first(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
            excepted: first(&["no_proxy", "NO_PROXY"]),
        }
    }

    /// Returns the proxy for a URL; `None` for a direct connection. The error is a message.
    pub fn for_address(&self, address: &Address) -> Result<Option<Proxy>, String> {
        let default = if address.tls { &self.https } else { &self.http };
        let text =
            self.configured.as_ref().or(default.as_ref()).map(|text| text.as_bstr()).unwrap_or_default();
        let is_excepted = |list: &BString| is_excepted(list.as_bstr(), address.host_name());
        if text.is_empty() || self.excepted.as_ref().is_some_and(is_excepted) {
            return Ok(None);
        }
        Proxy::parse(text).map(Some)
    }
}

impl Proxy {
    /// Parses the URL of a proxy, with or without a scheme. The error is a message.
    pub fn parse(text: &BStr) -> Result<Proxy, String> {
        let has_scheme = text.contains_str("://");
        let whole = if has_scheme { text.to_owned() } else { [b"http://", text.as_bytes()].concat().into() };
        let Some(mut parsed) = Address::parse(&whole) else {
            let text = without_user(text);
            return Err(if has_scheme {
                format!("the proxy '{text}' has a scheme that sapwood's own HTTP client does not speak")
            } else {
                format!("Invalid proxy URL '{text}'")
            });
        };
        // Port 1080 is curl's default for proxies without TLS.
        let place = whole.split_once_str("://").unwrap_or_default().1.rsplit_str("@").next();
        if !parsed.tls && !place.unwrap_or_default().contains(&b':') {
            parsed.port = 1080;
        }
        // A user name without a password is completed when the proxy requests authentication.
        let authorization = match (&parsed.user, &parsed.password) {
            (Some(user), Some(password)) => Some(basic(user, password)),
            _ => None,
        };
        Ok(Proxy { address: parsed, authorization })
    }

    /// Returns the value of `Proxy-Authorization` for a client that cannot ask for a password: a
    /// user name without one has an empty one, as in curl.
    pub fn authorization_without_asking(&self) -> Option<BString> {
        let user = || self.address.user.as_ref().map(|user| basic(user, b""));
        self.authorization.clone().or_else(user)
    }
}

/// Matches a host against a list of hosts, domains and networks.
fn is_excepted(list: &BStr, host: &str) -> bool {
    let address: Option<IpAddr> = host.parse().ok();
    list.split(|byte| b", ".contains(byte)).filter(|entry| !entry.is_empty()).any(|entry| {
        let entry = entry.to_str_lossy().to_ascii_lowercase();
        if let (Some(address), Some((network, bits))) = (address, entry.split_once('/')) {
            return is_inside(address, network, bits);
        }
        let domain = entry.trim_matches('.');
        entry == "*" || host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
    })
}

/// Returns true if an address is in the network `network/bits`.
fn is_inside(address: IpAddr, network: &str, bits: &str) -> bool {
    let wide = |address: IpAddr| match address {
        IpAddr::V4(four) => (u128::from(four.to_bits()) << 96, 32),
        IpAddr::V6(six) => (six.to_bits(), 128),
    };
    let (Ok(network), Ok(bits)) = (network.parse::<IpAddr>(), bits.parse::<u32>()) else { return false };
    let ((one, width), (other, same)) = (wide(address), wide(network));
    width == same && bits <= width && (bits == 0 || (one ^ other) >> (128 - bits) == 0)
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
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("10.0.0.0/33", "10.1.2.3", false),
            ("10.0.0.0/8", "::1", false),
            ("0.0.0.0/0", "11.1.2.3", true),
            ("fd00::/8", "fd12::1", true),
            ("", "a", false),
        ] {
            assert_eq!(is_excepted(list.into(), host), expected, "{list} {host}");
        }
    }

    #[test]
    fn reads_addresses_of_proxies() {
        let port =
            |text: &str| Proxy::parse(text.into()).map(|proxy| (proxy.address.tls, proxy.address.port));
        assert_eq!(port("a"), Ok((false, 1080)));
        assert_eq!(port("http://u:p@a:3"), Ok((false, 3)));
        assert_eq!(port("https://a"), Ok((true, 443)));
        assert!(port("socks5://a").is_err_and(|text| text.contains("scheme")));
        assert!(port("a b").is_err_and(|text| text.contains("Invalid")));
        for text in ["u:secret@a b", "socks5://u:secret@a", "http://u:sec/ret@a", "u:secret://x@a b"] {
            let error = Proxy::parse(text.into()).expect_err(text);
            assert!(!error.contains("sec") && !error.contains("ret"), "{error}");
        }
    }

    #[test]
    fn one_variable_counts_in_lower_case_alone() {
        let chosen = |name: &str, url: &str| {
            let proxies = Proxies::of(None, &|known| (known == name).then(|| "p".into()));
            let address = Address::parse(url.as_bytes()).expect("valid");
            proxies.for_address(&address).expect("valid").is_some()
        };
        for (name, for_http, for_https) in [
            ("http_proxy", true, false),
            ("HTTP_PROXY", false, false),
            ("https_proxy", false, true),
            ("HTTPS_PROXY", false, true),
            ("all_proxy", true, true),
            ("ALL_PROXY", true, true),
        ] {
            assert_eq!(
                (chosen(name, "http://h/"), chosen(name, "https://h/")),
                (for_http, for_https),
                "{name}"
            );
        }
    }

    #[test]
    fn a_user_without_a_password_has_an_empty_one() {
        for (text, value) in [("http://u:p@a", "Basic dTpw"), ("http://u@a", "Basic dTo=")] {
            let proxy = Proxy::parse(text.into()).expect("valid");
            assert_eq!(proxy.authorization_without_asking(), Some(value.into()), "{text}");
        }
        let proxy = Proxy::parse("http://a".into()).expect("valid");
        assert_eq!(proxy.authorization_without_asking(), None);
    }
}
