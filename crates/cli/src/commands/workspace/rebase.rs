//! `workspace rebase`. See [`sapwood::workspace::rebase`].

use bstr::{BStr, BString, ByteSlice as _};
use engine::workspace::{backend::Backend, record};
use sapwood::workspace::rebase::{self, Exchange, Rebase, Replacement};
use serde_json::json;

use super::{
    build,
    context::{self, Context},
    mounts,
    request::{REBASE, Request},
};
use crate::{
    commands::checkout::{
        branch,
        request::{self as checkout, Variant},
    },
    session::{Session, invocation::Invocation, settings::Settings},
    term::failure::Failure,
};

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let words = REBASE.parse(args)?.store(&mut request)?;
    let [name, commit] = words.as_slice() else {
        return Err(Failure::fatal("name a workspace and a commit"));
    };
    let (context, commit) = (Context::open(run)?, commit.as_bstr());
    let workspace = context.find(name.as_bstr())?;
    workspace.refuse_sealed("workspace rebase")?;
    let _lock = workspace.lock(&context.repo.trust())?;
    let worktree_context = context.worktree_context();
    let (worktrees, settings) = (&*worktree_context, &*context.settings);
    let workspace = &rebase::recover(worktrees, settings, &workspace)?;
    rebase::check(workspace)?;
    let rebase = Rebase { worktrees, settings, workspace };
    let code = if rebase::shares_base(workspace) {
        let progress = build::shows(None, request.quiet || request.json);
        rebase.run(commit, Some(progress), |exchange| {
            if workspace.record.backend == Backend::OverlayUser {
                mounts::join(workspace)?;
            }
            switch(run, rebase, commit, &request, Some(exchange))
        })?
    } else {
        switch(run, rebase, commit, &request, None)?
    };
    if request.json {
        let base = record::find(&context.common, &workspace.name)?.record.base.map(|base| base.name);
        context::print_document(
            json!({"name": workspace.name.to_string_lossy(), "base": base, "rebased": code == 0}),
        );
    }
    Ok(code)
}

/// Switches the workspace to the branch or commit called `name`, with another base if one is given.
/// Returns the exit code.
fn switch(
    run: &Invocation,
    rebase: Rebase<'_>,
    name: &BStr,
    request: &Request,
    exchange: Option<Exchange<'_>>,
) -> Result<u8, Failure> {
    let repo = rebase.open()?;
    // A crash after the rebase must not take the index: the files are those of the new base.
    let settings = Settings::read(&repo)?.for_recording();
    let source = rebase::source(&repo, name)?;
    let mut switch = checkout::Request::new(Variant::Switch);
    switch.quiet = request.quiet || request.json;
    switch.detach = request.detach || source.branch.is_none();
    let context = Session { invocation: run, repository: &repo, settings: &settings }.context(run);
    let replacement =
        exchange.map(|exchange| Replacement::new(rebase, context, &source, exchange)).transpose()?;
    branch::run_with(run, &repo, &settings, switch, Some(source), replacement.as_ref())
}
