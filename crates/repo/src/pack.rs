//! Receives a pack: from a stream to `pack-<hash>.pack` and `.idx` in a directory.
//!
//! Promise: the two files appear only after the whole pack was read, every object in it was decoded
//! and named, and its trailing checksum was verified. Until then there are only temporary files,
//! which are removed when the function returns or unwinds. The index appears after the pack. Order:
//! receive (one thread reads, checks boundaries and writes), resolve (all threads apply deltas and
//! hash), publish.

use std::{
    io::BufRead,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use format::HashKind;

use crate::gitoxide::was_interrupted;

/// The stage of receiving a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Objects are read from the stream.
    Receiving,
    /// Objects are decoded and named.
    Resolving,
}

/// The progress of [`receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Progress {
    pub stage: Stage,
    pub done: usize,
    pub total: usize,
    /// The bytes of the stream read so far.
    pub bytes: usize,
}

/// The written files.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Received {
    pub pack: PathBuf,
    pub index: PathBuf,
    pub objects: u32,
}

/// The reason why a pack was refused. None of its files is left.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("interrupted")]
    Interrupted,
    /// The stream, an object or the disk failed. `reason` is the joined chain of causes.
    #[error("cannot index the pack received into '{}': {reason}", .directory.display())]
    Failed { directory: PathBuf, reason: String },
    /// A signal interrupted a system call that was not retried. The caller may retry all of it.
    /// Files may be left in the directory.
    #[error("cannot index the pack received into '{}': {reason}", .directory.display())]
    Retryable { directory: PathBuf, reason: String },
}

/// Reads one pack from `stream` into `directory` (an `objects/pack`). Returns `None` if the pack
/// was empty and no file was written. A separate thread calls `progress` about ten times a second.
pub fn receive(
    stream: &mut dyn BufRead,
    directory: &Path,
    hash: HashKind,
    interrupt: &AtomicBool,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Option<Received>, Error> {
    let meter = Meter::default();
    let finished = Finished::default();
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !finished.wait(Duration::from_millis(100)) {
                if let Some(now) = meter.now() {
                    progress(now);
                }
            }
        });
        let _stop = finished.guard();
        gix_pack::Bundle::write_to_directory(
            stream,
            Some(directory),
            &mut Node::root(&meter),
            interrupt,
            None::<gix_object::find::Never>,
            match hash {
                HashKind::Sha1 => gix_hash::Kind::Sha1,
                HashKind::Sha256 => gix_hash::Kind::Sha256,
            },
            Default::default(),
        )
    });
    let outcome = outcome.map_err(|error| match interrupt.load(Ordering::Relaxed) {
        true => Error::Interrupted,
        false => {
            let (directory, reason) = (directory.to_owned(), chain(&error));
            match was_interrupted(&error) {
                true => Error::Retryable { directory, reason },
                false => Error::Failed { directory, reason },
            }
        }
    })?;
    if let Some(last) = meter.now() {
        progress(last);
    }
    let (Some(pack), Some(index)) = (outcome.data_path, outcome.index_path) else { return Ok(None) };
    let failed = |what: &str, path: &Path, error: std::io::Error| Error::Failed {
        directory: directory.to_owned(),
        reason: format!("cannot {what} '{}': {}", path.display(), sys::reason(&error)),
    };
    for path in [&pack, &index] {
        // Temporary files are private and writable; packs are neither.
        sys::by_path::open(path)
            .and_then(|file| sys::set_mode(&file, 0o444 & !sys::umask()))
            .map_err(|error| failed("set the mode of", path, error))?;
    }
    if let Some(keep) = outcome.keep_path {
        sys::by_path::remove_file(&keep).map_err(|error| failed("remove", &keep, error))?;
    }
    Ok(Some(Received { pack, index, objects: outcome.index.num_objects }))
}

fn chain(error: &gix_error::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = match cause.downcast_ref::<std::io::Error>() {
            Some(io) => sys::reason(io),
            None => cause.to_string(),
        };
        // An error that wraps an error of the system may repeat its text.
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// The sampling thread sleeps on this, and is woken at the end of the work.
#[derive(Default)]
struct Finished {
    over: std::sync::Mutex<bool>,
    changed: std::sync::Condvar,
}

struct Guard<'a>(&'a Finished);

impl Finished {
    fn wait(&self, timeout: Duration) -> bool {
        let over = self.over.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let waited = self.changed.wait_timeout_while(over, timeout, |over| !*over);
        *waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
    }

    fn guard(&self) -> Guard<'_> {
        Guard(self)
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        *self.0.over.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = true;
        self.0.changed.notify_all();
    }
}

#[derive(Clone, Default)]
struct Meter {
    bytes: Counter,
    received: Counter,
    resolved: Counter,
    total: Counter,
}

type Counter = Arc<AtomicUsize>;

impl Meter {
    fn now(&self) -> Option<Progress> {
        let read = |counter: &Counter| counter.load(Ordering::Relaxed);
        let (total, bytes) = (read(&self.total), read(&self.bytes));
        let (stage, done) = match read(&self.resolved) {
            0 => (Stage::Receiving, read(&self.received)),
            resolved => (Stage::Resolving, resolved),
        };
        (total > 0).then_some(Progress { stage, done, total, bytes })
    }
}

/// The tree of counters that gix reports to. The counters of [`Meter`] are recognized by their
/// identifiers.
struct Node {
    meter: Meter,
    counter: Counter,
    id: prodash::progress::Id,
}

impl Node {
    fn root(meter: &Meter) -> Node {
        Node { meter: meter.clone(), counter: Counter::default(), id: prodash::progress::UNKNOWN }
    }
}

impl prodash::Count for Node {
    fn set(&self, step: usize) {
        self.counter.store(step, Ordering::Relaxed);
    }
    fn step(&self) -> usize {
        self.counter.load(Ordering::Relaxed)
    }
    fn inc_by(&self, step: usize) {
        self.counter.fetch_add(step, Ordering::Relaxed);
    }
    fn counter(&self) -> Counter {
        self.counter.clone()
    }
}

impl prodash::Progress for Node {
    fn init(&mut self, max: Option<usize>, _unit: Option<prodash::Unit>) {
        if let (Some(max), true) = (max, Arc::ptr_eq(&self.counter, &self.meter.received)) {
            self.meter.total.store(max, Ordering::Relaxed);
        }
    }
    fn set_name(&mut self, _name: String) {}
    fn name(&self) -> Option<String> {
        None
    }
    fn id(&self) -> prodash::progress::Id {
        self.id
    }
    fn message(&self, _level: prodash::messages::MessageLevel, _message: String) {}
}

impl prodash::NestedProgress for Node {
    type SubProgress = Node;
    fn add_child(&mut self, name: impl Into<String>) -> Node {
        prodash::NestedProgress::add_child_with_id(self, name, prodash::progress::UNKNOWN)
    }
    fn add_child_with_id(&mut self, _name: impl Into<String>, id: prodash::progress::Id) -> Node {
        use gix_pack::{bundle::write::ProgressId as Bundle, index::write::ProgressId as Index};
        let is = |known: prodash::progress::Id| id == known;
        let counter = if is(Index::IndexObjects.into()) {
            self.meter.received.clone()
        } else if is(Index::ResolveObjects.into()) {
            self.meter.resolved.clone()
        } else if is(Bundle::ReadPackBytes.into()) {
            self.meter.bytes.clone()
        } else {
            Counter::default()
        };
        Node { meter: self.meter.clone(), counter, id }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::{ffi::OsStr, fs, process::Command};

    use super::*;

    /// Makes a repository with a few commits, a tag object and enough similar files for deltas.
    fn repository(root: &Path, format: &str) -> PathBuf {
        let path = root.join("source");
        let script = format!(
            "git init -q -b main --object-format={format} source && cd source &&
             for i in $(seq 1 40); do seq $i 900 >file$i; done && git add . &&
             git -c user.name=A -c user.email=a@example.com commit -q -m one && seq 5 950 >file1 &&
             git -c user.name=A -c user.email=a@example.com commit -q -a -m two &&
             git -c user.name=A -c user.email=a@example.com tag -a -m tag v1 && git gc -q"
        );
        let status = Command::new("sh").arg("-c").arg(script).current_dir(root).status();
        assert!(status.expect("a shell").success());
        path
    }

    #[test]
    fn leaves_no_files_of_a_damaged_or_truncated_pack() {
        let root = tempfile::tempdir().expect("a directory for tests");
        let source = repository(root.path(), "sha1");
        let pack = fs::read_dir(source.join(".git/objects/pack"))
            .expect("listed")
            .map(|entry| entry.expect("an entry").path())
            .find(|path| path.extension() == Some(OsStr::new("pack")));
        let whole = fs::read(pack.expect("a pack")).expect("read");
        let target = root.path().join("target");
        fs::create_dir(&target).expect("made");
        let never = AtomicBool::new(false);
        let mut damaged = whole.clone();
        damaged[whole.len() / 2] ^= 0x10;
        for content in [&damaged[..], &whole[..whole.len() - 30], &whole[..7], b""] {
            let refused = receive(&mut &*content, &target, HashKind::Sha1, &never, &|_| {});
            assert!(matches!(refused, Err(Error::Failed { .. })), "{refused:?}");
            assert_eq!(fs::read_dir(&target).expect("listed").count(), 0);
        }
        let now = AtomicBool::new(true);
        let stopped = receive(&mut &whole[..], &target, HashKind::Sha1, &now, &|_| {});
        assert!(matches!(stopped, Err(Error::Interrupted)));
        assert_eq!(fs::read_dir(&target).expect("listed").count(), 0);
    }
}
