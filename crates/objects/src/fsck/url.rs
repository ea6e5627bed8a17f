//! URLs of submodules that would mislead Git's remote helpers. Source: Git's `check_submodule_url`
//! and `url_normalize`.

use bstr::{BStr, ByteSlice as _};

/// Returns true if Git clones from this URL.
pub(super) fn is_safe(url: &BStr) -> bool {
    if url.starts_with(b"-") {
        return false;
    }
    let is_relative = url.starts_with(b"./") || url.starts_with(b"../");
    if is_relative || url.starts_with(b"git://") {
        return !names_newline(url) && !leaves_root(url);
    }
    match curl_address(url) {
        Some(address) => is_valid(address) && !names_newline(address),
        None => true,
    }
}

/// Returns true if the decoded text has a newline.
fn names_newline(text: &[u8]) -> bool {
    text.contains(&b'\n') || text.to_ascii_lowercase().contains_str("%0a")
}

/// Returns true if a relative URL goes up and then names a host or a remote helper.
fn leaves_root(url: &[u8]) -> bool {
    let (mut rest, mut went_up) = (url, false);
    loop {
        if let Some(after) = rest.strip_prefix(b"../") {
            (rest, went_up) = (after, true);
        } else if let Some(after) = rest.strip_prefix(b"./") {
            rest = after;
        } else {
            return went_up && matches!(rest.first(), Some(b':' | b'/'));
        }
    }
}

/// Returns the URL that Git would pass to libcurl.
fn curl_address(url: &[u8]) -> Option<&[u8]> {
    let schemes = ["http", "https", "ftp", "ftps"];
    let helper = |scheme: &&str| url.strip_prefix(scheme.as_bytes())?.strip_prefix(b"::");
    let is_plain =
        |scheme: &&str| url.strip_prefix(scheme.as_bytes()).is_some_and(|rest| rest.starts_with(b"://"));
    schemes.iter().find_map(helper).or_else(|| schemes.iter().any(is_plain).then_some(url))
}

/// Returns true if Git can normalize the URL.
fn is_valid(url: &[u8]) -> bool {
    let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+.-".contains(byte);
    let len = url.iter().take_while(|byte| is_scheme(byte)).count();
    let (scheme, rest) = url.split_at(len);
    let Some(mut rest) = rest.strip_prefix(b"://") else { return false };
    if !scheme.first().is_some_and(u8::is_ascii_alphabetic) {
        return false;
    }
    let is_file = scheme.eq_ignore_ascii_case(b"file");
    let end_of_host = |rest: &[u8]| rest.find_byteset(b"/?#").unwrap_or(rest.len());
    let at = rest.find_byte(b'@').filter(|at| *at < end_of_host(rest));
    if let Some(at) = at {
        if !has_valid_escapes(&rest[..at]) {
            return false;
        }
        rest = &rest[at + 1..];
    }
    let (host, path) = rest.split_at(end_of_host(rest));
    if matches!(host.first(), None | Some(b':')) && !is_file {
        return false;
    }
    let colon = host.iter().rposition(|byte| matches!(byte, b':' | b']')).filter(|at| host[*at] == b':');
    let (name, port) = host.split_at(colon.unwrap_or(host.len()));
    let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || b".-_[:]".contains(byte);
    let is_port = port.strip_prefix(b":").is_none_or(is_port);
    name.iter().all(is_host) && is_port && is_path(path)
}

fn is_port(port: &[u8]) -> bool {
    let digits = port.trim_start_with(|digit| digit == '0');
    match digits {
        // A port of zeros is port 0, which is invalid. An empty port is valid.
        b"" => port.is_empty(),
        digits => {
            let number = digits.to_str().ok().filter(|digits| digits.len() <= 5);
            digits.iter().all(u8::is_ascii_digit)
                && number.and_then(|digits| digits.parse::<u32>().ok()).is_some_and(|port| port <= 65_535)
        }
    }
}

/// Returns true if the path does not go above its root, and all its escapes are complete.
fn is_path(text: &[u8]) -> bool {
    let (path, _) = text.split_at(text.find_byteset(b"?#").unwrap_or(text.len()));
    let mut depth = 0_usize;
    let path = path.strip_prefix(b"/").unwrap_or(path);
    for part in path.split(|byte| *byte == b'/') {
        let plain = part.to_ascii_lowercase().replace("%2e", ".");
        match &plain[..] {
            b"." => {}
            b".." if depth == 0 => return false,
            b".." => depth -= 1,
            _ => depth += 1,
        }
    }
    has_valid_escapes(text)
}

fn has_valid_escapes(text: &[u8]) -> bool {
    let is_hex = |at: usize| text.get(at).is_some_and(u8::is_ascii_hexdigit);
    let mut escapes = text.iter().enumerate().filter(|(_, byte)| **byte == b'%');
    escapes.all(|(at, _)| is_hex(at + 1) && is_hex(at + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judges_as_git_does() {
        for url in [
            "a/b",
            "../a",
            "../../a:b",
            "./a",
            "git://host/a",
            "https://user:pw@host:443/a/../b?x#y",
            "https::https://host/",
            "http://[::1]:80/x",
            "ssh://host/%0a",
            "host:path",
        ] {
            assert!(is_safe(url.into()), "{url}");
        }
        for url in [
            "-u",
            "../%0aa",
            "git://host/a%0A",
            "../:host/a",
            ".././/host",
            "https:///host",
            "https://host:0/",
            "https://host:99999/",
            "https://ho st/",
            "https://host/%zz",
            "https://host/..",
            "https://host/a%0ab",
            "https::host",
            "http://",
        ] {
            assert!(!is_safe(url.into()), "{url}");
        }
    }
}
