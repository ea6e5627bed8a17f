//! Git's advice messages, each with the setting that disables it.

use engine::sparse::Patterns;

use super::Session;
use crate::term::{console, failure::Failure};

/// Prints the advice `advice.<name>`, unless the configuration disables it.
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

/// Lists the paths or pathspecs that match only entries outside the sparse checkout, with advice.
pub(crate) fn about_outside(session: Session<'_>, paths: &[impl AsRef<[u8]>]) -> Result<(), Failure> {
    if paths.is_empty() {
        return Ok(());
    }
    console::eprint_line(
        "The following paths and/or pathspecs matched paths that exist\n\
         outside of your sparse-checkout definition, so will not be\n\
         updated in the index:",
    );
    paths.iter().for_each(console::eprint_line);
    advise(
        session,
        "updateSparsePath",
        "If you intend to update such entries, try one of the following:\n\
         * Use the --sparse option.\n\
         * Disable or modify the sparsity rules.",
    )
}

/// Returns true if the sparse patterns include the path.
pub(crate) fn is_inside(patterns: Option<&Patterns>, path: &bstr::BStr) -> bool {
    patterns.is_none_or(|patterns| path.is_empty() || patterns.includes(path))
}
