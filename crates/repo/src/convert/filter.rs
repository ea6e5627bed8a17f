//! External filters: commands run per file, and long-running processes that may delay their answer.
//!
//! Order: [`ExternalFilters::smudge`] for each file; what is delayed is collected by rounds of
//! [`ExternalFilters::available`] and [`ExternalFilters::fetch`] until a round is empty. A filter that
//! fails passes the content through with Git's message, unless `filter.<name>.required` is set.
//! Source: gitattributes(5) `filter`.

use std::{
    collections::{BTreeSet, HashMap},
    ffi::OsString,
    io::{Read as _, Write as _},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bstr::{BStr, BString, ByteSlice};
use format::ObjectId;
use sys::profile::{self, Phase};

use super::{
    Content, Worker,
    process::{Answer, NotStarted, Process},
};
use crate::{ConvertError, Error, Repository};

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
    /// Whether it does anything at all.
    pub(super) fn has_command(&self) -> bool {
        !self.smudge.is_empty() || !self.clean.is_empty() || !self.process.is_empty()
    }

    fn only_fails(&self) -> bool {
        self.required && self.smudge.is_empty() && self.process.is_empty()
    }

    /// Whether a checkout has to ask it (or, where it is required but cannot smudge, to fail).
    pub(super) fn acts_on_checkout(&self) -> bool {
        self.required || !self.smudge.is_empty() || !self.process.is_empty()
    }
}

/// True if some configured driver is required and has no command to smudge by.
pub fn any_driver_only_fails(repo: &Repository) -> Result<bool, Error> {
    Ok(drivers(repo)?.iter().any(Driver::only_fails))
}

/// All drivers that are configured.
pub(super) fn drivers(repo: &Repository) -> Result<Vec<Driver>, Error> {
    let names = repo.config.subsections("filter");
    names
        .into_iter()
        .map(|name| {
            let command = |key: &str| -> Result<BString, Error> {
                Ok(repo.config_str_required(&format!("filter.{name}.{key}"))?.unwrap_or_default())
            };
            Ok(Driver {
                name: name.to_owned(),
                clean: command("clean")?,
                smudge: command("smudge")?,
                process: command("process")?,
                required: repo.config_bool(&format!("filter.{name}.required"))?.unwrap_or(false),
            })
        })
        .collect()
}

/// Where filters run, and with what environment.
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

    /// The processes that run; others wait.
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

/// What is checked out, for filters that want to know.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    /// Full name of the branch that is being switched to.
    pub reference: Option<BString>,
    /// The commit, or the tree.
    pub treeish: Option<ObjectId>,
}

/// The moment at which a filter may deliver a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delays {
    /// It is offered to.
    Offered,
    /// It has to answer at once, as for Git's `checkout-index`.
    Refused,
}

/// What a filter made of a file.
#[derive(Debug, PartialEq, Eq)]
pub enum Smudged {
    /// The bytes to write.
    Ready(Vec<u8>),
    /// To be fetched later.
    Delayed,
    /// The filter has nothing to say, or failed without being required: the bytes stay as they are.
    Unchanged,
}

/// A file to be filtered.
pub(super) struct Job<'a> {
    pub(super) path: &'a BStr,
    pub(super) oid: ObjectId,
    /// Position in the drivers.
    pub(super) driver: usize,
    /// The answer may come later.
    pub(super) delay: bool,
}

/// Long-running processes by command: each is started once, asked by one at a time, and ends with the repository.
#[derive(Default)]
pub(crate) struct Processes(Mutex<HashMap<BString, Process>>);

/// The lane of external filters, owned by one thread: a filter may assume that it has one caller only.
pub struct ExternalFilters {
    worker: Worker,
    delays: Delays,
    /// Commands that delayed something and have not said that they are done.
    waiting: BTreeSet<BString>,
    delayed: BTreeSet<BString>,
    failed: bool,
}

impl ExternalFilters {
    pub(super) fn new(worker: Worker, delays: Delays) -> ExternalFilters {
        ExternalFilters { worker, delays, waiting: BTreeSet::new(), delayed: BTreeSet::new(), failed: false }
    }

    /// Converts and filters a blob.
    pub fn smudge(&mut self, path: &BStr, oid: ObjectId, blob: &[u8]) -> Result<Smudged, Error> {
        let _phase = profile::span(Phase::Convert);
        let Some(action) = self.worker.action(path)? else { return Ok(Smudged::Unchanged) };
        let mut out = Vec::new();
        let mut content = Content { input: blob, out: &mut out, spare: Vec::new(), changed: false };
        self.worker.in_process(path, oid, &action, &mut content);
        let smudged = match action.smudger() {
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

    /// One round: asks every filter that owes something which of its files are ready, until it has none any more. Waits as
    /// long as the filters do. Empty when nothing more will come.
    pub fn available(&mut self) -> Vec<BString> {
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
                    Err(_) => {
                        messages.push(format!("error: external filter '{command}' failed"));
                        self.failed = true;
                        running.remove(&command);
                    }
                }
                if done {
                    self.waiting.remove(&command);
                }
            }
        }
        ready
    }

    /// Whether a filter did not keep to what was agreed, so that Git would call the whole a failure.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// The bytes of a file that was delayed and is available now.
    pub fn fetch(&mut self, path: &BStr, oid: ObjectId) -> Result<Smudged, Error> {
        let _phase = profile::span(Phase::Convert);
        let Some(driver) = self.worker.action(path)?.and_then(|action| action.driver) else {
            return Ok(Smudged::Unchanged);
        };
        self.worker.smudge(&Job { path, oid, driver, delay: false }, b"")
    }

    /// The files that were promised and never came, sorted, each with Git's message
    /// (`'<path>' was not filtered properly`) among the messages.
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
    /// Runs the filter of a checkout; an error if it is required and fails.
    pub(super) fn smudge(&mut self, job: &Job<'_>, content: &[u8]) -> Result<Smudged, Error> {
        let shared = std::sync::Arc::clone(&self.shared);
        let driver = &shared.drivers[job.driver];
        let smudged = if !driver.process.is_empty() {
            let mut header = vec!["command=smudge".into(), line("pathname=", job.path)];
            let Metadata { reference, treeish } = &shared.metadata;
            header.extend(reference.as_ref().map(|name| line("ref=", name.as_bstr())));
            header.extend(treeish.as_ref().map(|id| BString::from(format!("treeish={id}"))));
            header.push(format!("blob={}", job.oid).into());
            self.ask(&driver.process, Kind::Smudge, header, content, job.delay)?
        } else if !driver.smudge.is_empty() {
            self.run(&driver.smudge, job.path, content).map_or(Smudged::Unchanged, Smudged::Ready)
        } else {
            Smudged::Unchanged
        };
        if smudged == Smudged::Unchanged && driver.required {
            return Err(smudge_failed(job.path, driver).into());
        }
        Ok(smudged)
    }

    /// The words with which Git dies when it writes the file at `path`, if the file's filter is
    /// required and has no command to smudge by.
    pub fn sure_failure(&mut self, path: &BStr) -> Result<Option<String>, Error> {
        let Some(driver) = self.action(path)?.and_then(|action| action.smudger()) else { return Ok(None) };
        let driver = &self.shared.drivers[driver];
        Ok(driver.only_fails().then(|| smudge_failed(path, driver).to_string()))
    }

    /// Runs the filter of an addition; `None` if it changes nothing.
    pub(super) fn clean(
        &mut self,
        path: &BStr,
        driver: usize,
        content: &[u8],
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

    /// Asks a long-running process, which is started if need be.
    fn ask(
        &mut self,
        command: &BString,
        kind: Kind,
        mut header: Vec<BString>,
        content: &[u8],
        delay: bool,
    ) -> Result<Smudged, Error> {
        let Worker { shared, messages, .. } = self;
        let mut running = shared.filters.running();
        if !running.contains_key(command) {
            match Process::start(shared.filters.command(command.as_bstr()), command.as_bstr()) {
                Ok(process) => drop(running.insert(command.clone(), process)),
                // The next file tries it again.
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
        if delay && process.delay {
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
            Ok(Answer::Delayed) | Err(_) => {
                messages.push(format!("error: external filter '{command}' failed"));
                // The next file starts it anew.
                running.remove(command);
                Smudged::Unchanged
            }
        })
    }

    /// Runs a command for one file; `None` if it fails.
    fn run(&mut self, template: &BString, path: &BStr, content: &[u8]) -> Option<Vec<u8>> {
        let text = expand(template.as_bstr(), path);
        let mut failed = |what: String| {
            self.messages.push(format!("error: {what}"));
            None
        };
        let spawned =
            self.shared.filters.command(text.as_bstr()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut child) = spawned else {
            return failed(format!("cannot fork to run external filter '{template}'"));
        };
        let mut stdin = child.stdin.take().expect("asked to be piped");
        let mut stdout = child.stdout.take().expect("asked to be piped");
        let mut filtered = Vec::new();
        let (fed, read) = std::thread::scope(|scope| {
            // A filter need not read all that it is given.
            let feeding = scope.spawn(move || match stdin.write_all(content) {
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

/// `%f` becomes the quoted path, `%%` a percent sign.
fn expand(template: &BStr, path: &BStr) -> BString {
    let mut text = BString::default();
    let mut rest = template.as_bytes();
    while let Some(percent) = rest.find_byte(b'%') {
        text.extend_from_slice(&rest[..percent]);
        rest = &rest[percent + 1..];
        match rest.first() {
            Some(b'f') => {
                text.extend_from_slice(&crate::quote::shell(path));
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
    fn placeholders() {
        let expand = |template: &str| expand(template.into(), "it's".into()).to_string();
        assert_eq!(expand("x %f %% %d %"), r"x 'it'\''s' % %d %");
    }
}
