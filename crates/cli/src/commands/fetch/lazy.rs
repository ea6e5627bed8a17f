//! Fetches objects that a partial clone lacks, when another command reads them.
//!
//! Git runs `git fetch` for that, with the names of the objects on its standard input. sapwood does
//! it in this process: the objects are one request to the server, the messages equal that
//! command's, and `maintenance run --auto` follows. Traces report the command, because scripts
//! count it.

use std::cell::Cell;

use bstr::BString;
use repo::{LazyFetch, OpenOptions, Place, Promised, Repository, objects::Contents};

use super::{context::FetchContext, options::Request, table::Form};
use crate::{
    session::{
        invocation::{Invocation, Program},
        settings::Settings,
        trace,
    },
    term::{failure::Failure, interrupt::Interrupt, profile::Profile},
};

/// See [`LazyFetch`].
#[derive(Debug)]
pub(crate) struct Fetcher {
    program: Program,
    interrupt: Interrupt,
}

impl Fetcher {
    /// Returns the fetcher for a run.
    pub(crate) fn of(run: &Invocation) -> Fetcher {
        Fetcher { program: run.program, interrupt: run.interrupt }
    }

    /// Returns an invocation of `fetch` in the repository of `open`.
    fn invocation(&self, open: &OpenOptions) -> Invocation {
        Invocation {
            program: self.program,
            command: "fetch".into(),
            args: Vec::new(),
            started_in: open.cwd.clone(),
            cwd: open.cwd.clone(),
            env: open.env.clone(),
            config: open.config.clone(),
            bare: open.bare,
            paginate: false,
            verbose: false,
            profile: Profile::Off,
            interrupt: self.interrupt,
            git: None,
            opened: Cell::new(None),
            outside_config: Cell::new(None),
            objects: Default::default(),
            lazy_fetch: None,
        }
    }

    fn try_fetch(&self, wanted: &Promised<'_>) -> Result<(), Failure> {
        let run = self.invocation(wanted.open);
        let repo = Repository::open(wanted.open)?;
        let settings = Settings::read(&repo)?;
        let request = Request {
            verbosity: if wanted.quiet { -1 } else { 0 },
            leaves_fetch_head: true,
            ..Request::default()
        };
        let action = BString::default();
        let form = Form::Full;
        let context =
            FetchContext { run: &run, repo: &repo, settings: &settings, request: &request, action, form };
        let remote = sapwood::fetch::load(&repo, wanted.remote)?;
        context.promised(&remote, wanted.objects)?;
        context.maintain()
    }
}

impl LazyFetch for Fetcher {
    fn contents(&self, place: &Place<'_>) -> Option<Box<dyn Contents>> {
        Some(sapwood::lazy::contents(place))
    }

    fn fetch(&self, wanted: &Promised<'_>) -> bool {
        let remote = wanted.remote.to_string();
        let mut words = vec!["git", "-c", "fetch.negotiationAlgorithm=noop", "fetch", &remote, "--no-tags"];
        words.extend(["--no-write-fetch-head", "--recurse-submodules=no", "--filter=blob:none", "--stdin"]);
        if wanted.quiet {
            words.push("--quiet");
        }
        trace::child("?", &words);
        trace::data(0, "promisor", "fetch_count", &wanted.objects.len().to_string());
        match self.try_fetch(wanted) {
            Ok(()) => true,
            Err(failure) => {
                failure.print();
                false
            }
        }
    }
}
