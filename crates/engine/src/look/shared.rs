//! Reads `core.sharedRepository` from the configuration.

use bstr::{BString, ByteSlice as _};
use store::{BadSharedRepository, SharedRepository};

/// Returns the permissions for the last value of the key. `Some(None)` is a key without `=`.
pub fn of(value: Option<Option<BString>>) -> Result<SharedRepository, BadSharedRepository> {
    let Some(value) = value else { return Ok(SharedRepository::Umask) };
    let value = value.as_ref().map(|value| value.as_bstr());
    SharedRepository::parse(value, repo::parse_bool(value))
}
