//! Several remotes: each in a process of its own, as in Git.
//!
//! Each process gets the options of this one and appends to FETCH_HEAD. Several run at once with
//! `--jobs`. The output of the oldest running process is printed as it arrives, that of the others
//! when they have ended. A remote that fails does not affect the others.

use std::{
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{Child, Command, ExitStatus, Stdio},
};

use bstr::{BStr, BString};
use engine::fetch::fetch_head::FetchHead;
use sapwood::fetch::{several, submodules::Recurse};

use super::{context::FetchContext, remote_selection::Words, report};
use crate::{
    session::settings,
    term::{
        console::{self, text},
        failure::Failure,
        interrupt::Interrupt,
        process,
        text::{os_error, os_str},
    },
};

impl FetchContext<'_> {
    /// Fetches from each of the remotes. Returns the exit code.
    pub(super) fn many(&self, remotes: &[BString]) -> Result<u8, Failure> {
        let request = self.request;
        if let [only] = remotes
            && (!request.multiple || request.all == Some(true))
        {
            return self.one(only, &Words { may_prune_tags: true, ..Words::default() });
        }
        several::check(request.filter.as_ref(), request.atomic)?;
        if !request.append && !request.leaves_fetch_head && !request.dry_run {
            let shared = settings::shared(self.repo)?;
            let emptied = FetchHead::of(self.repo, shared).truncate();
            emptied.map_err(|error| report::failure(self.run, error.into()))?;
        }
        match several::jobs(self.repo, request.jobs)? {
            1 => self.in_sequence(remotes),
            jobs => self.in_parallel(remotes, jobs),
        }
    }

    fn in_sequence(&self, remotes: &[BString]) -> Result<u8, Failure> {
        let mut code = 0;
        for remote in remotes {
            self.announce(remote);
            let status = self.command(remote.as_ref(), &[])?.status();
            if !status.map_err(|error| not_started(&error))?.success() {
                self.run.interrupt.check()?;
                console::error(text!("could not fetch ", remote));
                code = 1;
            }
        }
        Ok(code)
    }

    fn in_parallel(&self, remotes: &[BString], jobs: usize) -> Result<u8, Failure> {
        let (mut waiting, mut running) = (remotes.iter(), Vec::new());
        let mut code = 0;
        loop {
            while running.len() < jobs
                && let Some(remote) = waiting.next()
            {
                self.announce(remote);
                let mut command = self.command(remote.as_ref(), &["--end-of-options"])?;
                let child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn();
                running.push((remote, Output::of(child.map_err(|error| not_started(&error))?)));
            }
            if running.is_empty() {
                return Ok(code);
            }
            let (remote, output) = running.remove(0);
            let status = output.finish().map_err(|error| not_started(&error))?;
            if !status.success() {
                self.run.interrupt.check()?;
                let number = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
                console::eprint_line(text!(
                    "could not fetch '",
                    remote,
                    "' (exit code: ",
                    number.to_string(),
                    ")"
                ));
                code = 1;
            }
        }
    }

    fn announce(&self, remote: &BString) {
        if self.request.verbosity >= 0 && !self.request.porcelain {
            console::out(text!("Fetching ", remote));
        }
        console::flush();
    }

    /// Returns the command that fetches from one remote. `end` precedes the remote, as in Git.
    fn command(&self, remote: &BStr, end: &[&str]) -> Result<Command, Failure> {
        let program = std::env::current_exe().map_err(|error| not_started(&error))?;
        let mut command = Command::new(program);
        Interrupt::install_now();
        process::note_change();
        command.arg0(self.run.program.name()).env_clear().envs(&self.run.env).current_dir(&self.run.cwd);
        for setting in &self.run.config {
            command.arg("-c").arg(os_str(setting));
        }
        // This process has already fetched the bundles.
        command.args(["-c", "fetch.bundleURI="]);
        command.args(["fetch", "--append", "--no-auto-gc", "--no-write-commit-graph"]);
        for option in &self.request.server_options {
            command.arg(os_str(&text!("--server-option=", option)));
        }
        let request = self.request;
        let recurse = if request.porcelain { Recurse::Off } else { request.recurse };
        command.args(request.passed_on(recurse));
        let more = [
            (request.prefetch, "--prefetch"),
            (request.porcelain, "--porcelain"),
            (request.progress == Some(true), "--progress"),
        ];
        command.args(more.iter().filter(|(wanted, _)| *wanted).map(|(_, option)| option));
        command.args(end).arg(os_str(remote)).stdin(Stdio::null());
        Ok(command)
    }
}

fn not_started(error: &std::io::Error) -> Failure {
    Failure::fatal(format!("cannot run fetch: {}", os_error(error)))
}

/// A process whose output is kept until it may be printed.
struct Output {
    child: Child,
    /// Threads read the streams, so that no process blocks on a full pipe while it waits.
    streams: [Option<std::thread::JoinHandle<Vec<u8>>>; 2],
}

impl Output {
    fn of(mut child: Child) -> Output {
        fn reader(
            stream: Option<impl std::io::Read + Send + 'static>,
        ) -> Option<std::thread::JoinHandle<Vec<u8>>> {
            let mut stream = stream?;
            let read = move || {
                let mut bytes = Vec::new();
                // Output before a read error is still printed.
                let _ = stream.read_to_end(&mut bytes);
                bytes
            };
            std::thread::Builder::new().spawn(read).ok()
        }
        let streams = [reader(child.stdout.take()), reader(child.stderr.take())];
        Output { child, streams }
    }

    /// Waits for the process, and prints its output.
    fn finish(mut self) -> std::io::Result<ExitStatus> {
        let mut texts = self
            .streams
            .iter_mut()
            .map(|stream| stream.take().and_then(|reader| reader.join().ok()).unwrap_or_default());
        let (out, err) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
        drop(texts);
        console::out_raw(&out);
        console::flush();
        console::eprint_raw(&err);
        self.child.wait()
    }
}
