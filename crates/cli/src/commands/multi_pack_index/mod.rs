//! `sapwood multi-pack-index`: one index for all packs.
//!
//! Order of `write` and `expire`: arguments; standard input; the lock on the file; the old file;
//! the packs; the new file, which is on disk before anything is removed. A file that is up to date
//! is kept, even if the lock is held. Bitmaps, incremental files and `repack` are left to the real
//! Git.

mod options;

use std::time::Duration;

use bstr::{BString, ByteSlice as _};
use engine::midx::{self, Merged, Notice, PackDir, Packs, Preference};
use format::midx::Midx;
use repo::{Repository, keys};
use store::Lock;
use sys::{Map, by_path};

use self::options::{Request, TABLE};
use crate::{
    commands::{
        object_dirs,
        obstacles::{ANSWERING, LOOKING, PARTIAL_OR_GRAFTS},
        reason::Reason,
        record::{Candidate, Check, Command, Group, LineCheck, Traits},
    },
    session::{input::Input, invocation::Invocation, settings::Settings},
    term::{
        console::{self, text},
        failure::Failure,
        progress::{self, Progress},
        text::os_error,
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
    traits: Traits { plans_first: true, starts_no_program: true, ..Command::BASE.traits },
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
        Ok(dir) if !pack_dir(&dir, repo).has_companions() => Vec::new(),
        Ok(_) => vec![Reason::repository("there are bitmaps or layers of a multi-pack-index")],
        Err(_) => vec![Reason::command_line("a wrong object directory")],
    }
}

fn pack_dir(dir: &object_dirs::ObjectDir, repo: &Repository) -> PackDir {
    PackDir { path: dir.path.join("pack"), shown: dir.shown.join("pack"), hash: repo.hash() }
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let rest = TABLE.parse(args)?.store(&mut request)?;
    request.refuse_unserved()?;
    let repo = run.open()?;
    let settings = Settings::read(&repo)?;
    let dir = object_dirs::object_dir(run, &repo, request.object_dir.as_ref().map(|dir| dir.as_bstr()))?;
    let pack_dir = pack_dir(&dir, &repo);
    if pack_dir.has_companions() {
        return Err(Failure::Unserved("bitmaps and layers of multi-pack-indexes"));
    }
    let shows = request.progress.unwrap_or_else(progress::has_terminal);
    let context = Context { run, repo: &repo, settings: &settings, pack_dir: &pack_dir, shows };
    match rest.first().filter(|_| rest.len() == 1).map(|name| name.as_slice()) {
        Some(b"write") => context.write(&request),
        Some(b"verify") => context.verify(),
        Some(b"expire") => context.expire(),
        _ => {
            console::eprint_raw(TABLE.help().as_bytes());
            Err(Failure::Reported(129))
        }
    }
}

/// Git's exit code (-1) for a failure.
const FAILED: u8 = 255;

struct Context<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    settings: &'a Settings,
    pack_dir: &'a PackDir,
    shows: bool,
}

/// A new file that was not written yet.
struct Plan<'m> {
    packs: Packs<'m>,
    lock: Result<Lock, store::Error>,
    version: u8,
}

impl Context<'_> {
    fn progress(&self, title: &'static str) -> Progress {
        Progress::new(title, self.shows, self.settings.progress_delay)
    }

    /// Reads the old file. Prints its flaws; those that are fatal in Git are errors.
    fn load(&self) -> Result<Option<Midx<Map>>, Failure> {
        match self.pack_dir.load() {
            Ok(found) => Ok(found),
            Err(midx::Error::Midx(error)) => {
                if let format::midx::Error::Chunk { why: Some(why), .. } = &error {
                    console::error(why.to_string());
                }
                if error.is_fatal() {
                    return Err(Failure::fatal(error.to_string()));
                }
                console::error(match error {
                    format::midx::Error::TooSmall => {
                        let path = self.pack_dir.shown.join("multi-pack-index");
                        format!("multi-pack-index file {} is too small", path.display())
                    }
                    error => error.to_string(),
                });
                Ok(None)
            }
            Err(error) => Err(Failure::fatal(error.to_string())),
        }
    }

    /// Like [`Context::load`], but `None` if the configuration disables the file.
    fn load_if_used(&self) -> Result<Option<Midx<Map>>, Failure> {
        let is_used = self.repo.config(&keys::core::MULTI_PACK_INDEX)?;
        if is_used { self.load() } else { Ok(None) }
    }

    /// Returns the version to write.
    fn version(&self) -> Result<u8, Failure> {
        match self.repo.config(&keys::midx::VERSION)? {
            None => Ok(1),
            Some(version @ (1 | 2)) => Ok(version as u8),
            Some(version) => Err(Failure::fatal(format!("unknown MIDX version: {version}"))),
        }
    }

    fn lock(&self) -> Result<Lock, store::Error> {
        Lock::take(&self.pack_dir.midx(), &self.settings.locks)
    }

    fn write(&self, request: &Request) -> Result<u8, Failure> {
        let include = if request.stdin_packs { Some(self.names_from_input()?) } else { None };
        let version = self.version()?;
        self.settings.locks.shared.create_dir_all(&self.pack_dir.path).map_err(|error| {
            let path = self.pack_dir.shown.join("multi-pack-index");
            let reason = os_error(&error);
            Failure::fatal(format!("unable to create leading directories of {}: {reason}", path.display()))
        })?;
        let lock = self.lock();
        let mut old = if include.is_none() { self.load_if_used()? } else { None };
        if old.as_ref().is_some_and(|old| !old.has_valid_checksum()) {
            console::warning("ignoring existing multi-pack-index; checksum mismatch");
            old = None;
        }
        // With such an old file, the other copies of the objects in the temporary pack would be
        // missing.
        old = old.filter(|old| PackDir::temporary_pack(old).is_none());
        let packs = match self.find(old.as_ref(), include.as_deref()) {
            Err(midx::Error::NoPack(number)) => {
                console::error(midx::Error::NoPack(number).to_string());
                return Err(Failure::Reported(FAILED));
            }
            found => found.map_err(|error| Failure::fatal(error.to_string()))?,
        };
        let other = if old.is_none() { self.load()?.filter(Midx::has_valid_checksum) } else { None };
        let current = old.as_ref().or(other.as_ref());
        if current.is_some_and(|current| current.version() == version && packs.are_those_of(current)) {
            return Ok(0);
        }
        let mut plan = Plan { packs, lock, version };
        if let Some(name) = &request.preferred_pack {
            match plan.packs.prefer(name.as_bstr()) {
                Preference::Preferred => {}
                Preference::Unknown => console::warning(format!("unknown preferred pack: '{name}'")),
                Preference::Unreadable(name) => {
                    return Err(Failure::fatal(format!("failed to open preferred pack {name}")));
                }
                Preference::Empty(path) => {
                    let path = path.display();
                    console::error(format!("cannot select preferred pack {path} with no objects"));
                    return Err(Failure::Reported(FAILED));
                }
            }
        }
        self.publish(plan, &[])
    }

    /// Reads the names of index files from standard input.
    fn names_from_input(&self) -> Result<Vec<BString>, Failure> {
        let (mut input, mut line, mut names) = (Input::new(self.run)?, Vec::new(), Vec::new());
        while input.line(b'\n', &mut line)? {
            names.push(line.strip_suffix(b"\r").unwrap_or(&line).into());
        }
        Ok(names)
    }

    fn find<'m>(
        &'m self,
        old: Option<&'m Midx<Map>>,
        include: Option<&[BString]>,
    ) -> Result<Packs<'m>, midx::Error> {
        let progress = self.progress("Adding packfiles to multi-pack-index");
        let mut found = 0;
        let mut report = |notice| match notice {
            Notice::Error(message) => console::error(message),
            Notice::Warning(message) => console::warning(message),
        };
        let packs = Packs::find(self.pack_dir, old, include, &mut report, &mut || {
            found += 1;
            progress.update(found, 0);
        })?;
        progress.finish(found, 0);
        Ok(packs)
    }

    /// Writes the file, without the packs in `dropped`.
    fn publish(&self, plan: Plan<'_>, dropped: &[&bstr::BStr]) -> Result<u8, Failure> {
        let merged = Merged::new(&plan.packs, dropped, self.run.interrupt.flag());
        self.run.interrupt.check()?;
        let merged = merged.map_err(|error| Failure::fatal(error.to_string()))?;
        let names = merged.pack_names();
        if names.is_empty() {
            console::error("no pack files to index.");
            return Err(Failure::Reported(FAILED));
        }
        if let Some(pack) = merged.needed_but_dropped() {
            return Err(Failure::fatal(format!("pack '{}' is still needed", pack.display())));
        }
        let lock = plan.lock.map_err(Failure::from)?;
        self.run.interrupt.check()?;
        store::midx::write(lock, plan.version, self.pack_dir.hash, &names, &merged, &self.settings.fsync)?;
        Ok(0)
    }

    fn expire(&self) -> Result<u8, Failure> {
        let lock = self.lock();
        let Some(old) = self.load_if_used()? else { return Ok(0) };
        let total = old.count() as usize;
        let counting = self.progress("Counting referenced objects");
        let unused = midx::unused(self.pack_dir, &old).map_err(|error| Failure::fatal(error.to_string()))?;
        counting.update(total, total);
        counting.finish(total, total);
        let pack_count = old.pack_names().len();
        let removing = self.progress("Finding and deleting unreferenced packfiles");
        if unused.is_empty() {
            removing.update(pack_count, pack_count);
            removing.finish(pack_count, pack_count);
            return Ok(0);
        }
        // A corrupt file must not determine which packs are removed.
        if !old.has_valid_checksum() {
            return Err(Failure::fatal(
                "cannot expire packs: the multi-pack-index has an incorrect checksum",
            ));
        }
        if let Some(name) = PackDir::temporary_pack(&old) {
            return Err(Failure::fatal(text!(
                "cannot expire packs: '",
                name,
                "' belongs to an unfinished repack; run 'git multi-pack-index write' first"
            )));
        }
        for pack in &unused {
            if let Some(oid) = pack.missing_elsewhere(self.pack_dir, &old) {
                let message = format!("cannot expire packs: object {oid} is only in '{}'", pack.name);
                return Err(Failure::fatal(message));
            }
        }
        let version = self.version()?;
        let packs = match self.find(Some(&old), None) {
            Err(midx::Error::NoPack(number)) => {
                console::error(midx::Error::NoPack(number).to_string());
                return Err(Failure::Reported(FAILED));
            }
            found => found.map_err(|error| Failure::fatal(error.to_string()))?,
        };
        let dropped: Vec<_> = unused.iter().map(|pack| pack.name.as_bstr()).collect();
        let code = self.publish(Plan { packs, lock, version }, &dropped)?;
        for pack in &unused {
            pack.remove();
        }
        removing.update(pack_count, pack_count);
        removing.finish(pack_count, pack_count);
        Ok(code)
    }

    fn verify(&self) -> Result<u8, Failure> {
        let Some(found) = self.load()? else {
            return match by_path::stat_followed(&self.pack_dir.midx()) {
                Ok(Some(_)) => {
                    console::error("multi-pack-index file exists, but failed to parse");
                    Err(Failure::Reported(1))
                }
                _ => Ok(0),
            };
        };
        let titles = [
            "Looking for referenced packfiles",
            "Verifying OID order in multi-pack-index",
            "Sorting objects by packfile",
            "Verifying object offsets",
        ];
        let mut bars = titles.map(|title| Progress::new(title, self.shows, Duration::ZERO));
        bars[0] = self.progress(titles[0]);
        let interrupt = &self.run.interrupt;
        let verdict = midx::verify(self.pack_dir, &found, interrupt.flag(), &mut |step, done, total| {
            let bar = &bars[step as usize];
            bar.update(done, total);
            if done == total {
                bar.finish(done, total);
            }
        });
        interrupt.check()?;
        if verdict.unusable_pack {
            return Err(Failure::Unserved("packs that cannot be used"));
        }
        verdict.lines.iter().for_each(console::eprint_line);
        match verdict.fatal {
            Some(error) => Err(Failure::fatal(error.to_string())),
            None if verdict.lines.is_empty() => Ok(0),
            None => Err(Failure::Reported(1)),
        }
    }
}
