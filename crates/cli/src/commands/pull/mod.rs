//! `sapwood pull`: a fetch, and then a fast-forward in this process, or `merge` or `rebase` of the
//! real Git.
//!
//! Order, as in Git: options and configuration; refusals that need no server; `fetch` (`fetch.rs`);
//! the commits of FETCH_HEAD (`heads.rs`); the decision; then `forward.rs`, or Git's own command
//! with the arguments that `git pull` passes to it (`rebase.rs`).

mod clean;
mod fetch;
mod forward;
mod heads;
mod options;
mod rebase;

use bstr::{BString, ByteSlice as _};
use engine::switch::state;
use repo::{Repository, keys};
use sapwood::ObjectId;

use self::{
    forward::Forward,
    options::{Rebase, Recurse, Request, TABLE},
};
use crate::{
    commands::{
        diffstat, nested,
        obstacles::{GENERAL, WRITING},
        record::{Command, Group},
        submodule,
    },
    session::{
        Session,
        index::load_index,
        invocation::{Invocation, Program},
        settings::{
            Settings,
            refused::{self, Reader},
        },
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
        (Some(recurse), _) => recurse != Recurse::Off,
        (None, configured) => configured == Some(true),
    };
    if let Some(mode) = &request.cleanup
        && !["default", "verbatim", "whitespace", "strip", "scissors"].iter().any(|known| mode == known)
    {
        return Err(Failure::Fatal(text!("Invalid cleanup mode ", mode)));
    }
    let rebase = request.choose_integration(&repo)?;
    let pull = Pull { session, request, rebase, words };
    pull.refuse_unfinished()?;
    let orig = repo.head()?.oid();
    let fork = if pull.rebases() {
        pull.prepare_rebase(orig, rebases_by_default)?
    } else {
        Prepared { autostash: pull.request.autostash, fork: None }
    };
    if orig.is_none() && Request::is(&pull.request.verify_signatures, "--verify-signatures") {
        return Err(Failure::Unserved("verified signatures on a branch without commits"));
    }
    pull.finish(orig, fork, recurses)
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

/// The request from the configuration and the command line.
struct Pull<'a> {
    session: Session<'a>,
    request: Request,
    rebase: Integration,
    /// The repository and the refspecs.
    words: Vec<BString>,
}

/// The kind of integration, and where it was configured.
#[derive(Clone, Copy)]
struct Integration {
    how: Rebase,
    /// True if neither an option nor a setting selects it.
    is_default: bool,
}

/// The results of the steps before the fetch.
struct Prepared {
    autostash: Option<bool>,
    /// The fork point of the branch and its upstream.
    fork: Option<ObjectId>,
}

impl Request {
    /// Adds the settings `pull.ff`, `branch.<name>.rebase` and `pull.rebase`.
    fn choose_integration(&mut self, repo: &Repository) -> Result<Integration, Failure> {
        if self.ff.is_none() {
            self.ff = match repo.config_str(&keys::pull::FF) {
                None => None,
                Some(value) => Some(match repo::parse_bool(Some(value.as_bstr())) {
                    Some(true) => "--ff".into(),
                    Some(false) => "--no-ff".into(),
                    // An explicit `--rebase` takes precedence.
                    None if value == "only" && self.rebase.is_some() => "--ff".into(),
                    None if value == "only" => "--ff-only".into(),
                    None => {
                        return Err(Failure::Fatal(text!("invalid value for 'pull.ff': '", value, "'")));
                    }
                }),
            };
        }
        if let Some(how) = self.rebase {
            return Ok(Integration { how, is_default: false });
        }
        let head = repo.head()?;
        let branch = head.branch().and_then(|branch| branch.strip_prefix(b"refs/heads/"));
        let of_branch = branch.map(|branch| keys::branch::REBASE.of(branch.as_bstr()).name().to_owned());
        for key in of_branch.into_iter().chain([keys::pull::REBASE.name().to_owned()]) {
            if let Some(value) = repo.config_str(&key) {
                let how = Rebase::parse(&value)
                    .ok_or_else(|| Failure::Fatal(text!("invalid value for '", key, "': '", value, "'")))?;
                return Ok(Integration { how, is_default: false });
            }
        }
        Ok(Integration { how: Rebase::No, is_default: true })
    }
}

impl Pull<'_> {
    fn rebases(&self) -> bool {
        self.rebase.how != Rebase::No
    }

    /// Returns an error if there are conflicts or an unfinished merge.
    fn refuse_unfinished(&self) -> Result<(), Failure> {
        let Session { repository: repo, settings, .. } = self.session;
        let advises = settings.advises(repo, keys::advice::RESOLVE_CONFLICT)?;
        if load_index(repo, settings)?.is_unmerged() {
            console::error("Pulling is not possible because you have unmerged files.");
            if advises {
                console::hint(
                    "Fix them up in the work tree, and then use 'git add/rm <file>'\n\
                     as appropriate to mark resolution and make a commit.",
                );
            }
            return Err(Failure::fatal("Exiting because of an unresolved conflict."));
        }
        if state::is_merging(repo)? {
            console::error("You have not concluded your merge (MERGE_HEAD exists).");
            if advises {
                console::hint("Please, commit your changes before merging.");
            }
            return Err(Failure::fatal("Exiting because of unfinished merge."));
        }
        Ok(())
    }

    /// Fetches, and integrates the fetched commits.
    fn finish(self, orig: Option<ObjectId>, prepared: Prepared, recurses: bool) -> Result<u8, Failure> {
        let Pull { session, mut request, rebase, words } = self;
        if fetch::run(session, request.for_fetch(), &words)? != 0 {
            return Ok(1);
        }
        if request.dry_run {
            return Ok(0);
        }
        request.autostash = prepared.autostash;
        // The fetch has changed objects and refs.
        let run = &session.invocation.with_default("GIT_REFLOG_ACTION", BString::default);
        let repo = run.open()?;
        let settings = Settings::read(&repo)?;
        let session = Session { invocation: run, repository: &repo, settings: &settings };
        let current = repo.head()?.oid();
        if let (Some(orig), Some(current)) = (orig, current)
            && orig != current
        {
            follow_fetched_branch(session, orig, current)?;
        }
        let heads = heads::read(&repo)?;
        let Some(first) = heads.first().copied() else {
            return heads::none(&repo, &words, rebase.how != Rebase::No);
        };
        let Some(orig) = orig else {
            if heads.len() > 1 {
                return Err(Failure::fatal("Cannot merge multiple branches into empty head."));
            }
            return Forward { session, old: None, new: first }.first_commit(current);
        };
        let is_ff_only = Request::is(&request.ff, "--ff-only");
        if heads.len() > 1 {
            if rebase.how != Rebase::No {
                return Err(Failure::fatal("Cannot rebase onto multiple branches."));
            }
            if is_ff_only {
                return Err(Failure::fatal("Cannot fast-forward to multiple branches."));
            }
        }
        let commits = heads.iter().map(|oid| commit(&repo, *oid)).collect::<Result<Vec<_>, _>>()?;
        let can_forward = commits.len() == 1 && repo.is_reachable(orig, &commits)?;
        let mut is_up_to_date = true;
        for theirs in &commits {
            is_up_to_date = is_up_to_date && repo.is_reachable(*theirs, &[orig])?;
        }
        let diverged = !can_forward && !is_up_to_date;
        if is_ff_only && diverged {
            return Err(forward_is_impossible(session)?);
        }
        if request.ff.is_none() && rebase.is_default && diverged {
            return Err(must_choose());
        }
        let (code, kind) = if rebase.how == Rebase::No || is_ff_only {
            (merge(session, &request, &heads)?, "--checkout")
        } else {
            let current = current.unwrap_or(orig);
            let target = rebase::Target::new(session, current, commits[0], prepared.fork)?;
            if recurses {
                target.refuse_changed_submodules(session)?;
            }
            if can_forward {
                request.ff = Some("--ff-only".into());
                (merge(session, &request, &heads)?, "--rebase")
            } else {
                (target.run(session, &request, rebase.how)?, "--rebase")
            }
        };
        if code == 0 && recurses { update_submodules(session, &request, kind) } else { Ok(code) }
    }
}

/// Returns the commit that an object of FETCH_HEAD is, or points to.
fn commit(repo: &Repository, oid: ObjectId) -> Result<ObjectId, Failure> {
    let commit = repo.peel_to_commit(oid)?;
    commit.ok_or_else(|| Failure::fatal(format!("{oid} is not a commit")))
}

/// Updates the files after the fetch has moved the current branch.
fn follow_fetched_branch(session: Session<'_>, orig: ObjectId, current: ObjectId) -> Result<(), Failure> {
    console::warning(format!(
        "fetch updated the current branch head.\n\
         fast-forwarding your working tree from\n\
         commit {orig}."
    ));
    let forward = Forward { session, old: Some(orig), new: current };
    match forward.files(&|| Ok(()))? {
        0 => Ok(()),
        _ => Err(Failure::fatal(format!(
            "Cannot fast-forward your working tree.\n\
             After making sure that you saved anything precious from\n\
             $ git diff {orig}\n\
             output, run\n\
             $ git reset --hard\n\
             to recover."
        ))),
    }
}

fn forward_is_impossible(session: Session<'_>) -> Result<Failure, Failure> {
    crate::session::advice::advise(
        session,
        keys::advice::DIVERGING,
        "Diverging branches can't be fast-forwarded, you need to either:\n\
         \n\tgit merge --no-ff\n\
         \n\
         or:\n\
         \n\tgit rebase\n\n",
    )?;
    Ok(Failure::fatal("Not possible to fast-forward, aborting."))
}

fn must_choose() -> Failure {
    console::hint(
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
    );
    Failure::fatal("Need to specify how to reconcile divergent branches.")
}

/// Merges FETCH_HEAD: in this process if the result is a fast-forward, else by Git.
fn merge(session: Session<'_>, request: &Request, heads: &[ObjectId]) -> Result<u8, Failure> {
    let Session { invocation: run, repository: repo, .. } = session;
    if let Some(forward) = Forward::of_merge(session, request, heads)? {
        let form = stat_form(repo, request)?;
        return forward.merge(request.verbosity, form);
    }
    nested::by_git(run, "merge", &request.for_merge())
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
        match (leaf.run)(run, rest) {
            Err(Failure::Unserved(_)) => {}
            done => return done,
        }
    }
    nested::by_git(run, submodule::COMMAND.name, &args)
}
