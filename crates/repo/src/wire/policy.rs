//! The permission to use a transport.
//!
//! Source: git-config(1) `protocol.allow`, git(1) `GIT_ALLOW_PROTOCOL` and
//! `GIT_PROTOCOL_FROM_USER`.

use bstr::{BStr, ByteSlice};

use super::Error;
use crate::{Env, config::Config};

/// Returns an error if environment or configuration forbid the transport.
pub(super) fn check(config: &Config, env: &Env, protocol: &BStr) -> Result<(), Error> {
    match is_allowed(config, env, protocol)? {
        true => Ok(()),
        false => Err(Error::Forbidden(protocol.into())),
    }
}

fn is_allowed(config: &Config, env: &Env, protocol: &BStr) -> Result<bool, Error> {
    if let Some(list) = env.bytes("GIT_ALLOW_PROTOCOL") {
        return Ok(list.split_str(":").any(|name| name == protocol.as_bytes()));
    }
    let keys = [format!("protocol.{protocol}.allow"), "protocol.allow".into()];
    let configured = keys.iter().find_map(|key| Some((key, config.string(key)?)));
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
        Allow::FromUser => Ok(env.boolean("GIT_PROTOCOL_FROM_USER")?.unwrap_or(true)),
    }
}

enum Allow {
    Always,
    Never,
    /// Allowed only for a URL that the user typed, not for one from `.gitmodules`.
    FromUser,
}
