//! Writing refs.

use crate::{Error, context::Context, hooks};

/// Returns the options for writing refs, for an operation that does not run the hook
/// `reference-transaction`. Returns an error if there is one: it may forbid the change.
pub fn options(context: Context<'_>) -> Result<store::refs::Options, Error> {
    if hooks::has_reference_transaction(context)? {
        return Err(Error::ReferenceTransaction);
    }
    Ok(context.settings.refs_with_hook(context.repo)?)
}
