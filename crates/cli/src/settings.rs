//! Configuration as values: read once, here, and passed on.

use std::time::Duration;

use engine::checkout::Workers;

use crate::{console::text, failure::Failure, global::Invocation};

/// Everything the commands want to know of the configuration and the environment.
pub(crate) struct Settings {
    /// `SAPWOOD_TEST_CHECKOUT_WORKERS`, `checkout.workers`
    pub(crate) workers: Workers,
    /// `checkout.thresholdForParallelism`
    pub(crate) threshold: usize,
    /// `core.bigFileThreshold`, bytes.
    pub(crate) big_file_threshold: u64,
    /// `core.symlinks`
    pub(crate) symlinks: bool,
    /// `core.fileMode`
    pub(crate) file_mode: bool,
    /// `core.quotePath`
    pub(crate) quote_path: bool,
    /// `GIT_PROGRESS_DELAY`
    pub(crate) progress_delay: Duration,
    /// `GIT_ADVICE`
    advice: bool,
}

impl Settings {
    /// Reads them. Bad values are errors in Git's words.
    pub(crate) fn read(run: &Invocation, repo: &repo::Repository) -> Result<Settings, Failure> {
        let flag = |key, default| Ok::<bool, repo::Error>(repo.config_bool(key)?.unwrap_or(default));
        let (workers, threshold) = match run.variable("SAPWOOD_TEST_CHECKOUT_WORKERS") {
            Some(value) if !value.is_empty() => {
                let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                let number = number.ok_or_else(|| {
                    Failure::Fatal(text!("invalid value for 'SAPWOOD_TEST_CHECKOUT_WORKERS': '", value, "'"))
                })?;
                (workers(number), 0)
            }
            _ => {
                let threshold = repo.config_int("checkout.thresholdForParallelism")?;
                let number = repo.config_int("checkout.workers")?;
                let default = DEFAULT_THRESHOLD;
                (
                    number.map_or(Workers::Auto, workers),
                    threshold.map_or(default, |number| usize::try_from(number).unwrap_or(0)),
                )
            }
        };
        let big = repo.config_int("core.bigFileThreshold")?.and_then(|size| u64::try_from(size).ok());
        let delay = run
            .variable("GIT_PROGRESS_DELAY")
            .and_then(|value| std::str::from_utf8(value).ok()?.parse().ok().map(Duration::from_secs));
        Ok(Settings {
            workers,
            threshold,
            big_file_threshold: big.unwrap_or(512 << 20),
            symlinks: flag("core.symlinks", true)?,
            file_mode: flag("core.fileMode", true)?,
            quote_path: flag("core.quotePath", true)?,
            progress_delay: delay.unwrap_or(Duration::from_secs(2)),
            advice: !matches!(run.variable("GIT_ADVICE"), Some(b"0" | b"false" | b"no" | b"off")),
        })
    }

    /// Whether the advice `advice.<name>` is wanted.
    pub(crate) fn advises(&self, repo: &repo::Repository, name: &str) -> Result<bool, Failure> {
        Ok(self.advice && repo.config_bool(&format!("advice.{name}"))?.unwrap_or(true))
    }
}

/// Git's default for `checkout.thresholdForParallelism`.
const DEFAULT_THRESHOLD: usize = 100;

/// The number as `checkout.workers` means it: below one, as many as there are cores.
fn workers(number: i64) -> Workers {
    match usize::try_from(number) {
        Ok(number) if number >= 1 => Workers::Fixed(number),
        _ => Workers::Fixed(std::thread::available_parallelism().map_or(1, usize::from)),
    }
}
