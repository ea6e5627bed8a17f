//! overlayfs in its own user and mount namespaces, for users who may not mount.
//!
//! A process, the holder, creates the namespaces and the mount, and waits. Any number of processes
//! can join its namespaces. The mount ends after the holder and all of them have exited.
//!
//! The holder exits when the workspace's marker no longer contains its process id, which includes
//! the removal of the state directory. It also exits on request: another process creates the file
//! `unmount` in the state directory. The holder then unmounts first, so the upper layer is free
//! afterwards. If the holder is killed, the namespaces remain for the processes in them.

use std::{
    ffi::{OsStr, OsString},
    io::{BufRead as _, BufReader, Read as _, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use sys::{
    Watch, by_path,
    mount::Unmount,
    namespace::{self, MountNamespace},
};

use super::{
    Backend, Busy, Changes, Error, Layers, Mounted, Process, Site,
    marker::Marker,
    overlay::{self, Rights},
    real,
};

/// The maximum time between two reads of the marker. Changes of the marker wake the holder earlier,
/// except on file systems without change notification.
const LOOK: Duration = Duration::from_secs(30);
/// The time within which a holder must respond to a request.
const ANSWER: Duration = Duration::from_secs(20);
/// The file name of a request in the state directory.
const REQUEST: &str = "unmount";
/// The file beside a request to unmount a workspace whose upper layer will be deleted.
const DISCARD: &str = "discard";

/// The command line of a program that calls [`hold`] with its standard output as `ready`.
#[derive(Clone, Debug)]
pub struct Program {
    /// The path of the program.
    pub program: PathBuf,
    /// The name of the process (`argv[0]`).
    pub argv0: OsString,
    /// The arguments.
    pub args: Vec<OsString>,
}

const READY: &[u8] = b"ready\n";
const FAILED: &[u8] = b"failed\n";

/// Mounts the workspace, which has no mount: in the namespace of its holder, if this process is
/// there, else in that of a new holder.
pub(super) fn start_or_replace(layers: &Layers, program: &Program) -> Result<Mounted, Error> {
    let marker = Marker::read(&layers.site.state).unwrap_or_default();
    if let Some(holder) = marker.holder.filter(namespace::Process::is_alive) {
        let current = MountNamespace::current().map(|namespace| namespace.to_string());
        if current.as_deref() == Some(&*marker.namespace) {
            // The holder locks the upper layer.
            overlay::mount_locked(layers, Rights::InUserNamespace, &marker)?;
            return Ok(Mounted::Here);
        }
        // A rebase was killed between its unmount and its mount.
        Marker::remove(&layers.site.state);
        let _ = holder.await_end(ANSWER);
    }
    start(layers, program)
}

/// Starts the holder of a workspace and waits until it has mounted it.
fn start(layers: &Layers, program: &Program) -> Result<Mounted, Error> {
    let args: Vec<&OsStr> = program.args.iter().map(OsString::as_os_str).collect();
    let failed = |source| Error::Start { program: program.program.clone(), source };
    let output = sys::spawn_service(&program.program, &program.argv0, &args).map_err(failed)?;
    let mut output = BufReader::new(output);
    let mut first = Vec::new();
    output.read_until(b'\n', &mut first).map_err(failed)?;
    if first == READY {
        return match super::state(Backend::OverlayUser, &layers.site)? {
            Mounted::No => Err(Error::NotMounted { path: layers.site.top.clone() }),
            mounted => Ok(mounted),
        };
    }
    let mut rest = first.strip_prefix(FAILED).unwrap_or(&first).to_vec();
    output.read_to_end(&mut rest).map_err(failed)?;
    let text = String::from_utf8_lossy(&rest).into_owned();
    let (message, advice) = text.split_once('\0').unwrap_or((&text, ""));
    let message = match message.trim_end() {
        "" => format!("'{}' ended without a word", program.program.display()),
        message => message.to_owned(),
    };
    Err(Error::Holder { message, advice: Some(advice.to_owned()).filter(|advice| !advice.is_empty()) })
}

/// Creates the namespaces and the mount, reports success on `ready`, and returns when the workspace
/// is unmounted. A failure is written to `ready` too. This process must have only one thread.
pub fn hold(layers: &Layers, mut ready: impl Write) -> Result<(), Error> {
    let held = begin(layers);
    match &held {
        Ok(_) => {
            let _ = ready.write_all(READY).and_then(|()| ready.flush());
        }
        Err(error) => {
            let advice = error.advice().unwrap_or_default();
            let text = [FAILED, error.to_string().as_bytes(), b"\0", advice.as_bytes()].concat();
            let _ = ready.write_all(&text).and_then(|()| ready.flush());
        }
    }
    let (lock, watch) = held?;
    wait(layers, watch, lock)
}

fn begin(layers: &Layers) -> Result<(sys::File, Watch), Error> {
    let watch = Watch::new(&layers.site.state).map_err(Error::io("watch", &layers.site.state))?;
    namespace::enter_new().map_err(|source| Error::NoNamespaces { source })?;
    let current = namespace::Process::current().map_err(Error::io("read", Path::new("/proc/self/stat")))?;
    let marker = Marker { holder: Some(current), ..Marker::current() };
    let lock = overlay::mount(layers, Rights::InUserNamespace, &marker)?;
    // A request to which no holder has responded.
    let _ = by_path::remove_file(&layers.site.state.join(REQUEST));
    Ok((lock, watch))
}

fn wait(layers: &Layers, mut watch: Watch, mut lock: sys::File) -> Result<(), Error> {
    let current = namespace::Process::current().map_err(Error::io("read", Path::new("/proc/self/stat")))?;
    let request = layers.site.state.join(REQUEST);
    let discard = layers.site.state.join(DISCARD);
    loop {
        watch.wait(LOOK).map_err(Error::io("watch", &layers.site.state))?;
        let is_current = Marker::read(&layers.site.state).and_then(|marker| marker.holder) == Some(current);
        if !is_current || sys::interrupt::is_raised() {
            return Ok(());
        }
        // A rebase has replaced the upper layer.
        if !overlay::is_lock_of(&lock, &layers.site.upper)
            && let Ok(new) = overlay::lock(&layers.site.upper, &layers.site.top)
        {
            lock = new;
        }
        if matches!(by_path::stat(&request), Ok(Some(_))) {
            let unmounted = sys::mount::unmount(&layers.site.top, Unmount::Plain);
            let is_discarded = matches!(by_path::stat(&discard), Ok(Some(_)));
            let changes = if is_discarded { Changes::Discarded } else { Changes::Kept };
            let finished = unmounted.is_ok().then(|| overlay::finish(&layers.site, changes));
            by_path::remove_file(&request).map_err(Error::io("remove", &request))?;
            if let Some(finished) = finished {
                return finished;
            }
        }
    }
}

/// Unmounts a workspace that a holder keeps mounted, and waits until the holder has exited.
pub(super) fn end(site: &Site, busy: Busy, changes: Changes) -> Result<(), Error> {
    let top = || site.top.clone();
    let marker = Marker::read(&site.state).unwrap_or_default();
    let holder = marker.holder.filter(namespace::Process::is_alive);
    if busy == Busy::Detach {
        // The holder exits when the marker no longer contains its process id.
        Marker::remove(&site.state);
        let has_ended = holder.is_none_or(|holder| holder.await_end(ANSWER).unwrap_or(true));
        return if has_ended {
            Ok(())
        } else {
            Err(Error::Stuck { path: top(), process: Process::of(holder.map_or(0, |holder| holder.pid)) })
        };
    }
    let others = || {
        let mut all = users(&marker, holder);
        // A session has a mount namespace of its own.
        all.extend(overlay::users_elsewhere(&real(&site.upper)));
        all
    };
    let Some(holder) = holder else { return Err(Error::Busy { path: top(), processes: others() }) };
    let processes = others();
    if !processes.is_empty() {
        return Err(Error::Busy { path: top(), processes });
    }
    let discard = site.state.join(DISCARD);
    let _ = by_path::remove_file(&discard);
    if changes == Changes::Discarded {
        by_path::append(&discard, true, 0o600).map_err(Error::io("create", &discard))?;
    }
    let request = site.state.join(REQUEST);
    let mut watch = Watch::new(&site.state).map_err(Error::io("watch", &site.state))?;
    let made = by_path::append(&request, true, 0o600);
    made.map_err(Error::io("create", &request))?;
    let begin = Instant::now();
    loop {
        // The holder removes its marker after it has unmounted, and removes the request in any
        // case.
        let is_open = matches!(by_path::stat(&request), Ok(Some(_)));
        let is_held = Marker::read(&site.state).and_then(|marker| marker.holder) == Some(holder);
        if !is_held || !holder.is_alive() {
            let _ = holder.await_end(ANSWER);
            let _ = by_path::remove_file(&request);
            return Ok(());
        }
        if !is_open {
            return Err(Error::Busy { path: top(), processes: others() });
        }
        let Some(left) = ANSWER.checked_sub(begin.elapsed()) else {
            let _ = by_path::remove_file(&request);
            return Err(Error::Stuck { path: top(), process: Process::of(holder.pid) });
        };
        watch.wait(left.min(Duration::from_millis(100))).map_err(Error::io("watch", &site.state))?;
    }
}

/// Returns the processes in the namespace of the marker, except its holder.
fn users(marker: &Marker, holder: Option<namespace::Process>) -> Vec<Process> {
    let is_in = |pid: &u32| {
        Some(*pid) != holder.map(|holder| holder.pid)
            && MountNamespace::of(*pid).is_some_and(|namespace| namespace.to_string() == marker.namespace)
    };
    let all = namespace::process_ids().unwrap_or_default();
    all.into_iter().filter(is_in).map(Process::of).collect()
}

/// Moves this process into the namespaces of a mounted workspace, and changes to the directory
/// `below` in it. This process must have only one thread. If the workspace is already visible, only
/// the directory is changed.
pub fn join(backend: Backend, site: &Site, below: &Path) -> Result<(), Error> {
    let not_mounted = || Error::NotMounted { path: site.top.clone() };
    match super::state(backend, site)? {
        Mounted::Here => {}
        Mounted::InNamespace { pid } => {
            let process = namespace::Process::of(pid).ok().flatten().ok_or_else(not_mounted)?;
            process.join().map_err(Error::io("enter the namespace of", &site.top))?;
            if super::state(backend, site)? != Mounted::Here {
                return Err(not_mounted());
            }
        }
        Mounted::No => return Err(not_mounted()),
    }
    let dir = site.top.join(below);
    std::env::set_current_dir(&dir).map_err(Error::io("enter", &dir))
}
