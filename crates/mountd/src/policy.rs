//! Directories and limits of the service.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
    time::Duration,
};

/// Directories and limits of the service. The command line of a worker repeats them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The directory for copies of images. Only the service may enter it. A copy has no name, and
    /// ends with its mount. It must not lie in memory.
    pub images: PathBuf,
    /// The directory of the table of mounts, which ends with the boot.
    pub state: PathBuf,
    /// The number of mounts that a user may have.
    pub mounts: u64,
    /// The size of an image in bytes.
    pub image_bytes: u64,
    /// The bytes of images that a user may have mounted.
    pub user_bytes: u64,
    /// The number of connections of a user at a time. All users together have eight times as many.
    pub connections: u64,
    /// Seconds without a message after which a connection ends.
    pub patience: u64,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            images: "/var/cache/sapwood-mountd".into(),
            state: "/run/sapwood/mounts".into(),
            mounts: 1000,
            image_bytes: 256 << 20,
            user_bytes: 4 << 30,
            connections: 64,
            patience: 10,
        }
    }
}

impl Policy {
    fn numbers(&mut self) -> [(&'static str, &mut u64); 5] {
        [
            ("--mounts", &mut self.mounts),
            ("--image-bytes", &mut self.image_bytes),
            ("--user-bytes", &mut self.user_bytes),
            ("--connections", &mut self.connections),
            ("--patience", &mut self.patience),
        ]
    }

    /// Takes an option of the command line. Returns false if it is unknown or malformed.
    pub fn set(&mut self, name: &OsStr, value: OsString) -> bool {
        match name.as_encoded_bytes() {
            b"--images" => self.images = value.into(),
            b"--state" => self.state = value.into(),
            _ => {
                let slot = self.numbers().into_iter().find(|(known, _)| name == *known);
                let Some(((_, slot), number)) = slot.zip(value.to_str().and_then(|text| text.parse().ok()))
                else {
                    return false;
                };
                *slot = number;
            }
        }
        true
    }

    /// Returns the options of the command line that say the same.
    pub(crate) fn args(&self) -> Vec<OsString> {
        let dirs = [("--images", &self.images), ("--state", &self.state)];
        let mut all: Vec<OsString> = Vec::new();
        for (name, dir) in dirs {
            all.extend([name.into(), dir.clone().into_os_string()]);
        }
        for (name, number) in self.clone().numbers() {
            all.extend([name.into(), number.to_string().into()]);
        }
        all
    }

    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(self.patience.max(1))
    }

    /// The memory of a worker in bytes: the user's image, its tree, and the new image.
    pub(crate) fn memory(&self) -> u64 {
        self.image_bytes.saturating_mul(8).saturating_add(256 << 20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_has_the_same_policy() {
        let policy = Policy { mounts: 7, patience: 3, images: "/a b".into(), ..Policy::default() };
        let mut other = Policy::default();
        for pair in policy.args().chunks(2) {
            assert!(other.set(&pair[0], pair[1].clone()));
        }
        assert_eq!(other, policy);
        assert!(!other.set("--mounts".as_ref(), "many".into()));
        assert!(!other.set("--other".as_ref(), "1".into()));
    }
}
