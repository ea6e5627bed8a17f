//! Fetching submodules, which [`sapwood::fetch::submodules`] selects.
//!
//! Each is a process in the submodule's repository; several run in parallel.

use std::os::unix::process::CommandExt as _;

use bstr::BString;
use engine::fetch::Report;
use repo::Repository;
use sapwood::{
    ObjectId,
    fetch::submodules::{Before, Found, Job, Recurse, Selection},
};

use super::context::FetchContext;
use crate::{
    session::{
        Session,
        invocation::Program,
        reexec,
        tasks::{self, Next, Start, Task, Work},
    },
    term::{
        console::{self, text},
        failure::Failure,
        text::os_str,
    },
};

impl FetchContext<'_> {
    /// Reads how submodules are fetched, and the refs that the fetch may change.
    pub(super) fn before(&self) -> Result<Before, Failure> {
        let asked = if self.request.porcelain { Recurse::Off } else { self.request.recurse };
        Ok(Before::read(self.repo, asked)?)
    }

    /// Fetches submodules. Returns the exit code.
    pub(super) fn submodules(&self, before: Before, done: &Report) -> Result<u8, Failure> {
        if !before.may_recurse(self.repo) {
            return Ok(0);
        }
        let repo = &self.repo.open_again()?;
        let session = Session { invocation: self.run, repository: repo, settings: self.settings };
        let default = self.request.recurse_default.clone();
        let Some(selection) = Selection::find(session.context(self.run), before, done, default)? else {
            return Ok(0);
        };
        let jobs = selection.jobs(self.request.jobs)?;
        let mut fetches = Fetches {
            context: self,
            repo,
            prefix: self.request.submodule_prefix.clone().unwrap_or_default(),
            options: self.request.passed_on(selection.how()),
            selection,
            failed: BString::default(),
            code: 0,
        };
        tasks::run(self.run, jobs, &mut fetches)?;
        if !fetches.failed.is_empty() {
            console::eprint_raw(&text!("Errors during submodule fetch:\n", fetches.failed));
        }
        Ok(fetches.code)
    }
}

/// A process for each submodule.
struct Fetches<'a> {
    context: &'a FetchContext<'a>,
    repo: &'a Repository,
    selection: Selection<'a>,
    /// The path of the worktree in its superproject, with a slash at the end.
    prefix: BString,
    options: Vec<&'static str>,
    /// The names of submodules whose fetch failed, one per line.
    failed: BString,
    code: u8,
}

impl Work for Fetches<'_> {
    type Key = Job;

    fn next(&mut self, output: &mut Vec<u8>) -> Result<Option<Task<Job>>, Failure> {
        while let Some(found) = self.selection.find_next()? {
            match found {
                Found::Inaccessible { path, commit } => {
                    if commit.is_none() {
                        self.code = 1;
                    }
                    let at = self.at(commit)?;
                    output.extend_from_slice(&text!("Could not access submodule '", path, "'", at));
                }
                Found::Job(job) => {
                    let at = self.at(job.commit)?;
                    if job.wanted.is_empty() && self.context.request.verbosity >= 0 {
                        output.extend_from_slice(&text!("Fetching submodule ", self.prefix, job.path, at));
                    }
                    return Ok(Some(self.start(job)));
                }
            }
        }
        Ok(None)
    }

    fn ended(&mut self, job: Job, code: u8, _: &mut Vec<u8>) -> Result<Next, Failure> {
        if code != 0 {
            self.code = 1;
            self.failed.extend_from_slice(&text!("\t", job.name, "\n"));
        }
        self.selection.ended(job);
        Ok(Next::GoOn)
    }
}

impl Fetches<'_> {
    /// Returns the end of a message about a submodule that only a commit has.
    fn at(&self, commit: Option<ObjectId>) -> Result<BString, Failure> {
        Ok(match commit {
            Some(commit) => text!(" at commit ", self.repo.abbreviate(commit)?, "\n"),
            None => "\n".into(),
        })
    }

    /// Returns the process, which runs this program in the repository of a submodule.
    fn start(&self, job: Job) -> Task<Job> {
        let default = if job.within == Recurse::On { "yes" } else { "on-demand" };
        let run = self.context.run;
        let mut command = reexec::in_submodule(run, &job.git_dir);
        command.env("GIT_DIR", ".");
        if run.program == Program::Sapwood {
            command.arg0("sapwood");
        }
        if job.commit.is_some() {
            command.arg("--work-tree=.");
        }
        command.arg("fetch").args(&self.options).args(["--recurse-submodules-default", default]);
        command.arg(os_str(&text!("--submodule-prefix=", self.prefix, job.path, "/")));
        if !job.wanted.is_empty() {
            command.arg(os_str(&self.selection.remote_of(&job)));
            command.args(job.wanted.iter().map(ObjectId::to_string));
        }
        Task { key: job, what: Start::Process(Box::new(command)) }
    }
}
