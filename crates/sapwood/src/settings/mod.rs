//! The configuration as values: read once, and passed on.

pub mod config;
pub mod expiry;
pub mod objects;
pub mod refused;

use std::{
    sync::atomic::AtomicBool,
    time::{Duration, SystemTime},
};

use bstr::{BStr, BString, ByteSlice as _};
use engine::checkout::Workers;
use format::index::Index;
use repo::{
    Repository, keys,
    keys::{BoolOr, Key, LogAll},
};
pub use store::Fsync;
use store::{
    LockOptions, OBJECT_FILES_ARE_DEPRECATED, SharedRepository, Wait,
    index::{Access, Expire, ReadOptions, WriteOptions},
    refs::{Locks, LogPolicy},
};

use self::{expiry::expire_date, refused::Reader};
use crate::{events::Events, notice::Notice};

/// Why settings could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration or an environment variable cannot be read, or has an invalid value.
    #[error(transparent)]
    Config(#[from] repo::Error),
    /// Git refuses the value of a setting before it does anything.
    #[error(transparent)]
    Refused(#[from] refused::Refused),
    /// An environment variable must be a number.
    #[error("invalid value for '{name}': '{value}'")]
    NotANumber {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: BString,
    },
    /// A variable or setting must be a boolean.
    #[error("bad boolean {kind} value '{value}' for '{name}'")]
    NotABoolean {
        /// `config` or `environment`.
        kind: &'static str,
        /// The variable or setting.
        name: String,
        /// Its value.
        value: BString,
    },
    /// A setting of sapwood has an invalid value.
    #[error("bad value '{value}' for {name}: {expected}")]
    Own {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: BString,
        /// The valid values.
        expected: &'static str,
    },
    /// `core.sharedRepository` has an invalid value.
    #[error(transparent)]
    Shared(#[from] store::BadSharedRepository),
    /// The refs may not be changed in the hooks of a push, whose objects may be dropped.
    #[error("ref updates forbidden inside quarantine environment")]
    Quarantine,
}

/// The settings from the configuration and the environment that commands use.
pub struct Settings {
    /// `SAPWOOD_TEST_CHECKOUT_WORKERS`, `GIT_TEST_CHECKOUT_WORKERS`, `checkout.workers`
    pub workers: Workers,
    /// `checkout.thresholdForParallelism`
    pub threshold: usize,
    /// `core.bigFileThreshold`, bytes.
    pub big_file_threshold: u64,
    /// `core.symlinks`
    pub symlinks: bool,
    /// `sparse.expectFilesOutsideOfPatterns`
    pub expects_files: bool,
    /// `core.quotePath`
    pub quote_path: bool,
    /// `GIT_PROGRESS_DELAY`
    pub progress_delay: Duration,
    /// `index.threads`
    pub index_read: ReadOptions,
    /// `GIT_INDEX_VERSION`, `index.version`, `index.skipHash`, `index.threads`, `feature.manyFiles`
    pub index_write: WriteOptions,
    /// `core.fsync`, `core.fsyncMethod`, `core.fsyncObjectFiles`
    pub fsync: Fsync,
    /// `core.sharedRepository`, `core.lockfilePid`
    pub locks: LockOptions,
    /// Like `locks`, for configuration files, which several processes may change at once. The
    /// timeout is that of packed-refs (`core.packedRefsTimeout`), another file that all worktrees
    /// share.
    pub config_locks: LockOptions,
    /// `GIT_ADVICE`
    advice: bool,
    objects: objects::Settings,
    /// See [`Settings::with_object_warnings`].
    object_warning: fn(&str),
    /// The source, `GIT_INDEX_VERSION` or `index.version`, of an invalid index version.
    wrong_version: Option<&'static str>,
    /// True after the hint about an expanded sparse index, which is printed once.
    pub reported_expansion: AtomicBool,
}

impl Settings {
    /// Reads the settings. An invalid value is an error with Git's message.
    pub fn read(repo: &Repository, events: &dyn Events) -> Result<Settings, Error> {
        refused::check(repo, &[Reader::Every, Reader::Repository])?;
        let (workers, threshold) = parallelism(repo)?;
        let big_file_threshold = repo.config(&keys::core::BIG_FILE_THRESHOLD)?;
        let many_files = repo.config(&keys::feature::MANY_FILES)?;
        let threads = index_threads(repo)?;
        let extensions = repo.config_str(&keys::index::THREADS).is_some() && threads != 1;
        let (version, source) =
            match (repo.env().bytes("GIT_INDEX_VERSION"), repo.config(&keys::index::VERSION)?) {
                (Some(version), _) => (unsigned(version).or(Some(0)), "GIT_INDEX_VERSION"),
                (None, Some(version)) => (u32::try_from(version).ok(), keys::index::VERSION.name()),
                (None, None) => (many_files.then_some(4), ""),
            };
        let wrong_version = version.filter(|version| !(2..=4).contains(version)).map(|_| source);
        let locks = locks(repo)?;
        Ok(Settings {
            workers,
            threshold,
            big_file_threshold,
            symlinks: repo.config(&keys::core::SYMLINKS)?,
            expects_files: repo.config(&keys::sparse::EXPECT_FILES_OUTSIDE_OF_PATTERNS)?,
            quote_path: repo.config(&keys::core::QUOTE_PATH)?,
            progress_delay: progress_delay(repo.env().bytes("GIT_PROGRESS_DELAY")),
            index_read: ReadOptions { threads, ..ReadOptions::default() },
            index_write: WriteOptions {
                version,
                skip_hash: repo.config(&keys::index::SKIP_HASH)?.unwrap_or(many_files),
                threads,
                end_of_entries: repo.config(&keys::index::RECORD_END_OF_INDEX_ENTRIES)?.unwrap_or(extensions),
                offset_table: repo.config(&keys::index::RECORD_OFFSET_TABLE)?.unwrap_or(extensions),
                split: match repo
                    .env()
                    .bytes("GIT_TEST_SPLIT_INDEX")
                    .map(|value| repo::parse_bool(Some(value)))
                {
                    Some(Some(true)) => Some(true),
                    // A value that is not a boolean counts as unset.
                    _ => repo.config(&keys::core::SPLIT_INDEX).ok().flatten(),
                },
                max_percent_change: repo
                    .config(&keys::split_index::MAX_PERCENT_CHANGE)?
                    .and_then(|percent| u8::try_from(percent).ok()),
                shared_index_expire: shared_index_expire(
                    repo.config_str(&keys::split_index::SHARED_INDEX_EXPIRE),
                )
                .unwrap_or_default(),
                joins_shared: false,
                shared: shared(repo)?,
            },
            fsync: fsync(repo.env().bytes("GIT_TEST_FSYNC"), repo, events)?,
            locks,
            config_locks: LockOptions { wait: wait(repo, keys::core::PACKED_REFS_TIMEOUT)?, ..locks },
            objects: objects::Settings::read(repo)?,
            object_warning: |_| {},
            wrong_version,
            reported_expansion: AtomicBool::new(false),
            advice: !repo
                .env()
                .bytes("GIT_ADVICE")
                .is_some_and(|value| matches!(value.as_bytes(), b"0" | b"false" | b"no" | b"off")),
        })
    }

    /// Returns the settings for a command that looks up single entries of the index and neither
    /// changes the index nor acts on it: the entries stay in the mapped file. Before it prints, the
    /// command checks that the map stayed readable ([`sys::unreported_unreadable_map`]).
    pub fn for_lookups(self) -> Settings {
        let index_read = ReadOptions { access: Access::Lookups, ..self.index_read };
        Settings { index_read, ..self }
    }

    /// Returns the settings for a command that records the user's own work: see
    /// [`Fsync::for_recording`].
    pub fn for_recording(self) -> Settings {
        Settings { fsync: self.fsync.for_recording(), ..self }
    }

    /// Returns the settings with a receiver of warnings about writing objects. Workers call it, so
    /// these warnings are no notices.
    pub fn with_object_warnings(self, warn: fn(&str)) -> Settings {
        Settings { object_warning: warn, ..self }
    }

    /// Returns the options for writing `index`, that of `repo` or a copy. Warns if the index is new
    /// and the configured version is unknown.
    pub fn index_to_write(
        &self,
        repo: &Repository,
        index: &Index,
        split: Option<bool>,
        events: &dyn Events,
    ) -> WriteOptions {
        if let Some(source) = self.wrong_version.filter(|_| index.version.is_none()) {
            // One warning for each file.
            for _ in 0..1 + usize::from(split == Some(true)) {
                events.notice(Notice::UnknownIndexVersion(source));
            }
        }
        let joins_shared = split.is_none() && crate::index::has_lost_shared_half(repo, index);
        WriteOptions { split, joins_shared, ..self.index_write.clone() }
    }

    /// Returns the options for writing objects.
    pub fn objects<'a>(&'a self, repo: &'a Repository) -> store::objects::Options<'a> {
        store::objects::Options {
            warn: self.object_warning,
            ..self.objects.options(repo, self.locks.shared, &self.fsync)
        }
    }

    /// Returns the options for writing refs, for an operation that runs the hook
    /// `reference-transaction`. See [`crate::refs::options`].
    pub fn refs_with_hook(&self, repo: &Repository) -> Result<store::refs::Options, Error> {
        if repo.env().is_set("GIT_QUARANTINE_PATH") {
            // Set for the hooks of a push: its objects may be dropped.
            return Err(Error::Quarantine);
        }
        let log = match repo.config(&keys::core::LOG_ALL_REF_UPDATES)? {
            Some(BoolOr::Word(LogAll::Always)) => LogPolicy::Always,
            Some(BoolOr::Bool(true)) => LogPolicy::Standard,
            Some(BoolOr::Bool(false)) => LogPolicy::Never,
            None if repo.is_bare() => LogPolicy::Never,
            None => LogPolicy::Standard,
        };
        Ok(store::refs::Options {
            git_dir: repo.git_dir().to_owned(),
            common_dir: repo.refs_dir().to_owned(),
            display_dir: repo.display_refs_dir().to_owned(),
            hash: repo.hash(),
            committer: repo.committer().map_err(|error| error.to_string()),
            log,
            fsync: self.fsync,
            locks: Locks {
                loose: wait(repo, keys::core::FILES_REF_LOCK_TIMEOUT)?,
                packed: wait(repo, keys::core::PACKED_REFS_TIMEOUT)?,
                shared: self.locks.shared,
            },
        })
    }

    /// Returns true if the advice is enabled.
    pub fn advises(&self, repo: &Repository, advice: Key<bool>) -> Result<bool, repo::Error> {
        Ok(self.advice && repo.config(&advice)?)
    }
}

fn wait(repo: &Repository, key: Key<i32>) -> Result<Wait, repo::Error> {
    Ok(Wait::from_config(repo.config(&key)?.into()))
}

/// Returns the number of workers, and the number of files from which on they are used:
/// `SAPWOOD_TEST_CHECKOUT_WORKERS`, `GIT_TEST_CHECKOUT_WORKERS`, `checkout.workers` and
/// `checkout.thresholdForParallelism`.
fn parallelism(repo: &Repository) -> Result<(Workers, usize), Error> {
    const THRESHOLD: Key<i32> = keys::checkout::THRESHOLD_FOR_PARALLELISM;
    for name in ["SAPWOOD_TEST_CHECKOUT_WORKERS", "GIT_TEST_CHECKOUT_WORKERS"] {
        if let Some(value) = repo.env().bytes(name).filter(|value| !value.is_empty()) {
            let number = std::str::from_utf8(value).ok().and_then(|text| text.trim_start().parse().ok());
            let wrong = || Error::NotANumber { name, value: value.to_owned() };
            return Ok((workers(number.ok_or_else(wrong)?), 0));
        }
    }
    let number = repo.config(&keys::checkout::WORKERS)?;
    let threshold = repo.config(&THRESHOLD).map_err(|error| error.with_name(THRESHOLD.name()))?;
    // Git compares the number of files with it as an unsigned number.
    let threshold = usize::try_from(threshold).unwrap_or(usize::MAX);
    Ok((number.map_or(Workers::Auto, workers), threshold))
}

/// Returns the workers for a value of `checkout.workers`: below one, one for each core.
fn workers(number: i32) -> Workers {
    match usize::try_from(number) {
        Ok(number) if number >= 1 => Workers::Fixed(number),
        _ => Workers::Fixed(sys::cores()),
    }
}

/// Parses a number like C's `strtoul` and keeps the low 32 bits, like an `unsigned int`.
fn unsigned(text: &[u8]) -> Option<u32> {
    let is_space = |byte: &&u8| matches!(**byte, b' ' | b'\t'..=b'\r');
    let text = &text[text.iter().take_while(is_space).count()..];
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // A number that is too large becomes the largest possible one.
    let number = std::str::from_utf8(digits).ok()?.parse::<u64>();
    let number = number.map_or(u64::MAX, |number| if is_negative { number.wrapping_neg() } else { number });
    u32::try_from(number & u64::from(u32::MAX)).ok()
}

/// Returns `index.threads`: a number, 0 (automatic) for `true` or 0, 1 for `false`.
fn index_threads(repo: &Repository) -> Result<usize, repo::Error> {
    match repo.config_str(&keys::index::THREADS) {
        None => Ok(0),
        Some(value) if value.iter().all(u8::is_ascii_digit) && !value.is_empty() => {
            let number: Option<i32> = repo.config_as(&keys::index::THREADS)?;
            Ok(number.and_then(|number| usize::try_from(number).ok()).unwrap_or(0))
        }
        Some(_) => Ok(usize::from(repo.config_as(&keys::index::THREADS)? == Some(false))),
    }
}

/// Parses `splitIndex.sharedIndexExpire`. `None` for a date in an unsupported form.
pub fn shared_index_expire(date: Option<BString>) -> Option<Expire> {
    use engine::worktree::prune::Expire as Date;
    let Some(date) = date else { return Some(Expire::TwoWeeks) };
    match expire_date(date.as_bstr()).filter(|_| date != "false" && date != "all")? {
        Date::Now => Some(Expire::Before(SystemTime::now())),
        Date::At(0) => Some(Expire::Never),
        Date::At(time) => {
            Some(Expire::Before(SystemTime::UNIX_EPOCH + Duration::from_secs(time.max(0).unsigned_abs())))
        }
    }
}

/// `core.fsync`, `core.fsyncMethod`, `core.fsyncObjectFiles`. `test` is the value of
/// `GIT_TEST_FSYNC`.
pub fn fsync(test: Option<&BStr>, config: &dyn config::Config, events: &dyn Events) -> Result<Fsync, Error> {
    const OBJECT_FILES: Key<Option<bool>> = keys::core::FSYNC_OBJECT_FILES;
    if config.value(OBJECT_FILES.name()).is_some() {
        events.notice(Notice::Fsync(OBJECT_FILES_ARE_DEPRECATED.to_owned()));
    }
    for value in config.all(OBJECT_FILES.name()) {
        if repo::parse_bool(Some(value.as_bstr())).is_none() {
            let name = OBJECT_FILES.lower();
            return Err(Error::NotABoolean { kind: "config", name, value });
        }
    }
    let is_on = match test {
        None => None,
        Some(value) => Some(repo::parse_bool(Some(value)).ok_or_else(|| Error::NotABoolean {
            kind: "environment",
            name: "GIT_TEST_FSYNC".to_owned(),
            value: value.to_owned(),
        })?),
    };
    let (fsync, warnings) = Fsync::of(&store::ConfiguredFsync {
        components: config.all(keys::core::FSYNC.name()),
        methods: config.all(keys::core::FSYNC_METHOD.name()),
        object_files: config.get(&OBJECT_FILES)?,
        is_on,
    });
    warnings.into_iter().for_each(|warning| events.notice(Notice::Fsync(warning)));
    Ok(fsync)
}

/// `core.sharedRepository`, `core.lockfilePid`
pub fn locks(repo: &Repository) -> Result<LockOptions, Error> {
    let shared = shared(repo)?;
    Ok(LockOptions { wait: Wait::No, shared, record_pid: repo.config(&keys::core::LOCKFILE_PID)? })
}

/// `core.sharedRepository`
pub fn shared(repo: &Repository) -> Result<SharedRepository, Error> {
    Ok(engine::shared::of(repo.config_value(&keys::core::SHARED_REPOSITORY))?)
}

/// Returns the delay that `GIT_PROGRESS_DELAY` sets, in seconds; two seconds by default.
pub fn progress_delay(variable: Option<&BStr>) -> Duration {
    const DEFAULT: Duration = Duration::from_secs(2);
    let seconds = variable.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
    seconds.map_or(DEFAULT, Duration::from_secs)
}
