//! The cases: what is cloned or fetched, and with which arguments.

use super::{
    source::{self, Source},
    tools::Tool,
};

/// The work that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Case {
    /// A clone with its worktree.
    Full,
    /// `--depth 1`
    Shallow,
    /// `--filter=blob:none`, with the blobs of the worktree.
    Blobless,
    /// `--recurse-submodules` of 40 submodules.
    Submodules,
    /// A fetch of 10 new commits.
    Fetch10,
    /// A fetch of 1,000 new commits.
    Fetch1000,
    /// A fetch of nothing new from a repository of 50,000 refs.
    Nothing,
}

impl Case {
    pub(super) const ALL: [Case; 7] = [
        Case::Full,
        Case::Shallow,
        Case::Blobless,
        Case::Submodules,
        Case::Fetch10,
        Case::Fetch1000,
        Case::Nothing,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Case::Full => "full",
            Case::Shallow => "shallow",
            Case::Blobless => "blobless",
            Case::Submodules => "submodules",
            Case::Fetch10 => "fetch-10",
            Case::Fetch1000 => "fetch-1000",
            Case::Nothing => "nothing-new",
        }
    }

    /// Returns the number of commits of a fetch, or `None` for a clone.
    pub(super) fn commits(self) -> Option<usize> {
        match self {
            Case::Fetch10 => Some(10),
            Case::Fetch1000 => Some(1000),
            Case::Nothing => Some(0),
            Case::Full | Case::Shallow | Case::Blobless | Case::Submodules => None,
        }
    }

    /// Returns true if the tool can do it. gix knows no filter, and clones no submodules.
    pub(super) fn is_for(self, tool: Tool) -> bool {
        tool != Tool::Gix || matches!(self, Case::Full | Case::Shallow)
    }

    /// Returns the repository on the server.
    pub(super) fn repo(self) -> &'static str {
        match self {
            Case::Full | Case::Shallow | Case::Blobless => source::TREE,
            Case::Submodules => source::SUPER,
            Case::Fetch10 | Case::Fetch1000 => source::HISTORY,
            Case::Nothing => source::REFS,
        }
    }

    /// Returns the name of the repository into which it is fetched.
    pub(super) fn client(self) -> Option<&'static str> {
        match self {
            Case::Fetch10 | Case::Fetch1000 => Some(source::HISTORY_CLIENT),
            Case::Nothing => Some(source::REFS_CLIENT),
            Case::Full | Case::Shallow | Case::Blobless | Case::Submodules => None,
        }
    }

    /// Returns the command line. A fetch finds the address in the configuration.
    pub(super) fn words(self, tool: Tool, url: &str) -> Vec<String> {
        let quiet: &[&str] = if tool == Tool::Gix { &[] } else { &["-q"] };
        let rest: Vec<String> = match self {
            Case::Full => vec![url.into()],
            Case::Shallow => vec!["--depth".into(), "1".into(), url.into()],
            Case::Blobless => vec!["--filter=blob:none".into(), url.into()],
            Case::Submodules => {
                let jobs = source::JOBS.to_string();
                ["--recurse-submodules", "--jobs", &jobs, url].map(str::to_owned).into()
            }
            Case::Fetch10 | Case::Fetch1000 => {
                let branch = Source::branch(self.commits().unwrap_or_default());
                vec!["origin".into(), format!("+refs/heads/{branch}:refs/remotes/origin/{branch}")]
            }
            Case::Nothing => vec!["origin".into()],
        };
        let is_clone = self.client().is_none();
        let command = if is_clone { "clone" } else { "fetch" };
        let words = [command].into_iter().chain(quiet.iter().copied()).map(str::to_owned);
        words.chain(rest).chain(is_clone.then(|| "tree".to_owned())).collect()
    }
}
