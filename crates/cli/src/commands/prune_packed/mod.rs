//! `sapwood prune-packed`: removes loose objects that packs also contain.
//!
//! Order: arguments; the loose objects, one directory after another; the pack directories, which
//! are synced before the first object is removed; then objects and empty directories. A directory
//! that cannot be listed ends the work, as in Git. An object is kept if its pack cannot be used.

use std::path::{Path, PathBuf};

use bstr::BString;
use repo::{Repository, objects::Objects};
use sapwood::ObjectId;
use store::{Components, Fsync};
use sys::by_path;

use crate::{
    commands::{
        obstacles::{ANSWERING, LOOKING, PARTIAL_OR_GRAFTS, grafts, partial},
        reason::Reason,
        record::{Candidate, Check, Command, Group, LineCheck, Traits},
    },
    session::{invocation::Invocation, settings},
    term::{
        args::{Grammar, Native::Both, Opt, Set, Survey, Table},
        console,
        failure::Failure,
        notice,
        progress::{self, Progress},
        text::os_error,
    },
};

/// The record of `prune-packed`.
pub(super) const COMMAND: Command = Command {
    name: "prune-packed",
    summary: "Remove extra objects that are already in pack files",
    about: "Removes loose objects that are in packs too. The directory of packs is synced first, so that a \
            power cut leaves at least one copy of each object.",
    group: Group::Scripts,
    syntax: &TABLE,
    traits: Traits { starts_no_program: true, ..Command::BASE.traits },
    settings: &[LOOKING],
    line: &[LineCheck::new("any argument", arguments)],
    checks: &[ANSWERING, &[Check::new(PARTIAL_OR_GRAFTS, repository)]],
    run,
    ..Command::BASE
};

const TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood prune-packed [-n | --dry-run] [-q | --quiet]"],
    options: &[
        Opt::flag("-n, --dry-run", "dry run", |request: &mut Request| &mut request.dry_run).native(Both),
        Opt::choice("-q, --quiet", "be quiet", |request: &mut Request| &mut request.quiet).native(Both),
    ],
    grammar: Grammar::Mixed,
};

#[derive(Default)]
struct Request {
    dry_run: bool,
    quiet: Option<bool>,
}

/// The number of loose-object directories.
const DIRECTORIES: usize = 256;

fn arguments(survey: &Survey, _: &[BString]) -> Option<Reason> {
    (!survey.rest.is_empty()).then(|| Reason::command_line("too many arguments"))
}

fn repository(candidate: &Candidate<'_>) -> Vec<Reason> {
    let mut found = partial(candidate.repo());
    found.extend(grafts(candidate.repo()));
    found
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    if !TABLE.parse(args)?.store(&mut request)?.is_empty() {
        console::report("fatal", "too many arguments\n");
        console::eprint_raw(TABLE.help().as_bytes());
        return Err(Failure::Reported(129));
    }
    let repo = run.open()?;
    let visible = request.quiet.map_or_else(progress::has_terminal, |quiet| !quiet);
    let delay = progress::delay(run.variable("GIT_PROGRESS_DELAY"));
    let progress = Progress::new("Removing duplicate objects", visible, delay);
    // Search the stored objects: a replacement does not stand for the object that it replaces.
    let objects = repo.stored_objects();
    let mut pruning = Pruning {
        shown: repo.display_objects_dir(),
        fsync: settings::fsync(run, &repo)?,
        repo: &repo,
        objects: &objects,
        dry_run: request.dry_run,
        are_packs_synced: false,
    };
    for number in 0..=u8::MAX {
        run.interrupt.check()?;
        if !pruning.prune_directory(&format!("{number:02x}"))? {
            break;
        }
        progress.update(usize::from(number) + 1, DIRECTORIES);
    }
    progress.finish(DIRECTORIES, DIRECTORIES);
    notice::print_object_store_errors(&repo);
    Ok(0)
}

struct Pruning<'a> {
    repo: &'a Repository,
    objects: &'a Objects,
    /// The path of the object directory in messages.
    shown: PathBuf,
    fsync: Fsync,
    dry_run: bool,
    are_packs_synced: bool,
}

impl Pruning<'_> {
    /// Prunes the directory called `name`. Returns false if it cannot be listed.
    fn prune_directory(&mut self, name: &str) -> Result<bool, Failure> {
        let dir = self.repo.objects_dir().join(name);
        let shown = self.shown.join(name);
        let files = match by_path::list(&dir) {
            Ok(files) => files,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(true),
            Err(error) => {
                console::error(format!("unable to open {}: {}", shown.display(), os_error(&error)));
                return Ok(false);
            }
        };
        let hash = self.repo.hash();
        for (file, _) in files {
            let hex = [name.as_bytes(), file.as_encoded_bytes()].concat();
            let oid = ObjectId::from_hex(hash, &hex).filter(|_| hex.len() == hash.hex_len());
            if oid.is_some_and(|oid| self.objects.locate_packed(&oid).is_some()) {
                self.prune(&dir.join(&file), &shown.join(&file))?;
            }
        }
        if !self.dry_run {
            // The removal fails, as intended, unless the directory is empty.
            let _ = by_path::remove_dir(&dir);
        }
        Ok(true)
    }

    fn prune(&mut self, path: &Path, shown: &Path) -> Result<(), Failure> {
        if self.dry_run {
            console::out([b"rm -f ", shown.as_os_str().as_encoded_bytes()].concat());
            return Ok(());
        }
        self.sync_packs()?;
        match by_path::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                console::warning(format!("unable to unlink '{}': {}", shown.display(), os_error(&error)));
            }
            _ => {}
        }
        Ok(())
    }

    /// Makes the directory entries of the packs durable, once.
    fn sync_packs(&mut self) -> Result<(), Failure> {
        if self.are_packs_synced {
            return Ok(());
        }
        for dir in self.objects.directories().map(|dir| dir.join("pack")) {
            match self.fsync.directory(Components::PACK, &dir) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    let reason = os_error(&error);
                    return Err(Failure::fatal(format!("could not sync '{}': {reason}", dir.display())));
                }
                _ => {}
            }
        }
        self.are_packs_synced = true;
        Ok(())
    }
}
