//! The upper layer of a workspace: everything in which it differs from its base.

use bstr::BString;

/// Returns the token of an upper layer that holds only `.git`, on the base with this name. It needs
/// no snapshot.
pub fn token_of_empty(base_name: &str) -> BString {
    format!("sapwood-1.{base_name}.empty").into()
}
