//! Errors about values, and paths in values.

use bstr::{BStr, ByteSlice};
use sys::UserPath;

use crate::{ConfigError, Env, Error};

/// Returns Git's error about a value that is not a boolean.
pub(crate) fn bad_boolean(value: &BStr, key: &BStr) -> Error {
    ConfigError::Boolean { key: key.to_owned(), value: value.to_owned() }.into()
}

/// Expands a leading `~/` or `~user/`; returns `None` if there is no such home directory.
pub(crate) fn interpolate(value: &BStr, env: &Env) -> Option<UserPath> {
    if let Some(rest) = value.strip_prefix(b"%(prefix)/") {
        return Some(UserPath::new([b"/usr/", rest].concat()));
    }
    let Some(rest) = value.strip_prefix(b"~") else {
        return Some(UserPath::new(value));
    };
    let (user, rest) = match rest.find_byte(b'/') {
        Some(slash) => rest.split_at(slash),
        None => (rest, &b""[..]),
    };
    let home =
        if user.is_empty() { env.path("HOME")? } else { UserPath::from(sys::user::by_name(user)?.home) };
    Some(UserPath::new([home.as_bytes(), rest].concat()))
}
