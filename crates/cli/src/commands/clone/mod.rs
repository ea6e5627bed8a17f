//! `sapwood clone`.
//!
//! Order: options; source and destination ([`clone::prepare`], which changes nothing); the clone
//! without its worktree; the worktree, as in `checkout`; the `post-checkout` hook. A failure before
//! the worktree leaves nothing behind. A later one leaves the clone, and says so.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use bstr::{BStr, BString};
use engine::{
    checkout::{Files, Merge, Operation, PlanOptions, Sparse, Vouched},
    clone::{self, Cloned, FilterError, HelperCommand, Kind, Options, Prepared, Reference, Worktree},
};
use format::ObjectId;
use repo::{Repository, convert::Metadata, wire::AddressFamily};

use crate::{
    commands::{
        checkout::branch::DETACHED,
        obstacles::{GENERAL, hooks::configured, no_attributes_in_pathspecs, settings},
        record::{Command, Group, Traits},
    },
    session::{
        Session,
        apply::{Done, Filled, Start, Transaction},
        hooks,
        invocation::{Invocation, Program},
        packets,
        receiving::{self, Display},
        settings::{
            Settings,
            refused::{self, Reader},
        },
    },
    term::{
        args::{
            Grammar,
            Native::{Both, On},
            Opt, Parsed, Set, Table, Value,
        },
        console::{self, text},
        failure::Failure,
        progress::{self, Progress, Watch},
        text::sideband::Sideband,
    },
};

mod errand;
mod obstacles;
pub(crate) mod report;

const TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood clone [<options>] [--] <repo> [<dir>]"],
    options: &[
        Opt::new("-v, --verbose", "be more verbose", |request: &mut Request, value| {
            request.verbosity = if value.on { request.verbosity.max(0) + 1 } else { 0 };
            Ok(())
        })
        .native(Both),
        Opt::new("-q, --quiet", "be more quiet", |request: &mut Request, value| {
            request.verbosity = if value.on { request.verbosity.min(0) - 1 } else { 0 };
            Ok(())
        })
        .native(Both),
        Opt::choice("--progress", "force progress reporting", |request: &mut Request| &mut request.progress)
            .native(Both),
        Opt::choice("--reject-shallow", "don't clone shallow repository", |request: &mut Request| {
            &mut request.options.reject_shallow
        })
        .native(Both),
        Opt::flag("-n, --no-checkout", "don't create a checkout", |request: &mut Request| {
            &mut request.options.no_checkout
        })
        .native(Both),
        Opt::flag("--bare", "create a bare repository", |request: &mut Request| &mut request.options.bare)
            .native(Both),
        Opt::flag("--naked", "create a bare repository", |request: &mut Request| &mut request.options.bare)
            .hidden(),
        Opt::flag("--mirror", "create a mirror repository (implies --bare)", |request: &mut Request| {
            &mut request.options.mirror
        })
        .native(Both),
        Opt::choice("-l, --local", "to clone from a local repository", |request: &mut Request| {
            &mut request.options.local
        })
        .native(Both),
        Opt::flag("--no-hardlinks", "don't use local hardlinks, always copy", |request: &mut Request| {
            &mut request.options.no_hardlinks
        })
        .native(Both),
        Opt::flag("-s, --shared", "setup as shared repository", |request: &mut Request| {
            &mut request.options.shared
        })
        .native(Both),
        Opt::new(
            "--recurse-submodules[=<pathspec>]",
            "initialize submodules in the clone",
            recurse_submodules,
        )
        .native(Both),
        Opt::new("--recursive[=<pathspec>]", "alias of --recurse-submodules", recurse_submodules),
        Opt::text("-j, --jobs <n>", "number of submodules cloned in parallel", |request: &mut Request| {
            &mut request.submodules.jobs
        })
        .native(Both),
        Opt::text(
            "--template <template-directory>",
            "directory from which templates will be used",
            |request: &mut Request| &mut request.options.template,
        )
        .native(Both),
        Opt::new("--reference <repo>", "reference repository", |request: &mut Request, value| {
            request.reference(value, true)
        })
        .native(Both),
        Opt::new("--reference-if-able <repo>", "reference repository", |request: &mut Request, value| {
            request.reference(value, false)
        })
        .native(Both),
        Opt::flag("--dissociate", "use --reference only while cloning", |request: &mut Request| {
            &mut request.options.dissociate
        })
        .native(Both),
        Opt::text(
            "-o, --origin <name>",
            "use <name> instead of 'origin' to track upstream",
            |request: &mut Request| &mut request.options.origin,
        )
        .native(Both),
        Opt::text(
            "-b, --branch <branch>",
            "checkout <branch> instead of the remote's HEAD",
            |request: &mut Request| &mut request.options.branch,
        )
        .native(Both),
        Opt::text(
            "--revision <rev>",
            "clone single revision <rev> and check out",
            |request: &mut Request| &mut request.options.revision,
        )
        .native(Both),
        Opt::text(
            "-u, --upload-pack <path>",
            "path to git-upload-pack on the remote",
            |request: &mut Request| &mut request.options.upload_pack,
        )
        .native(Both),
        Opt::text("--depth <depth>", "create a shallow clone of that depth", |request: &mut Request| {
            &mut request.options.depth
        })
        .native(Both),
        Opt::text(
            "--shallow-since <time>",
            "create a shallow clone since a specific time",
            |request: &mut Request| &mut request.shallow_since,
        )
        .native(Both),
        Opt::list(
            "--shallow-exclude <ref>",
            "deepen history of shallow clone, excluding ref",
            |request: &mut Request| &mut request.options.shallow_exclude,
        )
        .native(Both),
        Opt::choice("--single-branch", "clone only one branch, HEAD or --branch", |request: &mut Request| {
            &mut request.single_branch
        })
        .native(Both),
        Opt::new(
            "--tags",
            "clone tags, and make later fetches not to follow them",
            |request: &mut Request, value| {
                request.options.no_tags = !value.on;
                Ok(())
            },
        )
        .native(Both),
        Opt::flag(
            "--shallow-submodules",
            "any cloned submodules will be shallow",
            |request: &mut Request| &mut request.submodules.shallow,
        )
        .native(Both),
        Opt::new(
            "--separate-git-dir <gitdir>",
            "separate git dir from working tree",
            |request: &mut Request, value| {
                request.separate_git_dir = value.on;
                request.options.separate_git_dir = value.text;
                Ok(())
            },
        )
        .native(Both),
        Opt::new(
            "--ref-format <format>",
            "specify the reference format to use",
            |request: &mut Request, value| request.ref_format(value),
        )
        .native(Both),
        Opt::list(
            "-c, --config <key=value>",
            "set config inside the new repository",
            |request: &mut Request| &mut request.options.config,
        )
        .native(Both),
        Opt::list("--server-option <server-specific>", "option to transmit", |request: &mut Request| {
            &mut request.options.server_options
        })
        .native(Both),
        Opt::new("-4, --ipv4", "use IPv4 addresses only", |request: &mut Request, _| {
            request.options.family = AddressFamily::V4;
            Ok(())
        })
        .only()
        .native(On),
        Opt::new("-6, --ipv6", "use IPv6 addresses only", |request: &mut Request, _| {
            request.options.family = AddressFamily::V6;
            Ok(())
        })
        .only()
        .native(On),
        Opt::new("--filter <args>", "object filtering", |request: &mut Request, value| request.filter(value))
            .native(Both),
        Opt::choice(
            "--also-filter-submodules",
            "apply partial clone filters to submodules",
            |request: &mut Request| &mut request.options.filter_submodules,
        )
        .native(Both),
        Opt::flag(
            "--remote-submodules",
            "any cloned submodules will use their remote-tracking branch",
            |request: &mut Request| &mut request.submodules.remote,
        )
        .native(Both),
        Opt::flag(
            "--sparse",
            "initialize sparse-checkout file to include only files at root",
            |request: &mut Request| &mut request.options.sparse,
        )
        .native(Both),
        Opt::text(
            "--bundle-uri <uri>",
            "a URI for downloading bundles before fetching from origin remote",
            |request: &mut Request| &mut request.options.bundle_uri,
        )
        .native(Both),
        Opt::flag("--dry-run", "print what would be done, and do nothing", |request: &mut Request| {
            &mut request.dry_run
        }),
    ],
    grammar: Grammar::Mixed,
};

/// The record of `clone`.
pub(super) const COMMAND: Command = Command {
    name: "clone",
    summary: "Clone a repository into a new directory",
    about: "Copies a repository from a local path, a server or a bundle, and checks out its branch. \
            Objects are linked or copied in parallel, and files are written by as many threads as the disk \
            can use.\n\n\
            A clone that was killed, or whose transfer broke off, is finished by running it again with the \
            same arguments.",
    group: Group::Starts,
    syntax: &TABLE,
    traits: Traits { outside: true, ..Command::BASE.traits },
    settings: &[GENERAL, obstacles::SETTINGS],
    variables: &[obstacles::VARIABLES],
    line: &[obstacles::line, no_attributes_in_pathspecs],
    checks: &[&[settings, configured, obstacles::ends]],
    run,
    ..Command::BASE
};

/// The request, beside the engine's options.
#[derive(Default)]
struct Request {
    options: Options,
    /// How often `-v` came, or, negative, `-q`.
    verbosity: i32,
    progress: Option<bool>,
    single_branch: Option<bool>,
    /// `--shallow-since`, as it was given.
    shallow_since: Option<BString>,
    separate_git_dir: bool,
    dry_run: bool,
    submodules: Submodules,
}

/// How submodules are cloned.
#[derive(Clone, Default)]
struct Submodules {
    /// `--recurse-submodules`, whichever.
    wanted: bool,
    jobs: Option<BString>,
    shallow: bool,
    remote: bool,
    ref_format: Option<&'static str>,
    filter: Option<BString>,
    single_branch: bool,
    progress: bool,
    quiet: bool,
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    refused::check_outside(
        &repo::StandaloneConfig::load(&run.outside())?,
        &[Reader::Every, Reader::Repository, Reader::Hooks, Reader::Clone],
    )?;
    let parsed = TABLE.parse(args)?;
    match parsed.rest.len() {
        0 => return Err(misused("You must specify a repository to clone.")),
        1 | 2 => {}
        _ => return Err(misused("Too many arguments.")),
    }
    let mut request = Request::of(parsed)?;
    if let Some((one, other)) = request.contradiction() {
        let text = format!("options '{one}' and '{other}' cannot be used together");
        return Err(Failure::fatal(text));
    }
    let delay = progress::delay(run.variable("GIT_PROGRESS_DELAY"));
    let copying = Watch::start(Progress::new("Copying objects", request.shows_progress(), delay), 0);
    request.options.meter = copying.shared_meter();
    let prepared = request.prepare(run).map_err(|error| report::failure(run, error))?;
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
    console::note("");
    console::raw(TABLE.help().as_bytes());
    Failure::Said(129)
}

/// `--recurse-submodules` without a pathspec means every submodule.
fn recurse_submodules(request: &mut Request, value: Value) -> Result<(), Failure> {
    match value.text_or(".") {
        Some(pathspec) => request.options.submodules.push(pathspec),
        None => request.options.submodules.clear(),
    }
    Ok(())
}

impl Request {
    fn of(parsed: Parsed<Set<Request>>) -> Result<Request, Failure> {
        let mut request = Request::default();
        let mut rest = parsed.store(&mut request)?.into_iter();
        if let Some(since) = &request.shallow_since {
            let moment = repo::parse_moment(since.as_ref());
            let unknown = || Failure::unsupported(&format!("'--shallow-since={since}'"));
            request.options.shallow_since = Some(moment.ok_or_else(unknown)?);
        }
        request.options.source = rest.next().unwrap_or_default();
        request.options.directory = rest.next();
        Ok(request)
    }

    fn reference(&mut self, value: Value, required: bool) -> Result<(), Failure> {
        let references = &mut self.options.references;
        match value.text {
            Some(repository) => references.push(Reference { repository, required }),
            None => references.retain(|reference| reference.required != required),
        }
        Ok(())
    }

    fn filter(&mut self, value: Value) -> Result<(), Failure> {
        let filter = match (value.text, self.options.filter.take()) {
            (None, _) => return Ok(()),
            (Some(text), None) => clone::Filter::parse(text.as_ref()),
            (Some(text), Some(before)) => before.and(text.as_ref()),
        };
        self.options.filter = Some(filter.map_err(|error| match error {
            FilterError::Auto => Failure::unsupported("the filter 'auto'"),
            error => Failure::fatal(error.to_string()),
        })?);
        Ok(())
    }

    fn ref_format(&mut self, value: Value) -> Result<(), Failure> {
        let files = match value.text.as_deref().map(Vec::as_slice) {
            None => false,
            Some(b"files") => true,
            Some(b"reftable") => return Err(Failure::unsupported("ref format 'reftable'")),
            Some(other) => {
                return Err(Failure::Fatal(text!("unknown ref storage format '", other, "'")));
            }
        };
        self.submodules.ref_format = files.then_some("files");
        self.options.ref_files = files;
        Ok(())
    }

    /// Returns two options that cannot be used together.
    fn contradiction(&self) -> Option<(&'static str, &'static str)> {
        if (self.options.bare || self.options.mirror) && self.separate_git_dir {
            return Some(("--bare", "--separate-git-dir"));
        }
        let both = self.options.bundle_uri.is_some() && self.deepens();
        both.then_some(("--bundle-uri", "--depth/--shallow-since/--shallow-exclude"))
    }

    fn deepens(&self) -> bool {
        let options = &self.options;
        options.depth.is_some() || self.shallow_since.is_some() || !options.shallow_exclude.is_empty()
    }

    fn prepare(&mut self, run: &Invocation) -> Result<Prepared, clone::Error> {
        let deepens = self.deepens();
        self.options.single_branch = self.single_branch.unwrap_or(deepens);
        self.options.remote_progress = self.shows_progress();
        self.options.verbosity = self.verbosity;
        self.options.voice = (self.verbosity > 0).then_some(console::piece);
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
        self.options.workers = sys::cores();
        self.options.open = run.outside();
        clone::prepare(std::mem::take(&mut self.options))
    }

    fn shows_progress(&self) -> bool {
        self.progress.unwrap_or(self.verbosity >= 0 && progress::has_terminal())
    }

    fn finish(self, run: &Invocation, prepared: Prepared, copying: Watch) -> Result<u8, Failure> {
        if self.dry_run {
            console::out(planned(&prepared));
            return Ok(0);
        }
        let (quiet, progress) = (self.verbosity < 0, self.shows_progress());
        let sideband = Sideband::new(progress::has_terminal() && !is_dumb(run));
        let receiving = Display::new(receiving::Form::of_clone(progress), prepared.receiving());
        let reporter = report::Reporter::new(quiet, copying, &receiving, sideband);
        let errand = |errand: HelperCommand| errand::run(run, &prepared, errand);
        let cloned =
            receiving.during(|| prepared.run(&|event| reporter.event(event), &errand, run.interrupt.flag()));
        reporter.finish();
        let mut cloned = cloned.map_err(|error| report::failure(run, error))?;
        let mut goes_on = false;
        let outcome = check_out(run, &mut cloned, self.verbosity, &mut goes_on);
        if !goes_on && !matches!(outcome, Err(Failure::Signal(_))) {
            cloned.finish().map_err(|error| report::failure(run, error))?;
        }
        let filled = matches!(cloned.worktree, Worktree::Branch(_) | Worktree::Detached(_));
        match outcome {
            Ok(0) if filled && self.submodules.wanted => errand::submodules(run, &cloned, &self.submodules),
            other => other,
        }
    }
}

/// Returns true if submodules get the filter too: `--also-filter-submodules`, else
/// `clone.filterSubmodules`.
fn filters_submodules(run: &Invocation, options: &Options) -> bool {
    let configured =
        || repo::StandaloneConfig::load(&run.outside()).ok()?.config_bool("clone.filterSubmodules").ok()?;
    options.filter_submodules.or_else(configured).unwrap_or(false)
}

/// Returns the text of a dry run.
fn planned(prepared: &Prepared) -> BString {
    let name = prepared.source().name();
    let (what, path) = match &prepared.source().kind {
        Kind::Repository { git_dir } => ("repository", git_dir.as_path()),
        Kind::Server => ("repository", Path::new(sys::os_str(&name))),
        Kind::Bundle { path } => ("bundle", path.as_path()),
    };
    let path = path.as_os_str().as_encoded_bytes();
    text!("Would clone the ", what, " '", path, "' into '", prepared.directory(), "'")
}

fn is_dumb(run: &Invocation) -> bool {
    matches!(run.variable("TERM"), None | Some(b"dumb"))
}

/// Git's own templates: beside the Git that would be run, or where it is usually installed.
pub(crate) fn default_template(run: &Invocation) -> Option<PathBuf> {
    let path = run.env.get(std::ffi::OsStr::new("PATH")).cloned().unwrap_or_default();
    let found = || std::env::split_paths(&path).map(|dir| dir.join("git")).find(|git| git.is_file());
    let git = run.git.clone().or_else(found);
    let prefix = git.and_then(|git| Some(git.canonicalize().ok()?.parent()?.parent()?.to_owned()));
    prefix
        .into_iter()
        .chain(["/usr".into(), "/usr/local".into()])
        .map(|prefix| prefix.join("share/git-core/templates"))
        .find(|templates| templates.is_dir())
}

/// Fills the worktree. The clone stays after any failure from here on. Sets `goes_on` if the same
/// command can finish it later: the obstacle may be removed, the filter mended, the disk answer.
fn check_out(
    run: &Invocation,
    cloned: &mut Cloned,
    verbosity: i32,
    goes_on: &mut bool,
) -> Result<u8, Failure> {
    let (oid, detached) = match cloned.worktree {
        Worktree::None => return Ok(0),
        Worktree::Nonexistent => {
            console::warning("remote HEAD refers to nonexistent ref, unable to checkout");
            return Ok(0);
        }
        Worktree::Branch(oid) => (oid, false),
        Worktree::Detached(oid) => (oid, true),
    };
    *goes_on = true;
    fill(run, cloned, (oid, detached), verbosity, goes_on)
        .inspect_err(|failure| {
            failure.say();
            console::warning(
                "Clone succeeded, but checkout failed.\n\
             You can inspect what was checked out with 'git status'\n\
             and retry with 'git restore --source=HEAD :/'\n",
            );
        })
        .map_err(|failure| match failure {
            Failure::Signal(signal) => Failure::Signal(signal),
            said => Failure::Said(said.code()),
        })
}

/// Git's message if the worktree of a clone could not be filled.
const UNFILLED: &str = "unable to checkout working tree";

fn fill(
    run: &Invocation,
    cloned: &mut Cloned,
    (oid, detached): (ObjectId, bool),
    verbosity: i32,
    goes_on: &mut bool,
) -> Result<u8, Failure> {
    let mut repo = Repository::open(&repo::OpenOptions {
        git_dir: Some(cloned.git_dir.clone()),
        work_tree: cloned.work_tree.clone(),
        is_created_by_command: true,
        ..run.outside()
    })?;
    if let Some(before) = cloned.settings.take() {
        repo.restore_startup_settings(before);
    }
    console::complaints(&repo);
    let settings = Settings::read(run, &repo)?;
    if detached && settings.advises(&repo, "detachedHead")? {
        console::note(text!("Note: switching to '", oid.to_string(), "'.\n\n", DETACHED));
    }
    let started = Instant::now();
    let mut transaction = Transaction::start(
        Session { invocation: run, repository: &repo, settings: &settings },
        Start::Full { dry_run: false },
    )?;
    transaction.policy.progress = verbosity >= 0;
    let reference = if detached { None } else { repo.head()?.branch().map(BStr::to_owned) };
    transaction.policy.metadata = Metadata { reference, treeish: Some(oid) };
    let options = PlanOptions {
        merge: Merge::OneWay { target: repo.tree_of(oid)? },
        force: cloned.force,
        files: Files::Update,
        overwrite_ignored: true,
        refresh: false,
        original_cwd: None,
        sparse: Sparse::Configured,
        operation: Operation::Checkout,
        vouched: Vouched::Examined,
    };
    let staged = cloned.staged.take();
    let adopted = staged.map_or(0, |staged| {
        let (worktree, index) = transaction.worktree_and_index();
        staged.adopt(worktree, index)
    });
    let filled = transaction.fill(&options, goes_on).map_err(|failure| match failure {
        // A path no worktree may have: it has been named.
        Failure::Said(_) => Failure::fatal(UNFILLED),
        failure => failure,
    });
    let Filled { done, written, collided } = filled?;
    let took = started.elapsed().as_secs_f64();
    if !collided.is_empty() {
        console::warning(report::collisions(collided, repo.config_bool("core.ignoreCase")?.unwrap_or(false)));
    }
    if matches!(done, Done::Incomplete | Done::Unfinished) {
        return Err(Failure::fatal(UNFILLED));
    }
    if verbosity > 0 && run.program == Program::Sapwood {
        let written = adopted + written;
        let rate = written as f64 / took;
        console::note(format!("Checked out {written} files in {took:.3} s ({rate:.0} files/s)"));
    }
    hooks::post_checkout(&repo, &settings, None, Some(oid), true)
}
