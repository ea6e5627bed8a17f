//! Git's advice, with the way to turn it off.

use engine::sparse::Patterns;

use super::Session;
use crate::term::{console, failure::Failure};

/// Gives the advice `advice.<name>`, if it is wanted.
pub(crate) fn advise(session: Session<'_>, name: &str, message: impl AsRef<[u8]>) -> Result<(), Failure> {
    let Session { repository: repo, settings, .. } = session;
    if settings.advises(repo, name)? {
        console::hint(message);
        if repo.config_str(&format!("advice.{name}")).is_none() {
            console::hint(format!("Disable this message with \"git config set advice.{name} false\""));
        }
    }
    Ok(())
}

/// Names the paths or pathspecs that only select what is outside of the sparse checkout.
pub(crate) fn about_outside(session: Session<'_>, paths: &[impl AsRef<[u8]>]) -> Result<(), Failure> {
    if paths.is_empty() {
        return Ok(());
    }
    console::note(
        "The following paths and/or pathspecs matched paths that exist\n\
         outside of your sparse-checkout definition, so will not be\n\
         updated in the index:",
    );
    paths.iter().for_each(console::note);
    advise(
        session,
        "updateSparsePath",
        "If you intend to update such entries, try one of the following:\n\
         * Use the --sparse option.\n\
         * Disable or modify the sparsity rules.",
    )
}

/// Returns true if the path belongs in the worktree.
pub(crate) fn is_inside(patterns: Option<&Patterns>, path: &bstr::BStr) -> bool {
    patterns.is_none_or(|patterns| path.is_empty() || patterns.includes(path))
}
