//! Writing refs, and the warnings about their names.

use bstr::BStr;
use format::{
    ObjectId,
    refname::{self, Levels},
};
use repo::{Repository, keys};
pub use store::refs::Options;
use store::refs::{Failures, RefTransaction};
use sys::{FileType, by_path};

use crate::{
    Error, PlanError,
    context::Context,
    hooks,
    notice::Notice,
    settings::refused::{self, Reader},
};

/// Returns the options for writing refs, for an operation that does not run the hook
/// `reference-transaction`. Returns an error if there is one: it may forbid the change.
pub fn options(context: Context<'_>) -> Result<Options, Error> {
    if hooks::has_reference_transaction(context)? {
        return Err(Error::ReferenceTransaction);
    }
    Ok(context.settings.refs_with_hook(context.repo)?)
}

/// Like [`options`], for a plan: the hook `reference-transaction` is Unsupported.
pub fn planned_options(context: Context<'_>) -> Result<Options, PlanError> {
    options(context).map_err(|error| match error {
        Error::ReferenceTransaction => PlanError::Unsupported("hooks 'reference-transaction'"),
        error => error.into(),
    })
}

/// Returns the options for writing refs, for an operation that runs the hook
/// `reference-transaction`. See [`check_state`].
pub fn options_with_hook(context: Context<'_>) -> Result<Options, Error> {
    refused::check(context.repo, &[Reader::Refs])?;
    Ok(context.settings.refs_with_hook(context.repo)?)
}

/// Returns an error in a state in which only Git changes refs as it does.
pub fn check_state(repo: &Repository) -> Result<(), PlanError> {
    if some_head_is_a_link(repo) {
        return Err(PlanError::Unsupported("symbolic links as HEAD"));
    }
    if !hooks::configured(repo, hooks::REFERENCE_TRANSACTION).is_empty() {
        return Err(PlanError::Unsupported("configured hooks 'reference-transaction'"));
    }
    Ok(())
}

/// Returns true if HEAD of any worktree is a symbolic link, the oldest format of a branch in HEAD.
pub fn some_head_is_a_link(repo: &Repository) -> bool {
    let linked = repo.common_dir().join("worktrees");
    let names = by_path::list(&linked).unwrap_or_default().into_iter().map(|(name, _)| name);
    let dirs = names.map(|name| linked.join(name)).chain([repo.common_dir().to_owned()]);
    dirs.map(|dir| by_path::stat(&dir.join("HEAD")))
        .any(|head| matches!(head, Ok(Some(head)) if head.file_type == FileType::Symlink))
}

/// Begins a transaction. It runs the hook `reference-transaction`, if there is one.
pub(crate) fn transaction<'a>(
    context: Context<'a>,
    options: &'a Options,
    failures: Failures,
) -> Result<RefTransaction<'a>, Error> {
    let mut transaction = RefTransaction::new(options, failures);
    if hooks::has_reference_transaction(context)? {
        transaction.observed_by(Box::new(move |stage, lines| {
            let code = hooks::reference_transaction(context, &stage.to_string(), lines);
            code.is_ok_and(|code| code == 0)
        }));
    }
    Ok(transaction)
}

/// Returns true if the name is valid for a ref, also directly in the Git directory.
pub fn is_valid(name: &BStr) -> bool {
    refname::check(name, Levels::One).is_ok()
}

/// Reports an ambiguous name, once for each of the `times` that Git looks it up.
pub fn warn_ambiguous(context: Context<'_>, spec: &BStr, times: usize) -> Result<(), Error> {
    let names = context.repo.ambiguous_names(spec)?;
    for name in names.iter().cycle().take(times * names.len()) {
        context.events.notice(Notice::AmbiguousName(name.clone()));
        let is_object_name = ObjectId::from_hex(context.repo.hash(), name).is_some();
        if is_object_name && context.advises(keys::advice::OBJECT_NAME_WARNING)? {
            context.events.notice(Notice::ObjectNameWarning);
        }
    }
    Ok(())
}
