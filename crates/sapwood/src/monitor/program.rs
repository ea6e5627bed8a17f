//! A monitor program: the hook `fsmonitor-watchman`, versions 1 and 2. Source: githooks(5).

use std::time::{SystemTime, UNIX_EPOCH};

use bstr::{BStr, BString};
use engine::monitor::{Changes, Response};

use repo::keys;

use crate::{Error, context::Context, hooks, notice::Notice, trace};

/// Queries the changes since `token`. Without a token it queries the changes since now, which only
/// tests that the program responds, and returns the next token.
///
/// If `core.fsmonitorHookVersion` does not name the version, tries the newer one first.
pub(super) fn query(context: Context<'_>, command: &BStr, token: Option<BString>) -> Result<Response, Error> {
    let version = version(context)?;
    // The next query must report changes made during this one.
    let now = now();
    let token = token.unwrap_or_else(|| now.clone());
    let query = |version: &str| {
        trace::region("fsm_hook", "query");
        hooks::output_of(context, command, &[version.to_owned(), token.to_string()])
    };
    if version != Some(1) {
        match query("2") {
            Some(response) => {
                return Ok(Response::parse(&response).unwrap_or_else(|| {
                    context.events.notice(Notice::EmptyToken);
                    Response::none("")
                }));
            }
            None if version.is_some() => return Ok(Response::none("")),
            None => {}
        }
    }
    let changes = query("1").map_or(Changes::Unknown, |response| Changes::parse(&response));
    Ok(Response { token: now, changes })
}

/// Returns the configured version, if it is valid.
fn version(context: Context<'_>) -> Result<Option<i32>, Error> {
    Ok(context.repo.config(&keys::core::FSMONITOR_HOOK_VERSION)?.filter(|version| {
        let is_known = matches!(version, 1 | 2);
        if !is_known {
            context.events.notice(Notice::UnknownMonitorVersion(*version));
        }
        is_known
    }))
}

/// Nanoseconds since 1970: the token of version 1.
fn now() -> BString {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().to_string().into()
}
