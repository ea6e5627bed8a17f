//! The configuration as values: read once, and passed on.

pub(crate) mod config;
pub(crate) mod expiry;
pub(crate) mod objects;
pub(crate) mod refused;
pub(crate) mod rules;

use std::{
    sync::atomic::AtomicBool,
    time::{Duration, SystemTime},
};

use bstr::{BString, ByteSlice as _};
use engine::checkout::Workers;
use format::index::Index;
use repo::Repository;
use store::{
    Fsync, LockOptions, OBJECT_FILES_ARE_DEPRECATED, SharedRepository, Wait,
    index::{Access, Expire, ReadOptions, WriteOptions},
    refs::{Locks, LogPolicy},
};

use self::refused::Reader;
use crate::{
    session::{hooks, invocation::Invocation, settings::expiry::expire_date},
    term::{
        console::{self, text},
        failure::Failure,
        progress,
    },
};

/// The settings from the configuration and the environment that commands use.
pub(crate) struct Settings {
    /// `SAPWOOD_TEST_CHECKOUT_WORKERS`, `GIT_TEST_CHECKOUT_WORKERS`, `checkout.workers`
    pub(crate) workers: Workers,
    /// `checkout.thresholdForParallelism`
    pub(crate) threshold: usize,
    /// `core.bigFileThreshold`, bytes.
    pub(crate) big_file_threshold: u64,
    /// `core.symlinks`
    pub(crate) symlinks: bool,
    /// `sparse.expectFilesOutsideOfPatterns`
    pub(crate) expects_files: bool,
    /// `core.quotePath`
    pub(crate) quote_path: bool,
    /// `GIT_PROGRESS_DELAY`
    pub(crate) progress_delay: Duration,
    /// `index.threads`
    pub(crate) index_read: ReadOptions,
    /// `GIT_INDEX_VERSION`, `index.version`, `index.skipHash`, `index.threads`, `feature.manyFiles`
    pub(crate) index_write: WriteOptions,
    /// `core.fsync`, `core.fsyncMethod`, `core.fsyncObjectFiles`
    pub(crate) fsync: Fsync,
    /// `core.sharedRepository`, `core.lockfilePid`
    pub(crate) locks: LockOptions,
    /// Like `locks`, for configuration files, which several processes may change at once. The
    /// timeout is that of packed-refs (`core.packedRefsTimeout`), another file that all worktrees
    /// share.
    pub(crate) config_locks: LockOptions,
    /// `GIT_ADVICE`
    advice: bool,
    objects: objects::Settings,
    /// The source, `GIT_INDEX_VERSION` or `index.version`, of an invalid index version.
    wrong_version: Option<&'static str>,
    /// True after the hint about an expanded sparse index, which is printed once.
    pub(crate) reported_expansion: AtomicBool,
}

impl Settings {
    /// Reads the settings. An invalid value is an error with Git's message.
    pub(crate) fn read(run: &Invocation, repo: &Repository) -> Result<Settings, Failure> {
        refused::check(repo, &[Reader::Every, Reader::Repository])?;
        let flag = |key, default| Ok::<bool, repo::Error>(repo.config_bool(key)?.unwrap_or(default));
        let (workers, threshold) = parallelism(run, repo)?;
        let big = repo.config_size("core.bigFileThreshold")?;
        let many_files = flag("feature.manyFiles", false)?;
        let threads = index_threads(repo)?;
        let extensions = repo.config_str("index.threads").is_some() && threads != 1;
        let (version, source) = match (run.variable("GIT_INDEX_VERSION"), repo.config_int("index.version")?) {
            (Some(version), _) => (unsigned(version).or(Some(0)), "GIT_INDEX_VERSION"),
            (None, Some(version)) => (u32::try_from(version).ok(), "index.version"),
            (None, None) => (many_files.then_some(4), ""),
        };
        let wrong_version = version.filter(|version| !(2..=4).contains(version)).map(|_| source);
        let locks = LockOptions {
            wait: Wait::No,
            shared: shared(repo)?,
            record_pid: flag("core.lockfilePid", false)?,
        };
        Ok(Settings {
            workers,
            threshold,
            big_file_threshold: big.unwrap_or(512 << 20),
            symlinks: flag("core.symlinks", true)?,
            expects_files: flag("sparse.expectFilesOutsideOfPatterns", false)?,
            quote_path: flag("core.quotePath", true)?,
            progress_delay: progress::delay(run.variable("GIT_PROGRESS_DELAY")),
            index_read: ReadOptions { threads, ..ReadOptions::default() },
            index_write: WriteOptions {
                version,
                skip_hash: flag("index.skipHash", many_files)?,
                threads,
                end_of_entries: flag("index.recordEndOfIndexEntries", extensions)?,
                offset_table: flag("index.recordOffsetTable", extensions)?,
                split: match run
                    .variable("GIT_TEST_SPLIT_INDEX")
                    .map(|value| repo::parse_bool(Some(value.as_bstr())))
                {
                    Some(Some(true)) => Some(true),
                    // A value that is not a boolean counts as unset.
                    _ => repo.config_bool("core.splitIndex").ok().flatten(),
                },
                max_percent_change: repo
                    .config_int("splitIndex.maxPercentChange")?
                    .and_then(|percent| u8::try_from(percent).ok()),
                shared_index_expire: shared_index_expire(repo.config_str("splitIndex.sharedIndexExpire"))
                    .unwrap_or_default(),
                shared: shared(repo)?,
            },
            fsync: fsync(run, repo)?,
            locks,
            config_locks: LockOptions { wait: wait(repo, "core.packedRefsTimeout", 1000)?, ..locks },
            objects: objects::Settings::read(repo)?,
            wrong_version,
            reported_expansion: AtomicBool::new(false),
            advice: !matches!(run.variable("GIT_ADVICE"), Some(b"0" | b"false" | b"no" | b"off")),
        })
    }

    /// Returns the settings for a command that looks up single entries of the index and neither
    /// changes the index nor acts on it: the entries stay in the mapped file. Before it prints, the
    /// command calls
    /// [`failure::must_have_been_readable`](crate::term::failure::must_have_been_readable).
    pub(crate) fn for_lookups(self) -> Settings {
        let index_read = ReadOptions { access: Access::Lookups, ..self.index_read };
        Settings { index_read, ..self }
    }

    /// Returns the settings for a command that records the user's own work: see
    /// [`Fsync::for_recording`].
    pub(crate) fn for_recording(self) -> Settings {
        Settings { fsync: self.fsync.for_recording(), ..self }
    }

    /// Returns the options for writing `index`. Warns if the index is new and the configured
    /// version is unknown.
    pub(crate) fn index_to_write(&self, index: &Index, split: Option<bool>) -> WriteOptions {
        if let Some(source) = self.wrong_version.filter(|_| index.version.is_none()) {
            // One warning for each file.
            for _ in 0..1 + usize::from(split == Some(true)) {
                console::warning(format!("{source} set, but the value is invalid.\nUsing version 3"));
            }
        }
        WriteOptions { split, ..self.index_write.clone() }
    }

    /// Returns the options for writing objects.
    pub(crate) fn objects<'a>(&'a self, repo: &'a Repository) -> store::objects::Options<'a> {
        self.objects.options(repo, self.locks.shared, &self.fsync)
    }

    /// Returns the options for writing refs, for a command that does not run the hook
    /// `reference-transaction`. Returns an error if there is one: it may forbid the change.
    pub(crate) fn refs(&self, repo: &Repository) -> Result<store::refs::Options, Failure> {
        if hooks::has_reference_transaction(repo, self)? {
            return Err(Failure::unsupported("the hook 'reference-transaction' in this command"));
        }
        self.refs_with_hook(repo)
    }

    /// Like [`Settings::refs`], for a command that runs the hook.
    pub(crate) fn refs_with_hook(&self, repo: &Repository) -> Result<store::refs::Options, Failure> {
        if repo.env().is_set("GIT_QUARANTINE_PATH") {
            // Set for the hooks of a push: its objects may be dropped.
            return Err(Failure::fatal("ref updates forbidden inside quarantine environment"));
        }
        let log = match repo.config_str("core.logAllRefUpdates") {
            Some(value) if value.eq_ignore_ascii_case(b"always") => LogPolicy::Always,
            _ => match repo.config_bool("core.logAllRefUpdates")? {
                Some(true) => LogPolicy::Standard,
                Some(false) => LogPolicy::Never,
                None if repo.is_bare() => LogPolicy::Never,
                None => LogPolicy::Standard,
            },
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
                loose: wait(repo, "core.filesRefLockTimeout", 100)?,
                packed: wait(repo, "core.packedRefsTimeout", 1000)?,
                shared: self.locks.shared,
            },
        })
    }

    /// Returns true if the advice `advice.<name>` is enabled.
    pub(crate) fn advises(&self, repo: &Repository, name: &str) -> Result<bool, Failure> {
        Ok(self.advice && repo.config_bool(&format!("advice.{name}"))?.unwrap_or(true))
    }
}

/// Git's default for `checkout.thresholdForParallelism`.
const DEFAULT_THRESHOLD: usize = 100;

fn wait(repo: &Repository, key: &str, default: i64) -> Result<Wait, repo::Error> {
    Ok(Wait::from_config(repo.config_int(key)?.map_or(default, i64::from)))
}

/// Returns the number of workers, and the number of files from which on they are used:
/// `SAPWOOD_TEST_CHECKOUT_WORKERS`, `GIT_TEST_CHECKOUT_WORKERS`, `checkout.workers` and
/// `checkout.thresholdForParallelism`.
fn parallelism(run: &Invocation, repo: &Repository) -> Result<(Workers, usize), Failure> {
    const THRESHOLD: &str = "checkout.thresholdForParallelism";
    for name in ["SAPWOOD_TEST_CHECKOUT_WORKERS", "GIT_TEST_CHECKOUT_WORKERS"] {
        if let Some(value) = run.variable(name).filter(|value| !value.is_empty()) {
            let number = std::str::from_utf8(value).ok().and_then(|text| text.trim_start().parse().ok());
            let wrong = || Failure::Fatal(text!("invalid value for '", name, "': '", value, "'"));
            return Ok((workers(number.ok_or_else(wrong)?), 0));
        }
    }
    let number = repo.config_int("checkout.workers")?;
    let threshold = repo.config_int(THRESHOLD).map_err(|error| error.with_name(THRESHOLD))?;
    let threshold = match threshold {
        None => DEFAULT_THRESHOLD,
        // Git compares the number of files with it as an unsigned number.
        Some(number) => usize::try_from(number).unwrap_or(usize::MAX),
    };
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
    match repo.config_str("index.threads") {
        None => Ok(0),
        Some(value) if value.iter().all(u8::is_ascii_digit) && !value.is_empty() => {
            Ok(repo.config_int("index.threads")?.and_then(|number| usize::try_from(number).ok()).unwrap_or(0))
        }
        Some(_) => Ok(usize::from(repo.config_bool("index.threads")? == Some(false))),
    }
}

/// Parses `splitIndex.sharedIndexExpire`. `None` for a date in an unsupported form.
pub(crate) fn shared_index_expire(date: Option<BString>) -> Option<Expire> {
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

/// `core.fsync`, `core.fsyncMethod`, `core.fsyncObjectFiles`, `GIT_TEST_FSYNC`
pub(crate) fn fsync(run: &Invocation, config: &dyn config::Config) -> Result<Fsync, Failure> {
    const OBJECT_FILES: &str = "core.fsyncObjectFiles";
    if config.value(OBJECT_FILES).is_some() {
        console::warning(OBJECT_FILES_ARE_DEPRECATED);
    }
    for value in config.all(OBJECT_FILES) {
        if repo::parse_bool(Some(value.as_bstr())).is_none() {
            let name = OBJECT_FILES.to_ascii_lowercase();
            return Err(Failure::fatal(format!("bad boolean config value '{value}' for '{name}'")));
        }
    }
    let is_on = match run.variable("GIT_TEST_FSYNC") {
        None => None,
        Some(value) => Some(repo::parse_bool(Some(value.as_bstr())).ok_or_else(|| {
            Failure::Fatal(text!("bad boolean environment value '", value, "' for 'GIT_TEST_FSYNC'"))
        })?),
    };
    let (fsync, warnings) = Fsync::of(&store::ConfiguredFsync {
        components: config.all("core.fsync"),
        methods: config.all("core.fsyncMethod"),
        object_files: config.flag(OBJECT_FILES)?,
        is_on,
    });
    warnings.iter().for_each(console::warning);
    Ok(fsync)
}

/// `core.sharedRepository`
pub(crate) fn shared(repo: &Repository) -> Result<SharedRepository, Failure> {
    engine::shared::of(repo.config_value("core.sharedRepository"))
        .map_err(|error| Failure::fatal(error.to_string()))
}
