//! A file system that ignores case, for tests of what names that are one do there.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Unmounted with this value. A test makes one of these at most: the driver is a process, and slow.
pub struct CaseInsensitive(PathBuf);

impl CaseInsensitive {
    /// Mounts such a file system, kept in the new file `image`, on the directory `point`. Returns
    /// `None`, and prints why, if the machine cannot.
    pub fn mount(image: &Path, point: &Path) -> Option<CaseInsensitive> {
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
