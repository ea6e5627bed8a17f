//! Options that several commands share.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use crate::{Error, corpus, record::RecordOptions};

/// The disks, the verdict and the record of a measurement.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Compare with the targets; exit 1 if one is missed.
    #[arg(long)]
    pub(crate) check: bool,
    /// The directory for disks.
    #[arg(long)]
    pub(crate) scratch: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) record: RecordOptions,
}

impl Options {
    /// Returns the directory for disks: the given one, else `default`, else one of the build
    /// directory.
    pub(crate) fn scratch(&self, default: Option<&Path>) -> Result<PathBuf, Error> {
        let given = self.scratch.as_deref().or(default).map(Path::to_owned);
        corpus::absolute(&given.unwrap_or_else(|| corpus::directory().join("scratch")))
    }

    /// Returns the exit code of a measurement that missed this number of targets.
    pub(crate) fn code(&self, missed: usize) -> ExitCode {
        if self.check && missed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}
