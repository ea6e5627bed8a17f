//! Sets up slow block devices from Debian's packages, for runs with cold caches.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{
    Error,
    measure::{Invocation, must},
};

/// A kind of slow block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slow {
    /// The machine's own disk at its own speed, with cold caches.
    Cold,
    Delayed(Serves),
    Throttled,
}

/// The way a delayed device serves concurrent requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serves {
    /// The loop device reads through its own page cache, one request at a time, and reads 128 KiB
    /// when 4 KiB are requested. Read-ahead requests the next 128 KiB over another of the four
    /// connections, which is `nbdfuse`'s default number.
    OneByOne,
    /// The loop device passes on the kernel's requests unchanged and at once (`--direct-io`). Ten
    /// requests are served concurrently, which is `nbdfuse`'s limit.
    Queue,
}

/// The latencies of the delayed device; a write takes a fifth of the time of a read.
const DELAYS: [&str; 2] = ["rdelay=5ms", "wdelay=1ms"];
/// The number of reads per second that the throttled device allows.
const READS: u32 = 400;

/// An image mounted behind nbdkit's delay filter. `nbdkit` serves the image, `nbdfuse` exposes it
/// as a file, and a loop device exposes that file as a disk.
pub(super) struct Delayed {
    server: Child,
    shown: PathBuf,
    at: PathBuf,
    device: Option<String>,
}

impl Delayed {
    pub(super) fn mount(image: &Path, at: &Path, serves: Serves) -> Result<Delayed, Error> {
        let shown = image.with_extension("nbd");
        let (connections, direct) = match serves {
            Serves::OneByOne => ("4", "--direct-io=off"),
            Serves::Queue => ("16", "--direct-io=on"),
        };
        fs::create_dir_all(&shown).map_err(|source| Error::Io {
            what: "cannot create",
            path: shown.clone(),
            source,
        })?;
        let show = format!("exec nbdfuse -C {connections} '{}' \"$uri\"", shown.join("disk").display());
        let server = Command::new("nbdkit")
            .args(["-f", "-U", "-", "--filter=delay", "file"])
            .arg(image)
            .args(DELAYS)
            .args(["--run", &show])
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| Error::Setup(format!("nbdkit (Debian's, with libnbd-bin): {error}")))?;
        let mut delayed = Delayed { server, shown, at: at.to_owned(), device: None };
        let start = Instant::now();
        while !delayed.shown.join("disk").exists() {
            let has_ended = delayed.server.try_wait().is_ok_and(|status| status.is_some());
            if has_ended || start.elapsed() > Duration::from_secs(60) {
                return Err(Error::Setup("nbdfuse (Debian's libnbd-bin) shows no disk".into()));
            }
            thread::sleep(Duration::from_millis(20));
        }
        let disk = delayed.shown.join("disk").display().to_string();
        let device = must(Path::new("losetup"), &["-f", "--show", direct, &disk], Path::new("/"))?;
        let device = String::from_utf8_lossy(&device).trim().to_owned();
        delayed.device = Some(device.clone());
        must(Path::new("mount"), &[&device, &at.display().to_string()], Path::new("/"))?;
        Ok(delayed)
    }

    pub(super) fn end(mut self) -> Result<(), Error> {
        self.take_down()
    }

    fn take_down(&mut self) -> Result<(), Error> {
        let Some(device) = self.device.take() else { return Ok(()) };
        let here = Path::new("/");
        let unmounted = must(Path::new("umount"), &[&self.at.display().to_string()], here);
        let freed = must(Path::new("losetup"), &["-d", &device], here);
        unmounted.and(freed).map(drop)
    }
}

impl Drop for Delayed {
    fn drop(&mut self) {
        if let Err(error) = self.take_down() {
            eprintln!("lab: {error}");
        }
        // The loop device releases the file slightly after `losetup -d` returns, so retry.
        let start = Instant::now();
        let shown = self.shown.display().to_string();
        while must(Path::new("fusermount3"), &["-u", &shown], Path::new("/")).is_err() {
            if start.elapsed() > Duration::from_secs(10) {
                eprintln!("lab: {shown} is still in use");
                let _ = self.server.kill();
                let _ = must(Path::new("fusermount3"), &["-u", "-z", &shown], Path::new("/"));
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let _ = self.server.wait();
    }
}

/// A cgroup (version 1) that limits the rate of reads from one device.
pub(super) struct Throttle {
    group: PathBuf,
}

impl Throttle {
    /// Limits the reads of the device that is mounted at `at`.
    pub(super) fn on(at: &Path) -> Result<Throttle, Error> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { what: "cannot throttle by", path, source }
        };
        let (major, minor) = device(at)?;
        let group = PathBuf::from(format!("/sys/fs/cgroup/blkio/sapwood-lab-{}", std::process::id()));
        fs::create_dir(&group).map_err(failed(&group))?;
        let throttle = Throttle { group };
        let limit = throttle.group.join("blkio.throttle.read_iops_device");
        fs::write(&limit, format!("{major}:{minor} {READS}\n")).map_err(failed(&limit))?;
        Ok(throttle)
    }

    /// Returns an invocation that runs in the group.
    pub(super) fn within(&self, invocation: Invocation) -> Invocation {
        invocation.within(&self.group)
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.group) {
            eprintln!("lab: cannot remove {}: {error}", self.group.display());
        }
    }
}

/// Returns the number of completed reads of the device mounted at `at`.
pub(crate) fn reads(at: &Path) -> Result<u64, Error> {
    // The first number of the line counts reads.
    counter(at, 0)
}

/// Write statistics of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) bytes: u64,
    /// The number of cache flushes.
    pub(crate) flushes: u64,
}

/// Returns the write statistics of the device mounted at `at`.
pub(crate) fn written(at: &Path) -> Result<Written, Error> {
    const SECTOR: u64 = 512;
    Ok(Written { bytes: counter(at, 6)? * SECTOR, flushes: counter(at, 15)? })
}

/// Returns the number at this position of the statistics of the device mounted at `at`.
fn counter(at: &Path, position: usize) -> Result<u64, Error> {
    let (major, minor) = device(at)?;
    let path = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
    let text = fs::read_to_string(&path).map_err(|source| Error::Io {
        what: "cannot read",
        path: path.clone(),
        source,
    })?;
    let number = text.split_whitespace().nth(position).and_then(|number| number.parse().ok());
    number.ok_or_else(|| Error::Setup(format!("{} lacks number {position}", path.display())))
}

/// Returns the major and minor number of the device that is mounted at `at`.
fn device(at: &Path) -> Result<(u64, u64), Error> {
    use std::os::unix::fs::MetadataExt as _;
    let failed = |source| Error::Io { what: "cannot look at", path: at.to_owned(), source };
    let device = fs::metadata(at).map_err(failed)?.dev();
    // Loop devices and their minor numbers fit into the old encoding of device numbers.
    Ok((device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xfff00))
}

/// Writes dirty pages to the disk, then drops the kernel's caches.
pub(crate) fn drop_caches() -> Result<(), Error> {
    must(Path::new("sync"), &[], Path::new("/"))?;
    let path = Path::new("/proc/sys/vm/drop_caches");
    fs::write(path, "3\n").map_err(|source| Error::Io { what: "cannot write", path: path.into(), source })
}
