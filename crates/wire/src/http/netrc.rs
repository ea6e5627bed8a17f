//! `~/.netrc`: user names and passwords by host, which curl uses before credential helpers.

use bstr::{BString, ByteSlice};
use sys::UserPath;

/// Returns the user name and password for a host in the file `path`. A given `user` must match.
pub(super) fn lookup(path: &UserPath, host: &str, user: Option<&BString>) -> Option<(BString, BString)> {
    let text = sys::by_path::read(std::path::Path::new(path.as_os_str())).ok().flatten()?;
    find(&text, host, user)
}

fn find(text: &[u8], host: &str, user: Option<&BString>) -> Option<(BString, BString)> {
    let mut words = text.fields();
    let (mut matches, mut login, mut password) = (false, None, None);
    loop {
        let word = words.next();
        if matches!(word, Some(b"machine" | b"default") | None) {
            if let (true, Some(login), Some(password)) = (matches, login.take(), password.take())
                && user.is_none_or(|user| *user == login)
            {
                return Some((login, password));
            }
            (login, password) = (None, None);
        }
        match word? {
            b"machine" => matches = words.next()?.eq_ignore_ascii_case(host.as_bytes()),
            b"default" => matches = true,
            b"login" => login = words.next().map(BString::from),
            b"password" => password = words.next().map(BString::from),
            // A macro extends to an empty line, and may contain anything.
            b"macdef" => return None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_hosts() {
        let text =
            b"machine a login x password y\nmachine b\n\tlogin u password v\ndefault login d password e";
        let of = |host: &str, user: Option<&str>| {
            let user = user.map(BString::from);
            find(text, host, user.as_ref()).map(|(login, password)| format!("{login}:{password}"))
        };
        assert_eq!(of("a", None), Some("x:y".into()));
        assert_eq!(of("B", Some("u")), Some("u:v".into()));
        assert_eq!(of("b", Some("other")), None);
        assert_eq!(of("c", None), Some("d:e".into()));
        assert_eq!(find(b"machine a login", "a", None), None);
    }
}
