//! `sapwood clone`.
//!
//! Order: options; source and destination ([`clone::prepare`], which changes nothing); the clone
//! without its worktree; the worktree, as in `checkout`; the `post-checkout` hook; the end of the
//! clone, which publishes it. A failure before the worktree leaves nothing behind. A later one
//! leaves the clone, and says so.

mod base;
mod errand;
mod obstacles;
mod options;
pub(crate) mod report;
mod worktree;

use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice as _};
use engine::clone::{self, Caller, Event, Kind, Options, Prepared, Seed, Worktree};
use sapwood::clone::{self as library, BaseSource, Search};

use self::options::{Request, TABLE};
use repo::keys;

use crate::{
    commands::{
        obstacles::{CONFIGURED_HOOKS, GENERAL, NO_ATTRIBUTES_IN_PATHSPECS, RULES},
        record::{Check, Command, Group, LineCheck, Traits},
    },
    session::{
        invocation::{Invocation, Program},
        packets,
        receiving::{self, Display},
        settings::refused::{self, Reader},
    },
    term::{
        console::{self, text},
        failure::Failure,
        files,
        progress::{self, Progress, Watch},
        text::{os_str, sideband::Sideband},
    },
};

/// The record of `clone`.
pub(super) const COMMAND: Command = Command {
    name: "clone",
    summary: "Clone a repository into a new directory",
    about: "Copies a repository from a local path, a server or a bundle, and checks out its branch. \
            Objects are linked or copied in parallel, and files are written by as many threads as the disk \
            can use.\n\n\
            A clone that was killed, or whose transfer broke off, is finished by running it again with the \
            same arguments.\n\n\
            With --base, a commit comes from a remote for bases with its trees and files, and the server sends \
            only what is newer. The new repository is a partial clone: see sapwood-base(1). With several \
            --base, the next remote is asked if one fails or lacks the base. With --base-if-able, the clone \
            begins without a base if all fail.",
    group: Group::Starts,
    syntax: &TABLE,
    traits: Traits { outside: true, ..Command::BASE.traits },
    unserved: obstacles::UNSERVED,
    settings: &[GENERAL, obstacles::SETTINGS],
    variables: &[obstacles::VARIABLES],
    line: &[
        LineCheck::new(
            "a wrong number of arguments; `--config` with a setting of this page, `extensions.*`, `include*` or `url.*`",
            obstacles::line,
        ),
        NO_ATTRIBUTES_IN_PATHSPECS,
    ],
    checks: &[&[
        RULES,
        CONFIGURED_HOOKS,
        Check::new(
            "a source that cannot be opened, has grafts, refs that cannot be read, or wrong alternates; a \
             bundle that needs commits; `url.<base>.insteadOf` that changes the source; settings of the \
             remote but `fetch`, `serverOption`, `tagOpt` and `uploadPack`; a template with links in the \
             place of `HEAD` or `config`, a hook `reference-transaction` or a setting of this page; \
             `--upload-pack` where files are copied; a destination that is not empty",
            obstacles::ends,
        ),
    ]],
    run,
    ..Command::BASE
};

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let outside = repo::StandaloneConfig::load(&run.outside())?;
    refused::check_outside(&outside, &[Reader::Every, Reader::Repository, Reader::Hooks, Reader::Clone])?;
    obstacles::UNSERVED.check_settings(&outside)?;
    let parsed = TABLE.parse(args)?;
    match parsed.rest.len() {
        0 => return Err(misused("You must specify a repository to clone.")),
        1 | 2 => {}
        _ => return Err(misused("Too many arguments.")),
    }
    let mut request = Request::of(parsed)?;
    if !request.bases.is_empty() && request.workspace.is_none() {
        request.workspace = Some(request.prefers_workspace(run)?);
    }
    if let Some((one, other)) = request.contradiction() {
        let text = format!("options '{one}' and '{other}' cannot be used together");
        return Err(Failure::fatal(text));
    }
    let delay = progress::delay(run.variable("GIT_PROGRESS_DELAY"));
    let copying = Watch::start(Progress::new("Copying objects", request.shows_progress(), delay), 0);
    request.options.meter = copying.shared_meter();
    let names_program = request.options.upload_pack.is_some();
    let prepared = request.prepare(run).map_err(|error| report::failure(run, error))?;
    if names_program && prepared.copies_files() {
        return Err(Failure::unsupported("'--upload-pack' with a repository whose files are copied"));
    }
    request.finish(run, prepared, copying)
}

/// Examines the source and the destination of a clone. Changes nothing. Returns `None` if the
/// command will refuse it as Git does.
fn look(run: &Invocation, args: &[BString]) -> Result<Option<Prepared>, Failure> {
    let mut request = Request::of(TABLE.parse(args)?)?;
    if request.contradiction().is_some() {
        return Ok(None);
    }
    match request.prepare(run) {
        Ok(prepared) => Ok(Some(prepared)),
        Err(error) if error.is_early_refusal() => Ok(None),
        Err(error) => Err(report::failure(run, error)),
    }
}

/// A wrong number of arguments: said with the usage.
fn misused(message: &str) -> Failure {
    console::report("fatal", message);
    console::eprint_line("");
    console::eprint_raw(TABLE.help().as_bytes());
    Failure::Reported(129)
}

impl Request {
    /// Returns true if `sapwood.worktree` asks for workspaces, and no option for something else.
    fn prefers_workspace(&self, run: &Invocation) -> Result<bool, Failure> {
        let outside = repo::StandaloneConfig::load(&run.outside())?;
        let wanted = outside.config_text(&keys::sapwood::WORKTREE) == "workspace";
        Ok(wanted && self.needs_worktree().is_none())
    }

    fn prepare(&mut self, run: &Invocation) -> Result<Prepared, clone::Error> {
        let deepens = self.deepens() || !self.bases.is_empty();
        self.options.single_branch = self.single_branch.unwrap_or(deepens);
        self.options.remote_progress = self.shows_progress();
        self.options.verbosity = self.verbosity;
        self.options.voice = (self.verbosity > 0).then_some(console::eprint);
        self.options.tracer = packets::tracer(run);
        self.submodules.wanted = !self.options.submodules.is_empty();
        self.submodules.single_branch = self.options.single_branch;
        self.submodules.progress = self.shows_progress();
        self.submodules.quiet = self.verbosity < 0;
        let filter = self.options.filter.as_ref().map(|filter| filter.expanded().to_owned());
        self.submodules.filter = filter.filter(|_| filters_submodules(run, &self.options));
        // As `git`, a directory that is not empty is left to the real Git.
        self.options.resumable = run.program == Program::Sapwood;
        self.options.interrupt = Some(run.interrupt.shared());
        self.options.default_template = default_template(run);
        self.options.workers = library::workers();
        self.options.open = run.outside();
        if !self.bases.is_empty() {
            // The repository lacks objects, so its source cannot be copied.
            self.options.local.get_or_insert(false);
        }
        if self.workspace == Some(true) {
            (self.options.bare, self.options.tracking) = (true, true);
            if let Some(directory) = &mut self.options.directory {
                let end = directory.trim_end_with(|letter| letter == '/').len();
                directory.truncate(end);
                directory.extend_from_slice(b".git");
            }
        }
        clone::prepare(std::mem::take(&mut self.options))
    }

    fn finish(self, run: &Invocation, prepared: Prepared, copying: Watch) -> Result<u8, Failure> {
        if self.dry_run {
            console::out(planned(&prepared));
            return Ok(0);
        }
        check_password(run, &prepared)?;
        let (quiet, progress) = (self.verbosity < 0, self.shows_progress());
        let workspace = match self.workspace {
            Some(true) => Some(workspace_of(&prepared)?),
            _ => None,
        };
        let base = (!self.bases.is_empty()).then(|| BaseSource {
            remotes: &self.bases,
            open: with_settings(run, prepared.config()),
            interrupt: run.interrupt.shared(),
            events: run,
            workspace: workspace.clone(),
            progress: Some(progress && !quiet),
            search: Search::default(),
        });
        let sideband = Sideband::new(progress::has_terminal() && !is_dumb(run));
        let receiving = Display::new(receiving::Form::of_clone(progress), prepared.receiving());
        let reporter = report::Reporter::new(quiet, copying, &receiving, sideband);
        let caller = Caller {
            events: &|event: Event<'_>| reporter.event(event),
            run_helper: &|command| library::run_helper(run, &prepared, command),
            seed: base.as_ref().map(|base| base as &dyn Seed),
            interrupt: run.interrupt.flag(),
        };
        let cloned = receiving.during(|| prepared.run(&caller));
        reporter.finish();
        let why = || base.as_ref().and_then(BaseSource::take_failure).map(Failure::from);
        let cloned = cloned.map_err(|error| why().unwrap_or_else(|| report::failure(run, error)))?;
        if let Some(top) = &workspace {
            let code = base::make_workspace(run, &cloned, top, self.verbosity)?;
            cloned.publish().map_err(|error| report::failure(run, error))?;
            return Ok(code);
        }
        let has_files = matches!(cloned.worktree, Worktree::Branch(_) | Worktree::Detached(_));
        match worktree::fill_and_publish(run, cloned, self.verbosity)? {
            0 if has_files && self.submodules.wanted => errand::submodules(run, &prepared, &self.submodules),
            code => Ok(code),
        }
    }
}

/// Returns the options of this directory, with the settings of the new repository before those of
/// the command line.
fn with_settings(run: &Invocation, settings: &[BString]) -> repo::OpenOptions {
    let mut options = run.outside();
    options.config = settings.iter().chain(&run.config).cloned().collect();
    options
}

/// Warns of a password in the source's URL, or refuses it (`transfer.credentialsInUrl`).
fn check_password(run: &Invocation, prepared: &Prepared) -> Result<(), Failure> {
    let outside = repo::StandaloneConfig::load(&run.outside())?;
    library::check_password(&outside, prepared)?.iter().for_each(console::warning);
    Ok(())
}

/// Returns the directory that becomes a workspace, if it is free, or may hold the workspace of a
/// killed clone.
fn workspace_of(prepared: &Prepared) -> Result<PathBuf, Failure> {
    let git_dir = prepared.git_dir();
    let top = git_dir.with_extension("");
    if (is_free(&top) || prepared.lacks_only_worktree()) && top != git_dir {
        return Ok(top);
    }
    Err(taken(&top))
}

/// Returns true if a directory is missing or empty.
fn is_free(top: &Path) -> bool {
    match files::list(top) {
        Ok(found) => found.is_empty(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

fn taken(top: &Path) -> Failure {
    let shown = top.as_os_str().as_encoded_bytes();
    Failure::Fatal(text!("destination path '", shown, "' already exists and is not an empty directory."))
}

/// Returns true if submodules get the filter too: `--also-filter-submodules`, else
/// `clone.filterSubmodules`.
fn filters_submodules(run: &Invocation, options: &Options) -> bool {
    let configured =
        || repo::StandaloneConfig::load(&run.outside()).ok()?.config(&keys::clone::FILTER_SUBMODULES).ok();
    options.filter_submodules.or_else(configured).unwrap_or(false)
}

/// Returns the text of a dry run.
fn planned(prepared: &Prepared) -> BString {
    let name = prepared.source().name();
    let (what, path) = match &prepared.source().kind {
        Kind::Repository { git_dir } => ("repository", git_dir.as_path()),
        Kind::Server => ("repository", Path::new(os_str(&name))),
        Kind::Bundle { path } => ("bundle", path.as_path()),
    };
    let path = path.as_os_str().as_encoded_bytes();
    text!("Would clone the ", what, " '", path, "' into '", prepared.directory(), "'")
}

fn is_dumb(run: &Invocation) -> bool {
    matches!(run.variable("TERM"), None | Some(b"dumb"))
}

/// See [`library::default_template`].
fn default_template(run: &Invocation) -> Option<PathBuf> {
    let path = run.env.get(std::ffi::OsStr::new("PATH")).cloned().unwrap_or_default();
    library::default_template(run.git.as_deref(), &path)
}
