//! External filters: commands that run once per file, and long-running processes that may delay a
//! response.
//!
//! Order: the caller passes each file to [`ExternalFilters::smudge`]. It then fetches the delayed
//! files in rounds of [`ExternalFilters::available`] and [`ExternalFilters::fetch`], until a round
//! is empty. If a filter fails, the content is left unchanged and Git's message is queued, unless
//! `filter.<name>.required` is set. Source: gitattributes(5) `filter`.

use std::{
    collections::{BTreeSet, HashMap},
    ffi::OsString,
    io::{Read as _, Write as _},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Arc, MutexGuard, PoisonError},
};

use bstr::{BStr, BString, ByteSlice};
use format::{
    ObjectId,
    keys::{self, Key},
};
use sys::profile::{self, Phase};

use super::{Content, Filtering, Worker};
use crate::{
    ConvertError, Error, Repository,
    filter_process::{Answer, Broken, Input, NotStarted, Process, Processes},
};

/// A filter gets its input in pieces of this many bytes.
const PIECE: usize = 64 << 10;

/// `filter.<name>.*`
#[derive(Debug, Default)]
pub(super) struct Driver {
    pub(super) name: BString,
    clean: BString,
    smudge: BString,
    process: BString,
    required: bool,
}

impl Driver {
    /// Returns true if the driver has any command.
    pub(super) fn has_command(&self) -> bool {
        !self.smudge.is_empty() || !self.clean.is_empty() || !self.process.is_empty()
    }

    /// Returns the program that turns files into blobs.
    pub(super) fn cleans(&self) -> Filtering {
        match (self.process.is_empty(), self.clean.is_empty()) {
            (false, _) => Filtering::Process,
            (true, false) => Filtering::Command,
            (true, true) => Filtering::None,
        }
    }

    /// Returns true if the driver is that of Git LFS, as `git lfs install` configures it.
    pub(super) fn is_lfs(&self) -> bool {
        let command = if self.process.is_empty() { &self.smudge } else { &self.process };
        self.name == "lfs" && command.starts_with(b"git-lfs ") && !command.contains_str("--skip")
    }

    fn cannot_smudge(&self) -> bool {
        self.required && self.smudge.is_empty() && self.process.is_empty()
    }

    /// Returns true if a checkout has to run the driver, or has to fail because the driver is
    /// required and cannot smudge.
    pub(super) fn acts_on_checkout(&self) -> bool {
        self.required || !self.smudge.is_empty() || !self.process.is_empty()
    }
}

/// Returns true if a configured driver is required and has no command to smudge.
pub fn any_required_driver_cannot_smudge(repo: &Repository) -> Result<bool, Error> {
    Ok(drivers(repo)?.iter().any(Driver::cannot_smudge))
}

/// Returns all configured drivers.
pub(super) fn drivers(repo: &Repository) -> Result<Vec<Driver>, Error> {
    let names = repo.config.subsections("filter");
    names
        .into_iter()
        .map(|name| {
            let command = |key: Key<Option<BString>>| -> Result<BString, Error> {
                Ok(repo.config_str_required(&key.of(name))?.unwrap_or_default())
            };
            Ok(Driver {
                name: name.to_owned(),
                clean: command(keys::filter::CLEAN)?,
                smudge: command(keys::filter::SMUDGE)?,
                process: command(keys::filter::PROCESS)?,
                required: repo.config(&keys::filter::REQUIRED.of(name))?,
            })
        })
        .collect()
}

/// The directory and environment in which filters run.
pub(super) struct Environment {
    dir: PathBuf,
    variables: Vec<(OsString, OsString)>,
    processes: Arc<Processes>,
}

impl Environment {
    pub(super) fn of(repo: &Repository) -> Environment {
        let dir = repo.child_dir().to_owned();
        Environment { dir, variables: repo.child_env(), processes: Arc::clone(&repo.processes) }
    }

    /// Locks the running processes.
    fn running(&self) -> MutexGuard<'_, HashMap<BString, Process>> {
        self.processes.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn command(&self, text: &BStr) -> Command {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(sys::os_str(text));
        command
            .current_dir(&self.dir)
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// Metadata about the checkout that long-running filters receive.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    /// The full name of the branch that the command switches to.
    pub reference: Option<BString>,
    /// The object ID of the commit or tree.
    pub treeish: Option<ObjectId>,
}

/// The permission for a filter to delay a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delays {
    /// The filter may delay the file.
    Offered,
    /// The filter must return the content at once, as for Git's `checkout-index`.
    Refused,
}

/// The result of a filter.
#[derive(Debug, PartialEq, Eq)]
pub enum Smudged {
    /// The bytes to write.
    Ready(Vec<u8>),
    /// The filter delivers the file later.
    Delayed,
    /// The content is left unchanged: the filter does nothing for this file, or failed and is not
    /// required.
    Unchanged,
}

/// A file for a filter.
pub(super) struct Job<'a> {
    pub(super) path: &'a BStr,
    pub(super) oid: ObjectId,
    /// The position of the filter's driver.
    pub(super) driver: usize,
    /// True if the filter may delay its response.
    pub(super) delay: bool,
}

/// The external filters of a checkout, owned by one thread: a filter may assume that it has a
/// single caller.
pub struct ExternalFilters {
    worker: Worker,
    delays: Delays,
    /// The commands that delayed files and have not reported their end.
    waiting: BTreeSet<BString>,
    delayed: BTreeSet<BString>,
    failed: bool,
}

impl ExternalFilters {
    pub(super) fn new(worker: Worker, delays: Delays) -> ExternalFilters {
        ExternalFilters { worker, delays, waiting: BTreeSet::new(), delayed: BTreeSet::new(), failed: false }
    }

    /// Converts a blob and runs its filter.
    pub fn smudge(&mut self, path: &BStr, oid: ObjectId, blob: &[u8]) -> Result<Smudged, Error> {
        let _phase = profile::span(Phase::Convert);
        let Some(action) = self.worker.action(path)? else { return Ok(Smudged::Unchanged) };
        let mut out = Vec::new();
        let mut content = Content { input: blob, out: &mut out, spare: Vec::new(), changed: false };
        self.worker.in_process(path, oid, &action, &mut content);
        let smudged = match action.smudge_driver() {
            Some(driver) => {
                let job = Job { path, oid, driver, delay: self.delays == Delays::Offered };
                let smudged = self.worker.smudge(&job, content.bytes())?;
                if smudged == Smudged::Delayed {
                    self.waiting.insert(self.worker.shared.drivers[driver].process.clone());
                    self.delayed.insert(path.to_owned());
                }
                smudged
            }
            None => Smudged::Unchanged,
        };
        let changed = content.changed;
        Ok(match smudged {
            Smudged::Unchanged if changed => Smudged::Ready(out),
            smudged => smudged,
        })
    }

    /// Runs one round: queries each filter with delayed files for the files that are ready, until
    /// it reports none. Blocks as long as the filters do. An empty result means that no more files
    /// will come. An error must end the command.
    pub fn available(&mut self) -> Result<Vec<BString>, Error> {
        let _phase = profile::span(Phase::Convert);
        let mut ready = Vec::new();
        while ready.is_empty() && !self.waiting.is_empty() {
            for command in self.waiting.clone() {
                let Worker { shared, messages, .. } = &mut self.worker;
                let mut running = shared.filters.running();
                let Some(process) = running.get_mut(&command) else {
                    messages.push(format!(
                        "error: external filter '{command}' is not available anymore although not all paths \
                         have been filtered"
                    ));
                    self.failed = true;
                    self.waiting.remove(&command);
                    continue;
                };
                let mut done = true;
                match process.available() {
                    Ok(Some(mut paths)) => {
                        done = paths.is_empty();
                        paths.sort_unstable();
                        paths.dedup();
                        for path in paths {
                            if self.delayed.remove(&path) {
                                ready.push(path);
                            } else {
                                messages.push(format!(
                                    "error: external filter '{command}' signaled that '{path}' is now available \
                                     although it has not been delayed earlier"
                                ));
                                self.failed = true;
                                done = true;
                            }
                        }
                    }
                    Ok(None) => self.failed = true,
                    Err(Broken::Failed) => {
                        messages.push(format!("error: external filter '{command}' failed"));
                        self.failed = true;
                        if let Some(process) = running.remove(&command) {
                            process.stop();
                        }
                    }
                    Err(Broken::Fatal(message)) => {
                        running.remove(&command);
                        return Err(ConvertError::Protocol(message).into());
                    }
                }
                if done {
                    self.waiting.remove(&command);
                }
            }
        }
        Ok(ready)
    }

    /// Returns true if a filter broke the protocol, so that Git's command would fail.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Returns the content of a delayed file that is available.
    pub fn fetch(&mut self, path: &BStr, oid: ObjectId) -> Result<Smudged, Error> {
        let _phase = profile::span(Phase::Convert);
        let Some(driver) = self.worker.action(path)?.and_then(|action| action.driver) else {
            return Ok(Smudged::Unchanged);
        };
        self.worker.smudge(&Job { path, oid, driver, delay: false }, b"")
    }

    /// Returns the delayed files that the filters never delivered, sorted. Adds Git's message
    /// (`'<path>' was not filtered properly`) for each.
    pub fn unfinished(&mut self) -> Vec<BString> {
        let paths: Vec<_> = std::mem::take(&mut self.delayed).into_iter().collect();
        let messages = paths.iter().map(|path| format!("error: '{path}' was not filtered properly"));
        self.worker.messages.extend(messages);
        paths
    }

    /// See [`Worker::take_messages`].
    pub fn take_messages(&mut self) -> Vec<String> {
        self.worker.take_messages()
    }
}

fn smudge_failed(path: &BStr, driver: &Driver) -> ConvertError {
    ConvertError::Smudge { path: path.to_owned(), driver: driver.name.clone() }
}

impl Worker {
    /// Runs the filter for a checkout. It is an error if a required filter fails.
    pub(super) fn smudge(&mut self, job: &Job<'_>, content: &[u8]) -> Result<Smudged, Error> {
        let shared = std::sync::Arc::clone(&self.shared);
        let driver = &shared.drivers[job.driver];
        if driver.is_lfs()
            && let Some(object) = shared.lfs.as_ref().and_then(|store| store.read(content))
        {
            return Ok(Smudged::Ready(object));
        }
        let smudged = if !driver.process.is_empty() {
            let mut header = vec!["command=smudge".into(), line("pathname=", job.path)];
            let Metadata { reference, treeish } = &shared.metadata;
            header.extend(reference.as_ref().map(|name| line("ref=", name.as_bstr())));
            header.extend(treeish.as_ref().map(|id| BString::from(format!("treeish={id}"))));
            header.push(format!("blob={}", job.oid).into());
            self.ask(&driver.process, Kind::Smudge, header, Input::Bytes(content), job.delay)?
        } else if !driver.smudge.is_empty() {
            self.run(&driver.smudge, job.path, Input::Bytes(content))
                .map_or(Smudged::Unchanged, Smudged::Ready)
        } else {
            Smudged::Unchanged
        };
        if smudged == Smudged::Unchanged && driver.required {
            return Err(smudge_failed(job.path, driver).into());
        }
        Ok(smudged)
    }

    /// Returns Git's fatal message for a checkout of `path`, if its filter is required and has no
    /// command to smudge.
    pub fn smudge_failure(&mut self, path: &BStr) -> Result<Option<String>, Error> {
        let Some(driver) = self.action(path)?.and_then(|action| action.smudge_driver()) else {
            return Ok(None);
        };
        let driver = &self.shared.drivers[driver];
        Ok(driver.cannot_smudge().then(|| smudge_failed(path, driver).to_string()))
    }

    /// Returns true if the file at `path` passes through a filter that must succeed. As in Git,
    /// such a filter can read an open file, whose content need not be in memory.
    pub fn filters_open_file(&mut self, path: &BStr) -> Result<bool, Error> {
        let driver = self.action(path)?.and_then(|action| action.driver);
        let driver = driver.map(|at| &self.shared.drivers[at]);
        Ok(driver.is_some_and(|driver| driver.required && driver.cleans() != Filtering::None))
    }

    /// Runs the filter for an addition; returns `None` if it changes nothing.
    pub(super) fn clean(
        &mut self,
        path: &BStr,
        driver: usize,
        content: Input<'_>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let shared = std::sync::Arc::clone(&self.shared);
        let driver = &shared.drivers[driver];
        let cleaned = if !driver.process.is_empty() {
            let header = vec!["command=clean".into(), line("pathname=", path)];
            match self.ask(&driver.process, Kind::Clean, header, content, false)? {
                Smudged::Ready(bytes) => Some(bytes),
                Smudged::Delayed | Smudged::Unchanged => None,
            }
        } else if !driver.clean.is_empty() {
            self.run(&driver.clean, path, content)
        } else {
            None
        };
        if cleaned.is_none() && driver.required {
            let (path, driver) = (path.to_owned(), driver.name.clone());
            return Err(ConvertError::Clean { path, driver }.into());
        }
        Ok(cleaned)
    }

    /// Sends a file to a long-running process, and starts the process if needed.
    fn ask(
        &mut self,
        command: &BString,
        kind: Kind,
        mut header: Vec<BString>,
        content: Input<'_>,
        delay: bool,
    ) -> Result<Smudged, Error> {
        let Worker { shared, messages, .. } = self;
        let mut running = shared.filters.running();
        if !running.contains_key(command) {
            match Process::start(shared.filters.command(command.as_bstr()), command.as_bstr()) {
                Ok(process) => drop(running.insert(command.clone(), process)),
                // The next file tries to start it again.
                Err(NotStarted::Failed(lines)) => {
                    messages.extend(lines.into_iter().map(|line| format!("error: {line}")));
                    return Ok(Smudged::Unchanged);
                }
                Err(NotStarted::Fatal(error)) => return Err(error.into()),
            }
        }
        let process = running.get_mut(command).expect("it was started, if it was not there");
        let able = match kind {
            Kind::Clean => process.clean,
            Kind::Smudge => process.smudge,
        };
        if !able {
            return Ok(Smudged::Unchanged);
        }
        let delay = delay && process.delay;
        if delay {
            header.push("can-delay=1".into());
        }
        Ok(match process.ask(&header, content) {
            Ok(Answer::Content(bytes)) => Smudged::Ready(bytes),
            Ok(Answer::Delayed) if delay => Smudged::Delayed,
            Ok(Answer::Error) => Smudged::Unchanged,
            Ok(Answer::Abort) => {
                match kind {
                    Kind::Clean => process.clean = false,
                    Kind::Smudge => process.smudge = false,
                }
                Smudged::Unchanged
            }
            Ok(Answer::Delayed) | Err(Broken::Failed) => {
                messages.push(format!("error: external filter '{command}' failed"));
                // The next file starts a new process.
                if let Some(process) = running.remove(command) {
                    process.stop();
                }
                Smudged::Unchanged
            }
            Err(Broken::Fatal(message)) => {
                running.remove(command);
                return Err(ConvertError::Protocol(message).into());
            }
        })
    }

    /// Runs a command for one file; returns `None` if it fails.
    fn run(&mut self, template: &BString, path: &BStr, content: Input<'_>) -> Option<Vec<u8>> {
        let text = expand(template.as_bstr(), path);
        let mut failed = |what: String| {
            self.messages.push(format!("error: {what}"));
            None
        };
        sys::interrupt::install();
        let spawned =
            self.shared.filters.command(text.as_bstr()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut child) = spawned else {
            return failed(format!("cannot fork to run external filter '{template}'"));
        };
        let mut stdin = child.stdin.take().expect("asked to be piped");
        let mut stdout = child.stdout.take().expect("asked to be piped");
        let mut filtered = Vec::new();
        let (fed, read) = std::thread::scope(|scope| {
            // A filter may exit before it has read all of its input.
            let mut feed = move || content.each(PIECE, &mut |piece| stdin.write_all(piece));
            let feeding = scope.spawn(move || match feed() {
                Err(err) if err.kind() != std::io::ErrorKind::BrokenPipe => Err(err),
                _ => Ok(()),
            });
            let read = stdout.read_to_end(&mut filtered);
            (feeding.join().is_ok_and(|fed| fed.is_ok()), read.is_ok())
        });
        let status = child.wait();
        if !fed {
            failed(format!("cannot feed the input to external filter '{template}'"));
        }
        let code = match status {
            Ok(status) => status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()),
            Err(_) => -1,
        };
        if code != 0 {
            failed(format!("external filter '{template}' failed {code}"));
        }
        if !read {
            return failed(format!("read from external filter '{template}' failed"));
        }
        if !fed || code != 0 {
            return failed(format!("external filter '{template}' failed"));
        }
        Some(filtered)
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Clean,
    Smudge,
}

fn line(key: &str, value: &BStr) -> BString {
    bstr::concat([key.as_bytes(), value]).into()
}

/// Replaces `%f` by the quoted path, and `%%` by a percent sign.
fn expand(template: &BStr, path: &BStr) -> BString {
    let mut text = BString::default();
    let mut rest = template.as_bytes();
    while let Some(percent) = rest.find_byte(b'%') {
        text.extend_from_slice(&rest[..percent]);
        rest = &rest[percent + 1..];
        match rest.first() {
            Some(b'f') => {
                text.extend_from_slice(&format::shell::quote(path));
                rest = &rest[1..];
            }
            Some(b'%') => {
                text.push(b'%');
                rest = &rest[1..];
            }
            _ => text.push(b'%'),
        }
    }
    text.extend_from_slice(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expands_placeholders() {
        let expand = |template: &str| expand(template.into(), "it's".into()).to_string();
        assert_eq!(expand("x %f %% %d %"), r"x 'it'\''s' % %d %");
    }
}
