//! The measured tools and their invocations for the same work.

use std::{fmt, path::Path, path::PathBuf, str::FromStr};

use super::{mounted_disk::Disk, trees::Tree};
use crate::{
    Error,
    measure::Invocation,
    programs::{ProgramOptions, Programs},
    record::Versions,
};

/// A measured program with its number of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tool {
    /// sapwood with its default number of workers.
    Sapwood,
    /// sapwood with a fixed number of workers.
    SapwoodWith(usize),
    Git(usize),
    Gix,
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tool::Sapwood => f.write_str("sapwood"),
            Tool::SapwoodWith(workers) => write!(f, "sapwood-{workers}"),
            Tool::Git(workers) => write!(f, "git-{workers}"),
            Tool::Gix => f.write_str("gix"),
        }
    }
}

impl FromStr for Tool {
    type Err = String;

    fn from_str(text: &str) -> Result<Tool, String> {
        let workers =
            |number: &str| number.parse().map_err(|_| format!("{number:?} is no number of workers"));
        match text.split_once('-') {
            None if text == "sapwood" => Ok(Tool::Sapwood),
            None if text == "gix" => Ok(Tool::Gix),
            Some(("git", number)) => workers(number).map(Tool::Git),
            Some(("sapwood", number)) => workers(number).map(Tool::SapwoodWith),
            _ => Err("sapwood, sapwood-N, git-N or gix".into()),
        }
    }
}

const GIT_WORKERS: [usize; 5] = [1, 2, 8, 32, 64];
const FAR_WORKERS: [usize; 4] = [2, 8, 32, 128];
const LOCAL_WORKERS: [usize; 4] = [1, 2, 4, 8];

/// The paths of the programs, and the tools to measure.
pub(super) struct Tools {
    git: PathBuf,
    sapwood: PathBuf,
    gix: Option<PathBuf>,
    asked: Vec<Tool>,
    quick: bool,
    pub(super) versions: Versions,
}

impl Tools {
    pub(super) fn new(given: &ProgramOptions, asked: &[Tool], quick: bool) -> Result<Tools, Error> {
        let Programs { sapwood, gix, versions } = given.find()?;
        if gix.is_none() && asked.contains(&Tool::Gix) {
            return Err(Error::Setup("there is no gix: --gix says where it is".into()));
        }
        Ok(Tools { git: given.pair.git.clone(), sapwood, gix, asked: asked.to_vec(), quick, versions })
    }

    /// Returns the tools to measure on a disk, in the order of this run.
    pub(super) fn in_turn(&self, run: usize, disk: Disk) -> Vec<Tool> {
        let mut tools = self.asked.clone();
        if tools.is_empty() && self.quick {
            tools = vec![Tool::Sapwood, Tool::Git(1), Tool::Git(8), Tool::Git(32)];
        } else if tools.is_empty() {
            tools.push(Tool::Sapwood);
            tools
                .extend(if disk == Disk::Local { LOCAL_WORKERS } else { FAR_WORKERS }.map(Tool::SapwoodWith));
            tools.extend(GIT_WORKERS.map(Tool::Git));
            tools.extend(self.gix.is_some().then_some(Tool::Gix));
        }
        if run % 2 == 1 {
            tools.reverse();
        }
        tools
    }

    fn invocation(&self, tool: Tool, args: &[&str], cwd: &Path) -> Invocation {
        let with = |workers: usize| format!("checkout.workers={workers}");
        let (program, setting) = match tool {
            Tool::Sapwood => (&self.sapwood, None),
            Tool::SapwoodWith(workers) => (&self.sapwood, Some(with(workers))),
            Tool::Git(workers) => (&self.git, Some(with(workers))),
            Tool::Gix => (self.gix.as_ref().expect("measured only if it is there"), None),
        };
        let mut all: Vec<&str> = setting.iter().flat_map(|setting| ["-c", setting.as_str()]).collect();
        all.extend(args);
        Invocation::new(program, &all, cwd)
    }

    pub(super) fn clone_of(&self, tool: Tool, source: &str, at: &Path) -> Invocation {
        match tool {
            Tool::Gix => self.invocation(tool, &["clone", source, "tree"], at),
            _ => self.invocation(tool, &["clone", "-q", source, "tree"], at),
        }
    }

    pub(super) fn full(&self, tool: Tool, tree: &Tree, at: &Path) -> Invocation {
        if tool != Tool::Gix {
            return self.invocation(tool, &["checkout", "-q", "-f", "--detach", "refs/lab/new"], at);
        }
        let [index, objects, into] = [&tree.index, &tree.packed, at].map(|path| path.display().to_string());
        let args = ["free", "index", "-i", &index, "checkout-exclusive", "-k", "-r", &objects, &into];
        let above = at.parent().expect("below a mount point");
        // gix refuses names that Windows reserves (aux.c of linux), and exits with 1.
        Invocation { accepted: &[0, 1], ..self.invocation(tool, &args, above) }
    }

    pub(super) fn switch(&self, tool: Tool, revision: &str, at: &Path) -> Invocation {
        self.invocation(tool, &["checkout", "-q", "--detach", revision], at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for tool in [Tool::Sapwood, Tool::SapwoodWith(128), Tool::Git(1), Tool::Gix] {
            assert_eq!(tool.to_string().parse(), Ok(tool));
        }
        for text in ["hg", "git", "git-", "gix-2", "sapwood-many"] {
            assert!(text.parse::<Tool>().is_err(), "{text}");
        }
    }
}
