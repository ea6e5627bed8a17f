//! `sapwood pull`: a fetch, and then a fast-forward in this process, or `merge` or `rebase` of the
//! real Git.
//!
//! Order, as in Git: options and configuration; refusals that need no server; `fetch` (`fetch.rs`);
//! the commits of FETCH_HEAD; the decision; then `forward.rs`, or Git's own command with the
//! arguments that `git pull` passes to it. The decision is that of [`sapwood::pull`].

mod fetch;
mod forward;
mod heads;
mod options;

use bstr::{BString, ByteSlice as _};
use repo::{Repository, keys};
use sapwood::{
    Error, ObjectId,
    fast_forward::{self, FastForward},
    fetch::submodules::Recurse,
    pull::{self, Choice, Rebase, Step, Target},
};

use self::options::{Request, TABLE};
use crate::{
    commands::{
        diffstat, nested,
        obstacles::{GENERAL, WRITING},
        record::{Command, Group},
        submodule,
    },
    session::{
        Session, advice,
        index::Start,
        invocation::{Invocation, Program},
        settings::{Reader, Settings, refused},
    },
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// The record of `pull`.
pub(super) const COMMAND: Command = Command {
    name: "pull",
    summary: "Fetch from and integrate with another repository or a local branch",
    about: "Fetches, and brings the fetched commits into the current branch. A fast-forward is done here: \
            only files that differ are written, on as many threads as the disk can use, and nothing is \
            written if local changes would be lost. Merges and rebases are Git's, with the options that \
            `git pull` gives them.",
    group: Group::Changes,
    syntax: &TABLE,
    settings: &[GENERAL],
    checks: &[WRITING],
    late: &["verified signatures on a branch without commits"],
    run,
    ..Command::BASE
};

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let words = TABLE.parse(args)?.store(&mut request)?;
    let run = &run.with_default("GIT_REFLOG_ACTION", || action(args));
    let repo = run.open()?;
    repo.work_tree().ok_or_else(Failure::no_worktree)?;
    refused::check(&repo, &[Reader::Every, Reader::Repository])?;
    let settings = Settings::read(&repo)?;
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    if request.autostash.is_none() {
        request.autostash = repo.config(&keys::pull::AUTOSTASH)?;
    }
    let rebases_by_default = repo.config(&keys::rebase::AUTOSTASH)?;
    let recurses = match (request.recurse, repo.config(&keys::submodule::RECURSE)?) {
        (Recurse::Default, configured) => configured == Some(true),
        (recurse, _) => recurse != Recurse::Off,
    };
    if let Some(mode) = &request.cleanup
        && !["default", "verbatim", "whitespace", "strip", "scissors"].iter().any(|known| mode == known)
    {
        return Err(Failure::Fatal(text!("Invalid cleanup mode ", mode)));
    }
    let choice = pull::choose(&repo, request.ff, request.rebase)?;
    request.ff = choice.ff;
    let context = session.context(run);
    let advises = settings.advises(&repo, keys::advice::RESOLVE_CONFLICT)?;
    fast_forward::check_state(context).map_err(|error| unfinished(error, advises))?;
    let orig = repo.head()?.oid();
    let mut fork = None;
    if choice.rebase != Rebase::No {
        let autostash = request.autostash.unwrap_or(rebases_by_default);
        pull::refuse_changes(context, orig, autostash, Start::Full { dry_run: false })?;
        let mut words = words.iter().map(|word| word.as_bstr());
        fork = pull::fork_point(context, words.next(), words.next())?;
        request.autostash = Some(autostash);
    }
    if orig.is_none() && request.verifies() {
        return Err(Failure::Unserved("verified signatures on a branch without commits"));
    }
    if fetch::run(session, request.for_fetch(), &words)? != 0 {
        return Ok(1);
    }
    if request.dry_run {
        return Ok(0);
    }
    // The fetch has changed objects and refs.
    let run = &run.with_default("GIT_REFLOG_ACTION", BString::default);
    let repo = run.open()?;
    let settings = Settings::read(&repo)?;
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    Pull { session, request, choice, words, recurses }.finish(orig, fork)
}

/// Returns the message for reflogs.
fn action(args: &[BString]) -> BString {
    let mut action = BString::from("pull");
    for arg in args {
        action.push(b' ');
        action.extend_from_slice(arg);
    }
    action
}

/// Prints Git's advice about conflicts or an unfinished merge.
fn unfinished(error: Error, advises: bool) -> Failure {
    let (message, hint) = match error {
        Error::Conflicts(_) => (
            "Pulling is not possible because you have unmerged files.",
            "Fix them up in the work tree, and then use 'git add/rm <file>'\n\
             as appropriate to mark resolution and make a commit.",
        ),
        Error::UnfinishedMerge => (
            "You have not concluded your merge (MERGE_HEAD exists).",
            "Please, commit your changes before merging.",
        ),
        error => return error.into(),
    };
    console::error(message);
    if advises {
        console::hint(hint);
    }
    error.into()
}

/// A pull after its fetch.
struct Pull<'a> {
    session: Session<'a>,
    request: Request,
    choice: Choice,
    /// The repository and the refspecs.
    words: Vec<BString>,
    /// True if submodules are updated.
    recurses: bool,
}

impl Pull<'_> {
    /// Integrates the fetched commits. `orig` is the commit of HEAD before the fetch, and `fork`
    /// the fork point of the branch and its upstream.
    fn finish(self, orig: Option<ObjectId>, fork: Option<ObjectId>) -> Result<u8, Failure> {
        let Pull { session, mut request, choice, words, recurses } = self;
        let repo = session.repository;
        let current = repo.head()?.oid();
        if let (Some(orig), Some(current)) = (orig, current)
            && orig != current
        {
            forward::follow(session, orig, current)?;
        }
        let heads = pull::heads(repo)?;
        let Some(first) = heads.first().copied() else {
            return heads::none(repo, &words, choice.rebase != Rebase::No);
        };
        let Some(orig) = orig else {
            pull::must_be_one(&heads)?;
            return forward::first_commit(session, first, current);
        };
        let step = pull::decide(repo, &choice, orig, &heads).map_err(|error| diverged(session, error))?;
        let (code, kind) = match step {
            Step::Merge => (merge(session, &request, &heads)?, "--checkout"),
            Step::Rebase { onto, can_forward } => {
                let current = current.unwrap_or(orig);
                let target = Target::find(session.context(session.invocation), current, onto, fork)?;
                if recurses {
                    target.refuse_changed_submodules(repo)?;
                }
                if can_forward {
                    request.ff = Some(FastForward::Only);
                    (merge(session, &request, &heads)?, "--rebase")
                } else {
                    (rebase(session, &request, choice.rebase, &target)?, "--rebase")
                }
            }
        };
        if code == 0 && recurses { update_submodules(session, &request, kind) } else { Ok(code) }
    }
}

/// Prints Git's advice about commits that have diverged.
fn diverged(session: Session<'_>, error: Error) -> Failure {
    match &error {
        Error::Diverged { must_choose: true, .. } => console::hint(
            "You have divergent branches and need to specify how to reconcile them.\n\
             You can do so by running one of the following commands sometime before\n\
             your next pull:\n\
             \n  git config pull.rebase false  # merge\n  \
             git config pull.rebase true   # rebase\n  \
             git config pull.ff only       # fast-forward only\n\
             \n\
             You can replace \"git config\" with \"git config --global\" to set a default\n\
             preference for all repositories. You can also pass --rebase, --no-rebase,\n\
             or --ff-only on the command line to override the configured default per\n\
             invocation.\n",
        ),
        Error::Diverged { .. } => {
            let text = "Diverging branches can't be fast-forwarded, you need to either:\n\
                        \n\tgit merge --no-ff\n\
                        \n\
                        or:\n\
                        \n\tgit rebase\n\n";
            if let Err(failure) = advice::advise(session, keys::advice::DIVERGING, text) {
                return failure;
            }
        }
        _ => {}
    }
    error.into()
}

/// Merges FETCH_HEAD: in this process if the result is a fast-forward, else by Git.
fn merge(session: Session<'_>, request: &Request, heads: &[ObjectId]) -> Result<u8, Failure> {
    let Session { invocation: run, repository: repo, .. } = session;
    if let Some(commits) = forward::of_merge(session, request, heads)? {
        let form = stat_form(repo, request)?;
        return forward::merge(session, commits, request.verbosity, form);
    }
    nested::by_git(run, "merge", &request.for_merge())
}

/// Rebases by Git. Returns its exit code.
fn rebase(session: Session<'_>, request: &Request, how: Rebase, target: &Target) -> Result<u8, Failure> {
    if request.verifies() {
        console::warning("ignoring --verify-signatures for rebase");
    }
    let mut args = request.for_rebase(how);
    args.extend(["--onto".into(), target.onto.to_string().into(), target.upstream.to_string().into()]);
    nested::by_git(session.invocation, "rebase", &args)
}

/// Returns the form of the diffstat after a fast-forward; `None` for no diffstat.
fn stat_form(repo: &Repository, request: &Request) -> Result<Option<diffstat::Form>, Failure> {
    use diffstat::Form;
    if request.verbosity < 0 {
        return Ok(None);
    }
    if let Some(given) = &request.diffstat {
        return Ok(match given.as_slice() {
            b"--stat" | b"--summary" => Some(Form::Stat),
            b"--compact-summary" => Some(Form::Compact),
            _ => None,
        });
    }
    let configured = repo.config_str(&keys::merge::STAT).or_else(|| repo.config_str(&keys::merge::DIFFSTAT));
    let Some(value) = configured else { return Ok(Some(Form::Stat)) };
    Ok(match repo::parse_bool(Some(value.as_bstr())) {
        Some(false) => None,
        None if value == "compact" => Some(Form::Compact),
        _ => Some(Form::Stat),
    })
}

fn update_submodules(session: Session<'_>, request: &Request, kind: &str) -> Result<u8, Failure> {
    let run = session.invocation;
    let mut args: Vec<BString> = vec!["update".into(), "--recursive".into(), kind.into()];
    args.extend(request.verbosity());
    if run.program == Program::Sapwood && kind == "--checkout" {
        let (leaf, rest) = submodule::COMMAND.leaf(&args)?;
        match (leaf.run)(run, &rest) {
            Err(Failure::Unserved(_)) => {}
            done => return done,
        }
    }
    nested::by_git(run, submodule::COMMAND.name, &args)
}
