//! `sapwood multi-pack-index`: one index for all packs. See [`sapwood::multi_pack_index`].
//!
//! `write` reads standard input before it locks the file. `repack` is left to the real Git.

mod options;

use std::time::Duration;

use bstr::{BString, ByteSlice as _};
use repo::Repository;
use sapwood::{
    Error,
    multi_pack_index::{self, FileError, PackDir, Step, expire, verify},
};

use self::options::{Request, TABLE};
use crate::{
    commands::{
        object_dirs,
        obstacles::{ANSWERING, LOOKING, PARTIAL_OR_GRAFTS},
        reason::Reason,
        record::{Candidate, Check, Command, Group, LineCheck, Traits},
    },
    session::{Session, input::Input, invocation::Invocation, settings::Settings},
    term::{
        console,
        failure::Failure,
        progress::{self, Progress},
    },
};

/// The record of `multi-pack-index`.
pub(super) const COMMAND: Command = Command {
    name: "multi-pack-index",
    summary: "Write and verify multi-pack-indexes",
    about: "Writes one index for all packs of a repository, checks it, and removes packs that it leaves \
            without a use. Objects of several packs are merged on all cores. `repack`, `compact`, bitmaps \
            and incremental files are left to the real Git.",
    group: Group::Scripts,
    syntax: &TABLE,
    traits: Traits { starts_no_program: true, ..Command::BASE.traits },
    settings: &[LOOKING],
    variables: &[],
    line: &[LineCheck::new(
        "a subcommand but `write`, `verify` and `expire`; a wrong number of arguments; options before the subcommand, or of another one",
        |survey, args| object_dirs::subcommand(survey, args, SERVED, options::options_of),
    )],
    checks: &[
        ANSWERING,
        &[
            Check::new(PARTIAL_OR_GRAFTS, object_dirs::repository),
            Check::new("bitmaps or layers of a multi-pack-index; a wrong object directory", companions),
        ],
    ],
    late: &["bitmaps and layers of multi-pack-indexes", "packs that cannot be used"],
    run,
    ..Command::BASE
};

const SERVED: &[&str] = &["write", "verify", "expire"];

/// Detects bitmaps and layers, which belong to the multi-pack-index and change with it.
fn companions(candidate: &Candidate<'_>) -> Vec<Reason> {
    let mut given = candidate.survey.iter().flat_map(|survey| &survey.options);
    let dir = given.rfind(|given| given.name == "--object-dir").map(|given| given.value.as_ref());
    let repo = candidate.repo();
    match object_dirs::object_dir(candidate.run, repo, dir.flatten().map(|dir| dir.as_bstr())) {
        Ok(dir) if multi_pack_index::pack_dir(repo, &dir).is_ok() => Vec::new(),
        Ok(_) => vec![Reason::repository("there are bitmaps or layers of a multi-pack-index")],
        Err(_) => vec![Reason::command_line("a wrong object directory")],
    }
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let rest = TABLE.parse(args)?.store(&mut request)?;
    request.refuse_unserved()?;
    let repo = run.open()?;
    let settings = Settings::read(&repo)?;
    let dir = object_dirs::object_dir(run, &repo, request.object_dir.as_ref().map(|dir| dir.as_bstr()))?;
    let pack_dir = multi_pack_index::pack_dir(&repo, &dir)?;
    let shows = request.progress.unwrap_or_else(progress::has_terminal);
    let context = Context { run, repo: &repo, settings: &settings, pack_dir: &pack_dir, shows };
    match rest.first().filter(|_| rest.len() == 1).map(|name| name.as_slice()) {
        Some(b"write") => context.write(request),
        Some(b"verify") => context.verify(),
        Some(b"expire") => context.expire(),
        _ => {
            console::eprint_raw(TABLE.help().as_bytes());
            Err(Failure::Reported(129))
        }
    }
}

struct Context<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    settings: &'a Settings,
    pack_dir: &'a PackDir,
    shows: bool,
}

impl Context<'_> {
    fn library(&self) -> sapwood::Context<'_> {
        let session = Session { invocation: self.run, repository: self.repo, settings: self.settings };
        session.context(self.run)
    }

    fn progress(&self, title: &'static str) -> Progress {
        Progress::new(title, self.shows, self.settings.progress_delay)
    }

    fn write(&self, request: Request) -> Result<u8, Failure> {
        let packs = if request.stdin_packs { Some(self.names_from_input()?) } else { None };
        let version = multi_pack_index::version(self.repo)?;
        multi_pack_index::create(self.library(), self.pack_dir)?;
        let wanted = multi_pack_index::Request { packs, preferred: request.preferred_pack };
        let mut bar = None;
        let mut show = |step| self.found(&mut bar, step);
        let prepared = multi_pack_index::prepare(self.library(), self.pack_dir, version, &wanted, &mut show);
        if let Some(prepared) = prepared.map_err(failed)? {
            prepared.write()?;
        }
        Ok(0)
    }

    /// Reads the names of index files from standard input.
    fn names_from_input(&self) -> Result<Vec<BString>, Failure> {
        let (mut input, mut line, mut names) = (Input::new(self.run)?, Vec::new(), Vec::new());
        while input.line(b'\n', &mut line)? {
            names.push(line.strip_suffix(b"\r").unwrap_or(&line).into());
        }
        Ok(names)
    }

    /// Shows the number of packs.
    fn found(&self, bar: &mut Option<Progress>, step: Step) {
        let bar = bar.get_or_insert_with(|| self.progress("Adding packfiles to multi-pack-index"));
        match step {
            Step::Found(count) => bar.update(count, 0),
            Step::FoundAll(count) => bar.finish(count, 0),
            Step::Counted(_) => {}
        }
    }

    fn expire(&self) -> Result<u8, Failure> {
        let counting = self.progress("Counting referenced objects");
        let (mut adding, mut removing) = (None, None);
        let prepared = expire::prepare(self.library(), self.pack_dir, &mut |step| match step {
            Step::Counted(total) => {
                counting.update(total, total);
                counting.finish(total, total);
                removing = Some(self.progress("Finding and deleting unreferenced packfiles"));
            }
            step => self.found(&mut adding, step),
        });
        let Some(prepared) = prepared.map_err(failed)? else { return Ok(0) };
        let count = prepared.pack_count;
        prepared.execute()?;
        if let Some(bar) = removing {
            bar.update(count, count);
            bar.finish(count, count);
        }
        Ok(0)
    }

    fn verify(&self) -> Result<u8, Failure> {
        let titles = [
            "Looking for referenced packfiles",
            "Verifying OID order in multi-pack-index",
            "Sorting objects by packfile",
            "Verifying object offsets",
        ];
        let mut bars = titles.map(|title| Progress::new(title, self.shows, Duration::ZERO));
        bars[0] = self.progress(titles[0]);
        let checked = verify::check(self.library(), self.pack_dir, &mut |step, done, total| {
            let bar = &bars[step as usize];
            bar.update(done, total);
            if done == total {
                bar.finish(done, total);
            }
        })?;
        let Some(report) = checked else { return Ok(0) };
        let Some(verdict) = report.verdict else {
            return Err(Failure::error("multi-pack-index file exists, but failed to parse"));
        };
        verdict.lines.iter().for_each(console::eprint_line);
        match verdict.fatal {
            Some(error) => Err(Failure::fatal(error.to_string())),
            None if verdict.lines.is_empty() => Ok(0),
            None => Err(Failure::Reported(1)),
        }
    }
}

/// Returns the failure for a file that could not be made. The exit code of some is Git's -1.
fn failed(error: Error) -> Failure {
    use FileError::{EmptyPreferred, NoPack, NoPacks};
    match error {
        Error::MultiPackIndex(cause) if matches!(*cause, NoPack(_) | NoPacks | EmptyPreferred(_)) => {
            Failure::Error(cause.to_string().into(), 255)
        }
        error => error.into(),
    }
}
