//! The missing repositories of submodules, each cloned by a process. A clone that fails is tried
//! once more after all others, as in Git.

use std::{collections::VecDeque, process::Command};

use bstr::{BStr, BString};
use engine::clone::Filter;
use sapwood::submodule::{
    Link, init,
    update::{self, NewRepository, Selected, Step, Update, Wanted},
};

use super::{list::Superproject, options::Request};
use crate::{
    session::{
        reexec,
        tasks::{Next, Start, Task, Work},
    },
    term::{console::text, failure::Failure, text::os_str},
};

/// The clones of an update.
pub(super) struct Clones<'a> {
    pub(super) superproject: &'a Superproject<'a>,
    pub(super) request: &'a Request,
    /// The submodules that were not examined yet.
    pub(super) links: std::vec::IntoIter<Link>,
    /// The names of the submodules that were cloned or found.
    pub(super) names: Vec<BString>,
    /// The submodules to clone a second time.
    pub(super) retries: VecDeque<Wanted>,
    /// The submodules that were examined, and get their commit.
    pub(super) updates: Vec<Update>,
    /// A submodule could not be cloned in two attempts.
    pub(super) gave_up: bool,
}

/// The attempt to clone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    First,
    Second,
}

impl Work for Clones<'_> {
    type Key = (Wanted, Attempt);

    fn next(&mut self, output: &mut Vec<u8>) -> Result<Option<Task<Self::Key>>, Failure> {
        let request = &self.request.update;
        for link in self.links.by_ref() {
            match update::select(self.superproject, request, &link, &init::Changes::default())? {
                Selected::Skipped(skipped) => {
                    output.extend_from_slice(&skipped.text(!request.pathspecs.is_empty()));
                }
                Selected::Update(update) => self.updates.push(update),
                Selected::New(update, wanted) => {
                    self.updates.push(update);
                    return Ok(Some(self.start(wanted, Attempt::First)));
                }
            }
        }
        let retry = self.retries.pop_front();
        Ok(retry.map(|wanted| self.start(wanted, Attempt::Second)))
    }

    fn ended(&mut self, key: Self::Key, code: u8, output: &mut Vec<u8>) -> Result<Next, Failure> {
        let (wanted, attempt) = key;
        let superproject: &sapwood::submodule::Superproject<'_> = self.superproject;
        let done = match code {
            0 => update::finish(superproject, &self.request.update, &wanted).map_err(Failure::from),
            // The task ended before it started a process, and has printed its error.
            REFUSED => Err(Failure::Reported(128)),
            _ => Err(wanted.failed(superproject).into()),
        };
        let Err(failure) = done else { return Ok(Next::GoOn) };
        match failure {
            Failure::Signal(_) => return Err(failure),
            Failure::Fatal(message) => output.extend_from_slice(&text!("fatal: ", message, "\n")),
            failure => failure.print(),
        }
        let path = &wanted.path;
        if attempt == Attempt::First {
            output.extend_from_slice(&text!("Failed to clone '", path, "'. Retry scheduled\n"));
            self.retries.push_back(wanted);
            return Ok(Next::GoOn);
        }
        output.extend_from_slice(&text!("Failed to clone '", path, "' a second time, aborting\n"));
        self.gave_up = true;
        Ok(Next::Stop)
    }
}

/// The exit code of a task that was refused before it started a process.
const REFUSED: u8 = 255;

impl Clones<'_> {
    fn start(&mut self, wanted: Wanted, attempt: Attempt) -> Task<(Wanted, Attempt)> {
        let what = match update::prepare(self.superproject, &self.request.update, &wanted, &mut self.names) {
            Ok(Step::Clone(place)) => Start::Process(Box::new(self.command(&wanted, &place))),
            Ok(Step::Connect) => Start::Ended(0),
            Err(error) => {
                Failure::from(error).print();
                Start::Ended(REFUSED)
            }
        };
        Task { key: (wanted, attempt), what }
    }

    fn command(&self, wanted: &Wanted, place: &NewRepository) -> Command {
        let request = self.request;
        let mut git =
            reexec::in_submodule(self.superproject.run, self.superproject.dir(BStr::new("")).as_path());
        git.env("GIT_PROTOCOL_FROM_USER", "0").args(["clone", "--no-checkout"]);
        if request.quiet {
            git.arg("--quiet");
        }
        if request.progress {
            git.arg("--progress");
        }
        if let Some(depth) = wanted.depth.filter(|&depth| depth > 0) {
            git.arg(format!("--depth={depth}"));
        }
        for reference in &place.references {
            git.arg("--reference").arg(os_str(reference));
        }
        if let Some(format) = &request.ref_format {
            git.arg(os_str(&text!("--ref-format=", format)));
        }
        if request.update.dissociate {
            git.arg("--dissociate");
        }
        git.arg("--separate-git-dir").arg(&place.git_dir);
        if let Some(filter) = &request.filter {
            let filter: &BStr = filter.as_ref();
            let expanded = Filter::parse(filter);
            let filter = expanded.as_ref().map_or(filter, |filter| filter.expanded());
            git.arg(os_str(&text!("--filter=", filter)));
        }
        if let Some(single) = request.update.single_branch {
            git.arg(if single { "--single-branch" } else { "--no-single-branch" });
        }
        git.arg("--").arg(os_str(&wanted.url)).arg(&place.dir);
        git
    }
}
