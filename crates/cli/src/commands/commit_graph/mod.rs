//! `sapwood commit-graph`: a file that serves history queries without reading commits.
//!
//! Order of `write`: arguments; standard input; the lock on the file; the old graph; the new one;
//! its file, which is on disk before the old one is removed. Without commits nothing is written.
//! Like Git, writes nothing in a shallow clone.

mod options;
mod progress;
mod write;

use bstr::BString;
use engine::{
    commit_graph::{self, Found, Sources},
    midx::Notice,
};
use format::commit_graph::Use;
use repo::{Repository, keys};
use store::commit_graph::{chain_path, single_path};
use sys::by_path;

use self::options::{Request, TABLE};
use crate::{
    commands::{
        object_dirs::{self, ObjectDir},
        obstacles::{ANSWERING, LOOKING, PARTIAL_OR_GRAFTS},
        reason::Reason,
        record::{Candidate, Check, Command, Group, LineCheck, Traits},
        rules::{Variable, When},
    },
    session::{invocation::Invocation, settings::Settings},
    term::{
        console,
        failure::Failure,
        progress::{Progress, has_terminal},
        text::os_error,
    },
};

/// The record of `commit-graph`.
pub(super) const COMMAND: Command = Command {
    name: "commit-graph",
    summary: "Write and verify Git commit-graph files",
    about: "Writes a file with the parents, dates and generations of commits, and filters of the paths that \
            they change, and checks it. Commits are read, and filters computed, on all cores.",
    group: Group::Scripts,
    syntax: &TABLE,
    traits: Traits { plans_first: true, starts_no_program: true, ..Command::BASE.traits },
    settings: &[LOOKING],
    variables: &[TESTS],
    line: &[
        LineCheck::new(
            "a subcommand but `write` and `verify`; a wrong number of arguments; options before the subcommand, or of another one",
            |survey, args| object_dirs::subcommand(survey, args, SERVED, options::options_of),
        ),
        LineCheck::new("dates of `--expire-time` but `now`, `never` and `<n>.<unit>.ago`", options::dates),
    ],
    checks: &[
        ANSWERING,
        &[
            Check::new(PARTIAL_OR_GRAFTS, object_dirs::repository),
            Check::new("`submodule.<name>.ignore`, `diff.ignoreSubmodules`", submodules),
        ],
    ],
    late: &["commits that cannot be read", "damaged commits", "filters that are not to be read"],
    run,
    ..Command::BASE
};

const SERVED: &[&str] = &["write", "verify"];

/// Variables of Git's own tests that sapwood does not support.
const TESTS: &[Variable] =
    &[("GIT_TEST_UPGRADE_BLOOM_FILTERS", When::Set), ("GIT_COMMIT_GRAPH_PARANOIA", When::Set)];

/// Detects an ignored submodule, whose changes would be missing in the filters.
fn submodules(candidate: &Candidate<'_>) -> Vec<Reason> {
    use bstr::ByteSlice as _;
    let repo = candidate.repo();
    let is_setting = |name: &bstr::BStr| name.starts_with(b"submodule.") && name.ends_with(b".ignore");
    let by_setting =
        repo.config_names().any(is_setting) || repo.config_str(&keys::diff::IGNORE_SUBMODULES).is_some();
    let file = repo.work_tree().and_then(|top| by_path::read(&top.join(".gitmodules")).ok().flatten());
    let ignores = by_setting || file.is_some_and(|content| content.contains_str("ignore"));
    ignores.then(|| Reason::repository("submodules may be ignored")).into_iter().collect()
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let rest = TABLE.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    let settings = Settings::read(&repo)?;
    let context = Context {
        run,
        repo: &repo,
        settings: &settings,
        shows: request.progress.unwrap_or_else(has_terminal),
    };
    match rest.first().filter(|_| rest.len() == 1).map(|name| name.as_slice()) {
        Some(b"write") => context.write(&request),
        Some(b"verify") => context.verify(&request),
        _ => {
            console::eprint_raw(TABLE.help().as_bytes());
            Err(Failure::Reported(129))
        }
    }
}

/// Writes a layer with the commits reachable from refs: `write --reachable --split`.
pub(super) fn write_reachable(
    run: &Invocation,
    repo: &Repository,
    settings: &Settings,
    shows: bool,
) -> Result<u8, Failure> {
    let request = Request { reachable: true, split: Some(commit_graph::Split::Merge), ..Request::default() };
    Context { run, repo, settings, shows }.write(&request)
}

struct Context<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    settings: &'a Settings,
    shows: bool,
}

/// The object directory that contains the graph, and all that may contain graphs.
struct Place {
    dir: ObjectDir,
    sources: Sources,
    shown: Vec<std::path::PathBuf>,
    /// The index of `dir` in the sources.
    target: usize,
}

fn report_notices(notices: &[Notice]) {
    for notice in notices {
        match notice {
            Notice::Error(text) => console::error(text),
            Notice::Warning(text) => console::warning(text),
        }
    }
}

impl Context<'_> {
    fn place(&self, request: &Request) -> Result<Place, Failure> {
        use bstr::ByteSlice as _;
        let given = request.object_dir.as_ref().map(|dir| dir.as_bstr());
        let dir = object_dirs::object_dir(self.run, self.repo, given)?;
        if !dir.is_of_repository {
            let given = given.unwrap_or_default();
            return Err(Failure::fatal(format!("could not find object directory matching {given}")));
        }
        let dirs: Vec<_> = self.repo.objects().directories().cloned().collect();
        let mut shown = dirs.clone();
        if let Some(own) = shown.first_mut() {
            *own = self.repo.display_objects_dir();
        }
        let target = dirs.iter().position(|other| *other == dir.path).unwrap_or(0);
        let used = Use { generations: self.generation_version()? >= 2, filters: self.filter_version()? != 0 };
        Ok(Place { dir, sources: Sources { dirs, hash: self.repo.hash(), used }, shown, target })
    }

    /// `commitGraph.generationVersion`
    fn generation_version(&self) -> Result<i32, Failure> {
        Ok(self.repo.config(&keys::commit_graph::GENERATION_VERSION)?)
    }

    /// `commitGraph.changedPathsVersion`; 0: filters are not read, -1: any version is read.
    fn filter_version(&self) -> Result<i32, Failure> {
        let reads = self.repo.config(&keys::commit_graph::READ_CHANGED_PATHS)?;
        let version = self.repo.config(&keys::commit_graph::CHANGED_PATHS_VERSION)?;
        Ok(version.unwrap_or(if reads { -1 } else { 0 }))
    }

    fn verify(&self, request: &Request) -> Result<u8, Failure> {
        let place = self.place(request)?;
        let found = match self.file_to_verify(&place)? {
            None => return Ok(0),
            Some(found) => found,
        };
        let Some(chain) = &found.chain else {
            report_notices(&found.notices);
            return Err(Failure::Reported(1));
        };
        let layers = chain.layers.iter().rev().take(if request.shallow { 1 } else { usize::MAX });
        let total: usize = layers.map(|layer| layer.graph.count() as usize).sum();
        let title = "Verifying commits in commit graph";
        let progress = Progress::new(title, self.shows, std::time::Duration::ZERO);
        let objects = self.repo.stored_objects();
        let mut show = |done| progress.update(done, total);
        let interrupt = &self.run.interrupt;
        let verdict = commit_graph::verify(&objects, chain, request.shallow, interrupt.flag(), &mut show);
        interrupt.check()?;
        if verdict.unreadable_commit {
            return Err(Failure::Unserved("damaged commits"));
        }
        report_notices(&found.notices);
        verdict.lines.iter().for_each(console::eprint_line);
        if let Some(message) = verdict.fatal {
            return Err(Failure::fatal(message));
        }
        progress.finish(total, total);
        if found.is_incomplete {
            console::error("one or more commit-graph chain files could not be loaded");
        }
        match verdict.code | u8::from(found.is_incomplete) {
            0 => Ok(0),
            code => Err(Failure::Reported(code)),
        }
    }

    /// Reads the graph of the chosen directory: the single file if it exists, else the chain.
    fn file_to_verify(&self, place: &Place) -> Result<Option<Found>, Failure> {
        let (single, list) = (single_path(&place.dir.path), chain_path(&place.dir.path));
        match by_path::open(&single) {
            Ok(_) => return Ok(Some(place.sources.single(place.target))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                let (path, reason) = (single_path(&place.dir.shown), os_error(&error));
                let message = format!("Could not open commit-graph '{}': {reason}", path.display());
                return Err(Failure::fatal(message));
            }
        }
        let unreadable = |reason: String| {
            let path = chain_path(&place.dir.shown);
            Failure::fatal(format!("could not open commit-graph chain '{}': {reason}", path.display()))
        };
        match by_path::read(&list) {
            Ok(None) => Ok(None),
            Ok(Some(content)) if content.is_empty() => Ok(None),
            Ok(Some(content)) if content.len() < place.sources.hash.hex_len() => {
                console::warning("commit-graph chain file too small");
                Err(unreadable("Invalid argument".to_owned()))
            }
            Ok(Some(_)) => Ok(Some(place.sources.chain(place.target))),
            Err(error) => Err(unreadable(os_error(&error).to_string())),
        }
    }
}
