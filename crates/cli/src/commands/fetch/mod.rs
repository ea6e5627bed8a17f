//! `sapwood fetch`.
//!
//! Order: options and configuration; bundles (`bundles.rs`); the choice of remotes (`which.rs`);
//! one remote in this process (`one.rs`), or each of several in a separate process (`many.rs`); the
//! commit-graph, if requested; `maintenance run --auto`. Other commands fetch missing objects
//! through `lazy.rs`.

mod bundles;
mod context;
mod lazy;
mod many;
mod obstacles;
mod one;
mod options;
mod remote_selection;
mod report;
mod submodules;
mod table;

use bstr::{BString, ByteSlice as _};
use engine::fetch::negotiate::Algorithm;

pub(crate) use self::{lazy::Fetcher, options::recurse};

use self::{
    context::FetchContext,
    options::{Request, TABLE},
    table::Form,
};
use crate::{
    commands::{
        obstacles::{CONFIGURED_HOOKS, GENERAL, RULES},
        record::{Check, Command, Group},
    },
    session::{
        invocation::Invocation,
        settings::{Reader, Settings, refused},
    },
    term::failure::Failure,
};

/// The record of `fetch`.
pub(super) const COMMAND: Command = Command {
    name: "fetch",
    summary: "Download objects and refs from another repository",
    about: "Fetches branches and tags from one or more repositories, with the objects that they need. Refs \
            change only after all objects are here, checked and durable.",
    group: Group::Changes,
    syntax: &TABLE,
    settings: &[obstacles::SETTINGS, GENERAL],
    unserved: crate::commands::obstacles::LISTING,
    variables: &[obstacles::VARIABLES],
    checks: &[&[
        RULES,
        CONFIGURED_HOOKS,
        Check::new(
            "`info/grafts`; a HEAD that is a symbolic link; a file `packed-refs.new`",
            obstacles::repository,
        ),
        Check::new(
            "a remote in the directory `remotes` or `branches`, with several `uploadpack`, or with \
             settings that Git refuses",
            obstacles::remote,
        ),
    ]],
    late: &["filters that the server chooses"],
    run,
    ..Command::BASE
};

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let words = TABLE.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    refused::check(&repo, &[Reader::Every, Reader::Repository])?;
    let settings = Settings::read(&repo)?;
    refused::check(&repo, &[Reader::Refs])?;
    repo.check_grafts()?;
    request.check(&repo)?;
    let form = Form::load(&repo, request.porcelain)?;
    // Git rejects an invalid value before it looks up the remote.
    Algorithm::load(&repo)?;
    let action = action(run, args);
    let context = FetchContext {
        run,
        repo: &repo,
        settings: &settings,
        request: &request,
        action: action.clone(),
        form,
    };
    let repo = if context.fetch_bundles()? {
        // The bundles' objects and refs count from now on.
        &repo.open_again()?
    } else {
        &repo
    };
    let context = FetchContext { run, repo, settings: &settings, request: &request, action, form };
    let code = match remote_selection::select(&context, &words)? {
        remote_selection::RemoteSelection::One(remote, _) if request.negotiate_only => {
            return context.negotiate_only(&remote);
        }
        remote_selection::RemoteSelection::Many(_) if request.negotiate_only => {
            return Err(Failure::fatal("must supply remote when using --negotiate-only"));
        }
        remote_selection::RemoteSelection::One(remote, refspecs) => context.one(&remote, &refspecs)?,
        remote_selection::RemoteSelection::Many(remotes) => context.many(&remotes)?,
    };
    context.write_commit_graph()?;
    context.maintain()?;
    Ok(code)
}

/// Returns the reflog message: `GIT_REFLOG_ACTION`, or the command line without passwords.
fn action(run: &Invocation, args: &[BString]) -> BString {
    if let Some(action) = run.variable("GIT_REFLOG_ACTION") {
        return action.into();
    }
    let mut action = BString::from("fetch");
    for arg in args {
        action.push(b' ');
        action.extend_from_slice(&repo::wire::url::without_credentials(arg.as_bstr()));
    }
    action
}
