//! `GIT_CONFIG_PARAMETERS`: the settings of the command line, for child processes.

use std::ffi::OsString;

use bstr::{BStr, BString, ByteSlice as _};
use format::shell;

/// Appends the settings of the command line (`-c key=value`) to `GIT_CONFIG_PARAMETERS`. Returns
/// `None` if there are none.
pub fn config_parameters(before: Option<&BStr>, config: &[BString]) -> Option<OsString> {
    if config.is_empty() {
        return None;
    }
    let mut parameters = before.unwrap_or_default().to_owned();
    for text in config {
        let (key, value) = match text.split_once_str("=") {
            Some((key, value)) => (key, Some(value)),
            None => (text.as_slice(), None),
        };
        if !parameters.is_empty() {
            parameters.push(b' ');
        }
        parameters.extend_from_slice(&shell::quote(key.as_bstr()));
        parameters.push(b'=');
        parameters.extend(value.map(|value| shell::quote(value.as_bstr())).unwrap_or_default().iter());
    }
    Some(sys::os_str(&parameters).to_owned())
}
