//! The disks to measure on. Preparation accesses a disk at full speed; a measured run accesses it
//! with simulated latency.

use std::{
    fs,
    path::{Path, PathBuf},
};

use testkit::weather::{Mount, Profile};

use super::{
    block::{self, Delayed, Serves, Slow, Throttle},
    table,
};
use crate::{
    Error,
    ballast::Ballast,
    measure::{self, Invocation},
    record::Sample,
    rig::{FileSystem, Volume},
};

/// A kind of disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Disk {
    /// 1 ms latency, queue depth 64.
    Nfs,
    /// 3 ms latency, queue depth 128.
    Efs,
    /// 0.5 ms latency, queue depth 32.
    Ebs,
    /// Rotational disk with one arm.
    Hdd,
    /// Only flushes take time: 1 ms each.
    Flush1,
    /// Only flushes take time: 5 ms each.
    Flush5,
    /// Only flushes take time: 20 ms each.
    Flush20,
    /// ext4 on a loop device, warm caches.
    Local,
    /// ext4 on a loop device, cold caches.
    Cold,
    /// ext4 on a block device with 5 ms latency for each read (nbdkit's delay filter), one read at
    /// a time, cold caches.
    Delayed,
    /// Like `delayed`, but ten requests are served concurrently.
    Queued,
    /// ext4 on a block device limited to 400 reads per second (a cgroup's throttle), cold caches.
    Throttled,
}

impl Disk {
    pub(crate) const USUAL: [Disk; 5] = [Disk::Nfs, Disk::Efs, Disk::Ebs, Disk::Hdd, Disk::Local];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Disk::Nfs => "nfs",
            Disk::Efs => "efs",
            Disk::Ebs => "ebs",
            Disk::Hdd => "hdd",
            Disk::Flush1 => "flush1",
            Disk::Flush5 => "flush5",
            Disk::Flush20 => "flush20",
            Disk::Local => "local",
            Disk::Cold => "cold",
            Disk::Delayed => "delayed",
            Disk::Queued => "queued",
            Disk::Throttled => "throttled",
        }
    }

    /// Returns true if FUSE serves the disk.
    pub(crate) fn is_served(self) -> bool {
        self.profile().is_some()
    }

    fn profile(self) -> Option<Profile> {
        Profile::named(self.name())
    }
}

/// A disk and its contents, deleted on drop.
pub(crate) enum MountedDisk {
    /// A directory that FUSE serves with simulated latency.
    Served { profile: Profile, dir: PathBuf },
    /// A loop-mounted file system.
    Local(Volume),
    /// An image behind a slow block device.
    Block { slow: Slow, image: PathBuf, at: PathBuf, volume: Option<Volume> },
}

impl MountedDisk {
    /// Creates an empty disk below `scratch`.
    pub(crate) fn fresh(disk: Disk, scratch: &Path) -> Result<MountedDisk, Error> {
        if let Some(profile) = disk.profile() {
            let dir = scratch.join("served");
            remove(&dir)?;
            let backing = dir.join("backing");
            fs::create_dir_all(&backing).map_err(|source| io("cannot create", &backing, source))?;
            return Ok(MountedDisk::Served { profile, dir });
        }
        if disk == Disk::Local {
            return Volume::fresh(FileSystem::Ext4, scratch).map(MountedDisk::Local);
        }
        let slow = match disk {
            Disk::Cold => Slow::Cold,
            Disk::Delayed => Slow::Delayed(Serves::OneByOne),
            Disk::Queued => Slow::Delayed(Serves::Queue),
            _ => Slow::Throttled,
        };
        let volume = Volume::fresh(FileSystem::Ext4, scratch)?;
        let (image, at) = (scratch.join("ext4.img"), volume.path().to_owned());
        Ok(MountedDisk::Block { slow, image, at, volume: Some(volume) })
    }

    /// Returns the path at which the disk is accessible at full speed, for preparation and checks.
    pub(crate) fn fast(&mut self) -> Result<PathBuf, Error> {
        Ok(match self {
            MountedDisk::Served { dir, .. } => dir.join("backing"),
            MountedDisk::Local(volume) => volume.path().to_owned(),
            MountedDisk::Block { image, at, volume, .. } => {
                if volume.is_none() {
                    *volume = Some(Volume::of_image(image, at)?);
                }
                at.clone()
            }
        })
    }

    /// Calls `invocation` with the path of the mounted disk, runs the resulting command and
    /// measures it.
    pub(crate) fn measured(
        &mut self,
        invocation: impl FnOnce(&Path) -> Invocation,
        ballast: &mut Option<Ballast>,
    ) -> Result<Sample, Error> {
        match self {
            MountedDisk::Served { profile, dir } => {
                let failed = |dir: &Path| {
                    let path = dir.join("disk");
                    move |source| Error::Io { what: "cannot serve", path, source }
                };
                let mount = Mount::new(profile, dir).map_err(failed(dir))?;
                let usage = measure::run(&invocation(mount.path()))?;
                // Ending the mount flushes delayed writes. They are counted, but not timed, because
                // no tool waits for them.
                let report = mount.report();
                mount.end().map_err(failed(dir))?;
                Ok(table::sample(usage, &report))
            }
            MountedDisk::Local(volume) => {
                let invocation = invocation(volume.path());
                let usage = match ballast {
                    Some(ballast) => {
                        ballast.fill()?;
                        ballast.during(|| measure::run(&invocation))
                    }
                    None => measure::run(&invocation),
                };
                Ok(Sample::from(usage?))
            }
            MountedDisk::Block { slow, image, at, volume } => {
                if let Some(volume) = volume.take() {
                    volume.keep()?;
                }
                let counted = |invocation: Invocation| {
                    block::drop_caches()?;
                    let before = block::reads(at)?;
                    let usage = measure::run(&invocation)?;
                    let operations = block::reads(at)? - before;
                    let served = format!("{operations} reads");
                    Ok(Sample { operations, served, ..Sample::from(usage) })
                };
                match slow {
                    Slow::Cold => {
                        let volume = Volume::of_image(image, at)?;
                        let sample = counted(invocation(at));
                        volume.keep()?;
                        sample
                    }
                    Slow::Delayed(serves) => {
                        let delayed = Delayed::mount(image, at, *serves)?;
                        let sample = counted(invocation(at));
                        delayed.end()?;
                        sample
                    }
                    Slow::Throttled => {
                        let volume = Volume::of_image(image, at)?;
                        let throttle = Throttle::on(at)?;
                        let sample = counted(throttle.within(invocation(at)));
                        drop(throttle);
                        volume.keep()?;
                        sample
                    }
                }
            }
        }
    }
}

impl Drop for MountedDisk {
    fn drop(&mut self) {
        let removed = match self {
            MountedDisk::Served { dir, .. } => remove(dir),
            MountedDisk::Local(_) => Ok(()),
            MountedDisk::Block { image, volume, .. } => {
                // The volume's own drop unmounts it and removes an image that it created.
                drop(volume.take());
                let _ = fs::remove_file(image);
                Ok(())
            }
        };
        if let Err(error) = removed {
            eprintln!("lab: {error}");
        }
    }
}

fn remove(dir: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(dir) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(io("cannot remove", dir, source)),
        _ => Ok(()),
    }
}

fn io(what: &'static str, path: &Path, source: std::io::Error) -> Error {
    Error::Io { what, path: path.to_owned(), source }
}
