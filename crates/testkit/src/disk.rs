//! File systems for tests: in an image file, in memory, and overlays. Dropping a value unmounts it.
//! On a machine that cannot mount, the functions print the reason and return `None`.

use std::{
    ffi::OsString,
    fs,
    os::unix::{fs::lchown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use crate::has_program;

/// A mounted file system.
#[derive(Debug)]
pub struct Disk {
    point: PathBuf,
    /// The image file, which is deleted after the unmount.
    image: Option<PathBuf>,
}

/// A file system that can be created in an image file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Format {
    Ext4,
    Xfs,
    Btrfs,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 3] = [Format::Ext4, Format::Xfs, Format::Btrfs];

    /// Returns the mkfs program, its arguments, and the minimum size in MiB.
    fn maker(self) -> (&'static str, &'static [&'static str], u64) {
        match self {
            Format::Ext4 => ("mkfs.ext4", &["-q", "-F"], 16),
            Format::Xfs => ("mkfs.xfs", &["-q", "-f", "-m", "reflink=1"], 300),
            Format::Btrfs => ("mkfs.btrfs", &["-q", "-f"], 110),
        }
    }
}

impl Disk {
    /// Creates a file system of `mebibytes`, or of the minimum size of its format, in the new file
    /// `image`, and mounts it on the directory `point`.
    pub fn on_file(format: Format, mebibytes: u64, image: &Path, point: &Path) -> Option<Disk> {
        let (program, args, least) = format.maker();
        let size = mebibytes.max(least) << 20;
        fs::File::create(image).and_then(|file| file.set_len(size)).expect("an image");
        let made = has_program(program) && succeeds(Command::new(program).args(args).arg(image));
        let mounted = made && succeeds(Command::new("mount").args(["-o", "loop"]).args([image, point]));
        let disk = Disk { point: point.to_owned(), image: Some(image.to_owned()) };
        if mounted {
            Some(disk)
        } else {
            let _ = fs::remove_file(image);
            std::mem::forget(disk);
            None
        }
    }

    /// Creates an ext4 or xfs whose project quotas are in force, like [`Disk::on_file`].
    pub fn with_quotas(format: Format, image: &Path, point: &Path) -> Option<Disk> {
        let (program, args, least) = format.maker();
        let args = match format {
            Format::Ext4 => [args, &["-O", "project,quota", "-E", "quotatype=prjquota"]].concat(),
            Format::Xfs | Format::Btrfs => args.to_vec(),
        };
        fs::File::create(image).and_then(|file| file.set_len(least.max(64) << 20)).expect("an image");
        let made = has_program(program) && succeeds(Command::new(program).args(args).arg(image));
        let mut mount = Command::new("mount");
        mount.args(["-o", "loop,prjquota"]).args([image, point]);
        let disk = if made { Disk::mounted(&mut mount, point) } else { None };
        if disk.is_none() {
            let _ = fs::remove_file(image);
        }
        disk.map(|mut disk| {
            disk.image = Some(image.to_owned());
            disk
        })
    }

    /// Mounts the file system in the file `image`, which stays, on the directory `point`.
    pub fn of_image(image: &Path, point: &Path) -> Option<Disk> {
        Disk::mounted(Command::new("mount").args(["-o", "loop"]).args([image, point]), point)
    }

    /// Mounts a file system in memory, of `mebibytes`, on the directory `point`.
    pub fn in_memory(mebibytes: u64, point: &Path) -> Option<Disk> {
        let options = format!("size={mebibytes}m,mode=755");
        Disk::mounted(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(point), point)
    }

    /// Mounts an overlay of directories on `point`.
    pub fn overlay(lower: &Path, upper: &Path, work: &Path, point: &Path) -> Option<Disk> {
        let mut options = OsString::from("redirect_dir=on,xino=on");
        for (name, dir) in [(",lowerdir=", lower), (",upperdir=", upper), (",workdir=", work)] {
            options.push(name);
            options.push(dir);
        }
        let mut command = Command::new("mount");
        Disk::mounted(command.args(["-t", "overlay", "overlay", "-o"]).arg(options).arg(point), point)
    }

    fn mounted(command: &mut Command, point: &Path) -> Option<Disk> {
        succeeds(command).then(|| Disk { point: point.to_owned(), image: None })
    }

    /// Returns the directory on which it is mounted.
    pub fn point(&self) -> &Path {
        &self.point
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.point).status();
        if let Some(image) = &self.image {
            let _ = fs::remove_file(image);
        }
    }
}

/// Unmounts everything at or below a directory when it is dropped, because a failing test may leave
/// mounts behind.
#[derive(Debug)]
pub struct NoMountsBelow(PathBuf);

impl NoMountsBelow {
    /// Guards `dir`, which must exist.
    pub fn new(dir: &Path) -> NoMountsBelow {
        NoMountsBelow(dir.canonicalize().expect("a directory"))
    }

    /// Detaches all mounts at or below the directory, like a reboot.
    pub fn reboot(&self) {
        unmount_below(&self.0);
    }
}

impl Drop for NoMountsBelow {
    fn drop(&mut self) {
        self.reboot();
    }
}

/// Detaches all mounts at or below `dir`.
pub fn unmount_below(dir: &Path) {
    for point in mounts_below(dir).iter().rev() {
        let _ = Command::new("umount").arg("-l").arg(point).status();
    }
}

/// Returns the mount points at or below `dir` in this mount namespace, in the order of mounting.
pub fn mounts_below(dir: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").expect("Linux has a mount table");
    let points = table.lines().filter_map(|line| line.split(' ').nth(4));
    // The kernel writes a space as an octal number. No test uses other special characters.
    points.map(|point| PathBuf::from(point.replace("\\040", " "))).filter(|at| at.starts_with(dir)).collect()
}

/// The id of the user and the group without privileges that tests use.
pub const ORDINARY: u32 = 54321;

/// Makes a command run as an ordinary user. That user must have access to the command's current
/// directory.
pub fn as_ordinary_user(command: &mut Command) -> &mut Command {
    command.uid(ORDINARY).gid(ORDINARY)
}

/// Returns true if the ordinary user can access a path. A checkout below a private home directory
/// is not accessible.
pub fn ordinary_user_reaches(path: &Path) -> bool {
    let mut test = Command::new("test");
    let status = as_ordinary_user(test.current_dir("/").arg("-x").arg(path)).status();
    status.is_ok_and(|status| status.success())
}

/// Makes the ordinary user the owner of a directory and everything in it. Needs root.
pub fn give_to_ordinary_user(dir: &Path) {
    lchown(dir, Some(ORDINARY), Some(ORDINARY)).expect("root may give files away");
    let is_dir = dir.symlink_metadata().is_ok_and(|meta| meta.is_dir());
    for entry in is_dir.then(|| fs::read_dir(dir).expect("a readable directory")).into_iter().flatten() {
        give_to_ordinary_user(&entry.expect("a readable directory").path());
    }
}

/// Runs a command. If it fails, prints that the test is skipped, and the reason.
fn succeeds(command: &mut Command) -> bool {
    match command.output() {
        Ok(output) if output.status.success() => true,
        other => {
            println!("skipped: {command:?} is not possible here: {other:?}");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_unmounted_with_their_values() {
        let sandbox = crate::Sandbox::new();
        let dir = |name: &str| {
            let dir = sandbox.path().join(name);
            fs::create_dir_all(&dir).expect("a new directory");
            dir
        };
        let point = dir("point");
        for format in Format::ALL {
            let image = sandbox.path().join("image");
            let Some(disk) = Disk::on_file(format, 0, &image, &point) else { return };
            fs::write(disk.point().join("file"), "1").expect("a writable disk");
            assert_eq!(mounts_below(&point), std::slice::from_ref(&point), "{format:?}");
            drop(disk);
            assert_eq!(mounts_below(&point), Vec::<PathBuf>::new(), "{format:?}");
            assert!(!image.exists() && !point.join("file").exists(), "{format:?}");
        }
        let Some(disk) = Disk::in_memory(1, &point) else { return };
        assert!(fs::write(point.join("file"), vec![0; 2 << 20]).is_err(), "the disk is full");
        drop(disk);
        let (lower, upper, work) = (dir("lower"), dir("upper"), dir("work"));
        fs::write(lower.join("file"), "1").expect("a writable directory");
        let Some(disk) = Disk::overlay(&lower, &upper, &work, &point) else { return };
        fs::write(point.join("file"), "2").expect("a writable overlay");
        assert_eq!(fs::read(upper.join("file")).expect("a copy"), b"2");
        let watch = NoMountsBelow::new(&point);
        watch.reboot();
        assert_eq!(mounts_below(&point), Vec::<PathBuf>::new());
        drop(disk);
    }
}
