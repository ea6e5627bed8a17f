//! `GIT_TRACE2_EVENT` and `GIT_TRACE2_PERF`: the events of a run, in Git's formats; and `sapwood
//! --verbose`.
//!
//! Events are the beginning and the end of the run, its command, the engine's threads, which arrive
//! as spans of `tracing` ([`Events`]), and the number of threads of each phase (`data` of the
//! category `workers`). Without the variables no subscriber is installed, and a span costs one
//! load. A failed write does not affect the command.

use std::{
    ffi::{OsStr, OsString},
    io::Write as _,
    os::unix::ffi::OsStrExt as _,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use jiff::Timestamp;
use repo::Env;
pub(crate) use sapwood::trace::{child, data};
use tracing::{
    Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id},
};
use tracing_subscriber::{Layer, Registry, layer::Context, layer::SubscriberExt as _, registry::LookupSpan};

use crate::{
    session::invocation::Invocation,
    term::{
        console,
        files::{self, File},
        text::{clock::wall_clock, json},
    },
};

/// The trace of one run; `None` if no variable or option enables it.
pub(crate) struct Trace(Option<Arc<Sink>>);

struct Sink {
    targets: Vec<(Format, Mutex<File>)>,
    /// The session identifier: this run's name, preceded by those of its parents.
    session: String,
    started: Instant,
    /// With `--verbose`: the worker counts of each phase.
    sizes: Option<Mutex<Vec<Sizes>>>,
}

/// The role of a phase, and its worker counts over time.
type Sizes = (String, Vec<u64>);

/// Git's names for the formats are in the names of the variables.
#[derive(Clone, Copy)]
enum Format {
    Event,
    Perf,
}

/// The fields of one line, in each format.
struct Line<'l> {
    event: &'static str,
    thread: &'l str,
    /// Members of the JSON object, each after a comma.
    members: String,
    /// For an end event, the time of the matching beginning.
    since: Option<Instant>,
    category: String,
    message: String,
}

impl<'l> Line<'l> {
    fn new(event: &'static str, thread: &'l str) -> Self {
        Line {
            event,
            thread,
            members: String::new(),
            since: None,
            category: String::new(),
            message: String::new(),
        }
    }
}

impl Trace {
    /// Starts the trace. Programs that `run` starts from now on are traced as children of this run.
    pub(crate) fn start(run: &mut Invocation, argv: &[OsString], started: Instant) -> Trace {
        let variables = [("GIT_TRACE2_EVENT", Format::Event), ("GIT_TRACE2_PERF", Format::Perf)];
        if !run.verbose && !variables.iter().any(|(name, _)| run.env.contains_key(OsStr::new(name))) {
            return Trace(None);
        }
        let session = session(&run.env);
        let targets: Vec<_> = variables
            .into_iter()
            .filter_map(|(name, format)| Some((format, Mutex::new(target(&run.env, name, &session)?))))
            .collect();
        if targets.is_empty() && !run.verbose {
            return Trace(None);
        }
        if !targets.is_empty() {
            run.env.insert("GIT_TRACE2_PARENT_SID".into(), session.clone().into());
        }
        let sizes = run.verbose.then(Mutex::default);
        let sink = Arc::new(Sink { targets, session, started, sizes });
        let version = concat!("sapwood ", env!("CARGO_PKG_VERSION"));
        sink.write(Line {
            members: format!(",\"evt\":\"4\",\"exe\":{}", json(version)),
            message: version.to_owned(),
            ..Line::new("version", "main")
        });
        let words: Vec<_> = argv.iter().map(|arg| arg.to_string_lossy()).collect();
        let quoted: Vec<String> = words.iter().map(|word| json(word)).collect();
        sink.write(Line {
            members: format!(",\"t_abs\":{:.6},\"argv\":[{}]", sink.seconds(), quoted.join(",")),
            message: words.join(" "),
            ..Line::new("start", "main")
        });
        let name = run.command.to_string();
        sink.write(Line {
            members: format!(",\"name\":{0},\"hierarchy\":{0}", json(&name)),
            message: format!("{name} ({name})"),
            ..Line::new("cmd_name", "main")
        });
        // Only the first subscriber of a process is installed, and this is the only call.
        let _ = tracing::subscriber::set_global_default(Registry::default().with(Events(Arc::clone(&sink))));
        Trace(Some(sink))
    }

    /// Writes the final events.
    pub(crate) fn exit(&self, code: u8) {
        let Some(sink) = &self.0 else { return };
        for event in ["exit", "atexit"] {
            sink.write(Line {
                members: format!(",\"t_abs\":{:.6},\"code\":{code}", sink.seconds()),
                message: format!("code:{code}"),
                ..Line::new(event, "main")
            });
        }
        let sizes = sink.sizes.as_ref().map(|sizes| std::mem::take(&mut *locked(sizes)));
        for (role, sizes) in sizes.unwrap_or_default() {
            let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
            console::eprint_line(format!("workers: {role} {}", sizes.join(" -> ")));
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the session identifier: the parent's, then time, host and process of this run.
fn session(env: &Env) -> String {
    let time = Timestamp::now().strftime("%Y%m%dT%H%M%S.%6fZ").to_string();
    let own = format!("{time}-Localhost-P{:08x}", std::process::id());
    match env.get(OsStr::new("GIT_TRACE2_PARENT_SID")) {
        Some(parent) => format!("{}/{own}", parent.to_string_lossy()),
        None => own,
    }
}

/// Opens the file, descriptor or directory that the variable names.
fn target(env: &Env, name: &str, session: &str) -> Option<File> {
    let value = env.get(OsStr::new(name))?;
    let path = match value.as_bytes() {
        b"1" | b"true" => Path::new("/proc/self/fd/2").to_owned(),
        [digit @ b'2'..=b'9'] => format!("/proc/self/fd/{}", char::from(*digit)).into(),
        [b'/', ..] => value.into(),
        _ => return None,
    };
    let own = session.rsplit('/').next().unwrap_or(session);
    let path = if path.is_dir() { path.join(own) } else { path };
    files::open_log(&path).ok()
}

impl Sink {
    fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Writes the line in one `write` per target, because other processes append to the same file.
    fn write(&self, line: Line<'_>) {
        for (format, file) in &self.targets {
            let text = match format {
                Format::Event => self.event(&line),
                Format::Perf => self.perf(&line),
            };
            let _ = locked(file).write_all(text.as_bytes());
        }
    }

    fn event(&self, line: &Line<'_>) -> String {
        let time = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ");
        let (session, thread) = (json(&self.session), json(line.thread));
        let Line { event, members, .. } = line;
        let relative = line
            .since
            .map_or_else(String::new, |since| format!(",\"t_rel\":{:.6}", since.elapsed().as_secs_f64()));
        format!(
            "{{\"event\":\"{event}\",\"sid\":{session},\"thread\":{thread},\"time\":\"{time}\"{relative}{members}}}\n"
        )
    }

    /// Writes the beginning and the end of a region.
    fn region(&self, Words { category, label, .. }: &Words) {
        for event in ["region_enter", "region_leave"] {
            self.write(Line {
                members: format!(",\"nesting\":1,\"category\":{},\"label\":{}", json(category), json(label)),
                since: (event == "region_leave").then(Instant::now),
                category: category.clone(),
                message: format!("label:{label}"),
                ..Line::new(event, "main")
            });
        }
    }

    /// Formats the columns of Git's documentation: time and source position (empty here), depth,
    /// thread, event, repository, seconds since the beginning of the run and of the region,
    /// category, message.
    fn perf(&self, line: &Line<'_>) -> String {
        let time = wall_clock();
        let depth = self.session.matches('/').count();
        let Line { event, thread, category, message, .. } = line;
        let relative =
            line.since.map_or_else(String::new, |since| format!("{:9.6}", since.elapsed().as_secs_f64()));
        let absolute = self.seconds();
        format!(
            "{time} {:<28} | d{depth} | {thread:<24} | {event:<12} | {:<3} | {absolute:9.6} | {relative:9} | {category:<12.12} | {message}\n",
            "", ""
        )
    }
}

/// Turns spans called `worker` into threads.
struct Events(Arc<Sink>);

/// A span that represents a thread.
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
        self.0.write(Line::new("thread_start", &name));
        span.extensions_mut().insert(Thread { name, started: Instant::now() });
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        if let Some(Thread { name, started }) = span.extensions_mut().remove() {
            self.0.write(Line { since: Some(started), ..Line::new("thread_exit", &name) });
        }
    }

    /// Handles a number, or the size of a crew.
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let (regions, category, label, value) = match event.metadata().target() {
            "workers" => {
                let mut crew = Worker::default();
                event.record(&mut crew);
                let Worker { role, number } = crew;
                if let Some(sizes) = &self.0.sizes {
                    let mut sizes = locked(sizes);
                    match sizes.last_mut().filter(|(last, _)| *last == role) {
                        Some((_, sizes)) if sizes.last() == Some(&number) => {}
                        Some((_, sizes)) => sizes.push(number),
                        None => sizes.push((role.clone(), vec![number])),
                    }
                }
                (1, "workers".to_owned(), role, number.to_string())
            }
            "data" | "data_json" => {
                let mut words = Words::default();
                event.record(&mut words);
                let Words { regions, category, label, value } = words;
                (regions, category, label, value)
            }
            "child" => {
                let mut words = Words::default();
                event.record(&mut words);
                let Words { category: class, label, value, .. } = words;
                self.0.write(Line {
                    members: format!(
                        ",\"child_id\":0,\"child_class\":{},\"use_shell\":false,\"argv\":[{value}]",
                        json(&class)
                    ),
                    message: format!("[ch0] class:{class} argv:[{label}]"),
                    ..Line::new("child_start", "main")
                });
                return;
            }
            "region" => {
                let mut words = Words::default();
                event.record(&mut words);
                self.0.region(&words);
                return;
            }
            _ => return,
        };
        let (kind, quoted) = match event.metadata().target() {
            "data_json" => ("data_json", value.clone()),
            _ => ("data", json(&value)),
        };
        self.0.write(Line {
            members: format!(
                ",\"t_abs\":{:.6},\"nesting\":{},\"category\":{},\"key\":{},\"value\":{quoted}",
                self.0.seconds(),
                regions + 1,
                json(&category),
                json(&label),
            ),
            since: Some(self.0.started),
            message: format!("{}{label}:{value}", "..".repeat(regions)),
            category,
            ..Line::new(kind, "main")
        });
    }
}

/// The fields of a span `worker`, and of a crew's size.
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
        if matches!(field.name(), "number" | "size") {
            self.number = value;
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

/// The fields of a number.
#[derive(Default)]
struct Words {
    regions: usize,
    category: String,
    label: String,
    value: String,
}

impl Visit for Words {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "regions" {
            self.regions = usize::try_from(value).unwrap_or_default();
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "category" => value.clone_into(&mut self.category),
            "label" => value.clone_into(&mut self.label),
            "value" => value.clone_into(&mut self.value),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}
