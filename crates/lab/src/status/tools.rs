//! The measured tools and their invocations.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use super::Untracked;
use crate::{
    Error,
    measure::Invocation,
    programs::{ProgramOptions, Programs},
    record::Versions,
};

/// The extensions of the measured index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    /// A valid untracked cache.
    Cache,
    /// An untracked cache and the data of Git's file system monitor, with a running daemon.
    Monitor,
}

impl Kind {
    /// Returns the option of `git update-index` that adds or removes the untracked cache.
    pub(super) fn option(self) -> &'static str {
        match self {
            Kind::Plain => "--no-untracked-cache",
            Kind::Cache | Kind::Monitor => "--untracked-cache",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Git,
    Sapwood,
    Gix,
}

/// A program and the kind of index that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tool(Program, Kind);

const ALL: [(&str, Tool); 7] = [
    ("git", Tool(Program::Git, Kind::Plain)),
    ("gix", Tool(Program::Gix, Kind::Plain)),
    ("sapwood", Tool(Program::Sapwood, Kind::Plain)),
    ("git-cache", Tool(Program::Git, Kind::Cache)),
    ("sapwood-cache", Tool(Program::Sapwood, Kind::Cache)),
    ("git-monitor", Tool(Program::Git, Kind::Monitor)),
    ("sapwood-monitor", Tool(Program::Sapwood, Kind::Monitor)),
];

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ALL.iter().find(|(_, tool)| tool == self).map_or("?", |(name, _)| name);
        f.write_str(name)
    }
}

impl FromStr for Tool {
    type Err = String;

    fn from_str(text: &str) -> Result<Tool, String> {
        let tool = ALL.iter().find(|(name, _)| *name == text).map(|(_, tool)| *tool);
        tool.ok_or_else(|| ALL.map(|(name, _)| name).join(", "))
    }
}

/// The paths of the programs, and the tools to measure.
pub(super) struct Tools {
    git: PathBuf,
    sapwood: PathBuf,
    gix: Option<PathBuf>,
    asked: Vec<Tool>,
    pub(super) versions: Versions,
}

impl Tools {
    pub(super) fn new(given: &ProgramOptions, asked: &[Tool]) -> Result<Tools, Error> {
        let Programs { sapwood, gix, versions } = given.find()?;
        Ok(Tools { git: given.pair.git.clone(), sapwood, gix, asked: asked.to_vec(), versions })
    }

    /// Returns the selected tools for this kind of index and mode of untracked files.
    pub(super) fn of(&self, kind: Kind, untracked: Untracked) -> Vec<Tool> {
        let serves = |tool: &Tool| {
            // gix has no option for untracked files.
            let knows = tool.0 != Program::Gix || self.gix.is_some() && untracked == Untracked::Normal;
            tool.1 == kind && knows && (self.asked.is_empty() || self.asked.contains(tool))
        };
        ALL.iter().map(|(_, tool)| *tool).filter(serves).collect()
    }

    /// Builds a `status` with machine-readable output that does not write the index.
    pub(super) fn status(&self, tool: Tool, untracked: Untracked, at: &Path) -> Invocation {
        let args = ["--no-optional-locks", "status", "--porcelain", untracked.option()];
        match tool.0 {
            Program::Git => Invocation::new(&self.git, &args, at),
            Program::Sapwood => Invocation::new(&self.sapwood, &args, at),
            Program::Gix => {
                Invocation::new(self.gix.as_ref().expect("measured only if it is there"), &["status"], at)
            }
        }
    }

    /// Builds the Git command that refreshes the index and fills its cache.
    pub(super) fn filling(&self, kind: Kind, at: &Path) -> Invocation {
        let setting = match kind {
            Kind::Plain => "core.untrackedCache=keep",
            Kind::Cache | Kind::Monitor => "core.untrackedCache=true",
        };
        Invocation::new(&self.git, &["-c", setting, "status", "--porcelain"], &at.join("tree"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for (name, tool) in ALL {
            assert_eq!((tool.to_string().as_str(), name.parse()), (name, Ok(tool)));
        }
        assert!("hg".parse::<Tool>().is_err());
    }
}
