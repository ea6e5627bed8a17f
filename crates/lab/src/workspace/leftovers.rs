//! Ends mounts and processes that a contender has left on a volume, so that it can be unmounted.

use std::{fs, path::Path, process::Command, time::Duration};

/// Unmounts everything below `volume`, and ends processes of the measured `sapwood` that keep
/// mounts there in a mount namespace of their own.
pub(super) fn clear(volume: &Path, sapwood: &Path) {
    let below = format!("{}/", volume.display());
    let points = |file: &str| -> Vec<String> {
        let text = fs::read_to_string(file).unwrap_or_default();
        let points = text.lines().filter_map(|line| line.split(' ').nth(4).map(str::to_owned));
        points.filter(|point| point.starts_with(&below)).collect()
    };
    for point in points("/proc/self/mountinfo").iter().rev() {
        let _ = Command::new("umount").args(["-l", point]).status();
    }
    let mut has_ended = false;
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_ours = fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == sapwood);
        if is_ours && !points(&format!("/proc/{name}/mountinfo")).is_empty() {
            eprintln!("lab: process {name} still held {}", volume.display());
            let _ = Command::new("kill").arg(name).status();
            has_ended = true;
        }
    }
    if has_ended {
        std::thread::sleep(Duration::from_millis(300));
    }
}
