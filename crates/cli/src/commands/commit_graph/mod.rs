//! `sapwood commit-graph`: a file that serves history queries without reading commits. See
//! [`sapwood::commit_graph`].

mod options;
mod progress;
mod write;

use bstr::{BString, ByteSlice as _};
use repo::{Repository, keys};
use sapwood::commit_graph::{self, Place, Split, verify};

use self::options::{Request, TABLE};
use crate::{
    commands::{
        object_dirs,
        obstacles::{ANSWERING, LOOKING, PARTIAL_OR_GRAFTS},
        reason::Reason,
        record::{Candidate, Check, Command, Group, LineCheck, Traits},
        rules::{Variable, When},
    },
    session::{Session, invocation::Invocation, settings::Settings},
    term::{
        console,
        failure::Failure,
        files,
        progress::{Progress, has_terminal},
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
    traits: Traits { starts_no_program: true, ..Command::BASE.traits },
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
    let repo = candidate.repo();
    let is_setting = |name: &bstr::BStr| name.starts_with(b"submodule.") && name.ends_with(b".ignore");
    let by_setting =
        repo.config_names().any(is_setting) || repo.config_str(&keys::diff::IGNORE_SUBMODULES).is_some();
    let file = repo.work_tree().and_then(|top| files::read(&top.join(".gitmodules")).ok().flatten());
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
        Some(b"write") => context.write(request),
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
    let write = commit_graph::Request { split: Some(Split::Merge), ..Default::default() };
    let request = Request { reachable: true, write, ..Request::default() };
    Context { run, repo, settings, shows }.write(request)
}

struct Context<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    settings: &'a Settings,
    shows: bool,
}

impl Context<'_> {
    fn library(&self) -> sapwood::Context<'_> {
        let session = Session { invocation: self.run, repository: self.repo, settings: self.settings };
        session.context(self.run)
    }

    fn place(&self, request: &Request) -> Result<Place, Failure> {
        let given = request.object_dir.as_ref().map(|dir| dir.as_bstr());
        let dir = object_dirs::object_dir(self.run, self.repo, given)?;
        if !dir.is_of_repository {
            let given = given.unwrap_or_default();
            return Err(Failure::fatal(format!("could not find object directory matching {given}")));
        }
        Ok(Place::of(self.repo, dir)?)
    }

    fn verify(&self, request: &Request) -> Result<u8, Failure> {
        let place = self.place(request)?;
        let title = "Verifying commits in commit graph";
        let progress = Progress::new(title, self.shows, std::time::Duration::ZERO);
        let mut count = 0;
        let checked = verify::check(
            self.library(),
            &place,
            verify::Request { shallow: request.shallow },
            &mut |done, total| {
                count = total;
                progress.update(done, total);
            },
        )?;
        let Some(report) = checked else { return Ok(0) };
        let Some(verdict) = report.verdict else { return Err(Failure::Reported(1)) };
        verdict.lines.iter().for_each(console::eprint_line);
        if let Some(message) = verdict.fatal {
            return Err(Failure::fatal(message));
        }
        progress.finish(count, count);
        if report.is_incomplete {
            console::error("one or more commit-graph chain files could not be loaded");
        }
        match verdict.code | u8::from(report.is_incomplete) {
            0 => Ok(0),
            code => Err(Failure::Reported(code)),
        }
    }
}
