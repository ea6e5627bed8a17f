//! The measured steps, and each tool's command for them.

use std::path::{Path, PathBuf};

use super::fixture::Fixture;
use crate::{measure::Invocation, programs::Programs};

/// The measured steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Step {
    IndexWrite2,
    IndexWrite4,
    IndexRead2,
    IndexRead4,
    MultiPackIndex,
    CommitGraph,
    ChangedPaths,
    IndexPack,
    IndexPackStdin,
}

/// A program with its name in reports.
#[derive(Clone, Debug)]
pub(super) struct Tool {
    pub(super) name: String,
    kind: Kind,
    program: PathBuf,
    /// Options before the command.
    globals: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Git,
    Gix,
}

impl Step {
    pub(super) const ALL: [Step; 9] = [
        Step::IndexWrite2,
        Step::IndexWrite4,
        Step::IndexRead2,
        Step::IndexRead4,
        Step::MultiPackIndex,
        Step::CommitGraph,
        Step::ChangedPaths,
        Step::IndexPack,
        Step::IndexPackStdin,
    ];

    /// The name of the case in records.
    pub(super) fn name(self) -> &'static str {
        match self {
            Step::IndexWrite2 => "index-write-v2",
            Step::IndexWrite4 => "index-write-v4",
            Step::IndexRead2 => "index-read-v2",
            Step::IndexRead4 => "index-read-v4",
            Step::MultiPackIndex => "multi-pack-index",
            Step::CommitGraph => "commit-graph",
            Step::ChangedPaths => "changed-paths",
            Step::IndexPack => "index-pack",
            Step::IndexPackStdin => "index-pack-stdin",
        }
    }

    /// The version of the index that is written or read.
    pub(super) fn index_version(self) -> Option<u8> {
        match self {
            Step::IndexWrite2 | Step::IndexRead2 => Some(2),
            Step::IndexWrite4 | Step::IndexRead4 => Some(4),
            _ => None,
        }
    }

    fn is_index_pack(self) -> bool {
        matches!(self, Step::IndexPack | Step::IndexPackStdin)
    }

    /// Returns the tools to measure. If Git supports threads for the step, it runs with one thread
    /// and with one for each core, and its best time counts.
    pub(super) fn tools(self, programs: &Programs, git: &Path) -> Vec<Tool> {
        let tool = |name: String, kind, program: &Path, globals: Vec<String>| Tool {
            name,
            kind,
            program: program.to_owned(),
            globals,
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = |count: usize| match self {
            _ if self.is_index_pack() => vec!["-c".to_owned(), format!("pack.threads={count}")],
            _ => vec!["-c".to_owned(), format!("index.threads={count}")],
        };
        let mut tools = Vec::new();
        if self.is_index_pack() || self.index_version().is_some() {
            let mut counts = vec![1, cores];
            counts.dedup();
            let with = |count| tool(format!("git-{count}"), Kind::Git, git, threads(count));
            tools.extend(counts.into_iter().map(with));
        } else {
            tools.push(tool("git".to_owned(), Kind::Git, git, Vec::new()));
        }
        tools.push(tool("sapwood".to_owned(), Kind::Git, &programs.sapwood, Vec::new()));
        if let (Step::IndexPack, Some(gix)) = (self, &programs.gix) {
            tools.push(tool("gix".to_owned(), Kind::Gix, gix, Vec::new()));
        }
        tools
    }

    /// Returns the command that runs the step.
    pub(super) fn invocation(self, tool: &Tool, fixture: &Fixture) -> Invocation {
        let pack = fixture.scratch_pack().display().to_string();
        let empty = fixture.empty.display().to_string();
        if tool.kind == Kind::Gix {
            let args = ["free", "pack", "index", "create", "-p", &pack, &empty];
            return Invocation::new(&tool.program, &args, &fixture.repo);
        }
        let globals = tool.globals.iter().map(String::as_str);
        let (words, place): (&[&str], &Path) = match self {
            Step::IndexWrite2 | Step::IndexWrite4 => {
                (&["update-index", "--force-write-index"], &fixture.tree)
            }
            Step::IndexRead2 | Step::IndexRead4 => (&["ls-files"], &fixture.tree),
            Step::MultiPackIndex => (&["multi-pack-index", "write"], &fixture.repo),
            Step::CommitGraph => (&["commit-graph", "write", "--reachable"], &fixture.repo),
            Step::ChangedPaths => {
                (&["commit-graph", "write", "--reachable", "--changed-paths"], &fixture.repo)
            }
            Step::IndexPack => (&["index-pack", &pack], &fixture.repo),
            Step::IndexPackStdin => (&["index-pack", "--stdin"], &fixture.empty),
        };
        let args: Vec<&str> = globals.chain(words.iter().copied()).collect();
        if self != Step::IndexPackStdin {
            return Invocation::new(&tool.program, &args, place);
        }
        let program = tool.program.display().to_string();
        let script = "pack=$1; shift; exec \"$@\" <\"$pack\"";
        let shell = ["-c", script, "sh", &pack, &program];
        Invocation::new(Path::new("/bin/sh"), &[&shell[..], &args].concat(), place)
    }
}
