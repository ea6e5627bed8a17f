//! What the kernel tells of the device of a file system.

use std::{fs, path::PathBuf};

/// Whether something has to move in a device before it answers, by its number ([`crate::Stat::dev`]). `None` if nobody tells: the file
/// system is on several devices, or on none. A virtual disk may say yes although nothing does.
///
/// Source: Linux, `Documentation/ABI/stable/sysfs-block`, `queue/rotational`.
pub fn is_rotational(dev: u64) -> Option<bool> {
    let device = PathBuf::from(format!("/sys/dev/block/{}:{}", libc::major(dev), libc::minor(dev)));
    // A partition's queue is its disk's.
    let said = ["queue/rotational", "../queue/rotational"];
    let said = said.into_iter().find_map(|file| fs::read(device.join(file)).ok())?;
    Some(said.first() == Some(&b'1'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_each_disk_is_found_by_its_number() {
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
