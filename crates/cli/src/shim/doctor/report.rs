//! All results of `sapwood doctor`.

use super::{
    commands::CommandReport,
    facts::Facts,
    findings::{Finding, Kind},
    location::Location,
    programs::Programs,
};

/// All results.
pub(super) struct Report {
    pub(super) programs: Programs,
    pub(super) location: Location,
    pub(super) commands: Vec<CommandReport>,
    /// `None` without a repository.
    pub(super) facts: Option<Facts>,
    pub(super) findings: Vec<Finding>,
}

impl Report {
    /// Returns 0 if no command that could be native is handed over, and nothing is damaged.
    pub(super) fn code(&self) -> u8 {
        let is_native = self.commands.iter().all(|command| command.reasons.is_empty());
        let is_sound = self.findings.iter().all(|finding| finding.kind != Kind::Problem);
        let is_open = matches!(self.location, Location::Repository { .. });
        u8::from(!(is_native && is_sound && is_open))
    }
}
