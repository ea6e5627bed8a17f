//! The permission to use a transport.
//!
//! Source: git-config(1) `protocol.allow`, git(1) `GIT_ALLOW_PROTOCOL` and
//! `GIT_PROTOCOL_FROM_USER`.

use bstr::{BStr, ByteSlice};
use format::keys;

use super::{Error, Settings, settings::boolean_variable};

/// Returns an error if environment or configuration forbid the transport.
pub(super) fn check(settings: &dyn Settings, protocol: &BStr) -> Result<(), Error> {
    if is_allowed(settings, protocol)? { Ok(()) } else { Err(Error::Forbidden(protocol.into())) }
}

fn is_allowed(settings: &dyn Settings, protocol: &BStr) -> Result<bool, Error> {
    if let Some(list) = settings.variable("GIT_ALLOW_PROTOCOL") {
        return Ok(list.split_str(":").any(|name| name == protocol.as_bytes()));
    }
    let own = keys::protocol::ALLOW_ONE.of(protocol);
    let keys = [own.name(), keys::protocol::ALLOW.name()];
    let configured = keys.iter().find_map(|key| Some((key, settings.string(key)?)));
    let value = match (configured, protocol.as_bytes()) {
        (Some((key, value)), _) => match value.to_ascii_lowercase().as_slice() {
            b"always" => Allow::Always,
            b"never" => Allow::Never,
            b"user" => Allow::FromUser,
            _ => return Err(Error::Message(format!("unknown value for config '{key}': {value}"))),
        },
        (None, b"http" | b"https" | b"git" | b"ssh") => Allow::Always,
        (None, b"ext") => Allow::Never,
        (None, _) => Allow::FromUser,
    };
    match value {
        Allow::Always => Ok(true),
        Allow::Never => Ok(false),
        Allow::FromUser => Ok(boolean_variable(settings, "GIT_PROTOCOL_FROM_USER")?.unwrap_or(true)),
    }
}

enum Allow {
    Always,
    Never,
    /// Allowed only for a URL that the user typed, not for one from `.gitmodules`.
    FromUser,
}
