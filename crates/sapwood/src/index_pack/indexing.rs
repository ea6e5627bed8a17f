//! The steps of indexing a pack.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use bstr::{BString, ByteSlice as _};
use engine::{
    midx::Notice as ObjectFile,
    pack_indexing::{self, Plan, Received, incoming},
};
use format::{HashKind, ObjectId, idx_writer::Form};
use repo::{
    Env, Repository, StandaloneConfig,
    fsck::{Absent, Checker, Late, Line, Rules},
    keys,
    objects::Objects,
    pack_indexing::{Indexed, Meter, Observer, Options as Reading, Source},
};
use store::{
    Fsync,
    pack::{Beside, FinishOptions, Target},
};
use sys::{File, by_path};

use super::{Options, Request, receive, unsupported, verify};
use crate::{
    Error, Events, Notice,
    settings::{self, config::Config},
    text,
};

/// A repository, or the configuration outside of any, and the receiver of reports.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    repo: Option<&'a Repository>,
    config: &'a dyn Config,
    env: &'a Env,
    events: &'a dyn Events,
    interrupt: &'a AtomicBool,
}

impl<'a> Place<'a> {
    /// In a repository.
    pub fn of(repo: &'a Repository, events: &'a dyn Events, interrupt: &'a AtomicBool) -> Place<'a> {
        Place { repo: Some(repo), config: repo, env: repo.env(), events, interrupt }
    }

    /// Outside of repositories.
    pub fn outside(
        config: &'a StandaloneConfig,
        events: &'a dyn Events,
        interrupt: &'a AtomicBool,
    ) -> Place<'a> {
        Place { repo: None, config, env: config.env(), events, interrupt }
    }
}

/// Indexes one pack.
pub struct Indexing<'a> {
    place: Place<'a>,
    threads: usize,
    limit: Option<u64>,
    base_cache: usize,
    big_file_threshold: u64,
    form: Form,
    reverse: bool,
    fsync: Fsync,
    hash: HashKind,
    checker: Option<Checker>,
}

/// A pack file that is open, and the files beside it.
pub struct PackFile {
    name: BString,
    file: File,
    index: PathBuf,
    reverse: Option<PathBuf>,
    form: Form,
}

/// The objects of a pack.
pub struct Contents {
    objects: Indexed,
    /// The trailer of the pack.
    pub checksum: ObjectId,
}

impl<'a> Indexing<'a> {
    /// Reads the settings.
    pub fn new(place: Place<'a>, options: &Options) -> Result<Indexing<'a>, Error> {
        let Place { repo, config, env, events, .. } = place;
        let configured = config.get(&keys::pack::THREADS)?.unwrap_or(0);
        let configured = usize::try_from(configured)
            .map_err(|_| Error::failed(format!("invalid number of threads specified ({configured})")))?;
        let version = config.get(&keys::pack::INDEX_VERSION)?;
        if let Some(version) = version.filter(|version| !(0..=2).contains(version)) {
            return Err(Error::failed(format!("bad pack.indexVersion={}", version as u32)));
        }
        let writes_reverse = config.get(&keys::pack::WRITE_REVERSE_INDEX)?;
        let forbids = env.bytes("GIT_TEST_NO_WRITE_REV_INDEX").map(|value| repo::parse_bool(Some(value)));
        let base_cache = config.get(&keys::core::DELTA_BASE_CACHE_LIMIT)?;
        let hash = match repo {
            Some(repo) => options.hash.unwrap_or_else(|| repo.hash()),
            None if options.checks.is_some() => return Err(unsupported("these words of index-pack")),
            None => options.hash.unwrap_or(HashKind::Sha1),
        };
        let big_file_threshold = config.get(&keys::core::BIG_FILE_THRESHOLD)?;
        let checker = match &options.checks {
            Some(words) => {
                let mut rules = Rules::strict(hash);
                let set = words.iter().try_for_each(|words| rules.set_all(words.as_bstr()));
                set.map_err(|error| Error::failed(error.to_string()))?;
                let checker = Checker::new(rules, big_file_threshold);
                Some(if options.strict { checker.collecting() } else { checker })
            }
            None => None,
        };
        let default = Form::default();
        Ok(Indexing {
            checker,
            threads: options
                .threads
                .or(Some(configured).filter(|&number| number > 0))
                .unwrap_or_else(incoming::threads),
            limit: options.limit,
            base_cache: usize::try_from(base_cache).unwrap_or(usize::MAX),
            big_file_threshold,
            form: Form {
                version: options.version.or(version.map(|version| version as u32)).unwrap_or(default.version),
                largest_short: options.largest_short.unwrap_or(default.largest_short),
                ..default
            },
            reverse: options.reverse.unwrap_or(writes_reverse && forbids != Some(Some(true))),
            fsync: settings::fsync(env.bytes("GIT_TEST_FSYNC"), config, events)?,
            hash,
            place,
        })
    }

    /// Replaces the place: another receiver gets the reports from now on.
    pub(super) fn at(self, place: Place<'_>) -> Indexing<'_> {
        let Indexing { threads, limit, base_cache, big_file_threshold, form, .. } = self;
        let Indexing { reverse, fsync, hash, checker, .. } = self;
        Indexing {
            place,
            threads,
            limit,
            base_cache,
            big_file_threshold,
            form,
            reverse,
            fsync,
            hash,
            checker,
        }
    }

    /// Reads a pack from a stream, and publishes it in the repository. `on_end` is called after the
    /// whole pack was read.
    pub fn receive(
        &self,
        request: &receive::Request,
        source: Source<'_>,
        on_end: &dyn Fn(),
        meter: &Meter,
    ) -> Result<Received, Error> {
        let Some(repo) = self.place.repo else {
            return Err(Error::failed("--stdin requires a git repository"));
        };
        if request.options.hash.is_some() {
            return Err(Error::failed("options '--object-format' and '--stdin' cannot be used together"));
        }
        let existing = repo.stored_objects();
        let shared = settings::shared(repo)?;
        let level = settings::objects::loose_level(repo)?;
        let finish = FinishOptions { index: self.form.clone(), reverse_index: self.reverse };
        let validate = || self.validate();
        let plan = Plan {
            target: Target { objects: repo.objects_dir(), hash: self.hash, shared, fsync: &self.fsync },
            finish: &finish,
            complete: request.fix_thin.then_some(level),
            companion_files: request.keep.iter().map(|keep| ("keep", kept(keep))).collect(),
            on_end,
            validate: &validate,
            keeps_partial: false,
        };
        let received = pack_indexing::receive(source, &self.reading(meter, Some(&existing)), plan);
        received.map_err(|error| self.failed(error))
    }

    /// Opens a pack file.
    pub fn open(&self, request: &Request) -> Result<PackFile, Error> {
        let name = request.pack.clone();
        let index = match &request.index {
            Some(index) => index.clone(),
            None => derived(&name, "pack", "idx")?,
        };
        let reverse = if self.reverse { Some(path(&derived(&index, "idx", "rev")?)) } else { None };
        let form = if request.verify {
            verify::form(&index, self.hash, &self.form, self.place.events)?
        } else {
            self.form.clone()
        };
        let file = by_path::open(&path(&name)).map_err(cannot_open(&path(&name)))?;
        Ok(PackFile { name, file, index: path(&index), reverse, form })
    }

    /// Reads a pack file.
    pub fn read(&self, pack: &PackFile, meter: &Meter) -> Result<Contents, Error> {
        let existing = self.place.repo.map(Repository::stored_objects);
        let reading = self.reading(meter, existing.as_ref());
        let read = pack_indexing::index(&pack.file, &path(&pack.name), &reading);
        let (objects, checksum) = read.map_err(|error| self.failed(error))?;
        Ok(Contents { objects, checksum })
    }

    /// Checks the objects of a pack file that was read, before any file is written.
    pub fn check(&self, pack: &PackFile) -> Result<(), Error> {
        self.validate().map_err(|error| self.failed(error))?;
        self.check_early_files(&path(&pack.name))
    }

    /// Compares the existing files with those that [`Indexing::write`] would write.
    pub fn verify(&self, pack: &PackFile, contents: &Contents) -> Result<(), Error> {
        let Contents { objects, checksum } = contents;
        verify::check(&pack.index, pack.reverse.as_deref(), objects, checksum, &pack.form)
    }

    /// Writes the files beside a pack file. `keep` is the line of a file with the suffix `.keep`.
    pub fn write(&self, pack: &PackFile, keep: Option<&BString>, contents: &Contents) -> Result<(), Error> {
        let mut beside =
            Beside { index: pack.index.clone(), reverse: pack.reverse.clone(), marks: Vec::new() };
        if let Some(keep) = keep {
            beside.marks.push((path(&derived(&pack.name, "pack", "keep")?), kept(keep)));
        }
        let Contents { objects, checksum } = contents;
        let written = store::pack::write_beside(&beside, objects, checksum, &pack.form, &self.fsync);
        written.map_err(|error| self.failed(error.into()))
    }

    /// Runs the checks that need the finished pack. Returns the files that are missing.
    pub fn finish(&self) -> Result<Vec<ObjectId>, Error> {
        let (Some(checker), Some(repo)) = (&self.checker, self.place.repo) else { return Ok(Vec::new()) };
        let missing = checker.finish(&repo.stored_objects(), Absent::Reported, &mut |line| self.report(line));
        missing.map_err(|error| self.failed(error.into()))
    }

    fn reading<'o>(&'o self, meter: &'o Meter, existing: Option<&'o Objects>) -> Reading<'o> {
        Reading {
            hash: self.hash,
            threads: self.threads,
            big_file_threshold: self.big_file_threshold,
            base_cache: self.base_cache,
            limit: self.limit,
            existing,
            interrupt: self.place.interrupt,
            meter,
            observer: self.checker.as_ref().map(|checker| checker as &dyn Observer),
        }
    }

    /// Reports flaws of the objects, before any file is written.
    fn validate(&self) -> Result<(), pack_indexing::Error> {
        let (Some(checker), Some(repo)) = (&self.checker, self.place.repo) else { return Ok(()) };
        checker.verdict(&mut |line| self.report(line))?;
        Ok(checker.links(&repo.stored_objects())?)
    }

    /// Checks the blobs that preceded the trees that name them, if the pack is not in the
    /// repository.
    fn check_early_files(&self, pack: &Path) -> Result<(), Error> {
        let (Some(checker), Some(repo)) = (&self.checker, self.place.repo) else { return Ok(()) };
        let existing = repo.stored_objects();
        if !checker.lacks_files(&existing) {
            return Ok(());
        }
        let file = by_path::open(pack).map_err(cannot_open(pack))?;
        let (late, meter) = (Late(checker), Meter::default());
        let reading = Reading { observer: Some(&late), ..self.reading(&meter, Some(&existing)) };
        pack_indexing::index(&file, pack, &reading).map_err(|error| self.failed(error))?;
        Ok(())
    }

    fn report(&self, line: &Line) {
        self.place.events.notice(Notice::ObjectFlaw(line.clone()));
    }

    /// Returns the error in Git's words.
    fn failed(&self, error: pack_indexing::Error) -> Error {
        use store::Error::Io;
        if self.place.interrupt.load(Ordering::Relaxed) {
            return Error::Interrupted;
        }
        match &error {
            pack_indexing::Error::Pack(error) => {
                let report = |flaw| self.place.events.notice(Notice::ObjectFile(ObjectFile::Error(flaw)));
                error.complaint().into_iter().for_each(report);
            }
            pack_indexing::Error::Store(Io { what: "write", source, .. }) => {
                return Error::failed(format!("write error: {}", sys::reason(source)));
            }
            pack_indexing::Error::Store(Io { what: "create", path, source }) => {
                let (path, reason) = (path.display(), sys::reason(source));
                return Error::failed(format!("unable to create '{path}': {reason}"));
            }
            _ => {}
        }
        error.into()
    }
}

/// Returns the content of a file with the suffix `.keep`.
fn kept(text: &BString) -> Vec<u8> {
    if text.is_empty() { Vec::new() } else { [text.as_bytes(), b"\n"].concat() }
}

/// Returns `name` with another suffix.
pub(super) fn derived(name: &BString, from: &str, to: &str) -> Result<BString, Error> {
    let stem = name.strip_suffix(from.as_bytes()).filter(|stem| stem.ends_with(b"."));
    let wrong = || Error::Failed(text!("packfile name '", name, "' does not end with '.", from, "'"));
    Ok(text!(stem.ok_or_else(wrong)?, to))
}

pub(super) fn path(name: &BString) -> PathBuf {
    sys::os_str(name).into()
}

pub(super) fn cannot_open(path: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    move |error| {
        let (path, reason) = (path.display(), sys::reason(&error));
        Error::failed(format!("could not open '{path}' for reading: {reason}"))
    }
}
