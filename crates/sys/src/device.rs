//! Properties of the block device below a file system.

use std::{fs, path::PathBuf};

/// Returns true if the device with this number ([`crate::Stat::dev`]) is rotational: it has moving
/// parts, so seeks are slow. Returns `None` if the kernel does not report this, as for a file
/// system on several devices or without a device. A virtual disk may report true although it has no
/// moving parts.
///
/// Source: Linux, `Documentation/ABI/stable/sysfs-block`, `queue/rotational`.
pub fn is_rotational(dev: u64) -> Option<bool> {
    let device = PathBuf::from(format!("/sys/dev/block/{}:{}", libc::major(dev), libc::minor(dev)));
    // A partition has no queue of its own: the queue belongs to its disk.
    let candidates = ["queue/rotational", "../queue/rotational"];
    let content = candidates.into_iter().find_map(|file| fs::read(device.join(file)).ok())?;
    Some(content.first() == Some(&b'1'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_flag_of_disks_and_partitions_by_device_number() {
        let number = |dir: &PathBuf| {
            let said = fs::read_to_string(dir.join("dev")).ok()?;
            let (major, minor) = said.trim().split_once(':')?;
            Some(libc::makedev(major.parse().ok()?, minor.parse().ok()?))
        };
        let disks = fs::read_dir("/sys/block").expect("every Linux has it");
        for disk in disks.map(|disk| disk.expect("it is there").path()) {
            let said = fs::read_to_string(disk.join("queue/rotational")).expect("each disk says it");
            let parts = fs::read_dir(&disk).expect("it is there").flatten().map(|part| part.path());
            for part in parts.filter(|part| part.join("partition").exists()).chain([disk.clone()]) {
                let dev = number(&part).expect("each has one");
                assert_eq!(is_rotational(dev), Some(said.trim() == "1"), "{}", part.display());
            }
        }
        assert_eq!(is_rotational(libc::makedev(0, 1)), None);
    }
}
