//! Git's advice, each with the setting that disables it.

use bstr::{BStr, BString};
use engine::sparse::Patterns;
use repo::keys::{self, Key};

use crate::{Error, context::Context, notice::Notice};

/// Reports the advice, unless the configuration disables it.
pub fn advise(context: Context<'_>, key: Key<bool>, text: impl Into<BString>) -> Result<(), Error> {
    if context.advises(key)? {
        let is_default = context.repo.config_str(&key).is_none();
        context.events.notice(Notice::Advice { name: key.name(), text: text.into(), is_default });
    }
    Ok(())
}

/// Reports the paths or pathspecs that match only entries outside the sparse checkout, with advice.
pub fn about_outside(context: Context<'_>, paths: &[impl AsRef<[u8]>]) -> Result<(), Error> {
    if paths.is_empty() {
        return Ok(());
    }
    let paths = paths.iter().map(|path| path.as_ref().into()).collect();
    context.events.notice(Notice::OutsideSparseCheckout(paths));
    advise(
        context,
        keys::advice::UPDATE_SPARSE_PATH,
        "If you intend to update such entries, try one of the following:\n\
         * Use the --sparse option.\n\
         * Disable or modify the sparsity rules.",
    )
}

/// Returns true if the sparse patterns include the path.
pub fn is_inside(patterns: Option<&Patterns>, path: &BStr) -> bool {
    patterns.is_none_or(|patterns| path.is_empty() || patterns.includes(path))
}
