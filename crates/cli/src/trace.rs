//! `GIT_TRACE2_EVENT`: what a run did, in Git's event format, a line of JSON for each event.
//!
//! The beginning and the end of the run, its command, and the threads of the engine, which come as spans of
//! `tracing` ([`Events`]). Without the variable nothing listens, and a span costs a load. A file that cannot be written
//! changes nothing.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    fs::File,
    io::Write as _,
    os::unix::ffi::OsStrExt as _,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use jiff::Timestamp;
use tracing::{
    Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id},
};
use tracing_subscriber::{Layer, Registry, layer::Context, layer::SubscriberExt as _, registry::LookupSpan};

use crate::{global::Invocation, text::json};

/// The trace of one run; nothing without the variable.
pub(crate) struct Trace(Option<Arc<Sink>>);

struct Sink {
    file: Mutex<File>,
    /// Names the run, with those it is part of before it.
    session: String,
    started: Instant,
}

impl Trace {
    /// Begins. What `run` starts from now on belongs to this run.
    pub(crate) fn start(run: &mut Invocation, argv: &[OsString], started: Instant) -> Trace {
        let session = session(&run.env);
        let Some(file) = target(&run.env, "GIT_TRACE2_EVENT", &session) else { return Trace(None) };
        run.env.insert("GIT_TRACE2_PARENT_SID".into(), session.clone().into());
        let sink = Arc::new(Sink { file: Mutex::new(file), session, started });
        let version = json(concat!("sapwood ", env!("CARGO_PKG_VERSION")));
        sink.write("version", "main", &format!(",\"evt\":\"4\",\"exe\":{version}"));
        let argv: Vec<String> = argv.iter().map(|arg| json(&arg.to_string_lossy())).collect();
        sink.write("start", "main", &format!(",\"t_abs\":{},\"argv\":[{}]", sink.seconds(), argv.join(",")));
        let name = json(&run.command.to_string());
        sink.write("cmd_name", "main", &format!(",\"name\":{name},\"hierarchy\":{name}"));
        // Only the first in a process is heard, and there is no second.
        let _ = tracing::subscriber::set_global_default(Registry::default().with(Events(Arc::clone(&sink))));
        Trace(Some(sink))
    }

    /// Ends.
    pub(crate) fn exit(&self, code: u8) {
        if let Some(sink) = &self.0 {
            for event in ["exit", "atexit"] {
                sink.write(event, "main", &format!(",\"t_abs\":{},\"code\":{code}", sink.seconds()));
            }
        }
    }
}

/// A figure that scripts look for in `GIT_TRACE2_PERF`: a line in Git's form, of which the times are not told.
pub(crate) fn data(run: &Invocation, category: &str, label: &str, value: &str) {
    let Some(mut file) = target(&run.env, "GIT_TRACE2_PERF", "sapwood") else { return };
    let time = Timestamp::now().strftime("%H:%M:%S.%6f");
    let (place, times) = (format!("{time} {:<30}", "sapwood"), format!("{:>9} | {:>9}", "", ""));
    let line = format!(
        "{place} | d0 | main                     | data         | r1  | {times} | {category:<12.12} | ..{label}:{value}\n"
    );
    let _ = file.write_all(line.as_bytes());
}

/// Its own name after the parent's: time, host and process.
fn session(env: &HashMap<OsString, OsString>) -> String {
    let time = Timestamp::now().strftime("%Y%m%dT%H%M%S.%6fZ").to_string();
    let own = format!("{time}-Localhost-P{:08x}", std::process::id());
    match env.get(OsStr::new("GIT_TRACE2_PARENT_SID")) {
        Some(parent) => format!("{}/{own}", parent.to_string_lossy()),
        None => own,
    }
}

/// The file, descriptor or directory that the variable names.
fn target(env: &HashMap<OsString, OsString>, variable: &str, session: &str) -> Option<File> {
    let value = env.get(OsStr::new(variable))?;
    let path = match value.as_bytes() {
        b"1" | b"true" => Path::new("/proc/self/fd/2").to_owned(),
        [digit @ b'2'..=b'9'] => format!("/proc/self/fd/{}", char::from(*digit)).into(),
        [b'/', ..] => value.into(),
        _ => return None,
    };
    let own = session.rsplit('/').next().unwrap_or(session);
    let path = if path.is_dir() { path.join(own) } else { path };
    sys::by_path::append(&path, true, 0o666).ok()
}

impl Sink {
    fn seconds(&self) -> String {
        format!("{:.6}", self.started.elapsed().as_secs_f64())
    }

    /// One `write`, as others append to the same file.
    fn write(&self, event: &str, thread: &str, more: &str) {
        let time = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ");
        let (session, thread) = (json(&self.session), json(thread));
        let line = format!(
            "{{\"event\":\"{event}\",\"sid\":{session},\"thread\":{thread},\"time\":\"{time}\"{more}}}\n"
        );
        let _ = self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
    }
}

/// Spans called `worker` become threads.
struct Events(Arc<Sink>);

/// A span that is a thread.
struct Thread {
    name: String,
    started: Instant,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Events {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id).filter(|span| span.name() == "worker") else { return };
        let mut worker = Worker::default();
        attributes.record(&mut worker);
        let name = format!("th{:02}:{}", worker.number + 1, worker.role);
        self.0.write("thread_start", &name, "");
        span.extensions_mut().insert(Thread { name, started: Instant::now() });
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        if let Some(Thread { name, started }) = span.extensions_mut().remove() {
            let seconds = started.elapsed().as_secs_f64();
            self.0.write("thread_exit", &name, &format!(",\"t_rel\":{seconds:.6}"));
        }
    }
}

/// The fields of a span `worker`.
#[derive(Default)]
struct Worker {
    role: String,
    number: u64,
}

impl Visit for Worker {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "role" {
            self.role = value.to_owned();
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "number" {
            self.number = value;
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}
