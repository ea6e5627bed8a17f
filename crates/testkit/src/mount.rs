//! File systems that tests mount: one that ignores case, for tests of names that differ only in
//! case, and read-only images.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use nix::{
    errno::Errno,
    mount::{MntFlags, MsFlags},
};

use crate::has_program;

/// Dropping the value unmounts it. A test creates at most one: the driver is a slow process.
pub struct CaseInsensitive(PathBuf);

impl CaseInsensitive {
    /// Mounts such a file system from the new file `image` on the directory `point`. If the machine
    /// cannot mount it, prints the reason and returns `None`.
    pub fn mount(image: &Path, point: &Path) -> Option<CaseInsensitive> {
        if !has_program("mkntfs") || !has_program("lowntfs-3g") {
            return None;
        }
        fs::File::create(image).and_then(|file| file.set_len(64 << 20)).expect("an image");
        let made = Command::new("mkntfs").args(["-F", "-Q"]).arg(image).output();
        let mounted =
            |_| Command::new("lowntfs-3g").args(["-o", "ignore_case"]).arg(image).arg(point).output();
        match made.and_then(mounted) {
            Ok(output) if output.status.success() => Some(CaseInsensitive(point.to_owned())),
            other => {
                println!("skipped: no case-insensitive file system here: {other:?}");
                None
            }
        }
    }
}

impl Drop for CaseInsensitive {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A mounted EROFS image, which is read-only. Dropping the value unmounts it.
pub struct ErofsImage(PathBuf);

impl ErofsImage {
    /// Mounts the image with its extra devices on the directory `point`. If this process may not
    /// mount, prints the reason and returns `None`. Panics on any other failure, because then the
    /// kernel refuses the image.
    pub fn mount(image: &Path, devices: &[PathBuf], point: &Path) -> Option<ErofsImage> {
        let options: Vec<String> =
            devices.iter().map(|device| format!("device={}", device.display())).collect();
        let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        match nix::mount::mount(Some(image), point, Some("erofs"), flags, Some(options.join(",").as_str())) {
            Ok(()) => Some(ErofsImage(point.to_owned())),
            Err(error @ (Errno::EPERM | Errno::ENODEV)) => {
                println!("skipped: EROFS images cannot be mounted here: {error}");
                None
            }
            Err(error) => panic!("the kernel refuses {}: {error}", image.display()),
        }
    }
}

/// Takes a mount out of the tree, without a question to the process that serves it.
pub fn detach(point: &Path) {
    nix::mount::umount2(point, MntFlags::MNT_DETACH).expect("a mount of this process");
}

impl Drop for ErofsImage {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(&self.0, MntFlags::MNT_DETACH);
    }
}
