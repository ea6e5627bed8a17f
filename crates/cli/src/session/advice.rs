//! Git's advice. See [`sapwood::advice`].

use bstr::BString;
use repo::keys::Key;
use sapwood::advice;

use super::Session;
use crate::term::failure::Failure;

/// See [`advice::advise`].
pub(crate) fn advise(session: Session<'_>, key: Key<bool>, text: impl Into<BString>) -> Result<(), Failure> {
    Ok(advice::advise(session.context(session.invocation), key, text)?)
}
