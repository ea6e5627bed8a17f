//! The disks of `lab add`, and the counters of a run's writes.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    Error,
    ballast::Ballast,
    measure::{self, Invocation, must},
    record::Sample,
    rig::{FileSystem, Volume},
    weather::{
        block,
        mounted_disk::{Disk, MountedDisk},
    },
};

/// A kind of disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Place {
    Ext4,
    Xfs,
    Btrfs,
    /// The machine's own disk, where the scratch directory is.
    Own,
    /// Only flushes take time: 1 ms each.
    Flush1,
    /// Only flushes take time: 5 ms each.
    Flush5,
    /// Only flushes take time: 20 ms each.
    Flush20,
}

impl Place {
    pub(super) const ALL: [Place; 7] =
        [Place::Ext4, Place::Xfs, Place::Btrfs, Place::Own, Place::Flush1, Place::Flush5, Place::Flush20];

    pub(super) fn name(self) -> &'static str {
        match self {
            Place::Ext4 => "ext4",
            Place::Xfs => "xfs",
            Place::Btrfs => "btrfs",
            Place::Own => "own",
            Place::Flush1 => "flush1",
            Place::Flush5 => "flush5",
            Place::Flush20 => "flush20",
        }
    }

    /// Returns true if FUSE serves the disk.
    pub(super) fn is_served(self) -> bool {
        matches!(self, Place::Flush1 | Place::Flush5 | Place::Flush20)
    }
}

/// A disk and its contents, deleted on drop.
pub(super) enum TestDisk {
    Volume(Volume),
    Own(PathBuf),
    Served(MountedDisk),
}

impl TestDisk {
    /// Creates an empty disk below `scratch`.
    pub(super) fn fresh(place: Place, scratch: &Path) -> Result<TestDisk, Error> {
        let volume = |file_system| Volume::fresh(file_system, scratch).map(TestDisk::Volume);
        let served = |disk| MountedDisk::fresh(disk, scratch).map(TestDisk::Served);
        match place {
            Place::Ext4 => volume(FileSystem::Ext4),
            Place::Xfs => volume(FileSystem::Xfs),
            Place::Btrfs => volume(FileSystem::Btrfs),
            Place::Flush1 => served(Disk::Flush1),
            Place::Flush5 => served(Disk::Flush5),
            Place::Flush20 => served(Disk::Flush20),
            Place::Own => {
                let dir = scratch.join("own");
                let _ = fs::remove_dir_all(&dir);
                let made = fs::create_dir_all(&dir);
                made.map_err(|source| Error::Io { what: "cannot create", path: dir.clone(), source })?;
                Ok(TestDisk::Own(dir))
            }
        }
    }

    /// Returns the path at which the disk is accessible at full speed.
    pub(super) fn fast(&mut self) -> Result<PathBuf, Error> {
        match self {
            TestDisk::Volume(volume) => Ok(volume.path().to_owned()),
            TestDisk::Own(dir) => Ok(dir.clone()),
            TestDisk::Served(mounted) => mounted.fast(),
        }
    }

    /// Syncs the disk, then runs a command on it and measures the command. The sample contains the
    /// number of cache flushes during the run, and the number of bytes written by the end of a
    /// final sync.
    pub(super) fn measured(
        &mut self,
        invocation: impl FnOnce(&Path) -> Invocation,
        ballast: &mut Option<Ballast>,
    ) -> Result<Sample, Error> {
        let at = match self {
            TestDisk::Served(mounted) => return mounted.measured(invocation, ballast),
            TestDisk::Volume(volume) => volume.path().to_owned(),
            TestDisk::Own(dir) => dir.clone(),
        };
        let sync = || must(Path::new("sync"), &["-f", &at.display().to_string()], Path::new("/"));
        sync()?;
        let before = block::written(&at);
        let usage = measure::run(&invocation(&at))?;
        let flushes = block::written(&at);
        sync()?;
        let after = block::written(&at);
        let mut sample = Sample::from(usage);
        // Some disks have no counters, for example file systems on several devices.
        if let (Ok(before), Ok(flushes), Ok(after)) = (before, flushes, after) {
            sample.operations = flushes.flushes - before.flushes;
            sample.served =
                format!("{} flushes, {} bytes written", sample.operations, after.bytes - before.bytes);
        }
        Ok(sample)
    }
}

impl Drop for TestDisk {
    fn drop(&mut self) {
        if let TestDisk::Own(dir) = self
            && let Err(error) = fs::remove_dir_all(&dir)
        {
            eprintln!("lab: cannot remove {}: {error}", dir.display());
        }
    }
}
