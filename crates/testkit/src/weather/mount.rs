//! Starts and ends a mount.
//!
//! Dropping the value unmounts it, or disconnects its users if there are any, and joins its
//! threads. A separate small process waits for the end of a pipe that this process holds, so that
//! the mount also ends if its server is killed.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use fuser::{BackgroundSession, Config, MountOption, Session};
use nix::{
    errno::Errno,
    mount::{MntFlags, umount, umount2},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{
    Counts, Fault, Profile, Report, Struck, Survivors,
    counts::Counters,
    disk::{Disk, Shared},
    faults::Faults,
    power::Power,
    timer::Timer,
    tree::Tree,
};

/// Two are enough: they only start operations, and the timer completes them.
const SESSION_THREADS: usize = 2;

/// A directory with weather. Dropping it ends the mount.
pub struct Mount {
    at: PathBuf,
    backing: PathBuf,
    profile: Profile,
    shared: Arc<Shared>,
    session: Option<BackgroundSession>,
    watch: Watch,
}

/// The reason why this machine cannot create a mount.
#[derive(Debug, thiserror::Error)]
#[error("no FUSE here: {0}")]
pub struct Unusable(String);

/// Returns `Ok` if this machine can mount: the device exists, and the user may mount.
pub fn usable() -> Result<(), Unusable> {
    let refused = |error: &io::Error| {
        let text = error.to_string();
        let words = ["not permitted", "denied", "No such file", "No such device"];
        words.iter().any(|word| text.contains(word)).then_some(Unusable(text))
    };
    let tried = tempfile::Builder::new()
        .prefix("weather-")
        .tempdir()
        .and_then(|dir| Mount::new(&Profile::calm(), dir.path()).map(drop));
    match tried {
        Err(error) => refused(&error).map_or(Ok(()), Err),
        Ok(()) => Ok(()),
    }
}

enum End {
    /// Write pending data first.
    Gently,
    /// Disconnect at once. Processes that still wait get the error `ENOTCONN`.
    AtOnce,
}

impl Mount {
    /// Mounts an empty disk at `dir/disk`. Its backing directory is `dir/backing`.
    pub fn new(profile: &Profile, dir: &Path) -> io::Result<Mount> {
        Mount::over(profile, &dir.join("backing"), &dir.join("disk"))
    }

    /// Mounts `backing` at `at`. Creates both if they are missing. No other process may change
    /// `backing` meanwhile.
    pub fn over(profile: &Profile, backing: &Path, at: &Path) -> io::Result<Mount> {
        fs::create_dir_all(backing)?;
        fs::create_dir_all(at)?;
        let (backing, at) = (backing.canonicalize()?, at.canonicalize()?);
        take_handles();
        let power = profile.power.map(|journal| Power::new(&backing, journal)).transpose()?;
        let shared = Arc::new(Shared {
            tree: Tree::new(&backing, profile.names, power)?,
            counters: Counters::new(),
            faults: Faults::default(),
            timer: Timer::new(profile.latency, profile.flush)?,
            cut: AtomicBool::new(false),
        });
        let disk = Disk::new(Arc::clone(&shared), profile);
        let mut config = Config::default();
        config.mount_options =
            vec![MountOption::FSName("weather".into()), MountOption::Subtype("weather".into())];
        config.n_threads = Some(SESSION_THREADS);
        config.clone_fd = true;
        let watch = Watch::over(&at)?;
        let session = Session::new(disk, &at, &config)?.spawn()?;
        Ok(Mount { at, backing, profile: profile.clone(), shared, session: Some(session), watch })
    }

    /// Returns the mount point.
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// Returns the backing directory.
    pub fn backing(&self) -> &Path {
        &self.backing
    }

    /// Replaces the active rules. An empty list removes all faults.
    pub fn set_faults(&self, faults: Vec<Fault>) {
        self.shared.faults.set(faults);
    }

    /// Returns the operations that the current rules have changed.
    pub fn struck(&self) -> Vec<Struck> {
        self.shared.faults.struck()
    }

    /// Returns the number of served operations of each kind so far.
    pub fn counts(&self) -> Counts {
        self.shared.counters.read()
    }

    /// Returns the requests so far, and the lateness of replies since [`Mount::reset_lateness`].
    pub fn report(&self) -> Report {
        Report { counts: self.counts(), lateness: self.shared.timer.lateness() }
    }

    /// Resets the measurement of lateness.
    pub fn reset_lateness(&self) {
        self.shared.timer.reset();
    }

    /// Returns true if a rule has cut the power.
    pub fn is_cut(&self) -> bool {
        self.shared.cut.load(Ordering::Acquire)
    }

    /// Unmounts and returns the error, which dropping cannot do.
    pub fn end(mut self) -> io::Result<()> {
        self.finish(&End::Gently)
    }

    /// Cuts the power, unless a rule has cut it. Unsynced data are lost, except the survivors. Then
    /// mounts the disk again, without faults.
    pub fn pull_plug(mut self, survivors: Survivors) -> io::Result<Mount> {
        self.shared.cut.store(true, Ordering::Release);
        self.finish(&End::AtOnce)?;
        let Some(power) = &self.shared.tree.power else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the profile does not say what is durable",
            ));
        };
        power.spare(&self.shared.tree, survivors)?;
        let [after, lost] = ["after", "lost"].map(|word| {
            let mut name = self.backing.file_name().unwrap_or_default().to_owned();
            name.push(format!(".{word}"));
            self.backing.with_file_name(name)
        });
        power.restore(&after)?;
        fs::rename(&self.backing, &lost)?;
        fs::rename(&after, &self.backing)?;
        fs::remove_dir_all(&lost)?;
        Mount::over(&self.profile, &self.backing, &self.at)
    }

    fn finish(&mut self, how: &End) -> io::Result<()> {
        let Some(session) = self.session.take() else { return Ok(()) };
        let gone = match how {
            End::Gently => umount(&self.at),
            End::AtOnce => Err(Errno::EBUSY),
        };
        // A process has an open file or its working directory there: unmount lazily, and send no
        // more replies.
        let gone = gone.or_else(|_| umount2(&self.at, MntFlags::MNT_FORCE | MntFlags::MNT_DETACH));
        let ended = match (gone, how) {
            (Ok(()), _) => session.join(),
            // Only root may unmount; other users need a setuid program.
            (Err(_), End::Gently) if unmount_as_user(&self.at, &[]) => session.join(),
            (Err(_), _) => {
                // Without the kernel's `abort` file, remaining users keep the server alive.
                let _ = abort(&self.at);
                unmount_as_user(&self.at, &["-z"]);
                wait_for(session.guard)
            }
        };
        self.watch.dismiss();
        match ended {
            // A server whose connection was aborted reads this error.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(()),
            ended => ended,
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = self.finish(&End::Gently) {
            #[allow(clippy::print_stderr)]
            {
                eprintln!("weather: {}: {error}", self.at.display());
            }
        }
    }
}

/// Unmounts without privileges, through a setuid program.
fn unmount_as_user(at: &Path, how: &[&str]) -> bool {
    let mut command = Command::new("fusermount3");
    command.arg("-u").args(how).arg(at).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Joins a thread that ends soon. Returns an error after a timeout, and then leaves the thread
/// running.
fn wait_for(server: JoinHandle<io::Result<()>>) -> io::Result<()> {
    let start = Instant::now();
    while !server.is_finished() {
        if start.elapsed() > Duration::from_secs(60) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "detached, but somebody still uses it"));
        }
        thread::sleep(Duration::from_millis(10));
    }
    server.join().unwrap_or_else(|_| Err(io::Error::other("the server panicked")))
}

/// Disconnects the server from its users, which the user who mounted is allowed to do.
fn abort(at: &Path) -> io::Result<()> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let ours = mounts.lines().rfind(|line| line.split(' ').nth(4) == at.to_str());
    let device = ours.and_then(|line| line.split(' ').nth(2)?.split_once(':'));
    let Some((_, minor)) = device else { return Err(io::ErrorKind::NotFound.into()) };
    fs::write(format!("/sys/fs/fuse/connections/{minor}/abort"), "1")
}

/// Raises the limit of open files, because each directory that the kernel knows is an open handle.
fn take_handles() {
    let limit = getrlimit(Resource::Nofile);
    // Small trees need no more than the current limit.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Unmounts if this process ends without doing so.
struct Watch(Child);

impl Watch {
    fn over(at: &Path) -> io::Result<Watch> {
        use std::os::unix::process::CommandExt as _;
        let script = "read -r word || umount -l \"$0\" || fusermount3 -uz \"$0\"";
        let child = Command::new("sh")
            .args(["-c", script])
            .arg(at)
            .current_dir("/")
            // Ctrl-C must not end this process.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Watch(child))
    }

    fn dismiss(&mut self) {
        use std::io::Write as _;
        if let Some(mut pipe) = self.0.stdin.take() {
            // If the process has already ended, there is no reader.
            let _ = pipe.write_all(b"done\n");
        }
        let _ = self.0.wait();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.dismiss();
    }
}
